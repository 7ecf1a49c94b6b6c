"""Norms, their statistics and backward passes, softmaxes, and quantisation by rows."""

import triton
import triton.language as tl


@triton.jit
def group_norm(
    x,
    gain,
    bias,
    y,
    C: tl.constexpr,
    S: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each group of channels of an image is one contiguous piece of it, which is read twice."""
    size: tl.constexpr = C // GROUPS * S
    group = tl.program_id(0)
    base = (tl.program_id(1) * GROUPS + group).to(tl.int64) * size
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, size, BLOCK, num_stages=STAGES):
        v = tl.load(x + base + first + lanes, first + lanes < size, other=0.0).to(tl.float32)
        sums += v
        squares += v * v
    mean = tl.sum(sums) / size
    scale = tl.rsqrt(tl.sum(squares) / size - mean * mean + 1e-5)
    for first in tl.range(0, size, BLOCK, num_stages=STAGES):
        at = first + lanes
        v = tl.load(x + base + at, at < size, other=0.0).to(tl.float32)
        channel = group * (C // GROUPS) + at // S
        factor = tl.load(gain + channel, at < size, other=0.0)
        shift = tl.load(bias + channel, at < size, other=0.0)
        tl.store(y + base + at, ((v - mean) * scale * factor + shift).to(y.dtype.element_ty), at < size)


@triton.jit
def instance_norm(x, y, planes, S, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """A program holds some whole planes in registers."""
    plane = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    pixel = tl.arange(0, WIDTH)
    mask = (plane < planes)[:, None] & (pixel < S)[None, :]
    v = tl.load(x + plane[:, None] * S + pixel[None, :], mask=mask, other=0.0)
    mean = tl.sum(v, axis=1, keep_dims=True) / S
    centred = tl.where(mask, v - mean, 0.0)
    var = tl.sum(centred * centred, axis=1, keep_dims=True) / S
    tl.store(y + plane[:, None] * S + pixel[None, :], centred / tl.sqrt(var + 1e-5), mask=mask)


@triton.jit
def batch_norm_inference(
    x, mean, var, gain, bias, y, C, S, BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr, RELU: tl.constexpr
):
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    scale = tl.load(gain + c, c < C, other=0.0) * tl.rsqrt(tl.load(var + c, c < C, other=1.0) + 1e-5)
    shift = tl.load(bias + c, c < C, other=0.0) - tl.load(mean + c, c < C, other=0.0) * scale
    at = (tl.program_id(2) * C + c[:, None]) * S + s[None, :]
    mask = (c[:, None] < C) & (s[None, :] < S)
    out = tl.load(x + at, mask, other=0.0).to(tl.float32) * scale[:, None] + shift[:, None]
    if RELU:
        out = tl.maximum(out, 0.0)
    tl.store(y + at, out.to(tl.float16), mask)


@triton.jit
def merge_moments(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = n_b / tl.maximum(n, 1.0)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def batch_norm_statistics(
    x,
    mean,
    var,
    part_mean,
    part_m2,
    part_n,
    arrivals,
    M,
    C,
    BLOCK_M: tl.constexpr,
    BLOCK_C: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Mean and variance of channels, innermost in memory; programs leave moments of their rows."""
    channels = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    part = tl.program_id(1)
    valid = channels < C
    average = tl.zeros((BLOCK_C,), tl.float32)
    m2 = tl.zeros((BLOCK_C,), tl.float32)
    n = tl.zeros((BLOCK_C,), tl.float32)
    for first in range(part * BLOCK_M, M, SPLITS * BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        mask = (rows < M)[:, None] & valid[None, :]
        block = tl.load(x + rows[:, None] * C + channels[None, :], mask, other=0.0).to(tl.float32)
        count = tl.minimum(M - first, BLOCK_M).to(tl.float32)
        block_mean = tl.sum(block, 0) / count
        off = tl.where(mask, block - block_mean[None, :], 0.0)
        average, m2, n = merge_moments(average, m2, n, block_mean, tl.sum(off * off, 0), count + 0.0 * n)
    tl.store(part_mean + part * C + channels, average, valid)
    tl.store(part_m2 + part * C + channels, m2, valid)
    tl.store(part_n + part * C + channels, n, valid)
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tl.program_id(0), 1) == SPLITS - 1:
        parts = tl.arange(0, SPLITS)[:, None] * C + channels[None, :]
        a = tl.load(part_mean + parts, valid[None, :], other=0.0, cache_modifier=".cg")
        b = tl.load(part_m2 + parts, valid[None, :], other=0.0, cache_modifier=".cg")
        w = tl.load(part_n + parts, valid[None, :], other=0.0, cache_modifier=".cg")
        average, m2, n = tl.reduce((a, b, w), 0, merge_moments)
        tl.store(mean + channels, average, valid)
        tl.store(var + channels, m2 / M, valid)
        tl.store(arrivals + tl.program_id(0), 0)


@triton.jit
def layer_norm_grad_input(
    DX, DY, W, X, Mean, Rstd, stride, N, ROWS: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, M
):
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    for r in range(ROWS):
        row = tl.program_id(0) * ROWS + r
        if row < M:
            x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
            dy = tl.load(DY + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
            mean = tl.load(Mean + row)
            rstd = tl.load(Rstd + row)
            xhat = tl.where(mask, (x - mean) * rstd, 0.0)
            wdy = tl.where(mask, w * dy, 0.0)
            c1 = tl.sum(xhat * wdy, axis=0) / N
            c2 = tl.sum(wdy, axis=0) / N
            dx = (wdy - (xhat * c1 + c2)) * rstd
            tl.store(DX + row * stride + cols, dx.to(tl.float16), mask=mask)


@triton.jit
def layer_norm_grad_weights(
    dy,
    x,
    mean,
    rstd,
    dgain,
    dbias,
    sums,
    arrivals,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    in_cols = cols < N
    gains = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    shifts = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(tl.program_id(1) * BLOCK_M, M, BLOCK_M * SPLITS):
        rows = first + tl.arange(0, BLOCK_M)
        mask = (rows < M)[:, None] & in_cols[None, :]
        at = rows[:, None] * N + cols[None, :]
        slope = tl.load(dy + at, mask, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask, other=0.0).to(tl.float32)
        centre = tl.load(mean + rows, rows < M, other=0.0)
        scale = tl.load(rstd + rows, rows < M, other=0.0)
        gains += slope * (value - centre[:, None]) * scale[:, None]
        shifts += slope
    tl.atomic_add(sums + cols, tl.sum(gains, 0), in_cols)
    tl.atomic_add(sums + N + cols, tl.sum(shifts, 0), in_cols)
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tl.program_id(0), 1) == SPLITS - 1:
        tl.store(dgain + cols, tl.load(sums + cols, in_cols, cache_modifier=".cg"), in_cols)
        tl.store(dbias + cols, tl.load(sums + N + cols, in_cols, cache_modifier=".cg"), in_cols)
        tl.debug_barrier()  # all have read before one of them clears
        nothing = tl.zeros((BLOCK_N,), tl.float32)
        tl.store(sums + cols, nothing, in_cols)
        tl.store(sums + N + cols, nothing, in_cols)
        tl.store(arrivals + tl.program_id(0), 0)


@triton.jit
def rms_norm_grad_input(dy, x, gain, dx, m, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Two sums of a row, then its gradient; the second time blocks come from the cache."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    products = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=STAGES):
        at = first + lanes
        mask = at < n
        v = tl.load(x + row * n + at, mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        g = tl.load(dy + row * n + at, mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += v * v
        products += v * g * tl.load(gain + at, mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(squares) / n + 1e-6)
    along = tl.sum(products) / n * scale * scale
    for first in tl.range(0, n, BLOCK, num_stages=STAGES):
        at = first + lanes
        mask = at < n
        v = tl.load(x + row * n + at, mask, other=0.0).to(tl.float32)
        g = tl.load(dy + row * n + at, mask, other=0.0).to(tl.float32)
        w = tl.load(gain + at, mask, other=0.0).to(tl.float32)
        tl.store(dx + row * n + at, (scale * (g * w - v * along)).to(dx.dtype.element_ty), mask)


@triton.jit
def weight_norm(v_ptr, g_ptr, w_ptr, norm_ptr, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    _tmp = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        tmp0 = tl.load(
            v_ptr + (rindex + rnumel * xindex), rmask & xmask, eviction_policy="evict_last", other=0.0
        )
        _tmp = tl.where(rmask & xmask, _tmp + tmp0 * tmp0, _tmp)
    tmp3 = tl.sqrt(tl.sum(_tmp, 1)[:, None])
    tl.store(norm_ptr + xindex, tmp3, xmask)
    tmp5 = tl.load(g_ptr + xindex, xmask, eviction_policy="evict_last", other=0.0)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        tmp4 = tl.load(
            v_ptr + (rindex + rnumel * xindex), rmask & xmask, eviction_policy="evict_first", other=0.0
        )
        tl.store(w_ptr + (rindex + rnumel * xindex), tmp4 * (tmp5 / tmp3), rmask & xmask)


@triton.jit
def normalise_rows(x, y, m, D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, PROGRAMS: tl.constexpr):
    """Short rows divided by their lengths; programs take blocks of rows in turns."""
    d = tl.arange(0, WIDTH)
    for block in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS):
        row = block * ROWS + tl.arange(0, ROWS)
        mask = (row < m)[:, None] & (d < D)[None, :]
        v = tl.load(x + row[:, None] * D + d[None, :], mask, other=0.0).to(tl.float32)
        length = tl.sqrt(tl.sum(v * v, 1))
        unit = v / tl.maximum(length, 1e-12)[:, None]
        tl.store(y + row[:, None] * D + d[None, :], unit.to(tl.float16), mask)


@triton.jit
def softmax_grad(
    probabilities,
    slopes,
    out,
    n_rows,
    n_cols,
    PROGRAMS: tl.constexpr,
    WIDTH: tl.constexpr,
    num_stages: tl.constexpr,
):
    columns = tl.arange(0, WIDTH)
    mask = columns < n_cols
    for row in tl.range(tl.program_id(0), n_rows, PROGRAMS, num_stages=num_stages):
        p = tl.load(probabilities + row * n_cols + columns, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(slopes + row * n_cols + columns, mask=mask, other=0.0).to(tl.float32)
        inner = tl.sum(p * g, axis=0)
        tl.store(out + row * n_cols + columns, (p * (g - inner)).to(tl.float16), mask=mask)


@triton.jit
def log_softmax(x, y, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    top = tl.full((ROWS, 1), float("-inf"), tl.float32)
    for first in range(0, n, BLOCK):
        column = first + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row * n + column, (row < m) & (column < n), other=float("-inf"))
        top = tl.maximum(top, tl.max(v, axis=1, keep_dims=True))
    total = tl.zeros((ROWS, 1), tl.float32)
    for first in range(0, n, BLOCK):
        column = first + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row * n + column, (row < m) & (column < n), other=float("-inf"))
        total += tl.sum(tl.exp(v - top), axis=1, keep_dims=True)
    shift = top + tl.log(total)
    for first in range(0, n, BLOCK):
        column = first + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row * n + column, (row < m) & (column < n), other=0.0)
        tl.store(y + row * n + column, v - shift, (row < m) & (column < n))


@triton.jit
def online_softmax(x, y, n, BLOCK: tl.constexpr, PER_LANE: tl.constexpr):
    """Largest and sum in one pass, for the whole row or for each lane of it (PER_LANE)."""
    LOG2_E: tl.constexpr = 1.4426950408889634
    x += tl.program_id(0).to(tl.int64) * n
    y += tl.program_id(0).to(tl.int64) * n
    lanes = tl.arange(0, BLOCK)
    if PER_LANE:
        tops = tl.full((BLOCK,), -1e30, tl.float32)
        sums = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, n, BLOCK):
            v = tl.load(x + first + lanes, first + lanes < n, other=-1e30).to(tl.float32) * LOG2_E
            higher = tl.maximum(tops, v)
            sums = sums * tl.exp2(tops - higher) + tl.exp2(v - higher)
            tops = higher
        top = tl.max(tops, 0)
        total = tl.sum(sums * tl.exp2(tops - top), 0)
    else:
        top = -1e30
        total = 0.0
        for first in range(0, n, BLOCK):
            v = tl.load(x + first + lanes, first + lanes < n, other=-1e30).to(tl.float32) * LOG2_E
            higher = tl.maximum(top, tl.max(v, 0))
            total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(v - higher), 0)
            top = higher
    for first in range(0, n, BLOCK):
        v = tl.load(x + first + lanes, first + lanes < n, other=0.0).to(tl.float32) * LOG2_E
        tl.store(y + first + lanes, (tl.exp2(v - top) / total).to(tl.float16), first + lanes < n)


@triton.jit
def masked_softmax(
    scores,
    bias,
    lengths,
    out,
    H,
    Q,
    K,
    scale,
    BLOCK_Q: tl.constexpr,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
):
    """Softmax of scaled scores and a bias that heads share, over the keys that a sequence has."""
    sequence = tl.program_id(2)
    length = tl.load(lengths + sequence)
    q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)[:, None]
    k = tl.arange(0, WIDTH)[None, :]
    mask = (q < Q) & (k < K)
    shift = tl.load(bias + q * K + k, mask, other=0.0).to(tl.float32)
    for turn in tl.static_range(HEADS):
        head = tl.program_id(1) * HEADS + turn
        at = ((sequence * H + head) * Q + q).to(tl.int64) * K + k
        value = tl.load(scores + at, mask, other=0.0).to(tl.float32) * scale + shift
        value = tl.where(k < length, value, float("-inf"))
        value = tl.exp(value - tl.max(value, 1, keep_dims=True))
        value = value / tl.sum(value, 1, keep_dims=True)
        tl.store(out + at, value.to(tl.float16), mask)


@triton.jit
def quantise_rows(x, codes, scales, m, N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Eight bits and a power of two for each row, so that every code is exact."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, N, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        mask = (rows < m)[:, None] & (columns < N)[None, :]
        v = tl.load(x + rows[:, None] * N + columns[None, :], mask, other=0.0)
        largest = tl.maximum(largest, tl.abs(v.to(tl.float32)))
    # Not 127: where numbers of half precision are at the edge of two scales, rounding would choose.
    exponent = tl.ceil(tl.log2(tl.max(largest, 1) / 126.9))
    tl.store(scales + rows, tl.exp2(exponent), rows < m)
    inverse = tl.exp2(-exponent)[:, None]
    for first in range(0, N, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        mask = (rows < m)[:, None] & (columns < N)[None, :]
        v = tl.load(x + rows[:, None] * N + columns[None, :], mask, other=0.0).to(tl.float32)
        tl.store(codes + rows[:, None] * N + columns[None, :], tl.floor(v * inverse + 0.5).to(tl.int8), mask)


@triton.jit
def fake_quantise_groups(x, y, groups, GROUP: tl.constexpr, PER_PROGRAM: tl.constexpr):
    """What is left of numbers in four bits with a scale for each group; groups are contiguous."""
    group = tl.program_id(0) * PER_PROGRAM + tl.arange(0, PER_PROGRAM)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    v = tl.load(x + at, mask=(group < groups)[:, None], other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(v), axis=1)[:, None] / 7.0 + 1e-8
    code = tl.minimum(tl.maximum(tl.floor(v / scale + 0.5), -8.0), 7.0)
    tl.store(y + at, (code * scale).to(tl.float16), mask=(group < groups)[:, None])
