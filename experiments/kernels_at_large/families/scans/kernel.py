"""Scans along rows, columns and time, and the places of extremes."""

import triton
import triton.language as tl


@triton.jit
def cumsum_rows(x, y, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    carry = tl.zeros((ROWS,), tl.float32)
    for first in range(0, n, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        mask = (rows[:, None] < m) & (columns[None, :] < n)
        at = rows[:, None] * n + columns[None, :]
        values = tl.load(x + at, mask=mask, other=0.0)
        tl.store(y + at, tl.cumsum(values, axis=1) + carry[:, None], mask=mask)
        carry += tl.sum(values, axis=1)


@triton.jit
def cumsum_columns(X, Y, M, N, stride_m, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs_n = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.arange(0, BLOCK_M)
    x_ptrs = X + offs_m[:, None] * stride_m + offs_n[None, :]
    y_ptrs = Y + offs_m[:, None] * stride_m + offs_n[None, :]
    acc = tl.zeros([BLOCK_N], dtype=tl.float32)
    start = 0
    while start < M:
        mask = (start + offs_m < M)[:, None] & (offs_n < N)[None, :]
        x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
        y = tl.cumsum(x, axis=0) + acc[None, :]
        tl.store(y_ptrs, y.to(tl.float16), mask=mask)
        acc += tl.sum(x, axis=0)
        x_ptrs += BLOCK_M * stride_m
        y_ptrs += BLOCK_M * stride_m
        start += BLOCK_M


@triton.jit
def suffix_product(
    gates,
    products,
    rows_total,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Products of all gates from each place to the end of its row; persistent programs."""
    columns = tl.arange(0, WIDTH)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(rows_total, ROWS), PROGRAMS):
        rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (rows < rows_total) & (columns < N)
        gate = tl.load(gates + rows * N + columns, inside, other=1.0).to(tl.float32)
        tl.store(products + rows * N + columns, tl.cumprod(gate, axis=1, reverse=True), inside)


@triton.jit
def argmax_rows(scores, values, places, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores += row * n
    best = float("-inf")
    where = 0
    for first in tl.range(0, n, BLOCK, num_stages=STAGES):
        at = first + tl.arange(0, BLOCK)
        block = tl.load(scores + at, mask=at < n, other=float("-inf"))
        top, index = tl.max(block, axis=0, return_indices=True)
        where = tl.where(top > best, first + index, where)
        best = tl.maximum(best, top)
    tl.store(values + row, best)
    tl.store(places + row, where)


@triton.jit
def lower(value_a, index_a, value_b, index_b):
    a_wins = (value_a < value_b) | ((value_a == value_b) & (index_a < index_b))
    return tl.where(a_wins, value_a, value_b), tl.where(a_wins, index_a, index_b)


@triton.jit
def argmin_columns(x, out, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.arange(0, BLOCK_M)[:, None]
    least = tl.full((BLOCK_M, BLOCK_N), float("inf"), tl.float32)
    place = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for start in range(0, M, BLOCK_M):
        mask = (start + rows < M) & (cols < N)
        value = tl.load(x + (start + rows) * N + cols, mask=mask, other=float("inf"))
        less = value < least
        least = tl.where(less, value, least)
        place = tl.where(less, start + rows, place)
    _, index = tl.reduce((least, place), 0, lower)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(out + columns, index, mask=columns < N)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def prefix_max(levels_ptr, peaks_ptr, n_rows, n_cols, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    rbase = tl.arange(0, RBLOCK)[None, :]
    xmask = xindex < n_rows
    peak = tl.full((XBLOCK, 1), -2147483648, tl.int32)
    for roffset in range(0, n_cols, RBLOCK):
        rindex = roffset + rbase
        mask = xmask & (rindex < n_cols)
        tmp0 = tl.load(
            levels_ptr + xindex * n_cols + rindex, mask, other=-2147483648, eviction_policy="evict_first"
        )
        tmp1 = tl.associative_scan(tmp0, 1, larger)
        tl.store(peaks_ptr + xindex * n_cols + rindex, tl.maximum(tmp1, peak), mask)
        peak = tl.maximum(peak, tl.max(tmp0, axis=1)[:, None])


@triton.jit
def restart(sum_a, flag_a, sum_b, flag_b):
    return tl.where(flag_b != 0, sum_b, sum_a + sum_b), flag_a | flag_b


@triton.jit
def segmented_scan(x, starts, y, n, BLOCK: tl.constexpr):
    """Running sums that begin anew where a segment starts; a program takes a row."""
    base = tl.program_id(0) * n
    lane = tl.arange(0, BLOCK)
    carry = 0.0
    for first in tl.range(0, n, BLOCK):
        inside = first + lane < n
        values = tl.load(x + base + first + lane, inside, other=0.0)
        flags = tl.load(starts + base + first + lane, inside, other=0)
        sums, seen = tl.associative_scan((values, flags), 0, restart)
        sums = tl.where(seen != 0, sums, sums + carry)
        tl.store(y + base + first + lane, sums, inside)
        carry = tl.sum(tl.where(lane == BLOCK - 1, sums, 0.0))


@triton.jit
def exclusive_scan(counts, offsets, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS
    source = tl.make_tensor_descriptor(counts, (m, n), (n, 1), (ROWS, BLOCK))
    target = tl.make_tensor_descriptor(offsets, (m, n), (n, 1), (ROWS, BLOCK))
    before = tl.zeros((ROWS, 1), tl.int32)
    for block in range(tl.cdiv(n, BLOCK)):
        here = source.load([row, block * BLOCK])
        target.store([row, block * BLOCK], tl.cumsum(here, 1) - here + before)
        before += tl.sum(here, 1)[:, None]


@triton.jit
def add_in_logs(a, b):
    top = tl.maximum(a, b)
    return top + tl.log(1.0 + tl.exp(tl.minimum(a, b) - top))


@triton.jit
def logcumsumexp(x, y, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    total = tl.full((ROWS, 1), -1e30, tl.float32)
    for block in range(0, tl.cdiv(n, BLOCK)):
        columns = (block * BLOCK + tl.arange(0, BLOCK))[None, :]
        mask = (rows < m) & (columns < n)
        value = tl.load(x + rows * n + columns, mask=mask, other=-1e30)
        tl.store(
            y + rows * n + columns, add_in_logs(tl.associative_scan(value, 1, add_in_logs), total), mask=mask
        )
        total = add_in_logs(total, tl.reduce(value, 1, add_in_logs, keep_dims=True))


@triton.jit
def recurrence_steps(decay, drive, state, T, D, BLOCK_D: tl.constexpr, UNROLL: tl.constexpr):
    """h = a h + b, step after step; a program takes some channels of one sequence."""
    channel = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = channel < D
    offset = tl.program_id(1).to(tl.int64) * T * D + channel
    h = tl.zeros((BLOCK_D,), tl.float32)
    for _ in range(0, T, UNROLL):
        for step in tl.static_range(UNROLL):
            a = tl.load(decay + offset + step * D, mask, other=1.0).to(tl.float32)
            b = tl.load(drive + offset + step * D, mask, other=0.0).to(tl.float32)
            h = a * h + b
            tl.store(state + offset + step * D, h.to(tl.float16), mask)
        offset += UNROLL * D


@triton.jit
def compose(a_left, b_left, a_right, b_right):
    return a_left * a_right, b_left * a_right + b_right


@triton.jit
def recurrence_scan(decay, drive, state, T, D, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """h = a h + b by associative scans over blocks of time."""
    channels = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    times = tl.arange(0, BLOCK_T)[:, None]
    batch = tl.program_id(0) * T * D
    h = tl.zeros((1, BLOCK_D), tl.float32)
    for first in range(0, T, BLOCK_T):
        mask = (first + times < T) & (channels < D)
        places = batch + (first + times) * D + channels
        a = tl.load(decay + places, mask, other=1.0)
        b = tl.load(drive + places, mask, other=0.0)
        a_all, b_all = tl.associative_scan((a, b), 0, compose)
        states = a_all * h + b_all
        tl.store(state + places, states, mask)
        h = tl.sum(tl.where(times == BLOCK_T - 1, states, 0.0), axis=0, keep_dims=True)


@triton.jit
def running_mean(x, out, n, BLOCK: tl.constexpr, PER_THREAD: tl.constexpr):
    """Mean of all up to each place; blocks are scanned as a matrix: within its rows, then across them."""
    row = tl.program_id(0)
    outer = tl.arange(0, BLOCK // PER_THREAD)[:, None]
    inner = tl.arange(0, PER_THREAD)[None, :]
    total = 0.0
    for first in range(0, n, BLOCK):
        at = first + outer * PER_THREAD + inner
        v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        within = tl.cumsum(v, axis=1)
        of_rows = tl.sum(v, axis=1)
        before = tl.cumsum(of_rows, axis=0) - of_rows
        mean = (within + before[:, None] + total) / (at + 1)
        tl.store(out + row * n + at, mean.to(out.dtype.element_ty), mask=at < n)
        total += tl.sum(of_rows, axis=0)
