"""The candidates of a dataset: a table, whose rows become objects only when accessed."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, get_args, overload

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costmodel.dataset.table._columns import Codes, compare_rows, lengths_of
from costmodel.dataset.table._schema import DATA_SCHEMA, SCHEMA, narrow, unify
from costmodel.records._candidate import Candidate, Config, Decision, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._measurement import SCHEMA_VERSION, Outcome
from costmodel.records._platform import DeviceKind, Isolation
from costmodel.records._workload import Workload

# Columns of the table of candidates; of one with launches that say what data decide, those are more.
CANDIDATES, DATA_CANDIDATES = (
    pa.schema([schema.field(name) for name in ("candidate_id", "workload", "space", "config", "launches")])
    for schema in (SCHEMA, DATA_SCHEMA)
)
_BLOCK = 1024  # candidates that are made at once

decode_decisions = msgspec.json.Decoder(dict[str, Decision]).decode


class Candidates(Sequence[Candidate]):
    """Candidates in columns; asked for twice, one is the same object.

    Args:
        table: Arrow table with the columns ``CANDIDATES``, or ``DATA_CANDIDATES``.
    """

    def __init__(self, table: Any) -> None:
        self.table = table
        self._made: dict[int, list[Candidate]] = {}

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> "Candidates":
        """These candidates, the very objects."""
        if isinstance(candidates, cls):
            return candidates
        found = cls(candidate_table(candidates))
        blocks = range(0, len(candidates), _BLOCK)
        found._made = {start: list(candidates[start : start + _BLOCK]) for start in blocks}
        return found

    @cached_property
    def ids(self) -> list[str]:
        """Content address of each."""
        ids: list[str] = self.table["candidate_id"].to_pylist()
        return ids

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The distinct workloads, by name."""
        return tuple(map(Workload.parse, sorted(self.table["workload"].unique().to_pylist())))

    @cached_property
    def workload_of(self) -> Codes:
        """``(c,)`` position of each candidate's workload in ``workloads``."""
        codes = self.table["workload"].combine_chunks().dictionary_encode()
        place = {workload.name: i for i, workload in enumerate(self.workloads)}
        places = np.array([place[name] for name in codes.dictionary.to_pylist()], np.int64)
        found: Codes = places[np.asarray(codes.indices)]
        return found

    @overload
    def __getitem__(self, position: int) -> Candidate: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, position: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(position, slice):
            return tuple(self[i] for i in range(*position.indices(len(self))))
        at = range(len(self))[position]
        start = at - at % _BLOCK
        if start not in self._made:
            self._made[start] = list(self._make(self.table.slice(start, _BLOCK)))
        return self._made[start][at - start]

    def made(self, positions: Codes) -> list[Candidate]:
        """Some candidates, made for this call alone: who looks at millions once keeps none of them."""
        return list(self._make(self.table.take(pa.array(positions))))

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        return len(self) == len(other) and bool(compare_rows(*unify([self.table, other.table])).all())

    __hash__ = None  # type: ignore[assignment]

    def _make(self, table: Any) -> Iterator[Candidate]:
        workload_of = {workload.name: workload for workload in self.workloads}
        for row in table.to_pylist():
            launches = tuple(KernelLaunch(**launch) for launch in row["launches"])
            config = Config(decode_decisions(row["config"]))
            yield Candidate(workload_of[row["workload"]], row["space"], config, launches)


def candidate_table(candidates: Sequence[Candidate]) -> Any:
    """The table of candidates, with the columns ``CANDIDATES``, or ``DATA_CANDIDATES`` if any says these."""
    columns = {
        "candidate_id": [each.candidate_id for each in candidates],
        "workload": [each.workload.name for each in candidates],
        "space": [each.space for each in candidates],
        "config": [msgspec.json.encode(each.config.decisions).decode() for each in candidates],
        "launches": [list(map(msgspec.structs.asdict, each.launches)) for each in candidates],
    }
    return narrow(pa.table(columns, DATA_CANDIDATES))


# What may stand in a column.
_ALLOWED = {
    "outcome": tuple(Outcome),
    "l2_policy": ("warm", "flushed"),
    "isolation": get_args(Isolation),
    "schema_version": (SCHEMA_VERSION,),
}


def check_ids(candidates: Any) -> None:
    """Check that each candidate's id is that of its workload, space and config.

    Raises:
        ValueError: One is not, or cannot be read.
    """
    workloads = {name: Workload.parse(name) for name in candidates["workload"].unique().to_pylist()}
    columns = (candidates[name].to_pylist() for name in ("candidate_id", "workload", "space", "config"))
    for said, workload, space, config in zip(*columns, strict=True):
        found = content_id(workloads[workload], space, decode_decisions(config))
        if found != said:
            raise ValueError(f"candidate_id of {config} of {workload} must be {found}, but got {said}")


def check_values(table: Any) -> None:
    """Check what the types of the columns of ``SCHEMA`` cannot say, of those that were read.

    Raises:
        ValueError: A row holds what no measurement can.
    """
    table.validate(full=True)
    for name in table.column_names:
        if _has_nulls(table[name].combine_chunks()):
            raise ValueError(f"{name} must have a value in each row and list")
    kinds = pc.struct_field(table["device"], "kind")
    for name, column, allowed in (
        *((name, table[name], allowed) for name, allowed in _ALLOWED.items() if name in table.column_names),
        ("device.kind", kinds, get_args(DeviceKind)),
    ):
        if not set(column.unique().to_pylist()) <= set(allowed):
            raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}")
    lists = table["latencies_s"].combine_chunks()
    ok, repeats = np.asarray(pc.equal(table["outcome"], Outcome.OK.value)), np.asarray(lists.flatten())
    if not np.array_equal(ok, lengths_of(lists) > 0):
        raise ValueError("latencies_s must be given exactly when ok")
    if not np.all(np.isfinite(repeats) & (repeats > 0)):
        raise ValueError("latencies_s must be positive and finite")


def _has_nulls(array: Any) -> bool:
    """Tell whether a column holds a null, at any depth."""
    if array.null_count:
        return True
    if pa.types.is_struct(array.type) or pa.types.is_list(array.type):
        inner = array.flatten()
        return any(map(_has_nulls, inner if isinstance(inner, list) else [inner]))
    return False
