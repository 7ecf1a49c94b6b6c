"""Losses, and the backward passes of common layers."""

import triton
import triton.language as tl


@triton.jit
def smoothed_cross_entropy(logits, target, loss, V, smoothing, BLOCK: tl.constexpr):
    """Cross entropy of a row against a target that leaves ``smoothing`` to all classes alike."""
    row = tl.program_id(0).to(tl.int64)
    high = tl.full((BLOCK,), -float("inf"), tl.float32)
    powers = tl.zeros((BLOCK,), tl.float32)
    plain = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(logits + row * V + c, c < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(tl.maximum(high, v), -1e30)
        powers = powers * tl.exp(high - higher) + tl.exp(v - higher)
        high = higher
        plain += tl.where(c < V, v, 0.0)
    top = tl.max(high)
    total = tl.log(tl.sum(powers * tl.exp(high - top))) + top
    right = tl.load(logits + row * V + tl.load(target + row)).to(tl.float32)
    value = total - (1.0 - smoothing) * right - smoothing * tl.sum(plain) / V
    tl.store(loss + row, value)


@triton.jit
def divergence(p, q, out, M, N: tl.constexpr, ROWS: tl.constexpr):
    """Kullback-Leibler divergence of softmax rows, whole rows at once."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    at = r[:, None] * N + c[None, :]
    a = log_softmax(tl.load(p + at, ok, other=-1e30).to(tl.float32))
    b = log_softmax(tl.load(q + at, ok, other=-1e30).to(tl.float32))
    tl.store(out + r, tl.sum(tl.where(ok, tl.exp(a) * (a - b), 0.0), axis=1), r < M)


@triton.jit
def log_softmax(v):
    v -= tl.max(v, axis=1)[:, None]
    return v - tl.log(tl.sum(tl.exp(v), axis=1))[:, None]


@triton.jit
def huber_mean(x, y, total, n, delta, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """The mean of Huber's loss: every program adds its share atomically."""
    share = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        gap = tl.abs(tl.load(x + i, i < n, other=0.0) - tl.load(y + i, i < n, other=0.0))
        share += tl.where(gap <= delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta))
    tl.atomic_add(total, tl.sum(share) / n)


@triton.jit
def focal_with_gradient(x, label, loss, dx, n, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    """Focal loss (alpha 1/4, gamma 2) of logits and its gradient, element by element."""
    for item in tl.static_range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, i < n, other=0.0).to(tl.float32)
        one = tl.load(label + i, i < n, other=0) != 0
        t = tl.where(one, v, -v)
        weight = tl.where(one, 0.25, 0.75)
        p = tl.sigmoid(t)
        log_p = tl.minimum(t, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(t)))
        miss = 1.0 - p
        tl.store(loss + i, -weight * miss * miss * log_p, i < n)
        slope = weight * miss * miss * (2.0 * p * log_p - miss)
        tl.store(dx + i, tl.where(one, slope, -slope).to(tl.float16), i < n)


