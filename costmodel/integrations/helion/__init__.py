"""Search for Helion that consults a model and a store before it measures. Loads Helion.

```python
from costmodel.integrations.helion import costmodel_autotuner


@helion.kernel(autotuner_fn=costmodel_autotuner(shortlist=32))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...
```
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
