"""Since when measured times have drifted, told from what was predicted and from kernels measured again."""

from costmodel.drift._monitor import Drift, DriftMonitor

__all__ = ["Drift", "DriftMonitor"]
