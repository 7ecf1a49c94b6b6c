"""Tune with TVM's MetaSchedule for an SM budget, with a model trained on other kernels. Loads TVM.

Three lines make a tuning script tune for an SM budget, here for a part of the threads of a CPU:

```python
from costmodel.integrations.tvm import tuning_options

options = tuning_options("tuned.jsonl", sms=1, kind="cpu")  # on a GPU: sms=32, model="default"
database = ms.tune_tir(module, target, work_dir, max_trials_global=16, **options)
```
"""

from costmodel.integrations.tvm._builder import Builder
from costmodel.integrations.tvm._cost_model import CostModel
from costmodel.integrations.tvm._database import BestKernel, Database
from costmodel.integrations.tvm._options import tuning_options
from costmodel.integrations.tvm._platform import local_platform, named_platform
from costmodel.integrations.tvm._program import Program, program_key
from costmodel.integrations.tvm._runner import Runner
from costmodel.integrations.tvm._strategy import SearchStrategy

__all__ = [
    "BestKernel",
    "Builder",
    "CostModel",
    "Database",
    "Program",
    "Runner",
    "SearchStrategy",
    "local_platform",
    "named_platform",
    "program_key",
    "tuning_options",
]
