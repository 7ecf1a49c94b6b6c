"""Workloads from real models: networks written in TVM Relax, their contents, and a catalogue of workloads.

Importing this package does not load TVM. The modules that load it are ``_fuse``, ``_recognise``,
``_relax_calls`` and those of ``networks``. Workloads and catalogue are independent of the source of kernels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
