"""Kernels that move elements to other places."""

import triton
import triton.language as tl


@triton.jit
def transpose_2d(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    pid_m, pid_n = tl.swizzle2d(
        pid // tl.cdiv(N, BN), pid % tl.cdiv(N, BN), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP
    )
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    tile = tl.load(x + rm[:, None] * N + rn[None, :], (rm < M)[:, None] & (rn < N)[None, :])
    tl.store(y + rn[:, None] * M + rm[None, :], tl.trans(tile), (rn < N)[:, None] & (rm < M)[None, :])


@triton.jit
def permute_0213(x, y, S, H, D: tl.constexpr, BS: tl.constexpr, BH: tl.constexpr, STAGED: tl.constexpr):
    """Swap the middle axes of ``(b, s, h, d)``; as ``STAGED`` the tile is turned before it is stored."""
    b = tl.program_id(2).to(tl.int64) * S * H * D
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, triton.next_power_of_2(D))
    read = (s[:, None, None] * H + h[None, :, None]) * D + d[None, None, :]
    ok = (s < S)[:, None, None] & (h < H)[None, :, None] & (d < D)[None, None, :]
    tile = tl.load(x + b + read, ok)
    if STAGED:
        write = (h[:, None, None] * S + s[None, :, None]) * D + d[None, None, :]
        turned = (h < H)[:, None, None] & (s < S)[None, :, None] & (d < D)[None, None, :]
        tl.store(y + b + write, tl.permute(tile, (1, 0, 2)), turned)
    else:
        tl.store(y + b + (h[None, :, None] * S + s[:, None, None]) * D + d[None, None, :], tile, ok)


