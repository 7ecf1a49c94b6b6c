"""Features of a config from its decisions alone, before anything is lowered.

Decisions follow MetaSchedule's multi-level tiling (Shao et al., "Tensor Program Optimization with
Probabilistic Programs", arXiv:2205.13603). ``tile.<buffer>.<loop>`` holds the factors of a loop, outermost
first. On a GPU a spatial loop has five, [grid, vthread, thread, inner, innermost], and a reduction three; on
a CPU four and two. The columns aggregate over loops, so that they mean the same in every space. Other
decisions are ignored.
"""

import math

from costmodel.features._table import Column
from costmodel.records import Config

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
    Column("log2_unroll", "log2(1)", "config"),
    Column("max_vector_width", "1", "config"),
)


def config_values(config: Config) -> list[float]:
    """One value for each of ``CONFIG_COLUMNS``; NaN where no decision tells.

    ``spatial_i`` and ``reduction_i`` multiply the factors at level i over all loops. ``thread_tile`` is what
    one thread computes and ``block_tile`` what one block computes. ``last_*`` look at the last spatial loop
    alone: its threads touch neighbouring addresses. ``unroll`` counts from 1, so that no unrolling is 0.
    """
    tiles = [
        value
        for name, value in config.decisions.items()
        if name.startswith("tile.") and isinstance(value, tuple)
    ]
    spatial = [tile for tile in tiles if len(tile) in _SPATIAL_PARTS]
    reductions = [tile for tile in tiles if len(tile) in _REDUCTION_PARTS]
    levels = _level_products(spatial, 5)
    inner = [level for level in levels[3:] if not math.isnan(level)]
    thread_tile = levels[1] + sum(inner)
    last = spatial[-1] if spatial else ()
    return [
        *levels,
        *_level_products(reductions, 3),
        thread_tile,
        thread_tile + levels[2],
        math.log2(math.prod(last[1:])) if last else math.nan,
        math.log2(last[2]) if last else math.nan,
        math.log2(last[-1]) if last else math.nan,
        math.log2(1.0 + _largest(config, "unroll")),
        _largest(config, "cooperative_fetch"),
    ]


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
