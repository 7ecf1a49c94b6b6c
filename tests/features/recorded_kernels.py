"""The distinct candidates of MetaSchedule in the shipped datasets, with what was recorded of each."""

from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq

from costmodel.records import Candidate, Workload
from costmodel.records._candidate import KernelLaunch
from costmodel.records._measurement import KernelResources

DATASETS = Path(__file__).parents[2] / "datasets"
FIELDS = KernelLaunch.__struct_fields__
_COLUMNS = ["workload", "candidate_id", "space", "config", "launches", "resources"]

Recorded = tuple[Candidate, tuple[KernelResources, ...]]


def recorded_candidates() -> list[Candidate]:
    """Every candidate whose launches are known from its lowered program."""
    return [candidate for candidate, _ in recorded_kernels()]


@cache
def recorded_kernels() -> tuple[Recorded, ...]:
    """The same, with what the compiler gave each kernel, where that was recorded."""
    found: dict[str, Recorded] = {}
    for file in sorted(DATASETS.glob("*/measurements.parquet")):
        table = pq.read_table(file, columns=_COLUMNS)
        _, first = np.unique(table["candidate_id"].to_numpy(), return_index=True)
        for row in table.take(first).to_pylist():
            if row["launches"] and row["space"].startswith("metaschedule-"):
                found.setdefault(row["candidate_id"], _recorded(row))
    return tuple(found.values())


def _recorded(row: dict) -> Recorded:
    fields = {
        "workload": msgspec.to_builtins(Workload.parse(row["workload"])),
        "space": row["space"],
        "config": {"decisions": msgspec.json.decode(row["config"])},
        "launches": row["launches"],
    }
    return msgspec.convert(fields, Candidate), msgspec.convert(row["resources"], tuple[KernelResources, ...])
