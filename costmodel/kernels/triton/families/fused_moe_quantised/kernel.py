"""y[i] = x[token of i] w[expert of i]^T for each assignment i of a token to an expert; w is quantised.

Assignments are numbered token * TOP_K + choice. ``order`` has them sorted by expert, those of expert e
from ``first[e]`` to before ``first[e + 1]``, and each expert's are cut into tiles of BLOCK_M. There are
programs for the most tiles that there can be, and those that have none end at once.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def divided_up(size, block):
    """How many blocks cover a size."""
    return (size + block - 1) // block


@triton.constexpr_function
def power_of_two(size):
    """The smallest power of two that is not less."""
    return 1 << (size - 1).bit_length()


@triton.jit
def float8_moe(
    x,
    x_scales,
    w,
    w_scales,
    order,
    first,
    y,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    SCALED: tl.constexpr,
    TILES_M: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Float8 (e4m3) with a scale for each token and SCALED of d, and for SCALED x SCALED weights."""
    expert, assignments, inside, columns = place(
        order, first, EXPERTS, divided_up(N, BLOCK_N), TILES_M, BLOCK_M, BLOCK_N, GROUP_M
    )
    if expert < EXPERTS:
        groups: tl.constexpr = divided_up(D, SCALED)
        tokens, ks = (assignments // TOP_K).to(tl.int64), tl.arange(0, BLOCK_K)
        at_x = x + tokens[:, None] * D + ks[None, :]
        at_w = w + expert.to(tl.int64) * (N * D) + columns[None, :] * D + ks[:, None]
        at_w_scales = w_scales + (expert * divided_up(N, SCALED) + columns // SCALED) * groups
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for slab in range(divided_up(D, BLOCK_K)):
            left = D - slab * BLOCK_K
            slab_x = tl.load(at_x, inside[:, None] & (ks < left)[None, :], other=0)
            slab_w = tl.load(at_w, (columns < N)[None, :] & (ks < left)[:, None], other=0)
            group = slab * BLOCK_K // SCALED
            of_x = tl.load(x_scales + tokens * groups + group, inside, other=0.0)
            of_w = tl.load(at_w_scales + group, columns < N, other=0.0)
            numbers_x = slab_x.to(tl.float8e4nv, bitcast=True)
            numbers_w = slab_w.to(tl.float8e4nv, bitcast=True)
            sums += tl.dot(numbers_x, numbers_w) * of_x[:, None] * of_w[None, :]
            at_x += BLOCK_K
            at_w += BLOCK_K
        write(y, sums, assignments, inside, columns, N)


@triton.jit
def packed_moe(
    x,
    words,
    scales,
    order,
    first,
    y,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    BITS: tl.constexpr,
    SCALED: tl.constexpr,
    TILES_M: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Weights of BITS, packed along d into words, less half of their range, with a scale for SCALED of d."""
    expert, assignments, inside, columns = place(
        order, first, EXPERTS, divided_up(N, BLOCK_N), TILES_M, BLOCK_M, BLOCK_N, GROUP_M
    )
    if expert < EXPERTS:
        IN_WORD: tl.constexpr = 32 // BITS
        groups: tl.constexpr = divided_up(D, SCALED)
        tokens, ks = (assignments // TOP_K).to(tl.int64), tl.arange(0, BLOCK_K)
        shifts = tl.arange(0, IN_WORD)[None, :, None] * BITS
        places = tl.arange(0, BLOCK_K // IN_WORD)
        at_x = x + tokens[:, None] * D + ks[None, :]
        at_words = words + expert.to(tl.int64) * (D // IN_WORD * N) + places[:, None] * N + columns[None, :]
        at_scales = scales + expert.to(tl.int64) * (groups * N) + columns
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for slab in range(divided_up(D, BLOCK_K)):
            left = D - slab * BLOCK_K
            slab_x = tl.load(at_x, inside[:, None] & (ks < left)[None, :], other=0.0)
            is_word = (places < left // IN_WORD)[:, None] & (columns < N)[None, :]
            unpacked = (tl.load(at_words, is_word, other=0)[:, None, :] >> shifts) & ((1 << BITS) - 1)
            weights = tl.reshape(unpacked, (BLOCK_K, BLOCK_N)) - (1 << (BITS - 1))
            scale = tl.load(at_scales + slab * BLOCK_K // SCALED * N, columns < N, other=0.0)
            sums = tl.dot(slab_x, weights.to(x.dtype.element_ty) * scale[None, :], sums)
            at_x += BLOCK_K
            at_words += BLOCK_K // IN_WORD * N
        write(y, sums, assignments, inside, columns, N)


@triton.jit
def place(
    order,
    first,
    EXPERTS: tl.constexpr,
    TILES_N: tl.constexpr,
    TILES_M: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Expert, assignments and columns of a program; the expert is EXPERTS where it has no tile."""
    program = tl.program_id(0)
    group = program // (GROUP_M * TILES_N) * GROUP_M
    height = min(TILES_M - group, GROUP_M)
    program = program % (GROUP_M * TILES_N)
    tile, column = group + program % height, program // height * BLOCK_N

    experts = tl.arange(0, power_of_two(EXPERTS))
    starts = tl.load(first + experts, mask=experts < EXPERTS, other=0)
    ends = tl.load(first + experts + 1, mask=experts < EXPERTS, other=0)
    tiles = (ends - starts + BLOCK_M - 1) // BLOCK_M
    tiles_until = tl.cumsum(tiles)
    expert = tl.minimum(tl.sum((tiles_until <= tile).to(tl.int32)), EXPERTS)
    is_it = experts == expert
    within = tile - tl.sum(tl.where(is_it, tiles_until - tiles, 0))
    places = tl.sum(tl.where(is_it, starts, 0)) + within * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = places < tl.sum(tl.where(is_it, ends, 0))
    assignments = tl.load(order + places, mask=inside, other=0)
    return expert, assignments, inside, column + tl.arange(0, BLOCK_N)


@triton.jit
def write(y, sums, assignments, inside, columns, N: tl.constexpr):
    """Write the results of a tile."""
    at_y = y + assignments.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(at_y, sums.to(y.dtype.element_ty), mask=inside[:, None] & (columns < N)[None, :])
