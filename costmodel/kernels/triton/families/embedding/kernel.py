"""Rows of a table, gathered by index."""

import triton
import triton.language as tl


@triton.jit
def embedding(
    table,
    indices,
    y,
    t,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        gather(table, indices, y, tl.program_id(0), t, D, ROWS, BLOCK_D)
    else:
        tiles = tl.cdiv(t, ROWS) * tl.cdiv(D, BLOCK_D)
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, num_stages=STAGES):
            gather(table, indices, y, tile, t, D, ROWS, BLOCK_D)


@triton.jit
def gather(table, indices, y, tile, t, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    BLOCKS: tl.constexpr = triton.cdiv(D, BLOCK_D)
    rows = tile // BLOCKS * ROWS + tl.arange(0, ROWS)
    columns = tile % BLOCKS * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    mask = (rows < t)[:, None] & (columns < D)
    found = tl.load(indices + rows, rows < t, other=0).to(tl.int64)
    values = tl.load(table + found[:, None] * D + columns, mask)
    tl.store(y + rows[:, None].to(tl.int64) * D + columns, values, mask)
