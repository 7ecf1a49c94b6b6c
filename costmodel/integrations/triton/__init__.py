"""Replacement for ``triton.autotune`` with SM budgets, a store and a model. Loads Triton.

```python
from costmodel.integrations.triton import autotune


@autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4), ...], key=["n"])
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr): ...
```
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
