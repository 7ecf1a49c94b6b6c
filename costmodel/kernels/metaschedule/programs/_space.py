"""The design space of a tensor program that is none of the operators.

What kernels launch is told as columns, by formulas that a few lowered configs confirm. What a launch depends
on is found once for each launch of a sketch:

- a tiled loop nest: grid and threads are products of tile factors, everything else is a sum of the nest's
  terms with fixed coefficients (bytes of an element, loads of an epilogue), which a few lowered configs give
  by least squares;
- a decision with few choices, such as the threads of a reduction: a config of each choice is lowered;
- nothing: it is the same for all configs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace
from costmodel.kernels.metaschedule._parameters import Categorical
from costmodel.kernels.metaschedule.programs._facts import Block, program_workload, read_blocks
from costmodel.kernels.metaschedule.programs._launch_terms import TensorNest, Terms, TiledNest, nests_of
from costmodel.kernels.metaschedule.programs._traffic import program_launches
from costmodel.records._candidate import DATA_FACTS, SKETCH, Config, ConfigBatch, KernelLaunch
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

FIELDS = tuple(field for field in KernelLaunch.__struct_fields__ if field not in DATA_FACTS)
_UNROLL = "unroll_steps"
# Formulas have two or three unknowns. Lowering takes some 50 ms a config.
_FEWEST_SAMPLES, _SAMPLES = 4, 10
# Coefficients are counts of bytes or operations; what is nearer to a whole number than this is one.
_ROUNDING = 1e-4

Lower = Callable[[Config], tuple[KernelLaunch, ...]]
Columnwise = Callable[[ConfigBatch], FloatArray]
Rows = Sequence[Mapping[str, float]]  # of a launch: its fields, one mapping a sample


@dataclass(frozen=True)
class FittedLaunches:
    """The launches of one sketch.

    Attributes:
        launches: For each launch a formula by field.
    """

    launches: tuple[Mapping[str, Columnwise], ...]

    def columns(self, batch: ConfigBatch) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n, l)``; ``(n, 1)`` of NaN where nothing is known."""
        if not self.launches:
            return {field: np.full((batch.size, 1), np.nan) for field in KernelLaunch.__struct_fields__}
        told = {
            field: np.column_stack([formulas[field](batch) for formulas in self.launches]) for field in FIELDS
        }
        return told | dict.fromkeys(DATA_FACTS, np.zeros_like(told["blocks"]))


_DRAWN = 64  # configs of a sketch of which a few are lowered: of some sketches most are refused


_SEED = 0


class ProgramSpace(MetaScheduleSpace):
    """What MetaSchedule may decide for a tensor program of anybody, on one kind of device.

    Its workload is named ``tir.<hash>`` and says in its sizes what the program computes. What kernels launch
    is told for many configs at once, after a few were lowered.

    Args:
        module: Unscheduled ``tvm.IRModule`` with one function, ``main``.
        kind: Kind of device.

    Raises:
        CostModelError: The program cannot be read.
    """

    source = "tir"

    def __init__(self, module: Any, kind: TargetKind) -> None:
        super().__init__(program_workload(module), kind, module)
        self._fitted: dict[int, FittedLaunches] = {}

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """What the kernels of each config launch, before anything is compiled.

        Args:
            batch: Configs of one sketch.

        Returns:
            Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; NaN where it is not known, as on a
            CPU. Of tiled loop nests and of reductions all is what ``candidate`` finds, but the shared memory
            of Tensor Core sketches.
        """
        if self.target.kind.name != "cuda" or not batch.size:
            return super().launches(batch)
        return self._formulas(int(batch.decisions[SKETCH][0])).columns(batch)

    def counted(self, module: Any) -> tuple[KernelLaunch, ...]:
        """What the lowered program says of its kernels; on a GPU with the bytes that device memory moves."""
        return program_launches(module) if self.target.kind.name == "cuda" else super().counted(module)

    def _formulas(self, position: int) -> FittedLaunches:
        if position not in self._fitted:
            sketch = self.sketches[position]
            drawn = self.draw(position, _DRAWN, np.random.default_rng(_SEED))
            splits = [p for p in sketch.parameters if p.name.startswith("split.")]
            self._fitted[position] = fit_launches(
                self.workload,
                drawn.configs(),
                {p.name: p.choices for p in splits if isinstance(p, Categorical)},
                nests_of(self._blocks, [parameter.name for parameter in sketch.parameters]),
                self._lowered,
            )
        return self._fitted[position]

    @cached_property
    def _blocks(self) -> list[Block]:
        return read_blocks(self.module)

    def _lowered(self, config: Config) -> tuple[KernelLaunch, ...]:
        """The launches of a config; none where no valid kernel comes of it."""
        try:
            return self.counted(self.schedule(config).mod)
        except Exception:  # noqa: BLE001 (TVM raises its own error types for what cannot be lowered)
            return ()


