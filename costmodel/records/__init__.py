"""What was measured: the one schema, and the store that keeps it."""

from costmodel.records._candidate import Candidate, Config, Decision, KernelLaunch
from costmodel.records._device_state import DeviceState
from costmodel.records._identity import content_id
from costmodel.records._kernel_resources import KernelResources
from costmodel.records._measurement import Measurement, Outcome, measurement_key
from costmodel.records._operators import OPERATORS
from costmodel.records._platform import Device, Isolation, Platform
from costmodel.records._reserved import is_reserved
from costmodel.records._store import RecordStore, read_records
from costmodel.records._workload import Workload

__all__ = [
    "OPERATORS",
    "Candidate",
    "Config",
    "Decision",
    "Device",
    "DeviceState",
    "Isolation",
    "KernelLaunch",
    "KernelResources",
    "Measurement",
    "Outcome",
    "Platform",
    "RecordStore",
    "Workload",
    "content_id",
    "is_reserved",
    "measurement_key",
    "read_records",
]
