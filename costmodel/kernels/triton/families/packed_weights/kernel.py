"""y = x w with weights of 4 or 8 bits, unpacked in registers: few bytes for products of few rows.

A word of 32 bits has the weights of consecutive k of one column, the first in its lowest bits; what is
stored is the weight over its scale, plus half of the range. SCALED consecutive k of a column share a
scale, and a slab lies in one such group. With SPLIT_K > 1 that many programs share the sum of a tile:
each writes its part to ``partials``, and the last to arrive adds them up in their order.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def divided_up(size, block):
    """How many blocks cover a size."""
    return (size + block - 1) // block


@triton.jit
def packed_weights(
    x,
    words,
    scales,
    y,
    partials,
    arrivals,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BITS: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    """One program: a part of k of a tile, of which those of the same columns follow one another."""
    tiles_m: tl.constexpr = divided_up(M, BLOCK_M)
    tile, part = tl.program_id(0) // SPLIT_K, tl.program_id(0) % SPLIT_K
    rows = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = product(x, words, scales, rows, columns, part, M, N, K, BITS, SCALED, BLOCK_K, SPLIT_K)
    at = rows.to(tl.int64)[:, None] * N + columns[None, :]
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    if SPLIT_K == 1:
        tl.store(y + at, sums.to(y.dtype.element_ty), inside)
    else:
        tl.store(partials + part.to(tl.int64) * (M * N) + at, sums, inside)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrivals + tile, 1, sem="acq_rel") == SPLIT_K - 1:
            sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(SPLIT_K):
                sums += tl.load(partials + at, inside, other=0.0)
                partials += M * N
            tl.store(y + at, sums.to(y.dtype.element_ty), inside)
            tl.store(arrivals + tile, 0)  # as the next run expects it


@triton.jit
def product(
    x,
    words,
    scales,
    rows,
    columns,
    part,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BITS: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    """Sums of a tile over one of SPLIT_K parts of k."""
    IN_WORD: tl.constexpr = 32 // BITS
    BLOCK_N: tl.constexpr = columns.shape[0]
    slabs: tl.constexpr = divided_up(K, BLOCK_K * SPLIT_K)
    ks, places = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_K // IN_WORD)
    shifts = tl.arange(0, IN_WORD)[None, :, None] * BITS
    sums = tl.zeros((rows.shape[0], BLOCK_N), tl.float32)
    for slab in range(slabs):
        first = (part * slabs + slab) * BLOCK_K
        at_x = x + rows.to(tl.int64)[:, None] * K + (first + ks)[None, :]
        slab_x = tl.load(at_x, (rows < M)[:, None] & (first + ks < K)[None, :], other=0.0)
        at = first // IN_WORD + places
        inside = (at < K // IN_WORD)[:, None] & (columns < N)[None, :]
        packed = tl.load(words + at.to(tl.int64)[:, None] * N + columns[None, :], inside, other=0)
        unpacked = (packed[:, None, :] >> shifts) & ((1 << BITS) - 1)
        weights = tl.reshape(unpacked, (BLOCK_K, BLOCK_N)) - (1 << (BITS - 1))
        group = tl.minimum(first, K - 1) // SCALED
        scale = tl.load(scales + group * N + columns, columns < N, other=0.0)
        sums = tl.dot(slab_x, weights.to(x.dtype.element_ty) * scale[None, :], sums)
    return sums
