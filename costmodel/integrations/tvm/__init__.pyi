from ._cost_model import CostModel as CostModel
from ._database import Database as Database
from ._measuring import Builder as Builder
from ._measuring import Runner as Runner
from ._options import tuning_options as tuning_options
from ._program import named_platform as named_platform
from ._strategy import SearchStrategy as SearchStrategy
from ._task_scheduler import TaskScheduler as TaskScheduler
