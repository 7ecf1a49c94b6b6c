"""Learners: fit and predict on arrays. Learners know no GPU; the arrays' builder gives columns meaning."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
