"""Division of rows by their root mean square: a whole row in registers, or blocks of it, each read twice."""

import triton
import triton.language as tl


@triton.jit
def rms_norm(
    x,
    gain,
    y,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        rms_norm_of_rows(x, gain, y, tl.program_id(0), m, N, ROWS, BLOCK_N, STAGES)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS, num_stages=STAGES):
            rms_norm_of_rows(x, gain, y, tile, m, N, ROWS, BLOCK_N, STAGES)


@triton.jit
def rms_norm_of_rows(
    x, gain, y, tile, m, N: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr
):
    rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    starts = rows.to(tl.int64) * N
    if BLOCK_N >= N:
        mask = (rows < m) & (columns < N)
        values = tl.load(x + starts + columns, mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(values * values, axis=1)[:, None] / N + 1e-5)
        factors = tl.load(gain + columns, columns < N, other=0.0).to(tl.float32)
        tl.store(y + starts + columns, (values * scale * factors).to(y.dtype.element_ty), mask)
    else:
        squares = tl.zeros((ROWS, BLOCK_N), tl.float32)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m) & (first + columns < N)
            values = tl.load(x + starts + first + columns, mask, other=0.0, eviction_policy="evict_last").to(
                tl.float32
            )
            squares += values * values
        scale = tl.rsqrt(tl.sum(squares, axis=1)[:, None] / N + 1e-5)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            inside = first + columns < N
            mask = (rows < m) & inside
            values = tl.load(x + starts + first + columns, mask, other=0.0, eviction_policy="evict_first").to(
                tl.float32
            )
            factors = tl.load(gain + first + columns, inside, other=0.0).to(tl.float32)
            tl.store(y + starts + first + columns, (values * scale * factors).to(y.dtype.element_ty), mask)
