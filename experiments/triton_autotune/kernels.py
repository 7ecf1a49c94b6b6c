"""Six kernels as the field's tutorials write them, with the list of configs that comes with such a kernel."""

import triton
import triton.language as tl


@triton.jit
def matmul(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = program // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    m = (group * GROUP_M + program % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (program % (GROUP_M * columns)) // height * BLOCK_N + tl.arange(0, BLOCK_N)
    total = dot_tiles(a, b, m, n, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def batched_matmul(  # noqa: PLR0913, PLR0917
    a, b, c, B, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    batch = tl.program_id(1).to(tl.int64)
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    total = dot_tiles(a + batch * M * K, b + batch * K * N, m, n, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    at = c + batch * M * N + m[:, None] * N + n[None, :]
    tl.store(at, total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def dot_tiles(  # noqa: PLR0913, PLR0917
    a, b, m, n, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    k = tl.arange(0, BLOCK_K)
    a_tile = a + (m[:, None] % M) * K + k[None, :]
    b_tile = b + k[:, None] * N + n[None, :] % N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a_values = tl.load(a_tile, mask=k[None, :] < left, other=0.0)
        b_values = tl.load(b_tile, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a_values, b_values, total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * N
    return total


@triton.jit
def attention(  # noqa: PLR0913, PLR0917
    q, k, v, o, H, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64) * S * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    at = head + m[:, None] * D + d[None, :]
    query = tl.load(q + at, mask=m[:, None] < S, other=0.0)
    most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weights = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    for first in range(0, S, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        keys = tl.load(k + head + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.where(n[None, :] < S, tl.dot(query, keys) * scale, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        probabilities = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(most - higher)
        values = tl.load(v + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        total = tl.dot(probabilities.to(tl.float16), values, total * shrink[:, None])
        weights = weights * shrink + tl.sum(probabilities, 1)
        most = higher
    tl.store(o + at, (total / weights[:, None]).to(tl.float16), mask=m[:, None] < S)


@triton.jit
def softmax(x, y, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    weights = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = tl.load(x + row + n, mask=n < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(tl.maximum(most, values), -1e30)
        weights = weights * tl.exp(most - higher) + tl.exp(values - higher)
        most = higher
    highest = tl.max(most, 0)
    total = tl.sum(weights * tl.exp(most - highest), 0)
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
        tl.store(y + row + n, (tl.exp(values - highest) / total).to(tl.float16), mask=n < N)


@triton.jit
def layer_norm(x, gain, bias, y, M, N, BLOCK: tl.constexpr):  # noqa: PLR0913, PLR0917
    row = tl.program_id(0).to(tl.int64) * N
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        sums += tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0) / N
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
        centred = tl.where(n < N, values - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, 0) / N + 1e-5)
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = (tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32) - mean) * scale
        values = values * tl.load(gain + n, mask=n < N) + tl.load(bias + n, mask=n < N)
        tl.store(y + row + n, values.to(tl.float16), mask=n < N)


@triton.jit
def bias_gelu(  # noqa: PLR0913, PLR0917
    x, bias, y, M, N, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    m = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    at, mask = m.to(tl.int64) * N + n, (m < M) & (n < N)
    values = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    values += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)
    values = 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476))
    tl.store(y + at, values.to(tl.float16), mask=mask)
