"""Measurements in columns, exactly as they were recorded: what files are read to, checked as and made of."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from costmodel.dataset.table._candidates import (
    CANDIDATES,
    DATA_CANDIDATES,
    Candidates,
    candidate_table,
    check_ids,
    check_values,
)
from costmodel.dataset.table._columns import Codes, codes_of, find_distinct, reduce_to_medians
from costmodel.dataset.table._schema import SCHEMA, has_data_facts, schema_of, unify
from costmodel.records._candidate import Candidate, source_name
from costmodel.records._measurement import SCHEMA_VERSION, Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

_PLATFORM = ("platform_id", "device", "isolation", "sms_requested", "sms_granted", "software")
# What a row of a dataset's file says that neither its candidate nor its platform does.
FACTS = (
    *("outcome", "latencies_s", "runs_per_repeat", "visit", "l2_policy", "kernel_hash", "resources"),
    *("before", "after", "attempts", "board", "co_runners", "measured_at", "error"),
)
# Those of them that ``Dataset.rows`` is made of.
LATENCIES = ("outcome", "latencies_s", "co_runners")
ROWS = pa.schema(
    [
        pa.field("candidate", pa.int64(), nullable=False),
        pa.field("platform", pa.int64(), nullable=False),
        *(SCHEMA.field(name) for name in FACTS),
    ]
)
# Facts of a measurement of which nothing is known.
_NOTHING = {"outcome": Outcome.OK.value, "measured_at": ""} | {
    field.name: msgspec.to_builtins(field.default)
    for field in msgspec.structs.fields(Measurement)
    if field.name in FACTS and field.default is not msgspec.NODEFAULT
}
_BATCH = 8192  # rows that are objects at once

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, eq=False)
class Records:
    """n measurements of c candidates on p platforms.

    Attributes:
        candidates: Arrow table of c rows with the columns ``CANDIDATES``, or ``DATA_CANDIDATES``. Two rows of
            one ``candidate_id`` differ in what is known of the launches, or in how the config is written.
        platforms: The p platforms; two of one ``platform_id`` differ in software or in the device's figures.
        rows: Arrow table of n rows with the columns ``ROWS``: ``candidate`` and ``platform`` are positions in
            the two above, the others as in a dataset's file. Where not all were read, those that were.
    """

    candidates: Any
    platforms: tuple[Platform, ...]
    rows: Any

    @classmethod
    def of(cls, measurements: Iterable[Measurement]) -> Self:
        """Return the columns of these measurements, in their order.

        Raises:
            OverflowError: A number does not fit into 64 bits.
        """
        measurements = list(measurements)
        candidates = _Places(_encode)
        platforms = _Places(_encode)
        columns: dict[str, Any] = {
            "candidate": [candidates.of(m.candidate) for m in measurements],
            "platform": [platforms.of(m.platform) for m in measurements],
            **{name: [getattr(m, name) for m in measurements] for name in FACTS},
        }
        for name in ("before", "after", "resources"):
            columns[name] = _repeated(columns[name], SCHEMA.field(name).type)
        arrays = [
            column if isinstance(column := columns[field.name], pa.Array) else pa.array(column, field.type)
            for field in ROWS
        ]
        rows = pa.Table.from_arrays(arrays, schema=ROWS)
        return cls(candidate_table(candidates.objects), tuple(platforms.objects), rows)

    @classmethod
    def of_columns(
        cls, candidates: Sequence[Candidate], platforms: Sequence[Platform], columns: Mapping[str, Any]
    ) -> Self:
        """Return the measurements that these columns hold.

        Args:
            candidates: The candidates.
            platforms: The platforms.
            columns: Columns of ``ROWS``, of n values each. What is left out is not known.
        """
        n = len(columns["candidate"])
        schema = pa.schema([ROWS.field(name) for name in FACTS])
        unknown = pa.Table.from_pylist([_NOTHING], schema).take(pa.array(np.zeros(n, np.int64)))
        arrays = [
            pa.array(columns[field.name], field.type) if field.name in columns else unknown[field.name]
            for field in ROWS
        ]
        return cls(candidate_table(candidates), tuple(platforms), pa.Table.from_arrays(arrays, schema=ROWS))

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """The columns of a table that fits ``SCHEMA`` or ``DATA_SCHEMA``, or has some of their columns.

        Which these can be tells ``columns_for``.

        Raises:
            ValueError: A row holds what no measurement can.
        """
        table = table.combine_chunks()
        check_values(table)
        of_candidate = table.select(CANDIDATES.names)
        first, candidate = find_distinct(of_candidate, ["candidate_id"])
        columns = DATA_CANDIDATES if has_data_facts(of_candidate) else CANDIDATES
        candidates = of_candidate.take(first).cast(columns)
        check_ids(candidates)
        of_platform = table.select(_PLATFORM)
        first, platform = find_distinct(of_platform, ["platform_id", "software", "sms_requested"])
        platforms = tuple(map(_platform_of, of_platform.take(first).to_pylist()))
        held = {"candidate": pa.array(candidate), "platform": pa.array(platform)}
        held |= {name: table[name] for name in FACTS if name in table.column_names}
        schema = pa.schema([ROWS.field(name) for name in held])
        return cls(candidates, platforms, pa.table(held).cast(schema))

    @classmethod
    def concat(cls, parts: Sequence["Records"]) -> Self:
        """Return the measurements of several parts, one part after the other."""
        if not parts:
            return cls(CANDIDATES.empty_table(), (), ROWS.empty_table())
        candidates = pa.concat_tables(unify([part.candidates for part in parts])).combine_chunks()
        first, candidate_of = find_distinct(candidates, ["candidate_id"])
        platforms = _Places(_encode)
        rows, start = [], 0
        for part in parts:
            end = start + len(part.candidates)
            platform_of = np.array([platforms.of(each) for each in part.platforms], np.int64)
            rows.append(_moved(part.rows, candidate_of[start:end], platform_of))
            start = end
        return cls(candidates.take(first), tuple(platforms.objects), pa.concat_tables(rows))

    def take(self, positions: Codes) -> "Records":
        """Some of the measurements, in this order, and their candidates and platforms."""
        rows = self.rows.take(pa.array(positions))
        candidates, candidate = np.unique(rows["candidate"].to_numpy(), return_inverse=True)
        moved = rows.set_column(0, ROWS.field(0), pa.array(candidate, pa.int64()))
        return Records(self.candidates.take(pa.array(candidates)), self.platforms, moved)

    def slice(self, start: int, length: int | None = None) -> "Records":
        """Return rows that stand together; candidates and platforms stay where they are."""
        return Records(self.candidates, self.platforms, self.rows.slice(start, length))

    def only(self, facts: Collection[str]) -> "Records":
        """Return the measurements with these of ``FACTS`` alone."""
        names = [name for name in ROWS.names if name in facts or name not in FACTS]
        return Records(self.candidates, self.platforms, self.rows.select(names))

    def chosen(
        self,
        workloads: Collection[str] | None,
        devices: Collection[str] | None,
        sources: Collection[str] | None = None,
    ) -> "Records":
        """The measurements of workloads, devices and kernel sources of these names, of all where None."""
        if workloads is None and devices is None and sources is None:
            return self
        of_workload = _among(self.candidates["workload"].to_pylist(), workloads)
        of_source = _among(map(source_name, self.candidates["space"].to_pylist()), sources)
        on_device = _among((each.device.name for each in self.platforms), devices)
        chosen = (of_workload & of_source)[self.candidate] & on_device[self.platform]
        return self if chosen.all() else self.take(np.flatnonzero(chosen))

    def by_workload(self) -> Iterator[tuple[str, "Records"]]:
        """Yield the measurements of each workload, by its name, in their order."""
        names = self.candidates["workload"]
        codes = codes_of(names)[self.candidate]
        if len(codes) and (codes == codes[0]).all():
            yield names[int(self.candidate[0])].as_py(), self
            return
        order = np.argsort(codes, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            if at.size:
                yield names[int(self.candidate[at[0]])].as_py(), self.take(at)

    @cached_property
    def candidate(self) -> Codes:
        """``(n,)`` position of each row's candidate."""
        positions: Codes = self.rows["candidate"].to_numpy()
        return positions

    @cached_property
    def platform(self) -> Codes:
        """``(n,)`` position of each row's platform."""
        positions: Codes = self.rows["platform"].to_numpy()
        return positions

    @cached_property
    def latency_s(self) -> Any:
        """``(n,)`` median of each row's repeats in seconds, inf where it has none."""
        return reduce_to_medians(self.rows["latencies_s"].combine_chunks())

    @cached_property
    def alone(self) -> Any:
        """``(n,)`` whether each was measured without co-runners."""
        return np.asarray(pc.equal(pc.list_value_length(self.rows["co_runners"]), 0))

    def table(self) -> Any:
        """The ``pyarrow.Table`` with the columns of ``SCHEMA`` or ``DATA_SCHEMA``, complete in each row."""
        names, of_candidate = np.unique(self.candidates["workload"].to_numpy(), return_inverse=True)
        workloads = [Workload.parse(name) for name in names]
        platforms = pa.Table.from_pylist(list(map(_platform_row, self.platforms)), _platform_schema())
        wide = self.candidates.append_column("workload_at", pa.array(of_candidate)).take(
            self.rows["candidate"]
        )
        parts = pa.table(
            {
                "kind": [workload.kind for workload in workloads],
                "dims": [_json(workload.dims) for workload in workloads],
                "dtype": [workload.dtype for workload in workloads],
            },
            pa.schema([SCHEMA.field(name) for name in ("kind", "dims", "dtype")]),
        ).take(wide["workload_at"])
        platform = platforms.take(self.rows["platform"])
        version = pa.array(np.full(len(self), SCHEMA_VERSION))
        held = {name: t[name] for t in (wide, parts, platform, self.rows) for name in t.column_names}
        held["schema_version"] = version
        return pa.Table.from_arrays([held[name] for name in SCHEMA.names], schema=schema_of(self.candidates))

    def measurements(self) -> Iterator[Measurement]:
        """Yield each measurement as an object; those of one candidate, or platform, share it."""
        candidates = Candidates(self.candidates)
        for start in range(0, len(self), _BATCH):
            for row in self.rows.slice(start, _BATCH).to_pylist():
                row["candidate"] = candidates[row["candidate"]]
                row["platform"] = self.platforms[row["platform"]]
                yield msgspec.convert(row, Measurement)

    def __len__(self) -> int:
        return len(self.rows)


