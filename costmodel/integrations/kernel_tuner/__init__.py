"""Search strategy for Kernel Tuner that learns from measurements on other GPUs. Loads Kernel Tuner.

```python
from costmodel.integrations.kernel_tuner import CostModelStrategy

strategy = CostModelStrategy(learn_from=["A4000.json", "MI250X.json"])
results, env = kernel_tuner.tune_kernel(..., strategy=strategy, strategy_options={"max_fevals": 50})
```
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
