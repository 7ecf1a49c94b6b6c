"""A bias and GELU by the error function, elementwise in tiles."""

import triton
import triton.language as tl


@triton.jit
def bias_gelu(
    x,
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
        bias_gelu_of_tile(x, bias, y, tl.program_id(0), m, N, ROWS, BLOCK_N)
    else:
        tiles = tl.cdiv(m, ROWS) * tl.cdiv(N, BLOCK_N)
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, num_stages=STAGES):
            bias_gelu_of_tile(x, bias, y, tile, m, N, ROWS, BLOCK_N)


@triton.jit
def bias_gelu_of_tile(x, bias, y, tile, m, N: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    BLOCKS: tl.constexpr = triton.cdiv(N, BLOCK_N)
    rows = tile // BLOCKS * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tile % BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < m) & (columns < N)
    places = rows.to(tl.int64) * N + columns
    values = tl.load(x + places, mask, other=0.0).to(tl.float32)
    values += tl.load(bias + columns, columns < N, other=0.0).to(tl.float32)
    result = 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476))
    tl.store(y + places, result.to(y.dtype.element_ty), mask)
