from ._monitor import DriftMonitor as DriftMonitor
