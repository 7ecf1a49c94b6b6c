"""y = (a * scales of a) (b * scales of b)^T in float8 (e4m3), whose operands are bytes.

A scale of a is for a row and 128 of k, one of b for 128 rows and 128 of k. A slab of k lies in one group
of 128, so that its sums are scaled once.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def divided_up(size, block):
    """How many blocks cover a size."""
    return (size + block - 1) // block


@triton.jit
def block_scaled(
    a,
    b,
    a_scales,
    b_scales,
    y,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One program: a tile; groups of rows share columns of B in L2."""
    tiles_m: tl.constexpr = divided_up(M, BLOCK_M)
    tiles_n: tl.constexpr = divided_up(N, BLOCK_N)
    groups: tl.constexpr = divided_up(K, SCALED)
    tile = tl.program_id(0)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    tile = tile % (GROUP_M * tiles_n)
    rows = (first + tile % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile // height * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    at_a = a + rows.to(tl.int64)[:, None] * K + ks[None, :]
    at_b = b + columns.to(tl.int64)[None, :] * K + ks[:, None]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for slab in range(divided_up(K, BLOCK_K)):
        left = K - slab * BLOCK_K
        slab_a = tl.load(at_a, (rows < M)[:, None] & (ks < left)[None, :], other=0)
        slab_b = tl.load(at_b, (columns < N)[None, :] & (ks < left)[:, None], other=0)
        group = slab * BLOCK_K // SCALED
        of_a = tl.load(a_scales + rows * groups + group, rows < M, other=0.0)
        of_b = tl.load(b_scales + columns // SCALED * groups + group, columns < N, other=0.0)
        numbers_a = slab_a.to(tl.float8e4nv, bitcast=True)
        numbers_b = slab_b.to(tl.float8e4nv, bitcast=True)
        sums += tl.dot(numbers_a, numbers_b) * of_a[:, None] * of_b[None, :]
        at_a += BLOCK_K
        at_b += BLOCK_K
    at = y + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(at, sums.to(y.dtype.element_ty), (rows < M)[:, None] & (columns < N)[None, :])
