"""Eight kernels as public projects write them; the ranker has learned from none of them."""

import triton
import triton.language as tl


@triton.jit
def softmax_dropout(  # noqa: PLR0913, PLR0917
    x, y, n_rows, n_cols, p, seed, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    first = tl.program_id(0) * ROWS
    cols = tl.arange(0, BLOCK)
    for i in range(ROWS):
        row = tl.minimum(first + i, n_rows - 1)  # the last program writes the last row again
        mask = cols < n_cols
        at = row.to(tl.int64) * n_cols + cols
        values = tl.load(x + at, mask=mask, other=float("-inf")).to(tl.float32)
        powers = tl.where(mask, tl.exp(values - tl.max(tl.where(mask, values, -1e30), axis=0)), 0.0)
        share = powers / tl.maximum(tl.sum(powers, axis=0), 1e-30)
        keep = tl.rand(seed, at) > p
        tl.store(y + at, tl.where(keep, share / (1.0 - p), 0.0).to(tl.float16), mask=mask)


@triton.jit
def layer_norm_backward(  # noqa: PLR0913, PLR0917
    dy, x, w, mean, rstd, dx, dw, db, M, N, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    gain = tl.load(w + cols, mask=inside, other=0.0).to(tl.float32)
    sum_w = tl.zeros((BLOCK,), tl.float32)
    sum_b = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) * ROWS, min(tl.program_id(0) * ROWS + ROWS, M)):
        slope = tl.load(dy + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(rstd + row)
        xhat = tl.where(inside, (value - tl.load(mean + row)) * scale, 0.0)
        wdy = gain * slope
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        tl.store(dx + row * N + cols, ((wdy - xhat * c1 - c2) * scale).to(tl.float16), mask=inside)
        sum_w += slope * xhat
        sum_b += slope
    tl.atomic_add(dw + cols, sum_w, mask=inside)
    tl.atomic_add(db + cols, sum_b, mask=inside)


@triton.jit
def grouped_matmul(  # noqa: PLR0913, PLR0917
    a, b, c, starts, K, N, stride_be,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    expert, tile_m, tile_n = tl.program_id(2), tl.program_id(1), tl.program_id(0)
    first, last = tl.load(starts + expert), tl.load(starts + expert + 1)
    if first + tile_m * BLOCK_M >= last:
        return
    rows = first + tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(
            a + rows[:, None] * K + (k + ks)[None, :],
            mask=(rows < last)[:, None] & (k + ks < K)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            b + expert * stride_be + (k + ks)[:, None] * N + cols[None, :],
            mask=(k + ks < K)[:, None] & (cols < N)[None, :], other=0.0,
        )  # fmt: skip
        total = tl.dot(left, right, total)
    mask = (rows < last)[:, None] & (cols < N)[None, :]
    tl.store(c + rows[:, None] * N + cols[None, :], total.to(tl.float16), mask=mask)


@triton.jit
def rope(  # noqa: PLR0913, PLR0917
    q, cos, sin, out, T, H, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr
):
    half: tl.constexpr = D // 2
    tokens = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    dims = tl.arange(0, half)
    turn = tokens[:, None] * half + dims[None, :]
    c = tl.load(cos + turn, mask=(tokens < T)[:, None], other=0.0)[:, None, :]
    s = tl.load(sin + turn, mask=(tokens < T)[:, None], other=0.0)[:, None, :]
    at = (tokens[:, None, None] * H + heads[None, :, None]) * D + dims[None, None, :]
    mask = (tokens < T)[:, None, None] & (heads < H)[None, :, None]
    first = tl.load(q + at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(q + at + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + at, (first * c - second * s).to(tl.float16), mask=mask)
    tl.store(out + at + half, (second * c + first * s).to(tl.float16), mask=mask)


@triton.jit
def int4_matmul(  # noqa: PLR0913, PLR0917
    x, packed, scales, out, M, N, K, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + ks
        left = tl.load(x + rows[:, None] * K + k[None, :], mask=(rows < M)[:, None], other=0.0)
        words = tl.load(packed + (k // 8)[:, None] * N + cols[None, :], mask=(cols < N)[None, :], other=0)
        codes = (words >> ((k % 8) * 4)[:, None]) & 0xF
        scale = tl.load(
            scales + (k // GROUP)[:, None] * N + cols[None, :], mask=(cols < N)[None, :], other=0.0
        )
        right = ((codes - 8).to(tl.float16) * scale).to(tl.float16)
        total = tl.dot(left, right, total)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(out + rows[:, None] * N + cols[None, :], total.to(tl.float16), mask=mask)


@triton.jit
def chunked_cross_entropy(  # noqa: PLR0913, PLR0917
    logits, labels, loss, grad, V, scale, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    most, total = float("-inf"), 0.0
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * V + at, mask=at < V, other=float("-inf")).to(tl.float32)
        above = tl.maximum(most, tl.max(values, axis=0))
        total = total * tl.exp(most - above) + tl.sum(tl.exp(values - above), axis=0)
        most = above
    tl.store(loss + row, (tl.log(total) + most - tl.load(logits + row * V + label).to(tl.float32)) * scale)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * V + at, mask=at < V, other=float("-inf")).to(tl.float32)
        share = tl.exp(values - most) / total - tl.where(at == label, 1.0, 0.0)
        tl.store(grad + row * V + at, (share * scale).to(tl.float16), mask=at < V)


@triton.jit
def flash_decode(  # noqa: PLR0913, PLR0917
    q, k, v, part, sums, H, S, scale, D: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A part of the keys of one head, a token long; parts are joined by another kernel."""
    head, split = tl.program_id(0), tl.program_id(1)
    dims = tl.arange(0, D)
    query = tl.load(q + head * D + dims).to(tl.float32) * scale
    most, total = float("-inf"), 0.0
    found = tl.zeros((D,), tl.float32)
    length = tl.cdiv(S, SPLITS)
    for start in tl.range(split * length, min(S, split * length + length), BLOCK_N, num_stages=CHUNK):
        at = start + tl.arange(0, BLOCK_N)
        inside = (at < S) & (at < split * length + length)
        where = (head * S + at[:, None]) * D + dims[None, :]
        keys = tl.load(k + where, mask=inside[:, None], other=0.0).to(tl.float32)
        scores = tl.where(inside, tl.sum(keys * query[None, :], axis=1), float("-inf"))
        above = tl.maximum(most, tl.max(scores, axis=0))
        powers = tl.exp(scores - above)
        values = tl.load(v + where, mask=inside[:, None], other=0.0).to(tl.float32)
        found = found * tl.exp(most - above) + tl.sum(powers[:, None] * values, axis=0)
        total = total * tl.exp(most - above) + tl.sum(powers, axis=0)
        most = above
    tl.store(part + (head * SPLITS + split) * D + dims, found / total)
    tl.store(sums + head * SPLITS + split, most + tl.log(total))


@triton.jit
def causal_conv1d(  # noqa: PLR0913, PLR0917
    x, w, bias, y, T, C, K: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):
    channels = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    times = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    batch = tl.program_id(2).to(tl.int64) * T * C
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    total += tl.load(bias + channels, mask=channels < C, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(K):
        at = times - (K - 1) + tap
        mask = ((at >= 0) & (at < T))[:, None] & (channels < C)[None, :]
        values = tl.load(x + batch + at[:, None] * C + channels[None, :], mask=mask, other=0.0).to(tl.float32)
        total += (
            values * tl.load(w + channels * K + tap, mask=channels < C, other=0.0).to(tl.float32)[None, :]
        )
    silu = total / (1.0 + tl.exp(-total))
    mask = (times < T)[:, None] & (channels < C)[None, :]
    tl.store(y + batch + times[:, None] * C + channels[None, :], silu.to(tl.float16), mask=mask)
