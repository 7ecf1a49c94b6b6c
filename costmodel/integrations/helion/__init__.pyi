from ._search import costmodel_autotuner as costmodel_autotuner
from ._timings import keep_timings as keep_timings
