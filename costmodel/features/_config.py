"""Features of configs from their decisions alone, before anything is lowered.

Decisions follow MetaSchedule's multi-level tiling (Shao et al., "Tensor Program Optimization with
Probabilistic Programs", arXiv:2205.13603). ``tile.<buffer>.<loop>`` holds the factors of a loop, outermost
first. On a GPU a spatial loop has five, [grid, vthread, thread, inner, innermost], and a reduction three; on
a CPU four and two. ``tensor_tile.<buffer>.<m, n or k>`` does the same for Tensor Cores, which see every
anchor as a matrix product; warps take the place of threads. The columns aggregate over loops, so that they
mean the same in every space.

Other decisions have no column. ``sketch`` numbers the rules that TVM applied, in an order that differs from
operator to operator, so that a number learned on one says nothing on another. ``split.*`` (the threads of a
reduction) and ``compute_at.*`` (where a stage is fused) exist for softmax and layer_norm alone, and all
three show in what they lead to: blocks, threads, launches, shared memory and traffic in the columns of group
``launch``.
"""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.features._loops import level, loop_tiles, product, within
from costmodel.features._tiles import contiguous, operand_loads, thread_part, unfolded
from costmodel.records import ConfigBatch

_LEVELS = 5

CONFIG_COLUMNS = (
    *(Column(f"log2_spatial_{level}", "log2(1)", "config") for level in range(5)),
    *(Column(f"log2_reduction_{level}", "log2(1)", "config") for level in range(3)),
    Column("log2_thread_tile", "log2(1)", "config"),
    Column("log2_block_tile", "log2(1)", "config"),
    Column("log2_last_block_tile", "log2(1)", "config"),
    Column("log2_last_threads", "log2(1)", "config"),
    Column("log2_last_innermost", "log2(1)", "config"),
    Column("log2_reduction_run", "log2(1)", "config"),
    Column("log2_loads_per_fma", "log2(1)", "config"),
    Column("log2_body", "log2(1)", "config"),
    Column("log2_unroll_over_body", "log2(1)", "config"),
    Column("log2_unroll", "log2(1)", "config"),
    Column("max_vector_width", "1", "config"),
)


def config_values(batch: ConfigBatch) -> list[FloatArray | float]:
    """A number or ``(n,)`` numbers for each of ``CONFIG_COLUMNS``; NaN where no decision tells.

    ``spatial_i`` and ``reduction_i`` multiply the factors at level i over all loops. ``thread_tile`` is what
    one thread computes and ``block_tile`` what one block computes. ``last_*`` look at the last spatial loop
    alone: its threads touch neighbouring addresses. ``reduction_run`` and ``loads_per_fma`` are described in
    ``_tiles``. ``body`` counts the multiply-adds of a thread between two stagings of its operands. ``unroll``
    counts from 1, so that no unrolling is 0; over the body it tells whether accumulators can stay in
    registers, which cannot be indexed by a loop that is left.
    """
    if batch.workload.is_foreign:
        return [np.nan] * len(CONFIG_COLUMNS)
    spatial, reductions, anchor = _loops(batch)
    last = spatial[-1] if spatial else None
    thread_tile = _log2_product([thread_part(tile) for tile in spatial])
    body = thread_tile + _log2_product([within(tile, 1) for tile in reductions])
    unroll = np.log2(1.0 + _largest(batch, "unroll"))
    return [
        *_level_products(spatial, _LEVELS),
        *_level_products(reductions, 3),
        thread_tile,
        _log2_product([within(tile, 1) for tile in spatial]),
        np.nan if last is None else np.log2(within(last, 1)),
        np.nan if last is None else np.log2(last[:, 2]),
        np.nan if last is None else np.log2(last[:, -1]),
        np.log2(contiguous(reductions)) if reductions else np.nan,
        np.log2(operand_loads(anchor, spatial)),
        body,
        unroll - body,
        unroll,
        _largest(batch, "cooperative_fetch"),
    ]


def _loops(batch: ConfigBatch) -> tuple[list[FloatArray], list[FloatArray], str]:
    """Tiles of the spatial and of the reduction loops, and the anchor whose loops they are."""
    spatial, reductions = loop_tiles(batch)
    tensor_tiles = [unfolded(tile.astype(np.float64)) for tile in batch.named("tensor_tile.")]
    if not tensor_tiles:
        return spatial, reductions, batch.workload.operator.anchor
    spatial += [tile for tile in tensor_tiles if tile.shape[1] == _LEVELS]
    reductions += [tile for tile in tensor_tiles if tile.shape[1] < _LEVELS]
    return spatial, reductions, "matmul"


def _log2_product(factors: Sequence[FloatArray]) -> FloatArray | float:
    """log2 of the product; NaN of none."""
    return np.log2(product(factors)) if factors else np.nan


def _level_products(tiles: Sequence[FloatArray], levels: int) -> list[FloatArray | float]:
    """log2 of the product over tiles of the factors at each level; NaN for a level that no tile has."""
    return [
        _log2_product([level([tile], part) for tile in tiles if part < tile.shape[1]])
        for part in range(levels)
    ]


def _largest(batch: ConfigBatch, prefix: str) -> FloatArray | float:
    """``(n,)`` largest number among the decisions whose name starts so; NaN if there is none."""
    numbers = [values for values in batch.named(prefix) if values.ndim == 1 and values.dtype.kind in "iuf"]
    return np.maximum.reduce(numbers).astype(np.float64) if numbers else np.nan
