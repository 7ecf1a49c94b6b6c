"""Tuning jobs whose state is in a database, so that they survive the death of workers and submitters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
