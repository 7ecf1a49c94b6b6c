"""Readers of record stores and of files of other programs."""

from costmodel.dataset.importers._exported import KEY, with_records
from costmodel.dataset.importers._kernel_tuner import read_kernel_tuner_cache
from costmodel.dataset.importers._kernel_tuner_shown import show_config, show_entry, show_key
from costmodel.dataset.importers._metaschedule_db import PROGRAMS_NAME, RECORDS_NAME
from costmodel.dataset.importers._platform_file import SUFFIX
from costmodel.dataset.importers._read import ReadOptions, read_source
from costmodel.dataset.importers._source import Source
from costmodel.dataset.importers._t4_result import show_result
from costmodel.dataset.importers._validate import SAME_KEY, Reject, Sieve, Validation

__all__ = [
    "KEY",
    "PROGRAMS_NAME",
    "RECORDS_NAME",
    "SAME_KEY",
    "SUFFIX",
    "ReadOptions",
    "Reject",
    "Sieve",
    "Source",
    "Validation",
    "read_kernel_tuner_cache",
    "read_source",
    "show_config",
    "show_entry",
    "show_key",
    "show_result",
    "with_records",
]
