"""Features of many (candidate, platform) pairs at once."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.features._config import CONFIG_COLUMNS, config_values
from costmodel.features._foreign import foreign_features
from costmodel.features._launch import LAUNCH_COLUMNS, launch_facts, launch_values
from costmodel.features._platform import (
    PLATFORM_COLUMNS,
    peak_flops,
    platform_limits,
    platform_values,
    roofline_s,
)
from costmodel.features._table import FeatureTable
from costmodel.features._times import Work
from costmodel.features._workload import WORKLOAD_COLUMNS, workload_values
from costmodel.records import Candidate, Platform

T = TypeVar("T")

COLUMNS = WORKLOAD_COLUMNS + PLATFORM_COLUMNS + CONFIG_COLUMNS + LAUNCH_COLUMNS


def extract(candidates: Sequence[Candidate], platforms: Sequence[Platform]) -> FeatureTable:
    """Features of ``candidates[i]`` on ``platforms[i]`` in row i.

    Works on candidates that were never lowered: without launches the columns of group ``launch`` are NaN.
    Behind ``COLUMNS`` are those of the foreign kernels among the candidates, see ``_foreign``.
    Objects that repeat are looked at once, so pass the same object rather than equal copies.

    Raises:
        ValueError: The sequences differ in length.
    """
    if len(candidates) != len(platforms):
        raise ValueError(
            "candidates and platforms must have the same length, "
            f"but got {len(candidates)} candidates and {len(platforms)} platforms"
        )
    distinct, row = _distinct(candidates)
    limits = platform_limits(*_distinct(platforms))
    flops = np.array([candidate.workload.flops or np.nan for candidate in distinct], dtype=np.float64)[row]
    min_bytes = np.array([c.workload.min_bytes or np.nan for c in distinct], dtype=np.float64)[row]
    is_float16 = np.array([candidate.workload.dtype == "float16" for candidate in distinct], dtype=bool)[row]
    peak = peak_flops(limits, is_float16)
    facts = {name: values[row] for name, values in launch_facts(distinct).items()}
    workloads = np.array([workload_values(candidate.workload) for candidate in distinct])
    configs = np.array([config_values(candidate) for candidate in distinct])
    configs = configs.reshape(-1, len(CONFIG_COLUMNS))[row]
    names = [column.name for column in CONFIG_COLUMNS]
    loads, steps = (2.0 ** configs[:, names.index(n)] for n in ("log2_loads_per_fma", "log2_reduction_0"))
    work = Work(flops, min_bytes, roofline_s(limits, peak, flops, min_bytes), loads, steps)
    foreign_columns, foreign_values = foreign_features(distinct)
    values = np.hstack(
        [
            workloads.reshape(-1, len(WORKLOAD_COLUMNS))[row],
            platform_values(limits, peak, flops, min_bytes, work.bound_s),
            configs,
            launch_values(facts, limits, work),
            foreign_values[row],
        ]
    )
    return FeatureTable(values, COLUMNS + foreign_columns)


def _distinct(objects: Sequence[T]) -> tuple[list[T], NDArray[np.intp]]:
    """The distinct objects by identity in order of appearance, and each row's position among them."""
    position: dict[int, int] = {}
    row = [position.setdefault(id(item), len(position)) for item in objects]
    first = dict(zip(reversed(row), reversed(objects), strict=True))
    return [first[i] for i in range(len(position))], np.array(row, dtype=np.intp)
