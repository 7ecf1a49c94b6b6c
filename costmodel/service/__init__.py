"""Tuning as a service: jobs in a database, engines of clusters that build for them, and planning capacity."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
