from ._autotuner import Autotuner as Autotuner
from ._autotuner import autotune as autotune
from ._export import dispatch_table as dispatch_table
from ._export import save_moe_configs as save_moe_configs
from ._listener import keep_autotuned as keep_autotuned
from ._platform import current_platform as current_platform
from ._ranking import rank_program as rank_program
from ._ranking import tune_program as tune_program
