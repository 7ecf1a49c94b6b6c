"""torch.compile for the SMs that a model gets. Loads torch when used.

```python
from costmodel.integrations.inductor import compile

compiled = compile(model, sms=32)
```
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
