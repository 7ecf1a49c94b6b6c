"""Features of many (candidate, platform) pairs, or of many configs on one platform, at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.columns import Column
from costmodel.features._compiled import compiled_features
from costmodel.features._config import CONFIG_COLUMNS
from costmodel.features._data_facts import data_features
from costmodel.features._facts import (
    ConfigFacts,
    Launches,
    batch_facts,
    candidate_facts,
    distinct_objects,
    stacked,
)
from costmodel.features._feature import Values, values_of
from costmodel.features._ir import extract_read
from costmodel.features._launch import LAUNCH_COLUMNS, LAUNCH_FEATURES, LaunchFacts
from costmodel.features._parameters import batch_parameters, parameter_features
from costmodel.features._platform import (
    PLATFORM_COLUMNS,
    PLATFORM_FEATURES,
    Limits,
    RooflineFacts,
    peak_flops,
    platform_limits,
    roofline_s,
)
from costmodel.features._table import FeatureTable, in_columns
from costmodel.features._times import Work
from costmodel.features._workload import WORKLOAD_COLUMNS, workload_values
from costmodel.kernels._machine_code import MachineCode
from costmodel.kernels._read_facts import ReadFacts
from costmodel.records._candidate import Candidate, ConfigBatch
from costmodel.records._platform import Platform
from costmodel.records._workload import DTYPE_BYTES, Workload

# Columns that only some tables have, and their ``(n, d)`` values.
OwnColumns = tuple[tuple[Column, ...], FloatArray]

COLUMNS = WORKLOAD_COLUMNS + PLATFORM_COLUMNS + CONFIG_COLUMNS + LAUNCH_COLUMNS
_LOADS, _STEPS = (
    [column.name for column in CONFIG_COLUMNS].index(name)
    for name in ("log2_loads_per_fma", "log2_reduction_0")
)


def extract(
    candidates: Sequence[Candidate],
    platforms: Sequence[Platform],
    launches: Launches = "estimated",
    read: Mapping[str, ReadFacts] | None = None,
    compiled: Mapping[str, MachineCode] | None = None,
) -> FeatureTable:
    """Features of ``candidates[i]`` on ``platforms[i]`` in row i.

    Behind ``COLUMNS`` are, by name, those of the families among the candidates, see ``_parameters``, and
    ``DATA_COLUMNS`` if any launch says what data decide, see ``_data_facts``, and ``READ_COLUMNS`` and
    ``COMPILED_COLUMNS`` if asked for. Objects that repeat are looked at once, so pass the same object rather
    than equal copies.

    Args:
        candidates: What would run. Nothing is lowered.
        platforms: Where, one for each candidate.
        launches: Where the facts of group ``launch`` are from. ``estimated``: the decisions, as in
            ``estimate_launches``, so that a kernel has the same features before and after it was lowered;
            what was recorded stands in where decisions do not tell. ``lowered``: what was recorded with the
            candidates, NaN for those that were never lowered.
        read: What was read of kernels, by candidate id; then the table has the group ``ir``, which is NaN for
            those of which nothing was.
        compiled: What was made of kernels, by candidate id; then the table has the group ``compiled``, which
            is NaN for those that were not.

    Raises:
        ValueError: The sequences differ in length.
    """
    if len(candidates) != len(platforms):
        raise ValueError(
            "candidates and platforms must have the same length, "
            f"but got {len(candidates)} candidates and {len(platforms)} platforms"
        )
    kernels, row = distinct_objects(candidates)
    workloads, workload_row = distinct_objects([candidate.workload for candidate in kernels])
    limits = platform_limits(*distinct_objects(platforms))
    facts = candidate_facts(kernels, launches).take(row)
    columns, launched = _columns(workloads, workload_row[row], limits, facts)
    of_families, family_values = parameter_features(kernels)
    own = _by_name((of_families, family_values[row]), data_features(launched))
    if read is not None:
        facts_of = [read.get(candidate.candidate_id) for candidate in kernels]
        of_read = extract_read([facts_of[i] for i in row], platforms)
        own = _by_name(own, (of_read.columns, of_read.values))
    if compiled is not None:
        code_of = [compiled.get(candidate.candidate_id) for candidate in kernels]
        own = _by_name(own, compiled_features([code_of[i] for i in row], launched))
    own_columns, own_values = own
    return FeatureTable(np.hstack([stacked(columns, len(row)), own_values]), COLUMNS + own_columns)


def extract_batch(
    batch: ConfigBatch,
    platform: Platform,
    launches: Mapping[str, FloatArray] | None = None,
    family: str = "",
) -> FeatureTable:
    """Features of all configs of a batch on one platform: those that ``extract`` gives of each.

    Args:
        batch: The configs.
        platform: Where they would run.
        launches: Each field of ``KernelLaunch`` as ``(n, l)``, such as ``DesignSpace.launches`` gives;
            estimated from the decisions unless given.
        family: What the parameters are known by, see ``Candidate.family``.

    Raises:
        ValueError: The batch is of a kernel of another suite, and no family is given.
    """
    if batch.workload.is_opaque and not family:
        raise ValueError(f"workload must be an operator, but got the foreign kernel {batch.workload.name}")
    one = np.zeros(1, dtype=np.intp)
    facts = batch_facts(batch, launches)
    columns, launched = _columns([batch.workload], one, platform_limits([platform], one), facts)
    of_family = batch_parameters(batch, family) if family else ((), np.empty((batch.size, 0)))
    own_columns, own_values = _by_name(of_family, data_features(launched))
    return FeatureTable(np.hstack([stacked(columns, batch.size), own_values]), COLUMNS + own_columns)


def _columns(
    workloads: Sequence[Workload], row: NDArray[np.intp], limits: Limits, facts: ConfigFacts
) -> tuple[list[Values], LaunchFacts]:
    """A column for each of ``COLUMNS``, and the facts that those of launches were computed from.

    Columns are ``(n,)``, or ``(1,)`` where all rows have the same value.

    Args:
        workloads: The distinct workloads.
        row: ``(n,)`` or ``(1,)`` position of each row's workload.
        limits: ``(n,)`` or ``(1,)`` arrays of each row's platform.
        facts: What is known of each row's config.
    """
    described = np.array([workload_values(workload) for workload in workloads])
    described = described.reshape(-1, len(WORKLOAD_COLUMNS))[row]
    flops, min_bytes, element_bytes, is_float16 = (
        np.array([_sizes(w) for w in workloads]).reshape(-1, 4)[row].T
    )
    # Of a kernel of another suite only its launches tell something: what they compute, what they move or,
    # where that is not said, write.
    foreign = np.isnan(flops)
    flops = np.where(foreign, _of_launches(facts, "flops"), flops)
    device_bytes = _of_launches(facts, "device_bytes")
    written = _of_launches(facts, "global_store_bytes")
    moved = np.where(np.isnan(device_bytes), written, device_bytes)
    min_bytes = np.where(foreign, moved, min_bytes)
    peak = peak_flops(limits, np.where(foreign, _of_launches(facts, "tensor_flops") > 0.0, is_float16 == 1.0))
    bound_s = roofline_s(limits, peak, flops, min_bytes)
    loads, steps = 2.0 ** facts.config[:, _LOADS], 2.0 ** facts.config[:, _STEPS]
    work = Work(flops, min_bytes, device_bytes, bound_s, loads, steps, element_bytes)
    launched = LaunchFacts(facts.launches, limits, work)
    columns = [
        *described.T,
        *values_of(PLATFORM_FEATURES, RooflineFacts(limits, peak, flops, min_bytes, bound_s)),
        *facts.config.T,
        *values_of(LAUNCH_FEATURES, launched),
    ]
    return columns, launched


def _by_name(first: OwnColumns, second: OwnColumns) -> OwnColumns:
    """Columns of both, by name."""
    if not second[0]:
        return first
    columns = first[0] + second[0]
    order = sorted(range(len(columns)), key=lambda i: columns[i].name)
    return tuple(columns[i] for i in order), np.hstack([first[1], second[1]])[:, order]


def _of_launches(facts: ConfigFacts, field: str) -> FloatArray:
    """``(n,)`` sum of a fact over launches, NaN where none is known."""
    total = np.nansum(facts.launches[field], axis=1)
    return np.where(total > 0.0, total, np.nan)


def _sizes(workload: Workload) -> tuple[float, float, float, float]:
    """Flops, fewest bytes, bytes of an element, and whether it is float16; NaN where unknown."""
    return (
        workload.flops or np.nan,
        workload.min_bytes or np.nan,
        DTYPE_BYTES.get(workload.dtype, np.nan),
        float(workload.dtype == "float16"),
    )


@dataclass(frozen=True)
class KnownFeatures:
    """Features of n rows without the columns that are NaN in all of them: of kernels of other suites, most.

    Attributes:
        columns: The d columns, in order.
        size: n.
        known: Values of the other columns, each ``(n,)``, by position in ``columns``.
    """

    columns: tuple[Column, ...]
    size: int
    known: dict[int, FloatArray] = field(default_factory=dict)

    def __getitem__(self, rows: Positions) -> FloatArray:
        """``(m, d)`` features of the rows at m positions."""
        X = np.full((len(rows), len(self.columns)), np.nan)
        for i, values in self.known.items():
            X[:, i] = values[rows]
        return X

    @property
    def table(self) -> FeatureTable:
        """All rows with all columns."""
        return FeatureTable(self[np.arange(self.size)], self.columns)

    def write(self, start: int, X: FloatArray) -> None:
        """Write the ``(m, d)`` features of the m rows from ``start``."""
        for i, values in enumerate(X.T):
            if not np.isnan(values).all():
                column = self.known.setdefault(i, np.full(self.size, np.nan))
                column[start : start + len(X)] = values


def extract_in_chunks(
    chunks: Iterable[tuple[Sequence[Candidate], Sequence[Platform]]],
    read: Mapping[str, ReadFacts] | None = None,
    compiled: Mapping[str, MachineCode] | None = None,
) -> KnownFeatures:
    """Return what ``extract`` gives of all rows, made of the candidates and platforms of some at once."""
    parts = [
        _known(extract(candidates, platforms, read=read, compiled=compiled))
        for candidates, platforms in chunks
    ]
    own = {column for part in parts for column in part.columns[len(COLUMNS) :]}
    columns = COLUMNS + tuple(sorted(own, key=lambda column: column.name))
    found = KnownFeatures(columns, sum(part.size for part in parts))
    start = 0
    while parts:  # each goes before the next is copied
        part = parts.pop(0)
        found.write(start, in_columns(part.table, [column.name for column in columns]))
        start += part.size
    return found


def _known(table: FeatureTable) -> KnownFeatures:
    found = KnownFeatures(table.columns, len(table.values))
    found.write(0, table.values)
    return found
