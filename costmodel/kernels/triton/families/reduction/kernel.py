"""Sums of rows; ``SPLITS`` programs can share a row, and the last to arrive adds up what they left."""

import triton
import triton.language as tl


@triton.jit
def reduction(
    x,
    sums,
    partial,
    arrivals,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
):
    tile = tl.program_id(0)
    part = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_N)[None, :]
    places = x + rows[:, None].to(tl.int64) * N + columns
    total = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for first in tl.range(part * BLOCK_N, N, SPLITS * BLOCK_N, num_stages=STAGES):
        mask = (rows < m)[:, None] & (first + columns < N)
        total += tl.load(places + first, mask, other=0.0).to(tl.float32)
    result = tl.sum(total, axis=1)
    if SPLITS == 1:
        tl.store(sums + rows, result, rows < m)
    else:
        tl.store(partial + rows * SPLITS + part, result, rows < m)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrivals + tile, 1) == SPLITS - 1:
            tl.store(arrivals + tile, 0)
            shares = partial + rows[:, None] * SPLITS + tl.arange(0, SPLITS)[None, :]
            # Past the first-level cache, which may hold older numbers.
            left = tl.load(shares, (rows < m)[:, None], other=0.0, cache_modifier=".cg")
            tl.store(sums + rows, tl.sum(left, axis=1), rows < m)
