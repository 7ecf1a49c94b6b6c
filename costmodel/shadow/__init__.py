"""Shadow tuning: measure on a part of a GPU while a service runs on the rest, within a p99 bound."""

from costmodel.shadow._latency_log import LatencyLog
from costmodel.shadow._service_report import ServiceReport
from costmodel.shadow._service_watch import ServiceWatch
from costmodel.shadow._watched_runner import WatchedRunner
from costmodel.shadow._watched_service import CannotGoOnError, WatchedService, p99

__all__ = [
    "CannotGoOnError",
    "LatencyLog",
    "ServiceReport",
    "ServiceWatch",
    "WatchedRunner",
    "WatchedService",
    "p99",
]
