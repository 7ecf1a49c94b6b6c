"""Features of configs from their decisions alone, before anything is lowered.

Decisions follow MetaSchedule's multi-level tiling (Shao et al., "Tensor Program Optimization with
Probabilistic Programs", arXiv:2205.13603). ``tile.<buffer>.<loop>`` holds the factors of a loop, outermost
first. On a GPU a spatial loop has five, [grid, vthread, thread, inner, innermost], and a reduction three; on
a CPU four and two. ``tensor_tile.<buffer>.<m, n or k>`` does the same for Tensor Cores, which see every
anchor as a matrix product; warps take the place of threads. The columns aggregate over loops, so that they
mean the same in every space.

``_step`` adds what a block stages of each operand in one step of the reduction. Other decisions have no
column. ``sketch`` numbers the rules that TVM applied, in an order that differs from operator to operator, so
that a number learned on one says nothing on another. ``split.*`` (the threads of a reduction) and
``compute_at.*`` (where a stage is fused) exist for softmax and layer_norm alone, and all three show in what
they lead to: blocks, threads, launches, shared memory and traffic in the columns of group ``launch``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._feature import Feature, Values, columns_of, values_of
from costmodel.kernels.metaschedule._tiled_launch import BlockStep, step_of
from costmodel.kernels.metaschedule._tiles import (
    count_at,
    count_contiguous,
    count_within,
    loop_tiles,
    multiply,
    operand_loads,
    operand_loops,
    thread_part,
    unfold_tensor_tile,
)
from costmodel.records._candidate import ConfigBatch


def _plain(name: str, formula: Callable[[BlockStep], FloatArray]) -> Feature[BlockStep]:
    return Feature(name, "1", "config", formula)


def _log2(name: str, unit: str, formula: Callable[[BlockStep], FloatArray]) -> Feature[BlockStep]:
    return Feature(f"log2_{name}", f"log2({unit})", "config", lambda step: np.log2(formula(step)))


STEP_FEATURES: tuple[Feature[BlockStep], ...] = (
    _log2("first_staged_bytes", "byte", lambda step: step.staged_bytes[0]),
    _log2("second_staged_bytes", "byte", lambda step: step.staged_bytes[1]),
    _plain("first_vector_width", lambda step: step.lanes[0]),
    _plain("second_vector_width", lambda step: step.lanes[1]),
    _plain("result_vector_width", lambda step: step.lanes[2]),
    _plain("staged_copies", lambda step: step.copies),
    _plain("on_tensor_cores", lambda step: step.on_tensor_cores),
    _plain("second_by_columns", lambda step: step.by_columns),
    _log2("block_rows", "1", lambda step: step.block[0]),
    _log2("block_columns", "1", lambda step: step.block[1]),
    _log2("block_depth", "1", lambda step: step.block[2]),
    _log2("inner_rows", "1", lambda step: step.inner[0]),
    _log2("inner_columns", "1", lambda step: step.inner[1]),
    _log2("inner_depth", "1", lambda step: step.inner[2]),
)
STEP_COLUMNS = columns_of(STEP_FEATURES)


def step_values(batch: ConfigBatch) -> list[Values]:
    """``(n,)`` numbers for each of ``STEP_FEATURES``; NaN where the decisions tell no step."""
    step = step_of(batch)
    return [np.nan] * len(STEP_FEATURES) if step is None else values_of(STEP_FEATURES, step)


_LEVELS = 5
_PRODUCT = ((0,), (1,))  # a matrix product of rows, which index its first operand, and columns


@dataclass(frozen=True)
class TileFacts:
    """Facts that the features of configs are computed from; NaN where no decision tells.

    Attributes:
        batch: The configs.
        spatial: ``(n, parts)`` factors of each spatial loop.
        reductions: ``(n, parts)`` factors of each reduction loop.
        operands: For each operand of the anchor, the positions of the spatial loops that index it.
    """

    batch: ConfigBatch
    spatial: list[FloatArray]
    reductions: list[FloatArray]
    operands: Sequence[Sequence[int]]

    @classmethod
    def of(cls, batch: ConfigBatch) -> "TileFacts":
        """The facts of an operator's or a program's configs; those of Tensor Cores see a matrix product."""
        spatial, reductions = loop_tiles(batch)
        tensor_tiles = [unfold_tensor_tile(tile.astype(np.float64)) for tile in batch.named("tensor_tile.")]
        if not tensor_tiles:
            return cls(batch, spatial, reductions, operand_loops(batch.workload))
        spatial += [tile for tile in tensor_tiles if tile.shape[1] == _LEVELS]
        reductions += [tile for tile in tensor_tiles if tile.shape[1] < _LEVELS]
        return cls(batch, spatial, reductions, _PRODUCT)

    @cached_property
    def log2_thread_tile(self) -> Values:
        """Outputs that one thread computes."""
        return _log2_product([thread_part(tile) for tile in self.spatial])

    @cached_property
    def log2_body(self) -> Values:
        """Multiply-adds of a thread between two stagings of its operands."""
        return self.log2_thread_tile + _log2_product([count_within(tile, 1) for tile in self.reductions])

    @cached_property
    def log2_unroll(self) -> Values:
        """Steps that are unrolled, counted from 1: no unrolling is 0."""
        return np.log2(1.0 + self.largest("unroll"))

    def last(self, part: Callable[[FloatArray], FloatArray]) -> Values:
        """log2 of a part of the last spatial loop, whose threads touch neighbouring addresses."""
        return np.log2(part(self.spatial[-1])) if self.spatial else np.nan

    def largest(self, prefix: str) -> Values:
        """``(n,)`` largest number among the decisions whose name starts so."""
        named = self.batch.named(prefix)
        numbers = [values for values in named if values.ndim == 1 and values.dtype.kind in "iuf"]
        return np.maximum.reduce(numbers).astype(np.float64) if numbers else np.nan


def _level_product(part: int, kind: str) -> Callable[[TileFacts], Values]:
    """log2 of the product of the factors at one level, over all loops that have it."""

    def values(tiles: TileFacts) -> Values:
        found = [tile for tile in getattr(tiles, kind) if part < tile.shape[1]]
        return _log2_product([count_at([tile], part) for tile in found])

    return values


# ``spatial_i`` and ``reduction_i`` multiply the factors at level i over all loops. ``thread_tile`` is what
# one thread computes and ``block_tile`` what one block computes. The unrolled steps over the body tell
# whether accumulators can stay in registers, which cannot be indexed by a loop that is left.
CONFIG_FEATURES: tuple[Feature[TileFacts], ...] = (
    *(
        Feature(f"log2_spatial_{part}", "log2(1)", "config", _level_product(part, "spatial"))
        for part in range(_LEVELS)
    ),
    *(
        Feature(f"log2_reduction_{part}", "log2(1)", "config", _level_product(part, "reductions"))
        for part in range(3)
    ),
    Feature("log2_thread_tile", "log2(1)", "config", lambda t: t.log2_thread_tile),
    Feature(
        "log2_block_tile",
        "log2(1)",
        "config",
        lambda t: _log2_product([count_within(tile, 1) for tile in t.spatial]),
    ),
    Feature(
        "log2_last_block_tile", "log2(1)", "config", lambda t: t.last(lambda tile: count_within(tile, 1))
    ),
    Feature("log2_last_threads", "log2(1)", "config", lambda t: t.last(lambda tile: tile[:, 2])),
    Feature("log2_last_innermost", "log2(1)", "config", lambda t: t.last(lambda tile: tile[:, -1])),
    Feature(
        "log2_reduction_run",
        "log2(1)",
        "config",
        lambda t: np.log2(count_contiguous(t.reductions)) if t.reductions else np.nan,
    ),
    Feature(
        "log2_loads_per_fma", "log2(1)", "config", lambda t: np.log2(operand_loads(t.operands, t.spatial))
    ),
    Feature("log2_body", "log2(1)", "config", lambda t: t.log2_body),
    Feature("log2_unroll_over_body", "log2(1)", "config", lambda t: t.log2_unroll - t.log2_body),
    Feature("log2_unroll", "log2(1)", "config", lambda t: t.log2_unroll),
    Feature("max_vector_width", "1", "config", lambda t: t.largest("cooperative_fetch")),
)
CONFIG_COLUMNS = columns_of(CONFIG_FEATURES) + STEP_COLUMNS


def config_values(batch: ConfigBatch) -> list[Values]:
    """A number or ``(n,)`` numbers for each of ``CONFIG_COLUMNS``; NaN where no decision tells."""
    if batch.workload.is_opaque:
        return [np.nan] * len(CONFIG_COLUMNS)
    return [*values_of(CONFIG_FEATURES, TileFacts.of(batch)), *step_values(batch)]


def _log2_product(factors: Sequence[FloatArray]) -> Values:
    """log2 of the product; NaN of none."""
    return np.log2(multiply(factors)) if factors else np.nan
