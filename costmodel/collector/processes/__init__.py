"""The temporary folder that processes share."""

from costmodel.collector.processes._held_folder import HeldFolder

__all__ = ["HeldFolder"]
