"""Convolutions, pooling, resampling and stencils."""

import triton
import triton.language as tl


@triton.jit
def conv1d(
    x,
    w,
    y,
    L,
    C_IN: tl.constexpr,
    C_OUT: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_I: tl.constexpr,
):
    """Channels last, padded to the same length; each tap is a product."""
    l = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)  # noqa: E741
    o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    batch = tl.program_id(2)
    acc = tl.zeros((BLOCK_L, BLOCK_O), tl.float32)
    for tap in range(TAPS):
        at = l + tap - TAPS // 2
        inside = ((at >= 0) & (at < L))[:, None]
        for first in range(0, C_IN, BLOCK_I):
            i = first + tl.arange(0, BLOCK_I)
            pixels = tl.load(
                x + (batch * L + at[:, None]) * C_IN + i[None, :], inside & (i < C_IN)[None, :], other=0.0
            )
            weights = tl.load(
                w + (tap * C_IN + i[:, None]) * C_OUT + o[None, :],
                (i < C_IN)[:, None] & (o < C_OUT)[None, :],
                other=0.0,
            )
            acc = tl.dot(pixels, weights, acc)
    mask = (l < L)[:, None] & (o < C_OUT)[None, :]
    tl.store(y + (batch * L + l[:, None]) * C_OUT + o[None, :], acc.to(tl.float16), mask)


