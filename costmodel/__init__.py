"""A transfer-learning cost model for kernel autotuning on shared GPUs.

The names below are the public entry points. Each is loaded on first use, so importing this package takes
milliseconds and loads none of its heavy dependencies.

Example:
    >>> import costmodel
    >>> result = costmodel.tune("matmul-m16-n1024-k1024", sms=32, trials=4)
    >>> result.best.latency_s[0] < 1e-3
    True
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
