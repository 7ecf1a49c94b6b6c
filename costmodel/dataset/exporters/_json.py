"""Export to Kernel Tuner and to T4: one JSON file for each workload on each platform.

Both formats take more fields than they name, so that each entry carries the records behind it, and nothing is
lost.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.dataset.exporters._report import ExportReport, by_task, write_json_file
from costmodel.dataset.importers._exported import KEY, with_records
from costmodel.dataset.importers.kernel_tuner._shown import show_config, show_entry, show_key
from costmodel.dataset.importers.t4._result import show_result
from costmodel.dataset.table._records import Records
from costmodel.records._measurement import Measurement

# What the file is, for programs and people that do not know us.
_MARK = {"format": "each entry carries the records that it shows, see https://pypi.org/project/sm-costmodel"}


def export_kernel_tuner(records: Iterator[Records], out: Path) -> ExportReport:
    """Write cache files that Kernel Tuner can simulate tuning with, in the folder ``out``.

    Kernel Tuner has one entry a config: it shows the first measurement of the config, and carries all. A
    time-out or a wrong result is shown as ``RuntimeFailedConfig``.
    """
    return _export(records, out, "kernel_tuner.json", kernel_tuner_cache)


def export_t4(records: Iterator[Records], out: Path) -> ExportReport:
    """Write T4 files in the folder ``out``, one result a measurement."""
    return _export(records, out, "t4.json", t4_document)


def kernel_tuner_cache(records: Sequence[Measurement]) -> dict[str, Any]:
    """The cache of the records of one workload on one platform, cache schema 1.1.0."""
    first = records[0]
    names = list(dict.fromkeys(name for one in records for name in one.candidate.config.decisions))
    by_key: dict[str, list[Measurement]] = {}
    for one in records:
        by_key.setdefault(show_key(names, one.candidate.config), []).append(one)
    configs = [show_config(names, group[0].candidate.config) for group in by_key.values()]
    return {
        "schema_version": "1.1.0",
        "device_name": first.platform.device.name,
        "kernel_name": first.candidate.workload.kind,
        "problem_size": list(first.candidate.workload.dims.values()) or [1],
        "tune_params_keys": names,
        "tune_params": {name: list(dict.fromkeys(config[name] for config in configs)) for name in names},
        "objective": "time",
        KEY: _MARK,
        "cache": {key: with_records(group, partial(show_entry, names)) for key, group in by_key.items()},
    }


def t4_document(records: Sequence[Measurement]) -> dict[str, Any]:
    """The T4 file of the records of one workload on one platform, results schema 1.0.0."""
    first = records[0]
    return {
        "schema_version": "1.0.0",
        KEY: _MARK,
        "metadata": {
            "workload": first.candidate.workload.name,
            "device": first.platform.device.name,
            "isolation": first.platform.isolation,
            "sms": first.platform.sms_granted,
        },
        "results": [with_records([one], show_result) for one in records],
    }


def _export(records: Iterator[Records], out: Path, suffix: str, document: Any) -> ExportReport:
    files, written = [], 0
    for name, measurements in by_task(records):
        file = out / f"{name}.{suffix}"
        write_json_file(file, document(measurements))
        files.append(file)
        written += len(measurements)
    return ExportReport(tuple(files), written)
