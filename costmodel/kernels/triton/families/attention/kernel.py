"""Attention of queries to keys and values, forward, with scores in blocks and a running softmax.

A program takes a block of queries of one head; persistent ones take several, one after the other. Few
queries and many keys leave most of a GPU idle: then ``SPLITS`` programs share the keys of a block, and the
last of them to arrive adds up what all have left in scratch memory.
"""

import triton
import triton.language as tl


@triton.jit
def attention(
    query,
    key,
    value,
    output,
    sums,
    statistics,
    arrivals,
    heads,
    Q: tl.constexpr,
    K: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BY_HEAD: tl.constexpr,
):
    if PROGRAMS == 0:
        tile = tl.program_id(0)
        total, largest, scale = attend(
            query,
            key,
            value,
            heads,
            tile,
            tl.program_id(1),
            Q,
            K,
            D,
            CAUSAL,
            BLOCK_M,
            BLOCK_N,
            SPLITS,
            BY_HEAD,
        )
        if SPLITS == 1:
            write(output, heads, tile, total / scale[:, None], Q, D, BLOCK_M, BY_HEAD)
        else:
            leave(sums, statistics, tile, tl.program_id(1), total, largest, scale, D, BLOCK_M, SPLITS)
            if tl.atomic_add(arrivals + tile, 1) == SPLITS - 1:
                tl.store(arrivals + tile, 0)
                result = combine(sums, statistics, tile, D, BLOCK_M, SPLITS)
                write(output, heads, tile, result, Q, D, BLOCK_M, BY_HEAD)
    else:
        for tile in tl.range(tl.program_id(0), heads * tl.cdiv(Q, BLOCK_M), PROGRAMS):
            total, largest, scale = attend(
                query, key, value, heads, tile, 0, Q, K, D, CAUSAL, BLOCK_M, BLOCK_N, 1, BY_HEAD
            )
            write(output, heads, tile, total / scale[:, None], Q, D, BLOCK_M, BY_HEAD)


