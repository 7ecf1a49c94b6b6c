"""Kernels that order, rank and search."""

import triton
import triton.language as tl


@triton.jit
def sort_rows(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    """Sort short rows with the language's own network."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    v = tl.load(x + r[:, None] * N + c[None, :], ok, other=float("inf"))
    tl.store(y + r[:, None] * N + c[None, :], tl.sort(v, dim=1), ok)


@triton.jit
def bitonic_by_hand(x, y, M, N: tl.constexpr, LOG: tl.constexpr, ROWS: tl.constexpr):
    """Sort rows of ``2 ** LOG`` integers by a network whose partners are gathered."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, N)[None, :]
    v = tl.load(x + r[:, None] * N + c, (r < M)[:, None], other=0)
    for stage in tl.static_range(1, LOG + 1):
        for step in tl.static_range(stage):
            distance = 1 << (stage - 1 - step)
            partner = tl.gather(v, tl.broadcast_to(c ^ distance, (ROWS, N)), 1)
            rising = (c & (1 << stage)) == 0
            lower = (c & distance) == 0
            v = tl.where(rising == lower, tl.minimum(v, partner), tl.maximum(v, partner))
    tl.store(y + r[:, None] * N + c, v, (r < M)[:, None])


@triton.jit
def top_k_by_maxima(x, values, places, M, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    """Take the largest out of each row ``K`` times."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    v = tl.load(x + r[:, None] * N + c[None, :], ok, other=-float("inf"))
    for k in range(K):
        high, at = tl.max(v, axis=1, return_indices=True)
        tl.store(values + r * K + k, high, r < M)
        tl.store(places + r * K + k, at, r < M)
        v = tl.where(c[None, :] == at[:, None], -float("inf"), v)


@triton.jit
def top_k_of_packed_keys(x, values, places, M, N, K: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Keep the best ``K`` keys of a row while its blocks pass; a key is a float's bits and its place."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    best = tl.zeros((ROWS, K), tl.int64)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (r < M)[:, None] & (c < N)[None, :]
        bits = tl.load(x + r[:, None] * N + c[None, :], ok, other=0.0).to(tl.int32, bitcast=True)
        key = tl.where(ok, (bits.to(tl.int64) << 32) | (0x7FFFFFFF - c)[None, :], 0)
        best = tl.topk(tl.reshape(tl.join(tl.topk(key, K, dim=1), best), (ROWS, 2 * K)), K, dim=1)
    k = tl.arange(0, K)[None, :]
    high = (best >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    tl.store(values + r[:, None] * K + k, high, (r < M)[:, None])
    tl.store(places + r[:, None] * K + k, 0x7FFFFFFF - best.to(tl.int32), (r < M)[:, None])


@triton.jit
def merge_sorted_rows(a, b, out, N: tl.constexpr, BLOCK: tl.constexpr):
    """Each element finds its place in the merged row by a binary search in the other one."""
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + row * N + i, i < N, other=0.0)
    below = count_below(b + row * N, left, i < N, N, False)
    tl.store(out + row * 2 * N + i + below, left, i < N)
    right = tl.load(b + row * N + i, i < N, other=0.0)
    below = count_below(a + row * N, right, i < N, N, True)
    tl.store(out + row * 2 * N + i + below, right, i < N)


@triton.jit
def count_below(row, value, ok, N, OR_EQUAL: tl.constexpr):
    """How many of a sorted row's ``N`` elements are below each value, or equal."""
    low = tl.zeros_like(value).to(tl.int32)
    high = low + N
    while tl.max((high - low).to(tl.int32)) > 0:
        middle = (low + high) // 2
        found = tl.load(row + middle, ok & (low < high), other=0.0)
        goes_right = found <= value if OR_EQUAL else found < value
        low, high = tl.where((low < high) & goes_right, middle + 1, low), tl.where(goes_right, high, middle)
        low = tl.minimum(low, high)
    return low


@triton.jit
def rank_by_counting(x, ranks, M, N: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """Rank of each element in its row: how many are smaller, or equal and earlier."""
    row = tl.program_id(1) * N
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < N, other=0.0)
    rank = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, N, CHUNK):
        j = start + tl.arange(0, CHUNK)
        other = tl.load(x + row + j, j < N, other=float("inf"))
        equal = (other[None, :] == v[:, None]) & (j[None, :] < i[:, None])
        rank += tl.sum(((other[None, :] < v[:, None]) | equal).to(tl.int32), axis=1)
    tl.store(ranks + row + i, rank, i < N)


@triton.jit
def median_of_rows(x, medians, M, N: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr):
    """Lower median of rows of floats that are not negative: its bits are found from the top by counting."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    bits = tl.load(x + r[:, None] * N + c[None, :], ok, other=float("inf")).to(tl.int32, bitcast=True)
    found = tl.zeros((ROWS,), tl.int32)
    for step in tl.range(0, 31, loop_unroll_factor=STEPS):
        tried = found | (1 << (30 - step))
        below = tl.sum((bits < tried[:, None]).to(tl.int32), axis=1)
        found = tl.where(below <= (N - 1) // 2, tried, found)
    tl.store(medians + r, found.to(tl.float32, bitcast=True), r < M)


@triton.jit
def unique_flags(x, flags, counts, M, N: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Mark where a sorted row changes, and count the marks."""
    for k in range(ROWS):
        row = tl.program_id(0) * ROWS + k
        if row < M:
            total = tl.zeros((BLOCK,), tl.int32)
            for start in range(0, N, BLOCK):
                c = start + tl.arange(0, BLOCK)
                here = tl.load(x + row * N + c, c < N, other=0)
                before = tl.load(x + row * N + c - 1, (c < N) & (c > 0), other=-1)
                new = ((here != before) & (c < N)).to(tl.int32)
                tl.store(flags + row * N + c, new.to(tl.int8), c < N)
                total += new
            tl.store(counts + row, tl.sum(total))


@triton.jit
def digit_histogram(keys, counts, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """Count a radix sort's digits of four bits with histograms and atomics."""
    total = tl.zeros((16,), tl.int32)
    for k in range(CHUNK):
        i = (tl.program_id(0) * CHUNK + k) * BLOCK + tl.arange(0, BLOCK)
        digit = (tl.load(keys + i, i < n, other=0) >> SHIFT) & 15
        total += tl.histogram(digit, 16, mask=i < n)
    tl.atomic_add(counts + tl.arange(0, 16), total)


@triton.jit
def digit_ranks(keys, ranks, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr, SCAN_ALL: tl.constexpr):
    """How many keys of the same digit come before each in its tile of 1024, by prefix sums."""
    tile: tl.constexpr = 1024
    first = tl.program_id(0) * BLOCK * tile
    at = first + tl.arange(0, BLOCK)[:, None] * tile + tl.arange(0, tile)[None, :]
    digit = (tl.load(keys + at, at < n, other=-1) >> SHIFT) & 15
    rank = tl.zeros((BLOCK, tile), tl.int32)
    if SCAN_ALL:
        for value in tl.static_range(16):
            same = (digit == value).to(tl.int32)
            rank = tl.where(digit == value, tl.cumsum(same, axis=1) - 1, rank)
    else:
        # Four counters of 16 bits a word: they stay below 1024.
        for word in range(4):
            mine = digit // 4 == word
            one = tl.where(mine, tl.full((BLOCK, tile), 1, tl.int64) << (16 * (digit % 4)), 0)
            count = (tl.cumsum(one, axis=1) - one) >> (16 * (digit % 4))
            rank = tl.where(mine, (count & 0xFFFF).to(tl.int32), rank)
    tl.store(ranks + at, rank, at < n)


@triton.jit
def search_sorted(edges, x, bins, n, E, BLOCK: tl.constexpr, STEPS: tl.constexpr, ITEMS: tl.constexpr):
    """The bin of each number among sorted edges, by a fixed number of halvings."""
    for item in tl.static_range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, i < n, other=0.0)
        low = tl.zeros((BLOCK,), tl.int32)
        high = low + E
        for _ in tl.static_range(STEPS):
            middle = (low + high) >> 1
            right = (low < high) & (tl.load(edges + middle, low < high, other=0.0) <= v)
            low, high = tl.where(right, middle + 1, low), tl.where(right, high, middle)
        tl.store(bins + i, low, i < n)
