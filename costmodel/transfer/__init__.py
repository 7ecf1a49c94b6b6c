"""Transfer from source tasks to a new one: zero-shot, few-shot, guarded, with intervals; model files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
