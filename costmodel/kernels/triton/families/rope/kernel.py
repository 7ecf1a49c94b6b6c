"""Rotary position embedding: the halves of each head turn by the angles of its token."""

import triton
import triton.language as tl


@triton.jit
def rope(
    x,
    cosines,
    sines,
    y,
    t,
    H: tl.constexpr,
    HALF: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        turn(x, cosines, sines, y, tl.program_id(0), t, H, HALF, TOKENS, BLOCK_H)
    else:
        tiles = tl.cdiv(t, TOKENS) * tl.cdiv(H, BLOCK_H)
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, num_stages=STAGES):
            turn(x, cosines, sines, y, tile, t, H, HALF, TOKENS, BLOCK_H)


@triton.jit
def turn(
    x,
    cosines,
    sines,
    y,
    tile,
    t,
    H: tl.constexpr,
    HALF: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    BLOCKS: tl.constexpr = triton.cdiv(H, BLOCK_H)
    WIDTH: tl.constexpr = triton.next_power_of_2(HALF)
    tokens = tile // BLOCKS * TOKENS + tl.arange(0, TOKENS)[:, None, None]
    heads = tile % BLOCKS * BLOCK_H + tl.arange(0, BLOCK_H)[None, :, None]
    columns = tl.arange(0, WIDTH)[None, None, :]
    angles = tokens * HALF + columns
    cosine = tl.load(cosines + angles, (tokens < t) & (columns < HALF), other=0.0)
    sine = tl.load(sines + angles, (tokens < t) & (columns < HALF), other=0.0)
    places = (tokens.to(tl.int64) * H + heads) * (2 * HALF) + columns
    mask = (tokens < t) & (heads < H) & (columns < HALF)
    left = tl.load(x + places, mask, other=0.0).to(tl.float32)
    right = tl.load(x + places + HALF, mask, other=0.0).to(tl.float32)
    tl.store(y + places, (left * cosine - right * sine).to(y.dtype.element_ty), mask)
    tl.store(y + places + HALF, (right * cosine + left * sine).to(y.dtype.element_ty), mask)
