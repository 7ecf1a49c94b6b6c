"""Tune with TVM's MetaSchedule for an SM budget, with a model trained on other kernels. Loads TVM.

Three lines make a tuning script tune for an SM budget, here for a part of the threads of a CPU:

```python
from costmodel.integrations.tvm import tuning_options

options = tuning_options("tuned.jsonl", sms=1, kind="cpu")  # on a GPU: sms=32, model="default"
database = ms.tune_tir(module, target, work_dir, max_trials_global=16, **options)
```
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
