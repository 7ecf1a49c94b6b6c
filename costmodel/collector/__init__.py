"""Make measurements. Importing this package loads neither TVM nor CUDA."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
