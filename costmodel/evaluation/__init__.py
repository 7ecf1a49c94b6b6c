"""Evaluation: splits x learners x metrics, as a report of how well unmeasured kernels are chosen."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
