"""Data on which kernels depend: pruned weights, spiking networks, and lookups by a distribution.

The best kernel of these workloads depends on the contents of their arrays. This package contains, in NumPy,
the facts of such data, arrays that have these facts, and the expected results. Kernels are in
``costmodel.kernels``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
