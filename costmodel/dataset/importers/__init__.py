"""Readers of record stores, datasets and files of other programs; see ``_read.FORMATS``."""

from costmodel.dataset.importers._base import LOWER_TRACES, Format, InputFile, LowerTraces, ReadOptions
from costmodel.dataset.importers._document import Document
from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._exported import KEY, with_records
from costmodel.dataset.importers._platform_file import SUFFIX
from costmodel.dataset.importers._read import FORMATS, is_dataset, read_source
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers._spool import RecordSpool
from costmodel.dataset.importers._unpack import lines_of
from costmodel.dataset.importers.kernel_tuner import (
    SM_PERCENTAGE,
    TunedKernel,
    show_config,
    show_entry,
    show_key,
    tuned_device,
)
from costmodel.dataset.importers.metaschedule import PROGRAMS_NAME, RECORDS_NAME
from costmodel.dataset.importers.t4 import show_result

__all__ = [
    "FORMATS",
    "KEY",
    "LOWER_TRACES",
    "PROGRAMS_NAME",
    "RECORDS_NAME",
    "SM_PERCENTAGE",
    "SUFFIX",
    "Document",
    "EntryError",
    "Format",
    "InputFile",
    "LowerTraces",
    "ReadOptions",
    "RecordSpool",
    "Reject",
    "Source",
    "TunedKernel",
    "is_dataset",
    "lines_of",
    "read_source",
    "show_config",
    "show_entry",
    "show_key",
    "show_result",
    "tuned_device",
    "with_records",
]
