"""Worker processes that outlive a crash of what they run, and the folder that they share."""

from costmodel.collector.processes._held_folder import HeldFolder
from costmodel.collector.processes._workers import WorkerDiedError, Workers

__all__ = ["HeldFolder", "WorkerDiedError", "Workers"]
