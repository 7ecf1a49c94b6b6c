"""Replay of a kernel graph, and its critical path."""

from costmodel.planner.replay._base import Timeline, busy_s
from costmodel.planner.replay._critical_path import CriticalPath, critical_path
from costmodel.planner.replay._replay import replay

__all__ = ["CriticalPath", "Timeline", "busy_s", "critical_path", "replay"]
