"""y[i] = x[token of i] w[expert of i]^T for each assignment i of a token to an expert: a mixture of experts.

Assignments are numbered token * TOP_K + choice. ``order`` has them sorted by expert, those of expert e from
``first[e]`` to before ``first[e + 1]``. Each expert's are cut into tiles of BLOCK_M, so that a tile has one
expert. How many tiles that makes depends on the routing: there are programs for the most that there can be,
and those that have no tile end at once.
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
def fused_moe(
    x,
    w,
    order,
    first,
    weights,
    y,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    TILES_M: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One program: BLOCK_M assignments of an expert by BLOCK_N results."""
    tiles_n: tl.constexpr = divided_up(N, BLOCK_N)
    program = tl.program_id(0)
    group = program // (GROUP_M * tiles_n) * GROUP_M
    height = min(TILES_M - group, GROUP_M)
    program = program % (GROUP_M * tiles_n)
    tile, column = group + program % height, program // height * BLOCK_N

    experts = tl.arange(0, power_of_two(EXPERTS))
    starts = tl.load(first + experts, mask=experts < EXPERTS, other=0)
    ends = tl.load(first + experts + 1, mask=experts < EXPERTS, other=0)
    tiles = (ends - starts + BLOCK_M - 1) // BLOCK_M
    tiles_until = tl.cumsum(tiles)
    expert = tl.sum((tiles_until <= tile).to(tl.int32))
    if expert < EXPERTS:
        is_it = experts == expert
        within = tile - tl.sum(tl.where(is_it, tiles_until - tiles, 0))
        places = tl.sum(tl.where(is_it, starts, 0)) + within * BLOCK_M + tl.arange(0, BLOCK_M)
        inside = places < tl.sum(tl.where(is_it, ends, 0))
        assignments = tl.load(order + places, mask=inside, other=0)

        columns, ks = column + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
        at_x = x + (assignments // TOP_K).to(tl.int64)[:, None] * D + ks[None, :]
        at_w = w + expert.to(tl.int64) * (N * D) + columns[None, :] * D + ks[:, None]
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for slab in range(divided_up(D, BLOCK_K)):
            left = D - slab * BLOCK_K
            slab_x = load(at_x, inside[:, None], ks[None, :] < left, False, D % BLOCK_K == 0)
            slab_w = load(at_w, columns[None, :] < N, ks[:, None] < left, N % BLOCK_N == 0, D % BLOCK_K == 0)
            sums = tl.dot(slab_x, slab_w, sums)
            at_x += BLOCK_K
            at_w += BLOCK_K
        if WEIGHTED:
            sums *= tl.load(weights + assignments, mask=inside, other=0.0)[:, None]
        at_y = y + assignments.to(tl.int64)[:, None] * N + columns[None, :]
        tl.store(at_y, sums.to(y.dtype.element_ty), mask=inside[:, None] & (columns < N)[None, :])


@triton.jit
def load(pointers, inside, inside_k, EVEN: tl.constexpr, EVEN_K: tl.constexpr):
    """Elements, or zeros outside of the matrix."""
    if EVEN and EVEN_K:
        return tl.load(pointers)
    elif EVEN_K:
        return tl.load(pointers, mask=inside, other=0.0)
    else:
        return tl.load(pointers, mask=inside & inside_k, other=0.0)
