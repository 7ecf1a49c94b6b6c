"""Kernel sources: where the kernels of a workload come from. Importing this package loads no compiler."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
