"""Show what was found: tables, pages, figures and progress, one way each."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
