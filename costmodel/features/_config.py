"""Features of a config from its decisions alone, before anything is lowered.

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

import math

from costmodel.features._table import Column
from costmodel.features._tiles import contiguous, operand_loads, thread_part, unfolded
from costmodel.records import Candidate, Config

_SPATIAL_PARTS = (5, 4)
_REDUCTION_PARTS = (3, 2)

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


def config_values(candidate: Candidate) -> list[float]:
    """One value for each of ``CONFIG_COLUMNS``; NaN where no decision tells, as in a foreign kernel.

    ``spatial_i`` and ``reduction_i`` multiply the factors at level i over all loops. ``thread_tile`` is what
    one thread computes and ``block_tile`` what one block computes. ``last_*`` look at the last spatial loop
    alone: its threads touch neighbouring addresses. ``reduction_run`` and ``loads_per_fma`` are described in
    ``_tiles``. ``body`` counts the multiply-adds of a thread between two stagings of its operands. ``unroll``
    counts from 1, so that no unrolling is 0; over the body it tells whether accumulators can stay in
    registers, which cannot be indexed by a loop that is left.
    """
    if candidate.workload.is_foreign:
        return [math.nan] * len(CONFIG_COLUMNS)
    tiles = _tiles(candidate.config, "tile.")
    tensor_tiles = [unfolded(tile) for tile in _tiles(candidate.config, "tensor_tile.")]
    anchor = "matmul" if tensor_tiles else candidate.workload.operator.anchor
    tiles += tensor_tiles
    spatial = [tile for tile in tiles if len(tile) in _SPATIAL_PARTS]
    reductions = [tile for tile in tiles if len(tile) in _REDUCTION_PARTS]
    thread_tile = _log2_product([thread_part(tile) for tile in spatial])
    body = thread_tile + _log2_product([math.prod(tile[1:]) for tile in reductions])
    last = spatial[-1] if spatial else ()
    unroll = math.log2(1.0 + _largest(candidate.config, "unroll"))
    return [
        *_level_products(spatial, 5),
        *_level_products(reductions, 3),
        thread_tile,
        _log2_product([math.prod(tile[1:]) for tile in spatial]),
        math.log2(math.prod(last[1:])) if last else math.nan,
        math.log2(last[2]) if last else math.nan,
        math.log2(last[-1]) if last else math.nan,
        math.log2(contiguous(reductions)) if reductions else math.nan,
        math.log2(operand_loads(anchor, spatial)),
        body,
        unroll - body,
        unroll,
        _largest(candidate.config, "cooperative_fetch"),
    ]


def _tiles(config: Config, prefix: str) -> list[tuple[int, ...]]:
    """Factors of each loop whose decision's name starts so."""
    return [
        value
        for name, value in config.decisions.items()
        if name.startswith(prefix) and isinstance(value, tuple)
    ]


def _log2_product(factors: list[int]) -> float:
    """log2 of the product; NaN of none."""
    return math.log2(math.prod(factors)) if factors else math.nan


def _level_products(tiles: list[tuple[int, ...]], levels: int) -> list[float]:
    """log2 of the product over tiles of the factors at each level; NaN for a level that no tile has."""
    return [
        sum(math.log2(tile[level]) for tile in tiles if level < len(tile))
        if any(level < len(tile) for tile in tiles)
        else math.nan
        for level in range(levels)
    ]


def _largest(config: Config, prefix: str) -> float:
    """Largest number among the decisions whose name starts so; NaN if there is none."""
    return max(
        (
            float(value)
            for name, value in config.decisions.items()
            if name.startswith(prefix) and isinstance(value, int | float)
        ),
        default=math.nan,
    )
