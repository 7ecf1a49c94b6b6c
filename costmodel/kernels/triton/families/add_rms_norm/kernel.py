"""A residual added, and rows of the sum divided by their root mean square: both are written."""

import triton
import triton.language as tl


@triton.jit
def add_rms_norm(
    x,
    residual,
    gain,
    total,
    y,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        add_rms_norm_of_rows(x, residual, gain, total, y, tl.program_id(0), m, N, ROWS, BLOCK_N, STAGES)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS, num_stages=STAGES):
            add_rms_norm_of_rows(x, residual, gain, total, y, tile, m, N, ROWS, BLOCK_N, STAGES)


@triton.jit
def add_rms_norm_of_rows(
    x,
    residual,
    gain,
    total,
    y,
    tile,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    starts = rows.to(tl.int64) * N
    if BLOCK_N >= N:
        mask = (rows < m) & (columns < N)
        values = tl.load(x + starts + columns, mask, other=0.0).to(tl.float32)
        values += tl.load(residual + starts + columns, mask, other=0.0).to(tl.float32)
        tl.store(total + starts + columns, values.to(total.dtype.element_ty), mask)
        scale = tl.rsqrt(tl.sum(values * values, axis=1)[:, None] / N + 1e-5)
        factors = tl.load(gain + columns, columns < N, other=0.0).to(tl.float32)
        tl.store(y + starts + columns, (values * scale * factors).to(y.dtype.element_ty), mask)
    else:
        squares = tl.zeros((ROWS, BLOCK_N), tl.float32)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m) & (first + columns < N)
            values = tl.load(x + starts + first + columns, mask, other=0.0).to(tl.float32)
            values += tl.load(residual + starts + first + columns, mask, other=0.0).to(tl.float32)
            tl.store(total + starts + first + columns, values.to(total.dtype.element_ty), mask)
            squares += values * values
        scale = tl.rsqrt(tl.sum(squares, axis=1)[:, None] / N + 1e-5)
        tl.debug_barrier()  # a thread may read what another one of the program wrote
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            inside = first + columns < N
            mask = (rows < m) & inside
            values = tl.load(total + starts + first + columns, mask, other=0.0).to(tl.float32)
            factors = tl.load(gain + first + columns, inside, other=0.0).to(tl.float32)
            tl.store(y + starts + first + columns, (values * scale * factors).to(y.dtype.element_ty), mask)
