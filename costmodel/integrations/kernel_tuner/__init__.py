"""Search strategy for Kernel Tuner that learns from measurements on other GPUs. Loads Kernel Tuner.

```python
from costmodel.integrations.kernel_tuner import CostModelStrategy

strategy = CostModelStrategy(learn_from=["A4000.json", "MI250X.json"])
results, env = kernel_tuner.tune_kernel(
    ..., cache="W7800.json", strategy=strategy, strategy_options={"max_fevals": 50}
)
```
"""

from costmodel.integrations.kernel_tuner._strategy import CostModelStrategy

__all__ = ["CostModelStrategy"]
