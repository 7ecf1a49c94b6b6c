"""Export a dataset to files of other programs, MetaSchedule's databases among them: one for each platform."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset._export_files import (
    ExportReport,
    export_kernel_tuner,
    export_parquet,
    export_records,
    export_t4,
    name_file,
)
from costmodel.dataset.importers._metaschedule import PROGRAMS_NAME, RECORDS_NAME
from costmodel.dataset.sources._platform_file import SUFFIX
from costmodel.dataset.table._read import DatasetLike, Track, iter_records, show_nothing
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.files import write_whole
from costmodel.kernels.metaschedule._database_json import database_record, database_workload
from costmodel.kernels.metaschedule._sample import open_space
from costmodel.kernels.metaschedule._target import make_target
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform, find_target_kind
from costmodel.records._workload import Workload

_FAILED = 1e10  # what MetaSchedule itself writes in place of the seconds of a failure
LOST = (
    "which of the failures it was and its message, the visit, cache policy, kernel hash and resources, the "
    "device's states, board, attempts, runs per repeat and time"
)


def export_metaschedule(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a database for each platform, with the file of the platform that our importer needs.

    Traces are rebuilt with TVM, 10 to 50 ms each. The database of TVM does not tell SM budgets apart: give a
    tuner the folder of the budget that it tunes for.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    platforms: dict[str, list[Measurement]] = {}
    left_out: Counter[str] = Counter()
    for measurement in chain.from_iterable(part.measurements() for part in records):
        reason = _unfit(measurement)
        left_out[reason] += bool(reason)
        if not reason:
            platforms.setdefault(name_file("metaschedule", measurement), []).append(measurement)
    files: list[Path] = []
    written = 0
    for name, held in platforms.items():
        database = _Database(held[0].platform)
        for record in held:
            if database.add(record):
                written += 1
            else:
                left_out["its config gives no valid kernel in this version's space"] += 1
        files += database.write(out / name)
    return ExportReport(tuple(files), written, dict(+left_out), LOST)


def _unfit(measurement: Measurement) -> str:
    """Why a database cannot hold it; empty if it can."""
    candidate, kind = measurement.candidate, find_target_kind(measurement.platform.device)
    if candidate.workload.is_foreign or not candidate.space.startswith("metaschedule-") or kind is None:
        return "it is not from a space of MetaSchedule"
    if measurement.visit or measurement.co_runners:
        return "it is a repeat or was measured beside co-runners, which a database cannot tell"
    if candidate.space != open_space(candidate.workload, kind).name:
        return "it is from a space of another version"
    return ""


class _Database:
    """The lines of one database."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._kind = find_target_kind(platform.device) or "cuda"
        architecture = platform.device.architecture
        is_known = self._kind == "cuda" and architecture.startswith("sm_")
        self._target = make_target(self._kind, architecture) if is_known else make_target(self._kind)
        self._programs: dict[Workload, tuple[str, str]] = {}
        self._records: list[Any] = []

    def add(self, measurement: Measurement) -> bool:
        """Add a record; whether its config still gives a kernel."""
        workload = measurement.candidate.workload
        space = open_space(workload, self._kind)
        config, latencies_s = measurement.candidate.config, measurement.latencies_s or (_FAILED,)
        try:
            record = database_record(space, config, self._target, latencies_s)
        except InvalidConfigError:
            return False
        self._programs.setdefault(workload, database_workload(workload))
        self._records.append([list(self._programs).index(workload), record])
        return True

    def write(self, folder: Path) -> Sequence[Path]:
        """Write the programs, the records and what they do not say."""
        contents = {
            PROGRAMS_NAME: _lines(self._programs.values()),
            RECORDS_NAME: _lines(self._records),
            f"{RECORDS_NAME}{SUFFIX}": _platform_toml(self._platform, self._programs),
        }
        for name, text in contents.items():
            write_whole(folder / name, text.encode())
        return [folder / name for name in contents]


def _lines(rows: Any) -> str:
    """Return a JSON document a line; numbers of TVM are plain ones."""
    return "".join(f"{json.dumps(row, default=lambda x: x.value, separators=(',', ':'))}\n" for row in rows)


def _platform_toml(platform: Platform, programs: dict[Workload, tuple[str, str]]) -> str:
    """Return the file of a platform, with the workloads by the hash of their programs."""
    tables = {
        "software": platform.software,
        "workloads": {program: workload.name for workload, (program, _) in programs.items()},
        "device": msgspec.structs.asdict(platform.device),
    }
    fields = {
        "sms": platform.sms_granted,
        "sms_requested": platform.sms_requested,
        "isolation": platform.isolation,
    }
    parts = [_toml(fields), *(f"[{name}]\n{_toml(table)}" for name, table in tables.items())]
    return "\n".join(parts)


def _toml(table: dict[str, Any]) -> str:
    """Keys with texts and numbers; TOML quotes as JSON does, but for one character."""
    quoted = [
        f"{json.dumps(key, ensure_ascii=False)} = {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in table.items()
    ]
    return "".join(quoted).replace("\x7f", "\\u007f")


Export = Callable[[Iterator[Records], Path], ExportReport]

_EXPORTS: Mapping[str, Export] = {
    "records": export_records,
    "parquet": export_parquet,
    "kernel-tuner": export_kernel_tuner,
    "t4": export_t4,
    "metaschedule": export_metaschedule,
}
EXPORT_FORMATS = tuple(_EXPORTS)


def export_dataset(  # noqa: PLR0913 (one argument a knob)
    dataset: DatasetLike,
    out: Path,
    format_name: str,
    *,
    workload: str | None = None,
    device: str | None = None,
    track: Track = show_nothing,
) -> ExportReport:
    """Export a dataset, or a part of it, to files of other programs.

    Args:
        dataset: Dataset, or its name or path; see ``load_dataset``.
        out: New file for ``records`` (.jsonl) and ``parquet``; folder for the other formats.
        format_name: One of ``EXPORT_FORMATS``.
        workload: Name of the workload to export. Default: all.
        device: Name of the device to export. Default: all.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If the dataset cannot be read or has no such measurements, or the files cannot be
            written.
    """
    if format_name not in _EXPORTS:
        raise CostModelError(f"The format must be one of {', '.join(_EXPORTS)}, but got {format_name!r}.")
    workloads, devices = (None if name is None else (name,) for name in (workload, device))
    try:
        report = _EXPORTS[format_name](
            iter_records(dataset, track, workloads=workloads, devices=devices), out
        )
    except OSError as error:
        raise CostModelError(f"Cannot write {out}: {error.strerror}.") from error
    if not report.measurements and not report.left_out:
        raise CostModelError(
            f"{dataset} must have measurements of workload {workload or 'any'} on device {device or 'any'}, "
            "but has none. `costmodel dataset describe` shows what it has."
        )
    return report
