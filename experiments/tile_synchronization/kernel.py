"""Tiles of several matrix products in one launch, which wait for tiles that they read.

With synchronised tiles (cuSync, Jangda et al., CGO 2024) each block takes the next tile from a counter, so
that tiles start in order: those of the first product, then those of the second. A block that waits, waits for
blocks that have started, so that nothing deadlocks, whatever else the GPU does. The last block to end clears
counter and flags.
"""

import triton
import triton.language as tl


@triton.jit
def _wait(flag, expected):
    while tl.atomic_add(flag, 0, sem="acquire") < expected:
        pass


@triton.jit(do_not_specialize=["n_flags"])
def products(
    data,
    table,
    flags,
    n_products,
    n_flags,
    POLICY: tl.constexpr,
    FIELDS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CLEARED: tl.constexpr,
):
    """A tile of one of several products; ``flags[0]`` counts tiles begun, ``flags[1]`` tiles done."""
    ticket = tl.program_id(0) if POLICY == "stream" else tl.atomic_add(flags, 1, sem="relaxed")
    product = 0
    for i in range(1, n_products):
        if ticket >= tl.load(table + i * FIELDS):
            product = i
    of = table + product * FIELDS
    tile = ticket - tl.load(of).to(tl.int32)
    a = data + tl.multiple_of(tl.load(of + 1), 64)
    b = data + tl.multiple_of(tl.load(of + 2), 64)
    c = data + tl.multiple_of(tl.load(of + 3), 64)
    reduced = tl.multiple_of(tl.load(of + 4).to(tl.int32), 64)
    columns = tl.multiple_of(tl.load(of + 5).to(tl.int32), 64)
    own = flags + tl.load(of + 6).to(tl.int32)
    before = flags + tl.load(of + 7).to(tl.int32)
    tiles = columns // BN
    row, column = tile // tiles, tile % tiles

    rows = row * BM + tl.arange(0, BM)
    at = column * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_at = a + rows[:, None] * reduced + depth[None, :]
    b_at = b + depth[:, None] * columns + at[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    read = reduced // BN  # tiles of a row of the product before, which has as many columns
    if POLICY == "stream" or POLICY == "row":
        if POLICY == "row":  # noqa: SIM102 (compiled only for rows)
            if product > 0:
                _wait(before + row, read)
        for k in range(0, reduced, BK):
            total = tl.dot(tl.load(a_at + k), tl.load(b_at + k * columns), total)
    else:
        TOGETHER: tl.constexpr = 2 if POLICY == "strided" else 1
        groups = read // TOGETHER
        for group in range(groups):
            if product > 0:
                _wait(before + row * groups + group, TOGETHER)
            for i in range(TOGETHER * (BN // BK)):
                k = (group + i // (BN // BK) * groups) * BN + i % (BN // BK) * BK
                total = tl.dot(tl.load(a_at + k), tl.load(b_at + k * columns), total)
    tl.store(c + rows[:, None] * columns + at[None, :], total.to(tl.float16))

    if POLICY != "stream":
        tl.debug_barrier()  # all of the tile is written before it is told
        if POLICY == "row":
            tl.atomic_add(own + row, 1, sem="release")
        elif POLICY == "tile":
            tl.atomic_add(own + tile, 1, sem="release")
        else:
            tl.atomic_add(own + row * (tiles // 2) + column % (tiles // 2), 1, sem="release")
        if tl.atomic_add(flags + 1, 1, sem="acq_rel") == tl.num_programs(0) - 1:
            for start in range(0, n_flags, CLEARED):
                place = start + tl.arange(0, CLEARED)
                tl.store(flags + place, tl.zeros((CLEARED,), tl.int32), mask=place < n_flags)