def fit_launches(
    workload: Workload,
    samples: Iterable[Config],
    choices: Mapping[str, Sequence[int]],
    nests: Sequence[TiledNest | TensorNest],
    lower: Lower,
) -> FittedLaunches:
    """Find the formulas of a sketch.

    Args:
        workload: What the configs are of.
        samples: Configs of the sketch, of which the first are lowered of which something comes.
        choices: The choices of each decision on how the threads of a block share a loop.
        nests: The loop nests that the sketch tiles.
        lower: Gives the launches of a config, none where no kernel comes of it.
    """
    lowered = list(islice(((c, found) for c in samples if (found := lower(c))), _SAMPLES))
    if len(lowered) < _FEWEST_SAMPLES:
        return FittedLaunches(())
    (count, _), *_ = Counter(len(found) for _, found in lowered).most_common(1)
    usual = [(config, found) for config, found in lowered if len(found) == count]
    configs = [config for config, _ in usual]
    batch = ConfigBatch.from_configs(workload, configs)
    launches = []
    for position in range(count):
        rows = [{field: float(getattr(found[position], field)) for field in FIELDS} for _, found in usual]
        nest = _nest_of(rows, batch, nests)
        if nest is not None:
            formulas = _tiled_formulas(rows, batch, nest)
        else:
            again = _Lowered(lower, position, count)
            formulas = _tabled_formulas(rows, configs, choices, again)
        launches.append({**formulas, _UNROLL: _unrolling(rows, batch)})
    return FittedLaunches(tuple(launches))


def _column(rows: Rows, field: str) -> FloatArray:
    return np.array([row[field] for row in rows])


def _nest_of(
    rows: Rows, batch: ConfigBatch, nests: Sequence[TiledNest | TensorNest]
) -> TiledNest | TensorNest | None:
    """The nest whose grid and threads the launch has; None if it is none's."""
    for nest in nests:
        terms = nest.terms(batch.decisions)
        ratio = _column(rows, "blocks") / terms.blocks
        if np.array_equal(_column(rows, "threads_per_block"), terms.threads) and np.ptp(ratio) == 0.0:
            return nest
    return None


def _tiled_formulas(rows: Rows, batch: ConfigBatch, nest: TiledNest | TensorNest) -> dict[str, Columnwise]:
    """A formula of a nest's terms for each field but the unrolling."""
    terms = nest.terms(batch.decisions)

    def of_terms(parts: Callable[[Terms], Sequence[FloatArray]], field: str) -> Columnwise:
        target = _column(rows, field)
        weights = _weights(np.column_stack(parts(terms)), target)
        return lambda asked: np.asarray(np.column_stack(parts(nest.terms(asked.decisions))) @ weights)

    return {
        "blocks": of_terms(lambda t: [t.blocks], "blocks"),
        "threads_per_block": lambda asked: nest.terms(asked.decisions).threads,
        "vthreads": lambda asked: nest.terms(asked.decisions).vthreads,
        "shared_bytes": of_terms(lambda t: t.boxes, "shared_bytes"),
        "local_bytes": of_terms(lambda t: t.kept, "local_bytes"),
        "global_load_bytes": of_terms(lambda t: [*t.staged, t.constants[0]], "global_load_bytes"),
        "global_store_bytes": of_terms(lambda t: t.constants[:1], "global_store_bytes"),
        "shared_load_bytes": of_terms(lambda t: t.constants, "shared_load_bytes"),
        "shared_store_bytes": of_terms(lambda t: [*t.staged, t.constants[0]], "shared_store_bytes"),
        "flops": of_terms(lambda t: [np.ones_like(t.blocks), *t.staged, t.constants[0]], "flops"),
        "tensor_flops": of_terms(lambda t: [np.ones_like(t.blocks)], "tensor_flops"),
        "vector_bytes": lambda asked: _widest(nest.terms(asked.decisions)),
    }