def columns_for(facts: Collection[str]) -> list[str]:
    """Return columns of ``SCHEMA`` from which records with these of ``FACTS`` are read, and checked."""
    needed = {*CANDIDATES.names, *_PLATFORM, *facts, "schema_version"}
    return [name for name in SCHEMA.names if name in needed or facts is FACTS]


class _Places:
    """Distinct objects and their places; equal content is one of them."""

    def __init__(self, content: Any) -> None:
        self.objects: list[Any] = []
        self._content = content
        self._by_content: dict[Any, int] = {}
        self._by_object: dict[int, int] = {}
        self._seen: list[Any] = []  # so that no other object gets its identity

    def of(self, item: Any) -> int:
        place = self._by_object.get(id(item))
        if place is None:
            place = self._by_content.setdefault(self._content(item), len(self.objects))
            if place == len(self.objects):
                self.objects.append(item)
            self._by_object[id(item)] = place
            self._seen.append(item)
        return place


def _repeated(items: Sequence[Any], kind: Any) -> Any:
    """Return the column of structs of which many are the same object."""
    places = _Places(id)
    at = [places.of(item) for item in items]
    return pa.array(msgspec.to_builtins(places.objects), kind).take(pa.array(at, pa.int64()))


def _moved(rows: Any, candidate_of: Codes, platform_of: Codes) -> Any:
    """Return rows whose candidates and platforms are at other places."""
    for i, places in enumerate((candidate_of, platform_of)):
        rows = rows.set_column(i, ROWS.field(i), pa.array(places[rows[i].to_numpy()]))
    return rows


def _among(names: Iterable[str], chosen: Collection[str] | None) -> NDArray[np.bool_]:
    """Tell whether each name is one of the chosen; each is where None."""
    return np.array([chosen is None or name in chosen for name in names], np.bool_)


def _json(obj: Any) -> str:
    return _encode(obj).decode()


def _platform_schema() -> Any:
    return pa.schema([SCHEMA.field(name) for name in _PLATFORM])


def _platform_row(platform: Platform) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(platform)
    return row | {"platform_id": platform.platform_id, "software": _json(platform.software)}


def _platform_of(row: dict[str, Any]) -> Platform:
    software = msgspec.json.decode(row.pop("software"), type=dict[str, str])
    said = row.pop("platform_id")
    platform = msgspec.convert(row | {"software": software}, Platform)
    if platform.platform_id != said:
        raise ValueError(f"platform_id of {platform.name} must be {platform.platform_id}, but got {said}")
    return platform
