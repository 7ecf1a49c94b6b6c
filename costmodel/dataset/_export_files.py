"""Export to files of our own, to caches of Kernel Tuner and to T4 files. None of them loses anything."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset.importers._kernel_tuner import show_config, show_entry, show_key
from costmodel.dataset.importers._t4 import show_result
from costmodel.dataset.sources._entry import KEY, attach_records
from costmodel.dataset.sources._spool import RecordSpool
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._write import write_parquet
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import exists
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement
from costmodel.records._store import RecordStore

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


def check_new(out: Path) -> None:
    """Refuse to write over a file.

    Raises:
        CostModelError: There is one.
    """
    if exists(out):
        raise CostModelError(
            f"{out} must be a new file, but it exists already. Move it, or name another file."
        )


_BATCH = 1024


def export_records(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a record store, a new ``.jsonl`` file, a batch at a time."""
    check_new(out)
    written = 0
    measurements = chain.from_iterable(part.measurements() for part in records)
    with RecordStore(out) as store:
        while batch := list(islice(measurements, _BATCH)):
            store.append(batch)
            written += len(batch)
    return ExportReport((out,), written)


def export_parquet(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a dataset file, a new one, with the columns of ``costmodel dataset build``."""
    check_new(out)
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