@triton.jit
def causal_depthwise_conv1d(
    x, weight, bias, out, T, D, TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr
):
    """A few taps into the past for each channel, then SiLU."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    sequence = x + tl.program_id(2) * T * D
    acc = tl.zeros((BLOCK_T, BLOCK_D), tl.float32) + tl.load(bias + d, d < D, other=0.0)[None, :]
    for tap in tl.static_range(TAPS):
        past = t - (TAPS - 1 - tap)
        mask = ((past >= 0) & (past < T))[:, None] & (d < D)[None, :]
        value = tl.load(sequence + past[:, None] * D + d[None, :], mask, other=0.0).to(tl.float32)
        acc += value * tl.load(weight + tap * D + d, d < D, other=0.0)[None, :]
    place = out + (tl.program_id(2) * T + t[:, None]) * D + d[None, :]
    tl.store(place, (acc * tl.sigmoid(acc)).to(tl.float16), (t < T)[:, None] & (d < D)[None, :])


@triton.jit
def conv2d_direct(
    image,
    kernels,
    out,
    H,
    W,
    C: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    """Few channels in planes, without Tensor Cores; a program makes a tile of one plane, without a border."""
    plane = tl.program_id(1)
    tiles_w = tl.cdiv(W - TAPS + 1, BLOCK_W)
    y = tl.program_id(0) // tiles_w * BLOCK_H + tl.arange(0, BLOCK_H)
    x = tl.program_id(0) % tiles_w * BLOCK_W + tl.arange(0, BLOCK_W)
    acc = tl.zeros((BLOCK_H, BLOCK_W), tl.float32)
    for c in range(C):
        for dy in tl.static_range(TAPS):
            for dx in tl.static_range(TAPS):
                mask = (y + dy < H)[:, None] & (x + dx < W)[None, :]
                value = tl.load(image + (c * H + y[:, None] + dy) * W + x[None, :] + dx, mask, other=0.0)
                acc += value * tl.load(kernels + ((plane * C + c) * TAPS + dy) * TAPS + dx)
    mask = (y < H - TAPS + 1)[:, None] & (x < W - TAPS + 1)[None, :]
    place = (plane * (H - TAPS + 1) + y[:, None]) * (W - TAPS + 1) + x[None, :]
    tl.store(out + place, acc, mask)


@triton.jit
def depthwise_conv2d_planes(
    x, w, y, C, H, W, TAPS: tl.constexpr, STRIDE: tl.constexpr, OH, OW, BLOCK: tl.constexpr
):
    """One plane a program row, its pixels in one dimension."""
    plane = tl.program_id(1)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = pixel // OW * STRIDE - TAPS // 2
    column = pixel % OW * STRIDE - TAPS // 2
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(TAPS):
        for j in tl.static_range(TAPS):
            inside = (row + i >= 0) & (row + i < H) & (column + j >= 0) & (column + j < W) & (pixel < OH * OW)
            value = tl.load(x + plane * H * W + (row + i) * W + column + j, inside, other=0.0).to(tl.float32)
            acc += value * tl.load(w + (plane % C * TAPS + i) * TAPS + j).to(tl.float32)
    tl.store(y + plane * OH * OW + pixel, acc.to(tl.float16), pixel < OH * OW)


@triton.jit
def conv2d_implicit(
    x,
    w,
    y,
    batch,
    H,
    W,
    C,
    O,  # noqa: E741
    OH,
    OW,
    TAPS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Channels last, as the product of pixels and filters: K runs over taps and channels together."""
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    o = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = pixel // (OH * OW)
    row = pixel // OW % OH * STRIDE - TAPS // 2
    column = pixel % OW * STRIDE - TAPS // 2
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, TAPS * TAPS * C, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        c = k % C
        r = row[:, None] + (k // C // TAPS)[None, :]
        s = column[:, None] + (k // C % TAPS)[None, :]
        inside = (
            (image < batch)[:, None]
            & (r >= 0)
            & (r < H)
            & (s >= 0)
            & (s < W)
            & (k < TAPS * TAPS * C)[None, :]
        )
        left = tl.load(x + ((image[:, None] * H + r) * W + s) * C + c[None, :], inside, other=0.0)
        mask = (k < TAPS * TAPS * C)[:, None] & (o < O)[None, :]
        acc = tl.dot(left, tl.load(w + k[:, None] * O + o[None, :], mask, other=0.0), acc)
    mask = (image < batch)[:, None] & (o < O)[None, :]
    tl.store(y + pixel[:, None] * O + o[None, :], acc.to(tl.float16), mask)


@triton.jit
def grouped_conv2d(
    x, w, y, H, W, GROUPS, CG: tl.constexpr, TAPS: tl.constexpr, BLOCK_P: tl.constexpr, ROWS: tl.constexpr
):
    """CG channels in and out of each group, channels last; a program takes a few rows of an image."""
    group = tl.program_id(1)
    image = tl.program_id(2)
    blocks = tl.cdiv(W, BLOCK_P)
    p = tl.program_id(0) % blocks * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.arange(0, CG)
    channels = GROUPS * CG
    for turn in range(ROWS):
        row = tl.program_id(0) // blocks * ROWS + turn
        acc = tl.zeros((BLOCK_P, CG), tl.float32)
        for i in range(TAPS):
            for j in range(TAPS):
                r = row + i - TAPS // 2
                s = p + j - TAPS // 2
                s = tl.where((r >= 0) & (r < H), s, -1)
                inside = ((s >= 0) & (s < W))[:, None]
                places = ((image * H + r) * W + s[:, None]) * channels + group * CG + c[None, :]
                weights = tl.load(w + (((group * TAPS + i) * TAPS + j) * CG + c[:, None]) * CG + c[None, :])
                acc += tl.dot(tl.load(x + places, inside, other=0.0), weights)
        end = tl.where(row < H, W, 0)
        places = ((image * H + row) * W + p[:, None]) * channels + group * CG + c[None, :]
        tl.store(y + places, acc.to(tl.float16), (p < end)[:, None])


@triton.jit
def max_pool2d(
    x, values, places, H, W, OH, OW, SIZE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Largest of each window and where it is, as PyTorch's backward pass wants it."""
    plane = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    valid = index < OH * OW
    top = (index // OW) * STRIDE
    left = (index % OW) * STRIDE
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            at = (top + i) * W + left + j
            value = tl.load(x + plane.to(tl.int64) * H * W + at, valid, other=float("-inf"))
            where = tl.where(value > best, at, where)
            best = tl.maximum(best, value)
    tl.store(values + plane * OH * OW + index, best, valid)
    tl.store(places + plane * OH * OW + index, where, valid)


@triton.jit
def average_pool2d(x, y, H, W, C, SIZE: tl.constexpr, BLOCK_C: tl.constexpr, COLUMNS: tl.constexpr):
    """Channels last, windows side by side; the window is a dimension of the block."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    ow = W // SIZE
    oh = H // SIZE
    row = tl.program_id(2) % oh
    image = tl.program_id(2) // oh
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (column < ow)[:, None] & (c < C)[None, :]
    acc = tl.zeros((COLUMNS, BLOCK_C), tl.float32)
    for i in range(SIZE):
        for j in range(SIZE):
            at = ((image * H + row * SIZE + i) * W + column[:, None] * SIZE + j) * C + c[None, :]
            acc += tl.load(x + at, mask, other=0.0).to(tl.float32)
    place = ((image * oh + row) * ow + column[:, None]) * C + c[None, :]
    tl.store(y + place, (acc / (SIZE * SIZE)).to(tl.float16), mask)


@triton.jit
def upsample_bilinear(x_ptr, y_ptr, H, W, SCALE: tl.constexpr, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    plane = tl.program_id(2).to(tl.int64)
    oy = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    ox = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)
    sy = tl.maximum((oy.to(tl.float32) + 0.5) / SCALE - 0.5, 0.0)
    sx = tl.maximum((ox.to(tl.float32) + 0.5) / SCALE - 0.5, 0.0)
    y0 = sy.to(tl.int32)
    x0 = sx.to(tl.int32)
    y1 = tl.minimum(y0 + 1, H - 1)
    x1 = tl.minimum(x0 + 1, W - 1)
    wy = (sy - y0.to(tl.float32))[:, None]
    wx = (sx - x0.to(tl.float32))[None, :]
    mask = (oy < H * SCALE)[:, None] & (ox < W * SCALE)[None, :]
    base = x_ptr + plane * H * W
    v00 = tl.load(base + y0[:, None] * W + x0[None, :], mask=mask, other=0.0)
    v01 = tl.load(base + y0[:, None] * W + x1[None, :], mask=mask, other=0.0)
    v10 = tl.load(base + y1[:, None] * W + x0[None, :], mask=mask, other=0.0)
    v11 = tl.load(base + y1[:, None] * W + x1[None, :], mask=mask, other=0.0)
    upper = v00 + (v01 - v00) * wx
    lower = v10 + (v11 - v10) * wx
    out = y_ptr + plane * H * W * SCALE * SCALE + oy[:, None] * (W * SCALE) + ox[None, :]
    tl.store(out, upper + (lower - upper) * wy, mask=mask)


@triton.jit
def stencil_5_points(u, out, H, W, alpha, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    """A step of the heat equation; the border stays."""
    y = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    x = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    at = u + y * W + x
    inside = (y < H) & (x < W)
    inner = (y > 0) & (y < H - 1) & (x > 0) & (x < W - 1)
    centre = tl.load(at, inside, other=0.0)
    around = tl.load(at - W, inner, other=0.0) + tl.load(at + W, inner, other=0.0)
    around += tl.load(at - 1, inner, other=0.0) + tl.load(at + 1, inner, other=0.0)
    tl.store(out + y * W + x, tl.where(inner, centre + alpha * (around - 4.0 * centre), centre), inside)


@triton.jit
def stencil_9_points(u, coefficients, out, H, W, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Nine coefficients, periodic borders; a program walks down ROWS rows of a strip."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = (x + W - 1) % W
    right = (x + 1) % W
    mask = x < W
    for turn in range(ROWS):
        y = tl.program_id(1) * ROWS + turn
        if y < H:
            acc = tl.zeros((BLOCK,), tl.float32)
            for i in tl.static_range(3):
                row = u + (y + H - 1 + i) % H * W
                acc += tl.load(row + left, mask, other=0.0) * tl.load(coefficients + 3 * i)
                acc += tl.load(row + x, mask, other=0.0) * tl.load(coefficients + 3 * i + 1)
                acc += tl.load(row + right, mask, other=0.0) * tl.load(coefficients + 3 * i + 2)
            tl.store(out + y * W + x, acc, mask)


@triton.jit
def stencil_3d(u, out, A, B, C, BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr, PLANES: tl.constexpr):
    """Seven points; a program marches through planes and keeps the last two of its tile in registers."""
    b = tl.program_id(1) * BLOCK_B + tl.arange(0, BLOCK_B)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    first = tl.program_id(2) * PLANES
    inside = (b < B) & (c < C)
    tile = b * C + c
    size = B * C
    behind = tl.load(u + (first - 1) * size + tile, inside & (b < tl.where(first > 0, B, 0)), other=0.0)
    here = tl.load(u + first * size + tile, inside, other=0.0)
    for a in range(first, tl.minimum(first + PLANES, A)):
        ahead = tl.load(u + (a + 1) * size + tile, inside & (b < tl.where(a + 1 < A, B, 0)), other=0.0)
        plane = u + a * size + tile
        sides = tl.load(plane - 1, inside & (c > 0), other=0.0) + tl.load(
            plane + 1, inside & (c < C - 1), other=0.0
        )
        sides += tl.load(plane - C, inside & (b > 0), other=0.0)
        sides += tl.load(plane + C, inside & (b < B - 1), other=0.0)
        tl.store(out + a * size + tile, behind + ahead + sides - 6.0 * here, inside)
        behind = here
        here = ahead


@triton.jit
def im2col(
    x,
    columns,
    H,
    W,
    C,
    OH,
    OW,
    TAPS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Windows of an image, channels first, as rows of a matrix."""
    p = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]
    width = C * TAPS * TAPS
    c = k // (TAPS * TAPS)
    row = p // OW * STRIDE + k // TAPS % TAPS - TAPS // 2
    column = p % OW * STRIDE + k % TAPS - TAPS // 2
    mask = (p < OH * OW) & (k < width)
    inside = mask & (row >= 0) & (row < H) & (column >= 0) & (column < W)
    value = tl.load(x + (c * H + row) * W + column, inside, other=0.0)
    tl.store(columns + p.to(tl.int64) * width + k, value, mask)
