"""Former place of names that are in ``costmodel.collector`` now."""

from costmodel.collector.runners._service_watch import ServiceWatch
from costmodel.collector.runners._wrapped import WatchedRunner

__all__ = ["ServiceWatch", "WatchedRunner"]
