"""For TVM's MetaSchedule: tune for an SM budget with a model that knows other kernels. Importing this loads TVM.

Three lines make a tuning script one for 32 SMs of a GPU, here a part of the threads of a CPU:

```python
from costmodel.integrations.tvm import tuning_options

options = tuning_options("tuned.jsonl", sms=1, kind="cpu")  # on a GPU: sms=32, model="model.costmodel"
database = ms.tune_tir(module, target, work_dir, max_trials_global=16, **options)
```
"""

from costmodel.integrations.tvm._builder import Builder
from costmodel.integrations.tvm._cost_model import CostModel
from costmodel.integrations.tvm._database import BestKernel, Database
from costmodel.integrations.tvm._options import tuning_options
from costmodel.integrations.tvm._platform import local_platform, named_platform
from costmodel.integrations.tvm._runner import Runner

__all__ = [
    "BestKernel",
    "Builder",
    "CostModel",
    "Database",
    "Runner",
    "local_platform",
    "named_platform",
    "tuning_options",
]
