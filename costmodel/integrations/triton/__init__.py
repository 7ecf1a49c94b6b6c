"""Replacement for ``triton.autotune`` with SM budgets, a store and a model. Loads Triton.

```python
from costmodel.integrations.triton import autotune


@autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4), ...], key=["n"])
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr): ...
```
"""

from costmodel.integrations.triton._autotuner import Autotuner, autotune
from costmodel.integrations.triton._export import dispatch_table, save_moe_configs
from costmodel.integrations.triton._kernel_timings import KernelTimings
from costmodel.integrations.triton._key import Question, type_runs
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._shortlist import by_neighbours
from costmodel.integrations.triton._store import TimingStore, open_store

__all__ = [
    "Autotuner",
    "KernelTimings",
    "Question",
    "TimingStore",
    "autotune",
    "by_neighbours",
    "current_platform",
    "dispatch_table",
    "open_store",
    "save_moe_configs",
    "type_runs",
]
