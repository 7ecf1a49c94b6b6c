"""Reductions of rows, columns, channels, segments and whole arrays."""

import triton
import triton.language as tl


@triton.jit
def column_sums(
    x, out, sums, arrivals, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr
):
    """Programs that share columns add up atomically; the last of them leaves zeros for the next launch."""
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(tl.program_id(1) * BLOCK_M, M, SPLITS * BLOCK_M):
        mask = (first + rows < M)[:, None] & (columns < N)[None, :]
        total += tl.load(x + (first + rows)[:, None] * N + columns[None, :], mask, other=0.0).to(tl.float32)
    result = tl.sum(total, axis=0)
    if SPLITS == 1:
        tl.store(out + columns, result, columns < N)
    else:
        tl.atomic_add(sums + columns, result, columns < N, sem="relaxed")
        tl.debug_barrier()
        if tl.atomic_add(arrivals + tl.program_id(0), 1) == SPLITS - 1:
            tl.store(out + columns, tl.load(sums + columns, columns < N, cache_modifier=".cg"), columns < N)
            tl.debug_barrier()  # all have read before one of them clears
            tl.store(sums + columns, tl.zeros((BLOCK_N,), tl.float32), columns < N)
            tl.store(arrivals + tl.program_id(0), 0)


@triton.jit
def row_norms(x_ptr, l1_ptr, l2_ptr, linf_ptr, n_cols, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Three norms of a row; sums stay per lane until the end (WIDE), or are reduced block by block."""
    row = tl.program_id(0)
    x_ptr += row * n_cols
    offs = tl.arange(0, BLOCK)
    if WIDE:
        l1 = tl.zeros((BLOCK,), tl.float32)
        l2 = tl.zeros((BLOCK,), tl.float32)
        linf = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n_cols, BLOCK):
            size = tl.abs(tl.load(x_ptr + start + offs, mask=start + offs < n_cols, other=0.0).to(tl.float32))
            l1 += size
            l2 += size * size
            linf = tl.maximum(linf, size)
        tl.store(l1_ptr + row, tl.sum(l1))
        tl.store(l2_ptr + row, tl.sqrt(tl.sum(l2)))
        tl.store(linf_ptr + row, tl.max(linf))
    else:
        sum_1 = 0.0
        sum_2 = 0.0
        top = 0.0
        for start in range(0, n_cols, BLOCK):
            size = tl.abs(tl.load(x_ptr + start + offs, mask=start + offs < n_cols, other=0.0).to(tl.float32))
            sum_1 += tl.sum(size)
            sum_2 += tl.sum(size * size)
            top = tl.maximum(top, tl.max(size))
        tl.store(l1_ptr + row, sum_1)
        tl.store(l2_ptr + row, tl.sqrt(sum_2))
        tl.store(linf_ptr + row, top)


@triton.jit
def variance_two_pass(x, variance, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = x + rows.to(tl.int64)[:, None] * n + tl.arange(0, BLOCK)[None, :]
    inside = (rows < m)[:, None]
    lane = tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=STAGES):
        total += tl.load(at + first, inside & (first + lane < n), other=0.0)
    mean = (tl.sum(total, 1) / n)[:, None]
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=STAGES):
        mask = inside & (first + lane < n)
        off = tl.where(mask, tl.load(at + first, mask, other=0.0) - mean, 0.0)
        squares += off * off
    tl.store(variance + rows, tl.sum(squares, 1) / (n - 1), rows < m)


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight


@triton.jit
def variance_welford(in_ptr, out_mean, out_var, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    m2 = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    weight = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        value = tl.load(
            in_ptr + rindex + rnumel * xindex, rmask & xmask, eviction_policy="evict_first", other=0.0
        )
        delta = value - mean
        new_weight = weight + 1.0
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
        mean = tl.where(rmask & xmask, new_mean, mean)
        m2 = tl.where(rmask & xmask, new_m2, m2)
        weight = tl.where(rmask & xmask, new_weight, weight)
    mean, m2, weight = tl.reduce((mean, m2, weight), 1, welford_combine)
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_mean + rows, mean, rows < xnumel)
    tl.store(out_var + rows, m2 / rnumel, rows < xnumel)


@triton.jit
def column_statistics(x, mean, std, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr):
    """Mean and standard deviation of columns, from sums that are shifted by the first row."""
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    valid = columns < N
    pivot = tl.load(x + columns, valid, other=0.0)
    rows = tl.arange(0, BLOCK_M)
    pointers = x + rows[:, None] * N + columns[None, :]
    sums = tl.zeros((BLOCK_N,), tl.float32)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for first in tl.range(0, M, BLOCK_M, num_stages=DEPTH):
        mask = (rows < M - first)[:, None] & valid[None, :]
        shifted = tl.where(mask, tl.load(pointers, mask, other=0.0) - pivot[None, :], 0.0)
        sums += tl.sum(shifted, 0)
        squares += tl.sum(shifted * shifted, 0)
        pointers += BLOCK_M * N
    average = sums / M
    tl.store(mean + columns, average + pivot, valid)
    tl.store(std + columns, tl.sqrt(squares / M - average * average), valid)


@triton.jit
def segment_sums(values, offsets, sums, D: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr):
    """Sums over the rows of each segment, whose first rows are told by ``offsets``."""
    segment = tl.program_id(0)
    row = tl.load(offsets + segment)
    end = tl.load(offsets + segment + 1)
    features = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros((BLOCK_R, BLOCK_D), tl.float32)
    while row < end:
        rows = row + tl.arange(0, BLOCK_R)
        mask = (rows < end)[:, None] & (features < D)[None, :]
        total += tl.load(values + rows[:, None].to(tl.int64) * D + features[None, :], mask, other=0.0)
        row += BLOCK_R
    tl.store(sums + segment * D + features, tl.sum(total, 0), features < D)


@triton.jit
def split_dot(
    a, b, out, total, arrivals, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, UNROLL: tl.constexpr
):
    """One number: the product of two long vectors."""
    pid = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for chunk in range(pid, tl.cdiv(n, BLOCK * UNROLL), PROGRAMS):
        for part in tl.static_range(UNROLL):
            at = (chunk * UNROLL + part) * BLOCK + tl.arange(0, BLOCK)
            left = tl.load(a + at, at < n, other=0.0).to(tl.float32)
            acc += left * tl.load(b + at, at < n, other=0.0).to(tl.float32)
    tl.atomic_add(total, tl.sum(acc))
    if tl.atomic_add(arrivals, 1) == PROGRAMS - 1:
        tl.store(out, tl.load(total, cache_modifier=".cg"))
        tl.store(total, 0.0)
        tl.store(arrivals, 0)


@triton.jit
def any_all(flags, any_out, all_out, n, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    """Whether any and whether all flags of a row are set; EARLY ends once both are known."""
    row = tl.program_id(0).to(tl.int64)
    any_set = 0
    all_set = 1
    first = 0
    while first < n:
        at = first + tl.arange(0, BLOCK)
        set_ = tl.load(flags + row * n + at, at < n, other=0).to(tl.int32) != 0
        any_set = tl.maximum(any_set, tl.max(set_.to(tl.int32), 0))
        all_set = tl.minimum(all_set, tl.min((set_ | (at >= n)).to(tl.int32), 0))
        first += BLOCK
        if EARLY:
            first = tl.where((any_set == 1) & (all_set == 0), n, first)
    tl.store(any_out + row, any_set)
    tl.store(all_out + row, all_set)


@triton.jit
def channel_extremes(
    x, lowest, highest, batch, channels, SPACE: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr
):
    """Smallest and largest of each channel of (batch, channel, space), combined by atomics."""
    channel = tl.program_id(1)
    low = tl.full((BLOCK,), float("inf"), tl.float32)
    high = tl.full((BLOCK,), float("-inf"), tl.float32)
    for first in range(tl.program_id(0) * BLOCK, batch * SPACE, SPLITS * BLOCK):
        at = first + tl.arange(0, BLOCK)
        places = (at // SPACE) * (channels * SPACE) + channel * SPACE + at % SPACE
        inside = at < batch * SPACE
        low = tl.minimum(low, tl.load(x + places, inside, other=float("inf")))
        high = tl.maximum(high, tl.load(x + places, inside, other=float("-inf")))
    tl.atomic_min(lowest + channel, tl.min(low, 0))
    tl.atomic_max(highest + channel, tl.max(high, 0))


@triton.jit
def bucket_counts(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    found = tl.zeros((BINS,), tl.int32)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0)
        bucket = tl.minimum((value * BINS).to(tl.int32), BINS - 1)
        found += tl.histogram(bucket, BINS, mask=at < n)
    tl.store(counts + row * BINS + tl.arange(0, BINS), found)


@triton.jit
def mean_pool(tokens, lengths, pooled, T, D, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """Mean over the tokens that each sequence has."""
    sequence = tl.program_id(1)
    length = tl.load(lengths + sequence)
    lanes = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in range(0, length, BLOCK_T):
        times = start + tl.arange(0, BLOCK_T)
        mask = (times[:, None] < length) & (lanes[None, :] < D)
        block = tl.load(tokens + (sequence * T + times[:, None]) * D + lanes[None, :], mask=mask, other=0.0)
        acc += tl.sum(block.to(tl.float32), axis=0)
    mean = acc / tl.maximum(length, 1)
    tl.store(pooled + sequence * D + lanes, mean.to(tl.float16), mask=lanes < D)


@triton.jit
def argmax_split(
    logits,
    tokens,
    part_values,
    part_places,
    arrivals,
    N,
    BLOCK: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """The likeliest token of a few long rows; a row is shared, and the last to arrive compares the parts."""
    part = tl.program_id(0)
    row = tl.program_id(1)
    share = tl.cdiv(N, SPLITS)
    lanes = tl.arange(0, BLOCK)
    value = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for first in range(part * share, min((part + 1) * share, N), BLOCK):
        at = first + lanes
        mask = (at < (part + 1) * share) & (at < N)
        here = tl.load(logits + row * N + at, mask, other=float("-inf"))
        place = tl.where(here > value, at, place)
        value = tl.maximum(here, value)
    best, lane = tl.max(value, 0, return_indices=True)
    where = tl.sum(tl.where(lanes == lane, place, 0), 0)
    tl.store(part_values + row * SPLITS + part, best)
    tl.store(part_places + row * SPLITS + part, where)
    tl.debug_barrier()
    if tl.atomic_add(arrivals + row, 1) == SPLITS - 1:
        parts = row * SPLITS + tl.arange(0, SPLITS)
        winner = tl.argmax(tl.load(part_values + parts, cache_modifier=".cg"), 0)
        tl.store(tokens + row, tl.load(part_places + row * SPLITS + winner, cache_modifier=".cg"))
        tl.store(arrivals + row, 0)
