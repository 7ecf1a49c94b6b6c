from ._cache import StoreBackend as StoreBackend
from ._records import keep_timings as keep_timings
from ._search import costmodel_autotuner as costmodel_autotuner
