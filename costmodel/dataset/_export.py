"""Export a dataset to files of our own and of other programs."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.arguments import check_path, check_text, check_texts
from costmodel.dataset.importers._kernel_tuner_entries import show_config, show_entry, show_key
from costmodel.dataset.importers._metaschedule import PROGRAMS_NAME, RECORDS_NAME
from costmodel.dataset.importers._t4 import show_result
from costmodel.dataset.sources._base import SUFFIX
from costmodel.dataset.sources._entry import KEY, attach_records
from costmodel.dataset.sources._source import RecordSpool
from costmodel.dataset.table._parquet import write_parquet
from costmodel.dataset.table._read import DatasetLike, Track, iter_records, show_nothing
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.files import write_whole
from costmodel.kernels.metaschedule._database_json import database_record, database_workload
from costmodel.kernels.metaschedule._source import open_space
from costmodel.kernels.metaschedule._tvm_start import make_target
from costmodel.reading import exists
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform, compute_capability, find_target_kind
from costmodel.records._store import RecordStore
from costmodel.records._workload import Workload

_LONGEST_NAME = 120  # a folder's entries may have 255 bytes, and suffixes follow


@dataclass(frozen=True)
class ExportReport:
    """Report of an export.

    Attributes:
        files: Files written.
        measurements: Number of measurements written.
        left_out: Number of measurements that the format cannot represent, by reason.
        lost: What the format cannot represent of the exported measurements; empty if ``dataset build``
            restores everything.
    """

    files: tuple[Path, ...]
    measurements: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: str = ""


_BATCH = 1024


def export_records(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a record store, a new ``.jsonl`` file, a batch at a time."""
    _check_new(out)
    written = 0
    measurements = chain.from_iterable(part.measurements() for part in records)
    with RecordStore(out) as store:
        while batch := list(islice(measurements, _BATCH)):
            store.append(batch)
            written += len(batch)
    return ExportReport((out,), written)


def export_parquet(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a dataset file, a new one, with the columns of ``costmodel dataset build``."""
    _check_new(out)
    written = 0
    with write_parquet(out) as write:
        for part in records:
            write(part)
            written += len(part)
    return ExportReport((out,), written)


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
    """Return the cache of the records of one workload on one platform, cache schema 1.1.0."""
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
        "cache": {key: attach_records(group, partial(show_entry, names)) for key, group in by_key.items()},
    }


def t4_document(records: Sequence[Measurement]) -> dict[str, Any]:
    """Return the T4 file of the records of one workload on one platform, results schema 1.0.0."""
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
        "results": [attach_records([one], show_result) for one in records],
    }


def _export(records: Iterator[Records], out: Path, suffix: str, document: Any) -> ExportReport:
    files, written = [], 0
    for name, measurements in by_task(records):
        file = out / f"{name}.{suffix}"
        write_json_file(file, document(measurements))
        files.append(file)
        written += len(measurements)
    return ExportReport(tuple(files), written)


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
        is_known = self._kind == "cuda" and compute_capability(architecture) > 0
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
    out: Path | str,
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
    if check_text("format_name", format_name) not in _EXPORTS:
        raise CostModelError(f"The format must be one of {', '.join(_EXPORTS)}, but got {format_name!r}.")
    out = check_path("out", out)
    workloads, devices = check_texts("workload", workload) or None, check_texts("device", device) or None
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


def by_task(records: Iterable[Records]) -> Iterator[tuple[str, list[Measurement]]]:
    """Yield the measurements of each workload on each platform, with a name that is fit for a file.

    Memory holds those of one task as objects, and what does not fit is on disk.
    """
    with closing(RecordSpool.of_parts(records)) as spool:
        for workload in sorted(spool.workloads):
            held = spool.of(workload)
            ids = np.array([each.platform_id for each in held.platforms])[held.platform]
            for platform_id in dict.fromkeys(ids.tolist()):
                measurements = list(held.take(np.flatnonzero(ids == platform_id)).measurements())
                yield name_file(workload, measurements[0]), measurements


def name_file(first: str, measurement: Measurement) -> str:
    """``first`` and the platform's name in letters that any file system takes, and a hash of both."""
    platform = measurement.platform
    readable = re.sub(r"[^\w.-]+", "_", f"{first}_{platform.name}", flags=re.ASCII).lstrip("._-")
    return f"{readable[:_LONGEST_NAME]}-{content_id(first, platform.platform_id)[:6]}"


def write_json_file(file: Path, document: Any) -> None:
    """Write JSON at once: the file is there completely, or as it was before."""
    write_whole(file, (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _check_new(out: Path) -> None:
    """Refuse to write over a file.

    Raises:
        CostModelError: There is one.
    """
    if exists(out):
        raise CostModelError(
            f"{out} must be a new file, but it exists already. Move it, or name another file."
        )
