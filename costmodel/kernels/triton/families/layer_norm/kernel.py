"""Layer normalisation over rows: a whole row in registers, or blocks of it, each read twice."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(
    x,
    gain,
    bias,
    y,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        layer_norm_of_rows(x, gain, bias, y, tl.program_id(0), m, N, ROWS, BLOCK_N, STAGES)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS, num_stages=STAGES):
            layer_norm_of_rows(x, gain, bias, y, tile, m, N, ROWS, BLOCK_N, STAGES)


@triton.jit
def layer_norm_of_rows(
    x,
    gain,
    bias,
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
        mean = tl.sum(values, axis=1)[:, None] / N
        centred = tl.where(columns < N, values - mean, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=1)[:, None] / N + 1e-5)
        factors = tl.load(gain + columns, columns < N, other=0.0).to(tl.float32)
        shifts = tl.load(bias + columns, columns < N, other=0.0).to(tl.float32)
        tl.store(y + starts + columns, (centred * scale * factors + shifts).to(y.dtype.element_ty), mask)
    else:
        # Sums of squares lose digits where the mean is large: a row is shifted by its first element.
        pivot = tl.load(x + starts, rows < m, other=0.0).to(tl.float32)
        sums = tl.zeros((ROWS, BLOCK_N), tl.float32)
        squares = tl.zeros((ROWS, BLOCK_N), tl.float32)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m) & (first + columns < N)
            values = tl.load(x + starts + first + columns, mask, other=0.0, eviction_policy="evict_last").to(
                tl.float32
            )
            shifted = tl.where(mask, values - pivot, 0.0)
            sums += shifted
            squares += shifted * shifted
        mean = tl.sum(sums, axis=1)[:, None] / N
        scale = tl.rsqrt(tl.sum(squares, axis=1)[:, None] / N - mean * mean + 1e-5)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            inside = first + columns < N
            mask = (rows < m) & inside
            values = tl.load(x + starts + first + columns, mask, other=0.0, eviction_policy="evict_first").to(
                tl.float32
            )
            factors = tl.load(gain + first + columns, inside, other=0.0).to(tl.float32)
            shifts = tl.load(bias + first + columns, inside, other=0.0).to(tl.float32)
            result = (values - pivot - mean) * scale * factors + shifts
            tl.store(y + starts + first + columns, result.to(y.dtype.element_ty), mask)
