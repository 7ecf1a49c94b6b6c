"""Search: screen a space with a model, measure only a shortlist, and learn from each result."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
