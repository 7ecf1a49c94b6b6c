"""Softmax over rows: a whole row in registers, or blocks of it with a running maximum and sum."""

import triton
import triton.language as tl


@triton.jit
def softmax(
    x,
    y,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        softmax_of_rows(x, y, tl.program_id(0), m, N, ROWS, BLOCK_N, STAGES)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS, num_stages=STAGES):
            softmax_of_rows(x, y, tile, m, N, ROWS, BLOCK_N, STAGES)


@triton.jit
def softmax_of_rows(
    x, y, tile, m, N: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr
):
    rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    starts = rows.to(tl.int64) * N
    if BLOCK_N >= N:
        mask = (rows < m) & (columns < N)
        values = tl.load(x + starts + columns, mask, other=-float("inf")).to(tl.float32)
        powers = tl.exp(values - tl.max(values, axis=1)[:, None])
        result = powers / tl.sum(powers, axis=1)[:, None]
        tl.store(y + starts + columns, result.to(y.dtype.element_ty), mask)
    else:
        largest = tl.full((ROWS,), -float("inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m) & (first + columns < N)
            values = tl.load(
                x + starts + first + columns, mask, other=-float("inf"), eviction_policy="evict_last"
            ).to(tl.float32)
            before = largest
            largest = tl.maximum(before, tl.max(values, axis=1))
            total = total * tl.exp(before - largest) + tl.sum(tl.exp(values - largest[:, None]), axis=1)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m) & (first + columns < N)
            values = tl.load(x + starts + first + columns, mask, eviction_policy="evict_first").to(tl.float32)
            result = tl.exp(values - largest[:, None]) / total[:, None]
            tl.store(y + starts + first + columns, result.to(y.dtype.element_ty), mask)
