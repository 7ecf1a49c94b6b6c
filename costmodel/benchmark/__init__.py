"""A benchmark of cost models under SM budgets: questions, entries that answer them, and a sheet of scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
