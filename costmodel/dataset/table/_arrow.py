"""Measurements to an Arrow table, and an Arrow table to a dataset."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._schema import SCHEMA
from costmodel.records import (
    Candidate,
    Config,
    Decision,
    DeviceState,
    KernelLaunch,
    KernelResources,
    Measurement,
    Platform,
    Workload,
)

T = TypeVar("T")
IntArray = NDArray[np.int64]

_CANDIDATE_COLUMNS = ["workload", "space", "config", "launches"]
_PLATFORM_COLUMNS = ["device", "isolation", "sms_requested", "sms_granted"]
SCALARS = [
    "visit",
    "outcome",
    "runs_per_repeat",
    "l2_policy",
    "kernel_hash",
    "attempts",
    "board",
    "measured_at",
    "error",
]

_decode_decisions = msgspec.json.Decoder(dict[str, Decision]).decode


def to_table(measurements: Iterable[Measurement]) -> Any:
    """The ``pyarrow.Table`` with one row a measurement, in order, and the columns of ``SCHEMA``."""
    return pa.Table.from_pylist([_row(measurement) for measurement in measurements], schema=SCHEMA)


def to_dataset(table: Any) -> Dataset:
    """The dataset of a table that fits ``SCHEMA``, with one object a distinct candidate or platform.

    Launches of a candidate, and device and requested SMs of a platform, are those of its first row. A
    platform measured under several versions of a software carries them all, as in ``"580.1, 590.2"``.
    """
    candidates, candidate_of = _distinct(table, "candidate_id", _CANDIDATE_COLUMNS, candidate_of_row)
    platforms, platform_of = _distinct(table, "platform_id", _PLATFORM_COLUMNS, platform_of_row)
    latency_s, latencies_s = _latencies(table["latencies_s"].combine_chunks())
    scalars = table.select(SCALARS).to_pandas()
    frame = pd.DataFrame({"candidate": candidate_of, "platform": platform_of, **scalars})
    frame["latency_s"] = latency_s
    frame["latencies_s"] = pd.Series(latencies_s, dtype=object)
    frame["before"], frame["after"] = (_structs(table[name], DeviceState) for name in ("before", "after"))
    frame["resources"] = _structs(table["resources"], tuple[KernelResources, ...])
    frame["co_runners"] = pd.Series(map(tuple, table["co_runners"].to_pylist()), dtype=object)
    software = _software(table, platform_of, len(platforms))
    return Dataset(
        candidates,
        tuple(msgspec.structs.replace(p, software=s) for p, s in zip(platforms, software, strict=True)),
        frame,
    )


def dataset_from_measurements(measurements: Iterable[Measurement]) -> Dataset:
    """The dataset of measurements in memory; see ``to_dataset`` for what rows of one platform share."""
    return to_dataset(to_table(measurements))


def _row(measurement: Measurement) -> dict[str, Any]:
    candidate, platform = measurement.candidate, measurement.platform
    workload = candidate.workload
    return {
        **msgspec.structs.asdict(measurement),
        "resources": [msgspec.structs.asdict(kernel) for kernel in measurement.resources],
        "before": msgspec.structs.asdict(measurement.before),
        "after": msgspec.structs.asdict(measurement.after),
        "workload": workload.name,
        "kind": workload.kind,
        "dims": _json(workload.dims),
        "dtype": workload.dtype,
        "candidate_id": candidate.candidate_id,
        "space": candidate.space,
        "config": _json(candidate.config.decisions),
        "launches": [msgspec.structs.asdict(launch) for launch in candidate.launches],
        "platform_id": platform.platform_id,
        "device": msgspec.structs.asdict(platform.device),
        "isolation": platform.isolation,
        "sms_requested": platform.sms_requested,
        "sms_granted": platform.sms_granted,
        "software": _json(platform.software),
    }


def _json(obj: Any) -> str:
    return msgspec.json.encode(obj).decode()


def _distinct(
    table: Any, id_column: str, columns: Sequence[str], read: Callable[[dict[str, Any]], T]
) -> tuple[tuple[T, ...], IntArray]:
    """The object of each distinct id, read from its first row, and each row's position among them."""
    position = table[id_column].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first_rows = np.unique(position, return_index=True)
    rows = table.select(columns).take(first_rows).to_pylist()
    return tuple(read(row) for row in rows), position


def candidate_of_row(row: dict[str, Any]) -> Candidate:
    """The candidate of a row as ``Table.to_pylist`` gives it."""
    launches = tuple(KernelLaunch(**launch) for launch in row["launches"])
    config = Config(_decode_decisions(row["config"]))
    return Candidate(Workload.parse(row["workload"]), row["space"], config, launches)


def platform_of_row(row: dict[str, Any]) -> Platform:
    """The platform of such a row, without its software."""
    return msgspec.convert({name: row[name] for name in _PLATFORM_COLUMNS}, Platform)


def _structs(column: Any, kind: Any) -> "pd.Series[Any]":
    """Each row's struct, or tuple of structs; rows that say the same share one object."""
    rows = column.to_pylist()
    names = [str(row) for row in rows]
    structs = {name: msgspec.convert(row, kind) for name, row in dict(zip(names, rows, strict=True)).items()}
    return pd.Series([structs[name] for name in names], dtype=object)


def _software(table: Any, platform_of: IntArray, count: int) -> list[dict[str, str]]:
    """For each platform, all versions of each software, in order and without repetition."""
    pairs = pd.DataFrame(
        {"platform": platform_of, "software": table["software"].to_pylist()}
    ).drop_duplicates()
    versions: list[dict[str, list[str]]] = [{} for _ in range(count)]
    for platform, text in pairs.itertuples(index=False):
        for name, version in msgspec.json.decode(text, type=dict[str, str]).items():
            seen = versions[platform].setdefault(name, [])
            if version not in seen:
                seen.append(version)
    return [{name: ", ".join(seen) for name, seen in software.items()} for software in versions]


def _latencies(lists: Any) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Each row's median, inf where it is empty, and each row's numbers."""
    offsets = lists.offsets.to_numpy()
    values = lists.values.to_numpy()
    median = np.full(len(lists), np.inf)
    lengths = np.diff(offsets)
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        median[rows] = np.median(values[offsets[rows, None] + np.arange(length)], axis=1)
    return median, [values[start:end] for start, end in pairwise(offsets)]