def _widest(terms: Terms) -> FloatArray:
    """Bytes of the widest access."""
    each = [size * lanes for size, lanes in zip(terms.lane_bytes, terms.lanes, strict=True)]
    return np.asarray(np.maximum.reduce(each))


def _weights(terms: FloatArray, target: FloatArray) -> FloatArray:
    """Coefficients of ``(n, t)`` terms that give ``(n,)`` values, none below 0."""
    distinct = _distinct_columns(terms)
    sizes = terms[:, distinct].max(axis=0)
    found, _ = nnls(terms[:, distinct] / sizes, target)
    weights = np.zeros(terms.shape[1])
    weights[distinct] = found / sizes
    whole = np.round(weights)
    return np.where(np.abs(weights - whole) <= _ROUNDING * np.maximum(1.0, whole), whole, weights)


def _distinct_columns(terms: FloatArray) -> NDArray[np.intp]:
    """Positions of columns that are not in proportion to one before them."""
    unit = terms / np.linalg.norm(terms, axis=0)
    return np.array(
        [i for i in range(terms.shape[1]) if not any(np.allclose(unit[:, i], unit[:, j]) for j in range(i))]
    )


@dataclass(frozen=True)
class _Lowered:
    """Gives the facts of one launch of a config; NaN where they are not to be had."""

    lower: Lower
    position: int
    count: int

    def facts(self, config: Config) -> dict[str, float]:
        found = self.lower(config)
        if len(found) != self.count:
            return dict.fromkeys(FIELDS, np.nan)
        return {field: float(getattr(found[self.position], field)) for field in FIELDS}


def _tabled_formulas(
    rows: Rows, configs: Sequence[Config], choices: Mapping[str, Sequence[int]], lowered: _Lowered
) -> dict[str, Columnwise]:
    """Formulas of a launch that depends on one decision with few choices, or on none."""
    if all(_kept(row) == _kept(rows[0]) for row in rows):
        return {field: _constant(rows[0][field]) for field in FIELDS}
    name = _driver(rows, configs, choices)
    if name is None:
        return {field: _constant(np.nan) for field in FIELDS}
    known = {int(str(config.decisions[name])): row for config, row in zip(configs, rows, strict=True)}
    table = {value: known.get(value) or _with(value, name, configs, lowered) for value in choices[name]}
    return {field: _looked_up(name, {v: facts[field] for v, facts in table.items()}) for field in FIELDS}


def _with(value: int, name: str, configs: Sequence[Config], lowered: _Lowered) -> dict[str, float]:
    """The facts of the first config of which something comes with this value."""
    for config in configs:
        facts = lowered.facts(Config({**config.decisions, name: value}))
        if not np.isnan(facts["blocks"]):
            return facts
    return dict.fromkeys(FIELDS, np.nan)


def _driver(rows: Rows, configs: Sequence[Config], choices: Mapping[str, Sequence[int]]) -> str | None:
    """The decision that tells the facts of all samples; None where several together do."""
    for name in choices:
        told: dict[object, tuple[float, ...]] = {}
        pairs = ((config.decisions[name], _kept(row)) for config, row in zip(configs, rows, strict=True))
        if all(told.setdefault(value, facts) == facts for value, facts in pairs):
            return name
    return None


def _kept(row: Mapping[str, float]) -> tuple[float, ...]:
    """The facts but the unrolling, which other decisions tell."""
    return tuple(row[field] for field in FIELDS if field != _UNROLL)


def _unrolling(rows: Rows, batch: ConfigBatch) -> Columnwise:
    """Steps that may be unrolled: the decision, where the launch has any."""
    names = [name for name in batch.decisions if name.startswith("unroll_explicit.")]
    if not names or not _column(rows, _UNROLL).any():
        return _constant(0.0)
    return lambda asked: asked.decisions[names[0]].astype(np.float64)


def _constant(value: float) -> Columnwise:
    return lambda asked: np.full(asked.size, value)


def _looked_up(name: str, table: Mapping[int, float]) -> Columnwise:
    values, facts = np.array(sorted(table)), np.array([table[value] for value in sorted(table)])

    def column(asked: ConfigBatch) -> FloatArray:
        return np.asarray(facts[np.searchsorted(values, asked.decisions[name])])

    return column
