"""Measurement records: their schema, and the store that keeps them."""

from costmodel.records._candidate import (
    DATA_FACTS,
    Candidate,
    Config,
    Decision,
    KernelLaunch,
    source_name,
)
from costmodel.records._config_batch import SKETCH, ConfigBatch, config_batches
from costmodel.records._cuda_device import CUDA_ATTRIBUTES, cuda_device
from costmodel.records._device_state import DeviceState
from costmodel.records._device_table import (
    Architecture,
    DeviceEntry,
    StatedPeaks,
    find_device,
    find_entry,
    known_architectures,
    known_devices,
)
from costmodel.records._hypothetical import QUANTITIES, HypotheticalDevice, hypothetical, quantity
from costmodel.records._identity import content_id
from costmodel.records._kernel_resources import KernelResources
from costmodel.records._line_file import SharedLineFile
from costmodel.records._measurement import (
    SCHEMA_VERSION,
    UNKNOWN_CO_RUNNERS,
    Measurement,
    Outcome,
    measurement_key,
)
from costmodel.records._operators import OPERATORS, Operator
from costmodel.records._peak_rates import PeakRates, peak_rates
from costmodel.records._platform import Device, DeviceKind, Isolation, Platform, TargetKind, part_of
from costmodel.records._program_facts import FAMILIES, ProgramFacts
from costmodel.records._shape import Shape
from costmodel.records._store import RecordStore, SharedRecordStore, read_records
from costmodel.records._sweep import Sweep, swept_devices
from costmodel.records._workload import DTYPE_BYTES, Workload

__all__ = [
    "CUDA_ATTRIBUTES",
    "DATA_FACTS",
    "DTYPE_BYTES",
    "FAMILIES",
    "OPERATORS",
    "QUANTITIES",
    "SCHEMA_VERSION",
    "SKETCH",
    "UNKNOWN_CO_RUNNERS",
    "Architecture",
    "Candidate",
    "Config",
    "ConfigBatch",
    "Decision",
    "Device",
    "DeviceEntry",
    "DeviceKind",
    "DeviceState",
    "HypotheticalDevice",
    "Isolation",
    "KernelLaunch",
    "KernelResources",
    "Measurement",
    "Operator",
    "Outcome",
    "PeakRates",
    "Platform",
    "ProgramFacts",
    "RecordStore",
    "Shape",
    "SharedLineFile",
    "SharedRecordStore",
    "StatedPeaks",
    "Sweep",
    "TargetKind",
    "Workload",
    "config_batches",
    "content_id",
    "cuda_device",
    "find_device",
    "find_entry",
    "hypothetical",
    "known_architectures",
    "known_devices",
    "measurement_key",
    "part_of",
    "peak_rates",
    "quantity",
    "read_records",
    "source_name",
    "swept_devices",
]
