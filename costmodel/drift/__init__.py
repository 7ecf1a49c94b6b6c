"""Detect drift of measured latencies, from predictions and from repeated measurements."""

from costmodel.drift._monitor import Drift, DriftMonitor

__all__ = ["Drift", "DriftMonitor"]
