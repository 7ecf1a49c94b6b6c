"""Features as columns with names and units, for many candidates and platforms at once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
