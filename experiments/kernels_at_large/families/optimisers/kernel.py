"""Steps of optimisers, in place: parameters and their state are read and written."""

import triton
import triton.language as tl


@triton.jit
def sgd_momentum(p, g, v, n, rate, momentum, decay, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    """SGD with Nesterov's momentum and L2 decay."""
    for item in tl.static_range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        ok = i < n
        weight = tl.load(p + i, ok)
        gradient = tl.load(g + i, ok) + decay * weight
        speed = momentum * tl.load(v + i, ok) + gradient
        tl.store(v + i, speed, ok)
        tl.store(p + i, weight - rate * (gradient + momentum * speed), ok)


@triton.jit
def adam(param, grad, exp_avg, exp_avg_sq, numel, lr, c1, c2, BLOCK_SIZE: tl.constexpr):
    """Adam with bias corrections ``c1`` and ``c2`` computed by the caller."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < numel
    g = tl.load(grad + offsets, mask=mask)
    m = 0.9 * tl.load(exp_avg + offsets, mask=mask) + 0.1 * g
    v = 0.999 * tl.load(exp_avg_sq + offsets, mask=mask) + 0.001 * g * g
    p = tl.load(param + offsets, mask=mask)
    p -= lr * (m / c1) / (tl.sqrt(v / c2) + 1e-8)
    tl.store(exp_avg + offsets, m, mask=mask)
    tl.store(exp_avg_sq + offsets, v, mask=mask)
    tl.store(param + offsets, p, mask=mask)


@triton.jit
def adamw_half(master, half, grad, m, v, n, lr, decay, scale, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """AdamW on float32 weights with scaled float16 gradients; it also writes the float16 weights."""
    for block in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0), num_stages=STAGES):
        o = block * BLOCK + tl.arange(0, BLOCK)
        ok = o < n
        g = tl.load(grad + o, ok, other=0.0).to(tl.float32) * scale
        w = tl.load(master + o, ok, other=0.0) * (1.0 - lr * decay)
        mean = tl.load(m + o, ok, other=0.0)
        mean += 0.1 * (g - mean)
        square = tl.load(v + o, ok, other=0.0)
        square += 0.05 * (g * g - square)
        w -= lr * mean * tl.rsqrt(square + 1e-12)
        tl.store(m + o, mean, ok)
        tl.store(v + o, square, ok)
        tl.store(master + o, w, ok)
        tl.store(half + o, w.to(tl.float16), ok)


@triton.jit
def lion(p, g, m, n, lr, BLOCK: tl.constexpr, EVICT: tl.constexpr):
    """Lion: the sign of a mixture of momentum and gradient."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    if EVICT:
        gradient = tl.load(g + i, ok, eviction_policy="evict_first").to(tl.float32)
    else:
        gradient = tl.load(g + i, ok).to(tl.float32)
    momentum = tl.load(m + i, ok)
    mixed = 0.9 * momentum + 0.1 * gradient
    sign = tl.where(mixed > 0, 1.0, tl.where(mixed < 0, -1.0, 0.0))
    tl.store(p + i, tl.load(p + i, ok) - lr * sign, ok)
    tl.store(m + i, 0.99 * momentum + 0.01 * gradient, ok)


@triton.jit
def adagrad_rows(
    table, sums, grad, rows, count, lr, W: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Row-wise Adagrad on the rows of a table that have a gradient; one sum of squares a row."""
    k = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(rows + k, k < count, other=0).to(tl.int64)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, W, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (k < count)[:, None] & (c < W)[None, :]
        g = tl.load(grad + k[:, None] * W + c[None, :], ok, other=0.0)
        total += tl.sum(g * g, axis=1)
    history = tl.load(sums + row, k < count, other=1.0) + total / W
    tl.store(sums + row, history, k < count)
    step = lr / (tl.sqrt(history) + 1e-10)
    for start in range(0, W, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (k < count)[:, None] & (c < W)[None, :]
        at = table + row[:, None] * W + c[None, :]
        tl.store(at, tl.load(at, ok) - step[:, None] * tl.load(grad + k[:, None] * W + c[None, :], ok), ok)


@triton.jit
def rmsprop_centred(p, g, s, a, n, lr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """RMSprop that subtracts the squared mean of gradients, by programs that stride over the array."""
    start = tl.program_id(0) * BLOCK
    while start < n:
        i = start + tl.arange(0, BLOCK)
        ok = i < n
        gradient = tl.load(g + i, ok, other=0.0)
        square = 0.99 * tl.load(s + i, ok, other=1.0) + 0.01 * gradient * gradient
        mean = 0.99 * tl.load(a + i, ok, other=0.0) + 0.01 * gradient
        tl.store(s + i, square, ok)
        tl.store(a + i, mean, ok)
        spread = tl.sqrt(tl.maximum(square - mean * mean, 0.0)) + 1e-3
        tl.store(p + i, tl.load(p + i, ok) - lr * tl.div_rn(gradient, spread), ok)
        start += PROGRAMS * BLOCK


@triton.jit
def lamb_rows(p, g, out, N: tl.constexpr, lr, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    """A layer a row: the step's length is that of the weights; ``KEEP`` holds the row in registers."""
    row = tl.program_id(0).to(tl.int64) * N
    if KEEP:
        c = tl.arange(0, triton.next_power_of_2(N))
        weight = tl.load(p + row + c, c < N, other=0.0)
        step = _lamb_step(tl.load(g + row + c, c < N, other=0.0), weight)
        ratio = tl.sqrt(tl.sum(weight * weight)) / tl.sqrt(tl.sum(step * step))
        tl.store(out + row + c, weight - lr * ratio * step, c < N)
    else:
        weights = tl.zeros((BLOCK,), tl.float32)
        steps = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, N, BLOCK):
            c = start + tl.arange(0, BLOCK)
            weight = tl.load(p + row + c, c < N, other=0.0)
            step = _lamb_step(tl.load(g + row + c, c < N, other=0.0), weight)
            weights += weight * weight
            steps += step * step
        ratio = tl.sqrt(tl.sum(weights)) / tl.sqrt(tl.sum(steps))
        for start in range(0, N, BLOCK):
            c = start + tl.arange(0, BLOCK)
            weight = tl.load(p + row + c, c < N, other=0.0)
            step = _lamb_step(tl.load(g + row + c, c < N, other=0.0), weight)
            tl.store(out + row + c, weight - lr * ratio * step, c < N)


@triton.jit
def _lamb_step(gradient, weight):
    return gradient / (tl.abs(gradient) + 1e-2) + 0.01 * weight


@triton.jit
def moving_average_of_halves(average, p, n, keep, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Follow float16 weights with a float32 average; ``WIDE`` blocks of a program lie apart."""
    for part in tl.static_range(WIDE):
        i = (part * tl.num_programs(0) + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        old = tl.load(average + i, i < n)
        new = tl.load(p + i, i < n).to(tl.float32)
        tl.store(average + i, keep * old + (1.0 - keep) * new, i < n)


@triton.jit
def clip_by_partial_norm(
    g, partial, out, n, limit, PARTS: tl.constexpr, BLOCK: tl.constexpr, ITEMS: tl.constexpr
):
    """Scale gradients to a largest norm; each program adds up the partial sums of squares once more."""
    part = tl.arange(0, triton.next_power_of_2(PARTS))
    total = tl.sum(tl.load(partial + part, part < PARTS, other=0.0))
    scale = tl.minimum(limit / tl.sqrt(total), 1.0)
    for item in range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(g + i, i < n, other=0.0).to(tl.float32)
        tl.store(out + i, (v * scale).to(tl.float16), i < n)


@triton.jit
def squares_of_layers(g, starts, sums, LAYERS: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    """Sum of squares of each of many layers of different sizes that lie in one array, by atomics."""
    layer = tl.program_id(0)
    first, last = tl.load(starts + layer), tl.load(starts + layer + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first + tl.program_id(1) * BLOCK, last, SPLITS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(g + i, i < last, other=0.0)
        total += v * v
    tl.atomic_add(sums + layer, tl.sum(total), sem="relaxed")


@triton.jit
def unscale_and_check(
    g, out, found, n, inverse, BLOCK: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr
):
    """Divide float16 gradients by the loss scale and raise a flag at any that is not finite."""
    bad = tl.zeros((BLOCK,), tl.int32)
    for k in range(CHUNK):
        i = (tl.program_id(0) * CHUNK + k) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(g + i, i < n, other=0.0).to(tl.float32)
        infinite = (v.to(tl.int32, bitcast=True) & 0x7F800000) == 0x7F800000
        tl.store(out + i, tl.where(infinite, 0.0, v * inverse), i < n)
        bad |= infinite.to(tl.int32)
        if EARLY:
            tl.atomic_max(found + tl.zeros((BLOCK,), tl.int32), bad, mask=bad > 0, sem="relaxed")
    if not EARLY:
        tl.atomic_max(found, tl.max(bad), sem="relaxed")
