"""Kernels of which something is open."""

import triton
import triton.language as tl


@triton.jit
def add_up(x, at, mask, WIDTH: tl.constexpr):
    return tl.load(x + at[:, None] + tl.arange(0, WIDTH)[None, :], mask=mask[:, None], other=0.0)


@triton.jit
def tiled(  # noqa: PLR0917
    x,
    y,
    M,
    BM: tl.constexpr,
    BN: tl.constexpr,
    HALF: tl.constexpr,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,
    FAST: tl.constexpr,
    MODE: tl.constexpr,
):
    rows = (tl.program_id(0) // GROUP) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    WIDTH: tl.constexpr = HALF * 2
    for _ in tl.range(0, M, BM, num_stages=STAGES):
        part = add_up(x, rows, rows < M, WIDTH)
        total += tl.dot(part, tl.trans(part))
    if FAST == 2:
        total *= 2.0
    if MODE == "relu":
        total = tl.maximum(total, 0.0)
    tl.store(y + rows[:, None] * M + tl.arange(0, BN)[None, :], total)


@triton.jit
def rows(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    tl.store(y + row + at, tl.load(x + row + at, mask=at < n), mask=at < n)


@triton.jit
def rows_of_two_axes(x, y, n, BLOCK: tl.constexpr):
    """A tile of one column is a constant; the bound comes first."""
    row, col = tl.program_id(0) + tl.arange(0, 1), tl.arange(0, BLOCK)
    inside = (row < 4)[:, None] & (n > col)[None, :]
    at = row[:, None] * n + col[None, :]
    tl.store(y + at, tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def looped(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + row + at, tl.load(x + row + at, mask=at < n), mask=at < n)


@triton.jit
def unrolled(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    for part in tl.static_range(4):
        at = part * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + row + at, tl.load(x + row + at, mask=at < n), mask=at < n)


@triton.jit
def unmasked(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))
