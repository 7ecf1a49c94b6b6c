from ._service_watch import ServiceWatch as ServiceWatch
from ._watched_runner import WatchedRunner as WatchedRunner