@triton.jit
def cosine_of_pairs(a, b, sign, loss, M, D: tl.constexpr, margin, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Cosine embedding loss of pairs of rows."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    dot = tl.zeros((ROWS, BLOCK), tl.float32)
    aa = tl.zeros((ROWS, BLOCK), tl.float32)
    bb = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in tl.range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (r < M)[:, None] & (c < D)[None, :]
        va = tl.load(a + r[:, None] * D + c[None, :], ok, other=0.0).to(tl.float32)
        vb = tl.load(b + r[:, None] * D + c[None, :], ok, other=0.0).to(tl.float32)
        dot += va * vb
        aa += va * va
        bb += vb * vb
    cosine = tl.sum(dot, 1) * tl.rsqrt(tl.sum(aa, 1) * tl.sum(bb, 1) + 1e-12)
    positive = tl.load(sign + r, r < M, other=1) > 0
    tl.store(loss + r, tl.where(positive, 1.0 - cosine, tl.maximum(cosine - margin, 0.0)), r < M)


@triton.jit
def triplet_margin(anchor, near, far, loss, D: tl.constexpr, ROWS: tl.constexpr):
    """Hinge on the gap between two distances of each row; a row after the other."""
    c = tl.arange(0, triton.next_power_of_2(D))
    for k in range(ROWS):
        at = (tl.program_id(0) * ROWS + k) * D + c
        v = tl.load(anchor + at, c < D, other=0.0)
        to_near = v - tl.load(near + at, c < D, other=0.0)
        to_far = v - tl.load(far + at, c < D, other=0.0)
        gap = tl.sqrt(tl.sum(to_near * to_near)) - tl.sqrt(tl.sum(to_far * to_far))
        tl.store(loss + tl.program_id(0) * ROWS + k, tl.maximum(gap + 1.0, 0.0))


@triton.jit
def alignment_costs(cost, end, T, J: tl.constexpr, PAIRS: tl.constexpr, B, UNROLL: tl.constexpr):
    """Least cost of a path through each ``(t, j)`` table that stays or steps right at each time.

    One row of the table after the other: what is left of each place comes from a gather.
    """
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    j = tl.arange(0, J)
    at = cost + pair[:, None].to(tl.int64) * T * J + j[None, :]
    ok = (pair < B)[:, None] & (j < J)[None, :]
    best = tl.where((j == 0)[None, :], tl.load(at, ok, other=0.0), 1e30)
    left = tl.broadcast_to(tl.maximum(j - 1, 0)[None, :], (PAIRS, J))
    for t in tl.range(1, T, loop_unroll_factor=UNROLL):
        step = tl.where((j == 0)[None, :], 1e30, tl.gather(best, left, 1))
        best = tl.minimum(best, step) + tl.load(at + t * J, ok, other=0.0)
    tl.store(end + pair, tl.sum(tl.where((j == J - 1)[None, :], best, 0.0), 1), pair < B)


@triton.jit
def contrastive_rows(
    a, b, loss, N, D: tl.constexpr, temperature, BM: tl.constexpr, BN: tl.constexpr, PREC: tl.constexpr
):
    """InfoNCE: cross entropy of each row of ``a @ b.T`` against its diagonal, without the matrix."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    va = tl.load(a + r[:, None] * D + d[None, :], (r < N)[:, None], other=0.0)
    high = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    right = tl.zeros((BM,), tl.float32)
    for start in tl.range(0, N, BN):
        c = start + tl.arange(0, BN)
        vb = tl.load(b + c[None, :] * D + d[:, None], (c < N)[None, :], other=0.0)
        score = tl.dot(va, vb, input_precision=PREC) * temperature
        right += tl.sum(tl.where(r[:, None] == c[None, :], score, 0.0), 1)
        score = tl.where((c < N)[None, :], score, -1e30)
        higher = tl.maximum(high, tl.max(score, 1))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(score - higher[:, None]), 1)
        high = higher
    tl.store(loss + r, tl.log(total) + high - right, r < N)


@triton.jit
def masked_squares(x, y, mask, total, counted, n, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """Sum of squared errors where a mask holds, and how many there are."""
    error = 0.0
    count = 0
    for k in range(CHUNK):
        i = (tl.program_id(0) * CHUNK + k) * BLOCK + tl.arange(0, BLOCK)
        on = tl.load(mask + i, i < n, other=0) != 0
        gap = tl.load(x + i, on, other=0.0).to(tl.float32) - tl.load(y + i, on, other=0.0).to(tl.float32)
        error += tl.sum(gap * gap)
        count += tl.sum(on.to(tl.int32))
    tl.atomic_add(total, error)
    tl.atomic_add(counted, count)


@triton.jit
def gelu_backward(x, dy, dx, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), PROGRAMS):
        i = block * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, i < n).to(tl.float32)
        normal = 0.5 * (1.0 + tl.erf(v * 0.7071067811865476))
        density = 0.3989422804014327 * tl.exp(-0.5 * v * v)
        slope = normal + v * density
        tl.store(dx + i, (tl.load(dy + i, i < n).to(tl.float32) * slope).to(tl.float16), i < n)


@triton.jit
def cross_entropy_backward(
    logits, lse, target, dlogits, V, scale, BLOCK: tl.constexpr, COLUMNS_FIRST: tl.constexpr
):
    """Softmax less the one of the target, from the kept log-sum-exp of each row."""
    row = tl.program_id(COLUMNS_FIRST).to(tl.int64)
    c = tl.program_id(1 - COLUMNS_FIRST) * BLOCK + tl.arange(0, BLOCK)
    p = tl.exp(tl.load(logits + row * V + c, c < V).to(tl.float32) - tl.load(lse + row))
    p -= (c == tl.load(target + row)).to(tl.float32)
    tl.store(dlogits + row * V + c, (p * scale).to(tl.float16), c < V)


@triton.jit
def embedding_backward(dy, index, dtable, tokens, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Add each token's gradient to its row of the table, atomically."""
    t = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = (t < tokens)[:, None] & (c < D)[None, :]
    row = tl.load(index + t, t < tokens, other=0)
    value = tl.load(dy + t[:, None] * D + c[None, :], ok, other=0.0).to(tl.float32)
    tl.atomic_add(dtable + row[:, None] * D + c[None, :], value, ok, sem="relaxed")


@triton.jit
def swiglu_backward(gate, up, dy, dgate, dup, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, i < n).to(tl.float32)
    u = tl.load(up + i, i < n).to(tl.float32)
    d = tl.load(dy + i, i < n).to(tl.float32)
    s = tl.sigmoid(g)
    tl.store(dup + i, (d * g * s).to(tl.float16), i < n)
    tl.store(dgate + i, (d * u * s * (1.0 + g * (1.0 - s))).to(tl.float16), i < n)


@triton.jit
def bias_gradient(dy, db, M, N, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr):
    """Sums of columns; ``SPLITS`` programs share the rows of a block of columns."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(1) * BM, M, SPLITS * BM):
        r = start + tl.arange(0, BM)
        ok = (r < M)[:, None] & (c < N)[None, :]
        total += tl.load(dy + r[:, None] * N + c[None, :], ok, other=0.0).to(tl.float32)
    tl.atomic_add(db + c, tl.sum(total, axis=0), c < N)


@triton.jit
def rope_backward(dy, angle, dx, T, H, D: tl.constexpr, HEADS: tl.constexpr, TOKENS: tl.constexpr):
    """Turn the halves of each head's gradient back."""
    h = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    d = tl.arange(0, D // 2)
    for k in tl.static_range(TOKENS):
        t = tl.program_id(0) * TOKENS + k
        if t < T:
            turn = tl.load(angle + t * (D // 2) + d)
            cos, sin = tl.cos(turn)[None, :], tl.sin(turn)[None, :]
            at = (t * H + h[:, None]) * D + d[None, :]
            first = tl.load(dy + at, (h < H)[:, None], other=0.0).to(tl.float32)
            second = tl.load(dy + at + D // 2, (h < H)[:, None], other=0.0).to(tl.float32)
            tl.store(dx + at, (first * cos + second * sin).to(tl.float16), (h < H)[:, None])
            tl.store(dx + at + D // 2, (second * cos - first * sin).to(tl.float16), (h < H)[:, None])


@triton.jit
def softmax_backward(y, dy, dx, M, N: tl.constexpr, ROWS: tl.constexpr):
    """``y * (dy - sum(y * dy))`` of whole rows."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    at = r[:, None] * N + c[None, :]
    vy = tl.load(y + at, ok, other=0.0)
    product = vy * tl.load(dy + at, ok, other=0.0)
    tl.store(dx + at, product - vy * tl.sum(product, axis=1)[:, None], ok)
