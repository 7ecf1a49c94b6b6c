"""Search for Helion that consults a model and a store before it measures. Loads Helion.

```python
from costmodel.integrations.helion import costmodel_autotuner


@helion.kernel(autotuner_fn=costmodel_autotuner(shortlist=32))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...
```
"""

from costmodel.integrations.helion._keeping import keep_timings
from costmodel.integrations.helion._search import CostModelSearch, costmodel_autotuner
from costmodel.integrations.helion._space import HelionSpace

__all__ = ["CostModelSearch", "HelionSpace", "costmodel_autotuner", "keep_timings"]
