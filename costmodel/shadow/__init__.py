"""Shadow tuning: measure on a part of a GPU while a service runs on the rest, within a p99 bound."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