@triton.jit
def place(heads, tile, Q: tl.constexpr, BLOCK_M: tl.constexpr, BY_HEAD: tl.constexpr):
    """Head and first query of a tile: head by head, or a block of each, the last first.

    Under a causal mask the last blocks have the most keys.
    """
    BLOCKS: tl.constexpr = triton.cdiv(Q, BLOCK_M)
    if BY_HEAD:
        head = tile // BLOCKS
        first = tile % BLOCKS * BLOCK_M
    else:
        head = tile % heads
        first = (BLOCKS - 1 - tile // heads) * BLOCK_M
    return head, first


@triton.jit
def attend(
    query,
    key,
    value,
    heads,
    tile,
    part,
    Q: tl.constexpr,
    K: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
    BY_HEAD: tl.constexpr,
):
    """What a part of the keys gives a block of queries: weighted values, largest scores, sums of weights."""
    head, first = place(heads, tile, Q, BLOCK_M, BY_HEAD)
    rows = first + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, D)
    start = tl.cast(head, tl.int64) * Q * D
    queries = tl.load(query + start + rows[:, None] * D + columns[None, :], rows[:, None] < Q, other=0.0)
    if CAUSAL:
        seen_by_all = tl.minimum(first + 1 + K - Q, K)
        seen = tl.minimum(first + BLOCK_M + K - Q, K)
    else:
        seen_by_all = K
        seen = K
    share = tl.cdiv(tl.cdiv(seen, BLOCK_N), SPLITS) * BLOCK_N
    begin = part * share
    end = tl.minimum(begin + share, seen)
    masked_from = tl.minimum(tl.maximum(seen_by_all // BLOCK_N * BLOCK_N, begin), end)

    total = tl.zeros((BLOCK_M, D), tl.float32)
    largest = tl.full((BLOCK_M,), -1e30, tl.float32)  # finite, so that a row that sees no key gives no NaN
    scale = tl.zeros((BLOCK_M,), tl.float32)
    start = tl.cast(head, tl.int64) * K * D
    total, largest, scale = over_keys(
        queries,
        key + start,
        value + start,
        rows,
        begin,
        masked_from,
        total,
        largest,
        scale,
        Q,
        K,
        D,
        BLOCK_N,
        CAUSAL,
        False,
    )
    total, largest, scale = over_keys(
        queries,
        key + start,
        value + start,
        rows,
        masked_from,
        end,
        total,
        largest,
        scale,
        Q,
        K,
        D,
        BLOCK_N,
        CAUSAL,
        True,
    )
    return total, largest, scale


@triton.jit
def over_keys(
    queries,
    key,
    value,
    rows,
    begin,
    end,
    total,
    largest,
    scale,
    Q: tl.constexpr,
    K: tl.constexpr,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
):
    """The running softmax over the keys from ``begin`` to ``end``; exponents are of base 2."""
    TEMPERATURE: tl.constexpr = 1.4426950408889634 / D**0.5
    columns = tl.arange(0, D)
    for first in tl.range(begin, end, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        transposed = key + keys[None, :] * D + columns[:, None]
        if MASKED:
            scores = tl.dot(queries, tl.load(transposed, keys[None, :] < K, other=0.0)) * TEMPERATURE
            mask = keys[None, :] < K
            if CAUSAL:
                mask = mask & (keys[None, :] <= rows[:, None] + (K - Q))
            scores = tl.where(mask, scores, -float("inf"))
        else:
            scores = tl.dot(queries, tl.load(transposed)) * TEMPERATURE
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=1))
        weights = tl.exp2(scores - largest[:, None])
        fading = tl.exp2(before - largest)
        scale = scale * fading + tl.sum(weights, axis=1)
        places = value + keys[:, None] * D + columns[None, :]
        values = tl.load(places, keys[:, None] < K, other=0.0) if MASKED else tl.load(places)
        total = tl.dot(weights.to(values.dtype), values, total * fading[:, None])
    return total, largest, scale


@triton.jit
def write(
    output,
    heads,
    tile,
    result,
    Q: tl.constexpr,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BY_HEAD: tl.constexpr,
):
    """Write the result of a block of queries."""
    head, first = place(heads, tile, Q, BLOCK_M, BY_HEAD)
    rows = (first + tl.arange(0, BLOCK_M))[:, None]
    places = output + tl.cast(head, tl.int64) * Q * D + rows * D + tl.arange(0, D)[None, :]
    tl.store(places, result.to(output.dtype.element_ty), rows < Q)


@triton.jit
def leave(
    sums,
    statistics,
    tile,
    part,
    total,
    largest,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Leave the share of one part for the program that combines them."""
    rows = (tl.cast(tile, tl.int64) * SPLITS + part) * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(sums + rows[:, None] * D + tl.arange(0, D)[None, :], total)
    tl.store(statistics + 2 * rows, largest)
    tl.store(statistics + 2 * rows + 1, scale)
    tl.debug_barrier()  # all threads have written before one of them says so


@triton.jit
def combine(sums, statistics, tile, D: tl.constexpr, BLOCK_M: tl.constexpr, SPLITS: tl.constexpr):
    """The softmax over all parts of the keys, from what their programs left."""
    total = tl.zeros((BLOCK_M, D), tl.float32)
    largest = tl.full((BLOCK_M,), -1e30, tl.float32)
    scale = tl.zeros((BLOCK_M,), tl.float32)
    for part in tl.range(0, SPLITS):
        rows = (tl.cast(tile, tl.int64) * SPLITS + part) * BLOCK_M + tl.arange(0, BLOCK_M)
        # Past the first-level cache, which may hold older numbers.
        part_largest = tl.load(statistics + 2 * rows, cache_modifier=".cg")
        part_scale = tl.load(statistics + 2 * rows + 1, cache_modifier=".cg")
        part_total = tl.load(sums + rows[:, None] * D + tl.arange(0, D)[None, :], cache_modifier=".cg")
        before = largest
        largest = tl.maximum(before, part_largest)
        fading = tl.exp2(before - largest)
        weight = tl.exp2(part_largest - largest)
        scale = scale * fading + part_scale * weight
        total = total * fading[:, None] + part_total * weight[:, None]
    return total / scale[:, None]
