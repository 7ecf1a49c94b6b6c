"""Datasets are read: whole or in parts, and no more of their files than is needed."""

import heapq
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from costmodel.arguments import check_texts
from costmodel.dataset.table._columns import codes_of
from costmodel.dataset.table._compare import order_records
from costmodel.dataset.table._dataset import Dataset, DatasetFile
from costmodel.dataset.table._files import DataFiles
from costmodel.dataset.table._parquet import ParquetPart
from costmodel.dataset.table._records import FACTS, Records
from costmodel.errors import CostModelError, did_you_mean
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

T = TypeVar("T")


class Track(Protocol):
    """Shows on a terminal how far a loop is."""

    def __call__(self, items: Iterable[T], what: str, total: int, /) -> Iterable[T]:
        """Return the items, one by one.

        Args:
            items: What is gone through.
            what: What is done with them.
            total: About how many there are.
        """
        ...


def show_nothing(items: Iterable[T], what: str, total: int, /) -> Iterable[T]:
    """Return the items; nothing is shown."""
    return items


DatasetLike = Dataset | str | Path
"""A dataset, the name of one that ships, or a path."""
Names = Collection[str] | None


def iter_records(  # noqa: PLR0913 (what to take, all of it by default)
    dataset: DatasetLike | None,
    track: Track = show_nothing,
    *,
    workloads: Names = None,
    devices: Names = None,
    sources: Names = None,
    facts: Collection[str] = FACTS,
) -> Iterator[Records]:
    """Yield the measurements of a dataset in pieces, each row with its own launches, device and software.

    They come by workload, and by ``order_records`` where several files have them.

    Args:
        dataset: The dataset, its name or its path; see ``load_dataset``.
        track: Shows how far it is.
        workloads: Names of the workloads to take; all if None. What a file has of others is passed over.
        devices: Names of the devices to take, likewise.
        sources: Names of the kernel sources to take.
        facts: What to read of each measurement, see ``load_dataset``.

    Raises:
        CostModelError: A file is missing, damaged or of another format.
    """
    if isinstance(dataset, Dataset):
        pieces: Iterable[Records] = [dataset.to_records()]
    else:
        pieces = _pieces(DataFiles.of(dataset), track, workloads, devices, facts)
    for piece in pieces:
        chosen = piece.chosen(workloads, devices, sources)
        if len(chosen):
            yield chosen.only(facts)


def iter_measurements(dataset: DatasetLike | None, track: Track = show_nothing) -> Iterator[Measurement]:
    """Iterate over the measurements of a dataset as objects; see ``iter_records``."""
    for records in iter_records(dataset, track):
        yield from records.measurements()


def iter_datasets(dataset: str | Path | None = None, track: Track = show_nothing) -> Iterator[Dataset]:
    """Read a dataset one workload at a time; see ``load_dataset``."""
    runs = chain.from_iterable(map(_runs, iter_records(dataset, track)))
    for _, same in groupby(runs, key=_workload):
        yield Dataset.of(Records.concat(list(same)))


def dataset_from_measurements(measurements: Iterable[Measurement]) -> Dataset:
    """Make a dataset of measurements in memory; see ``Dataset.of`` for what rows of one platform share."""
    return Dataset.of(Records.of(measurements))


def load_dataset(
    dataset: DatasetLike | None = None,
    *,
    workloads: Names = None,
    devices: Names = None,
    sources: Names = None,
    facts: Collection[str] = FACTS,
) -> Dataset:
    """Load a dataset. Every function that takes a dataset, its name or its path calls this one.

    The launches of a candidate, and the device and requested SMs of a platform, are taken from its first row.
    A platform measured under several versions of a software lists all of them, as in ``"580.1, 590.2"``.

    Args:
        dataset: Name of a shipped dataset (``h100-sm-budgets``, ``sm-budgets``, ``cuda-sm-budgets``,
            ``triton-sm-budgets``, ``sparse-sm-budgets``, ``wide-sm-budgets``, ``sampled-sm-budgets``,
            ``kernels-at-large``, ``serving-sm-budgets`` or ``inductor-sm-budgets``), folder of a dataset, or
            its parquet file. A ``Dataset`` is returned as it is. Default: ``h100-sm-budgets``.
        workloads: Names of the workloads to read. Other workloads of a file are skipped. Default: all.
        devices: Names of the devices to read. Default: all.
        sources: Names of the kernel sources whose measurements to keep, such as ``["triton"]``. Default: all.
        facts: What to read of each measurement. ``LATENCIES`` is enough for ``Dataset.rows`` and takes less
            memory and time; ``to_measurements`` and ``to_pandas`` need all facts. Default: all.

    Raises:
        CostModelError: If a file is missing, damaged, of another format, or does not match its checksum; or
            if there are no measurements of these workloads, devices and sources.

    Example:
        >>> load_dataset("nowhere")
        Traceback (most recent call last):
            ...
        costmodel.errors.CostModelError: A dataset must be a folder with ...: nowhere is not there.
    """
    if isinstance(dataset, Dataset):
        return dataset
    files = DataFiles.of(dataset)
    workloads, devices, sources = (
        None if names is None else check_texts(what, names)
        for what, names in (("workloads", workloads), ("devices", devices), ("sources", sources))
    )
    pieces = list(iter_records(dataset, workloads=workloads, devices=devices, sources=sources, facts=facts))
    if not pieces:
        raise _nothing(dataset, workloads, devices, sources)
    return Dataset.of(Records.concat(pieces), DatasetFile(files.path, files.sha256))


