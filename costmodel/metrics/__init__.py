"""Metrics as pure functions on arrays. Higher ``*_score`` is better, lower ``*_error`` is better."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
