"""y[m, n] = silu(x[m, k] w1[k, n]) * (x[m, k] w3[k, n]): row-major, both products in one pass over x.

A program computes one tile of BLOCK_M x BLOCK_N results, or, with PROGRAMS > 0, every PROGRAMS-th of them.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def divided_up(size, block):
    """How many blocks cover a size."""
    return (size + block - 1) // block


@triton.jit
def gated_mlp(
    x,
    w1,
    w3,
    y,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """One program."""
    if PROGRAMS > 0:
        tiles: tl.constexpr = divided_up(M, BLOCK_M) * divided_up(N, BLOCK_N)
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
            gated_tile(x, w1, w3, y, tile, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M)
    else:
        gated_tile(x, w1, w3, y, tl.program_id(0), M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M)


@triton.jit
def gated_tile(
    x,
    w1,
    w3,
    y,
    tile,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One tile, of which neighbours in time share rows of x and columns of the weights in L2."""
    tiles_m: tl.constexpr = divided_up(M, BLOCK_M)
    tiles_n: tl.constexpr = divided_up(N, BLOCK_N)
    EVEN_K: tl.constexpr = K % BLOCK_K == 0
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    tile = tile % (GROUP_M * tiles_n)
    row, column = (first + tile % height) * BLOCK_M, tile // height * BLOCK_N

    rows, columns, ks = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :], tl.arange(0, BLOCK_K)
    x += row.to(tl.int64) * K + (rows * K + ks[None, :])  # where it begins in 64 bits, what is in it in 32
    w1 += column + (ks[:, None] * N + columns)
    w3 += column + (ks[:, None] * N + columns)
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for slab in range(divided_up(K, BLOCK_K)):
        left = K - slab * BLOCK_K
        slab_x = load(x, rows < M - row, ks[None, :] < left, M % BLOCK_M == 0, EVEN_K)
        slab_1 = load(w1, columns < N - column, ks[:, None] < left, N % BLOCK_N == 0, EVEN_K)
        slab_3 = load(w3, columns < N - column, ks[:, None] < left, N % BLOCK_N == 0, EVEN_K)
        gate = tl.dot(slab_x, slab_1, gate)
        up = tl.dot(slab_x, slab_3, up)
        x += BLOCK_K
        w1 += BLOCK_K * N
        w3 += BLOCK_K * N
    results = gate * tl.sigmoid(gate) * up
    offsets = row.to(tl.int64) * N + column + (rows * N + columns)
    tl.store(y + offsets, results.to(y.dtype.element_ty), mask=(rows < M - row) & (columns < N - column))


@triton.jit
def load(pointers, inside, inside_k, EVEN: tl.constexpr, EVEN_K: tl.constexpr):
    """Elements, or zeros outside of the matrix."""
    if EVEN and EVEN_K:
        return tl.load(pointers)
    elif EVEN_K:
        return tl.load(pointers, mask=inside, other=0.0)
    else:
        return tl.load(pointers, mask=inside & inside_k, other=0.0)
