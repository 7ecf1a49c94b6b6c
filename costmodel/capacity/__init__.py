"""Capacity planning: simulate, from measured times, what more builders and more GPUs would do for tuning."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