def workloads_in(dataset: DatasetLike | None = None) -> tuple[str, ...]:
    """Return the names of a dataset's workloads in alphabetical order; read nothing else of a file."""
    if isinstance(dataset, Dataset):
        return dataset.workloads
    tables = _tables(dataset, ["workload"])
    return tuple(sorted({name for table in tables for name in table["workload"].unique().to_pylist()}))


def families_in(dataset: str | Path | None) -> dict[str, frozenset[str]]:
    """Return the workloads that a dataset has kernels of, by family; read nothing else of it.

    Families are those of ``Candidate.family``; the empty one is of kernels whose decisions mean the same in
    every space.
    """
    pairs: set[tuple[str, str]] = set()
    for table in _tables(dataset, ["workload", "space"]):
        rows = table.group_by(["workload", "space"]).aggregate([]).to_pylist()
        pairs |= {(row["workload"], row["space"]) for row in rows}
    found: dict[str, set[str]] = {}
    for workload, space in sorted(pairs):
        candidate = Candidate(Workload.parse(workload), space, Config({}))
        found.setdefault(candidate.family, set()).add(workload)
    return {family: frozenset(names) for family, names in found.items()}


def devices_in(dataset: str | Path | None) -> tuple[Device, ...]:
    """Return the devices of a dataset, by name; of a file nothing else is read."""
    found: dict[str, Device] = {}
    for table in _tables(dataset, ["platform_id", "device"]):
        first = np.unique(codes_of(table["platform_id"]), return_index=True)[1]
        for row in table["device"].take(first).to_pylist():
            found.setdefault(row["name"], msgspec.convert(row, Device))
    return tuple(found[name] for name in sorted(found))


def check_dataset(dataset: str | Path | None) -> None:
    """Check that a folder or file is a dataset; see ``load_dataset`` for errors."""
    files = DataFiles.of(dataset)
    for name in files.names:
        ParquetPart(files.checked(name))


def _pieces(
    files: DataFiles, track: Track, workloads: Names, devices: Names, facts: Collection[str]
) -> Iterator[Records]:
    for names in files.beside_each_other(workloads, devices):
        parts = [ParquetPart(files.checked(name), workloads, devices) for name in names]
        alone = len(parts) == 1
        # All that they say has a part in the order of rows of several files.
        streams = [part.records(facts if alone else FACTS) for part in parts]
        pieces = streams[0] if alone else _merged(streams)
        yield from track(pieces, "reading", sum(len(part.groups) for part in parts))


def _merged(streams: Iterable[Iterator[Records]]) -> Iterator[Records]:
    """Yield the rows of each workload of several streams, in each of which workloads are in order."""
    runs = (chain.from_iterable(map(_runs, stream)) for stream in streams)
    for _, same in groupby(heapq.merge(*runs, key=_workload), key=_workload):
        records = Records.concat(list(same))
        yield records.take(order_records(records))


def _runs(records: Records) -> Iterator[Records]:
    """Return the rows of each workload that stand together."""
    workload = codes_of(records.candidates["workload"])[records.candidate]
    cuts = [0, *(np.flatnonzero(np.diff(workload)) + 1).tolist(), len(records)]
    return (records.slice(start, end - start) for start, end in pairwise(cuts))


def _workload(records: Records) -> str:
    """Return the workload of the first row."""
    name: str = records.candidates["workload"][int(records.candidate[0])].as_py()
    return name


def _tables(dataset: str | Path | None, names: list[str]) -> Iterator[Any]:
    """Some columns of all files of a dataset."""
    files = DataFiles.of(dataset)
    return chain.from_iterable(ParquetPart(files.checked(name)).columns(names) for name in files.names)


def _nothing(dataset: str | Path | None, workloads: Names, devices: Names, sources: Names) -> CostModelError:
    """Return what to raise where a dataset has nothing of these workloads, devices and sources."""
    name = DataFiles.of(dataset).folder.name
    known = workloads_in(dataset)
    if workloads is not None and not set(workloads) & set(known):
        asked = ", ".join(map(repr, workloads))
        return CostModelError(
            f"The workload must be one of the {len(known)} of {name}, but got {asked or 'none'}."
            + (did_you_mean(next(iter(workloads), ""), known) or f" It has {', '.join(known)}.")
        )
    named = [
        *(["of these workloads"] if workloads is not None else []),
        *([f"on {', '.join(devices)}"] if devices is not None else []),
        *([f"of the sources {', '.join(sources)}"] if sources is not None else []),
    ]
    return CostModelError(
        f"{name} must have measurements {' '.join(named)}, but has none. "
        "`costmodel dataset describe` shows what it has."
    )
