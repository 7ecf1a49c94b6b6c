"""Predict the time of whole models under what-if changes: kernel graphs, placement, tile synchronisation.

Example:
    >>> from costmodel.planner import plan
    >>> plan("trace.json", "graphs,scale:matmul=0.5").speedup  # doctest: +SKIP
    1.7
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
