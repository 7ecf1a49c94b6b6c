"""Detect drift of measured latencies, from predictions and from repeated measurements."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