@triton.jit
def interleave_three(r, g, b, out, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """From three planes of a picture to one with the three colours of a place side by side."""
    for part in tl.static_range(PARTS):
        at = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        ok = at < n
        red, green, blue = tl.load(r + at, ok), tl.load(g + at, ok), tl.load(b + at, ok)
        tl.store(out + 3 * at, red, ok)
        tl.store(out + 3 * at + 1, green, ok)
        tl.store(out + 3 * at + 2, blue, ok)


@triton.jit
def concat_columns(a, b, out, M, NA, NB, BM: tl.constexpr, BN: tl.constexpr):
    """Put two matrices beside each other: each output element asks which it comes from."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    cols = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    first = tl.load(a + rows * NA + cols, (rows < M) & (cols < NA), other=0.0)
    second = tl.load(b + rows * NB + (cols - NA), (rows < M) & (cols >= NA) & (cols < NA + NB), other=0.0)
    tl.store(out + rows * (NA + NB) + cols, first + second, (rows < M) & (cols < NA + NB))


@triton.jit
def reflect_pad(x, y, H, W, P: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Pad pictures by ``P`` on each side with their reflection."""
    width = W + 2 * P
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    from_column = tl.abs(column - P)
    from_column = tl.where(from_column >= W, 2 * (W - 1) - from_column, from_column)
    picture = tl.program_id(2)
    for i in range(ROWS):
        row = tl.program_id(1) * ROWS + i
        if row < H + 2 * P:
            from_row = tl.abs(row - P)
            from_row = tl.where(from_row >= H, 2 * (H - 1) - from_row, from_row)
            value = tl.load(x + (picture * H + from_row) * W + from_column, column < width)
            tl.store(y + (picture * (H + 2 * P) + row) * width + column, value, column < width)


@triton.jit
def roll_and_flip(x, rolled, flipped, n, shift, rows, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Roll each row to the right, and write it backwards as well."""
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(ROWS):
        row = tl.program_id(0) * ROWS + i
        if row < rows:
            value = tl.load(x + row * n + at, at < n)
            tl.store(rolled + row * n + (at + shift) % n, value, at < n)
            tl.store(flipped + row * n + n - 1 - at, value, at < n)


@triton.jit
def gather_rows_scaled(
    table, index, scale, out, count, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Copy the rows that ``index`` names, each times a factor of its own."""
    k = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    source = tl.load(index + k, k < count, other=0).to(tl.int64)
    factor = tl.load(scale + k, k < count, other=0.0)
    for start in range(0, WIDTH, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (k < count)[:, None] & (c < WIDTH)[None, :]
        picked = tl.load(table + source[:, None] * WIDTH + c[None, :], ok)
        tl.store(out + k[:, None] * WIDTH + c[None, :], picked * factor[:, None], ok)


@triton.jit
def gather_columns(x, index, out, M, N, C, BM: tl.constexpr, BC: tl.constexpr):
    """Take columns of a matrix in any order: reads are as scattered as the index."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.load(index + c, c < C, other=0)
    ok = (r < M)[:, None] & (c < C)[None, :]
    tl.store(out + r[:, None] * C + c[None, :], tl.load(x + r[:, None] * N + column[None, :], ok), ok)


@triton.jit
def scatter_rows(x, index, out, m, N: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """Write row ``i`` at row ``index[i]``; few programs take turns with many rows."""
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0)
    while row < m:
        to = tl.load(index + row).to(tl.int64)
        tl.store(out + to * N + at, tl.load(x + row * N + at, at < N), at < N)
        row += PROGRAMS


@triton.jit
def lower_triangle(x, out, N, BM: tl.constexpr, BN: tl.constexpr, SKIP: tl.constexpr):
    """Copy what is on or below the diagonal and write zeros above; tiles above it may read nothing."""
    top, left = tl.program_id(0) * BM, tl.program_id(1) * BN
    r = top + tl.arange(0, BM)[:, None]
    c = left + tl.arange(0, BN)[None, :]
    base = tl.program_id(2).to(tl.int64) * N * N
    ok = (r < N) & (c < N)
    if SKIP and left > top + BM - 1:
        tl.store(out + base + r * N + c, tl.zeros((BM, BN), tl.float16), ok)
    else:
        value = tl.load(x + base + r * N + c, ok, other=0.0)
        tl.store(out + base + r * N + c, tl.where(c <= r, value, 0.0), ok)


@triton.jit
def pack_int4(x, packed, n, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """Pack eight numbers of four bits a word, the first lowest."""
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SPLIT:
        nibble = tl.arange(0, 8)[None, :]
        value = tl.load(x + word[:, None] * 8 + nibble, (word < n)[:, None], other=0).to(tl.int32)
        total = tl.sum((value & 15) << (4 * nibble), axis=1)
    else:
        total = tl.zeros((BLOCK,), tl.int32)
        for nibble in tl.static_range(8):
            total |= (tl.load(x + word * 8 + nibble, word < n, other=0).to(tl.int32) & 15) << (4 * nibble)
    tl.store(packed + word, total, word < n)


@triton.jit
def patchify(
    image, patches, H, W, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr, PATCHES: tl.constexpr
):
    """Cut a picture ``(h, w, c)`` into rows with the elements of one ``P`` by ``P`` patch each."""
    elements: tl.constexpr = P * P * C
    across = W // P
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    of_patch = (e // (P * C) * W + e // C % P) * C + e % C
    for i in tl.static_range(PATCHES):
        patch = tl.program_id(0) * PATCHES + i
        if patch < across * (H // P):
            corner = (patch // across * W + patch % across) * P * C
            value = tl.load(image + corner + of_patch, e < elements)
            tl.store(patches + patch * elements + e, value, e < elements)


@triton.jit
def pixel_shuffle(x, y, C, H, W, R: tl.constexpr, BW: tl.constexpr, BH: tl.constexpr):
    """From ``R * R`` channels to a picture ``R`` times as wide and high."""
    c = tl.program_id(2)
    v = tl.program_id(1) * BH + tl.arange(0, BH)[:, None]
    u = tl.program_id(0) * BW + tl.arange(0, BW)[None, :]
    ok = (v < H * R) & (u < W * R)
    channel = (c * R + v % R) * R + u % R
    tl.store(y + (c * H * R + v) * W * R + u, tl.load(x + (channel * H + v // R) * W + u // R, ok), ok)


@triton.jit
def rotary_pairs(
    x, angle, y, T, HEADS: tl.constexpr, D: tl.constexpr, TOKENS: tl.constexpr, AT_ONCE: tl.constexpr
):
    """Turn neighbouring elements of each head by the angle of its token; ``AT_ONCE`` heads a step."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    pair = tl.arange(0, D // 2)
    turn = tl.load(angle + token[:, None] * (D // 2) + pair[None, :], (token < T)[:, None], other=0.0)
    cos, sin = tl.cos(turn)[:, None, :], tl.sin(turn)[:, None, :]
    for first in range(0, HEADS, AT_ONCE):
        head = first + tl.arange(0, AT_ONCE)
        start = (token[:, None, None] * HEADS + head[None, :, None]) * D
        at = start + tl.arange(0, D)[None, None, :]
        ok = (token < T)[:, None, None] & (head < HEADS)[None, :, None]
        v = tl.load(x + at, ok, other=0.0).to(tl.float32)
        even, odd = tl.split(tl.reshape(v, (TOKENS, AT_ONCE, D // 2, 2)))
        turned = tl.interleave(even * cos - odd * sin, even * sin + odd * cos)
        tl.store(y + at, turned.to(tl.float16), ok)
