"""Attention of one new query a sequence to its cached keys and values, which are kept in pages.

A page holds PAGE tokens of all heads of keys; ``table`` has the pages of each sequence in order. QUERIES
heads of queries share a head of keys. A program takes these and one of SPLITS parts of a sequence's
tokens; the last of a head's programs to arrive adds up what all have left in scratch memory.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def rows_of_product(queries):
    """Rows that a product on Tensor Cores takes for these queries: a power of two, at least 16."""
    return max(16, 1 << (queries - 1).bit_length())


@triton.jit
def paged_attention(
    query,
    key,
    value,
    table,
    lengths,
    output,
    sums,
    statistics,
    arrivals,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    MOST_PAGES: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    pair, part = tl.program_id(0), tl.program_id(1)
    sequence, head = pair // HEADS, pair % HEADS
    rows, columns = tl.arange(0, rows_of_product(QUERIES)), tl.arange(0, D)
    at_query = (pair * QUERIES + rows)[:, None] * D + columns[None, :]
    is_query = (rows < QUERIES)[:, None]
    total, largest, scale = attend(
        tl.load(query + at_query, is_query, other=0.0),
        key,
        value,
        table + sequence.to(tl.int64) * MOST_PAGES,
        tl.load(lengths + sequence),
        head,
        part,
        HEADS,
        D,
        PAGE,
        BLOCK_N,
        SPLITS,
    )
    if SPLITS > 1:
        left = pair.to(tl.int64) * (SPLITS * QUERIES) + rows
        at = left + part * QUERIES
        tl.store(sums + at[:, None] * D + columns[None, :], total, is_query)
        tl.store(statistics + 2 * at, largest, rows < QUERIES)
        tl.store(statistics + 2 * at + 1, scale, rows < QUERIES)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrivals + pair, 1) == SPLITS - 1:
            tl.store(arrivals + pair, 0)  # as the next run expects it
            result = combine(sums, statistics, left, is_query, D, QUERIES, SPLITS)
            tl.store(output + at_query, result.to(output.dtype.element_ty), is_query)
    else:
        tl.store(output + at_query, (total / scale[:, None]).to(output.dtype.element_ty), is_query)


@triton.jit
def attend(
    queries,
    key,
    value,
    table,
    length,
    head,
    part,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """What a part of the tokens gives the queries: weighted values, largest scores, sums of weights."""
    TEMPERATURE: tl.constexpr = 1.4426950408889634 / D**0.5  # exponents are of base 2
    ROWS: tl.constexpr = queries.shape[0]
    total = tl.zeros((ROWS, D), tl.float32)
    largest = tl.full((ROWS,), -1e30, tl.float32)  # finite, so that a part without tokens gives no NaN
    scale = tl.zeros((ROWS,), tl.float32)
    columns = tl.arange(0, D)
    share = tl.cdiv(tl.cdiv(length, BLOCK_N), SPLITS) * BLOCK_N
    begin = part * share
    end = tl.minimum(begin + share, length)
    for first in tl.range(begin, end, BLOCK_N):
        tokens = first + tl.arange(0, BLOCK_N)
        inside = tokens < end
        pages = tl.load(table + tokens // PAGE, inside, other=0).to(tl.int64)
        at = ((pages * PAGE + tokens % PAGE) * HEADS + head) * D
        keys = tl.load(key + at[None, :] + columns[:, None], inside[None, :], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(queries, keys) * TEMPERATURE, -float("inf"))
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=1))
        weights = tl.exp2(scores - largest[:, None])
        fading = tl.exp2(before - largest)
        scale = scale * fading + tl.sum(weights, axis=1)
        values = tl.load(value + at[:, None] + columns[None, :], inside[:, None], other=0.0)
        total = tl.dot(weights.to(values.dtype), values, total * fading[:, None])
    return total, largest, scale


@triton.jit
def combine(sums, statistics, left, is_query, D: tl.constexpr, QUERIES: tl.constexpr, SPLITS: tl.constexpr):
    """The softmax over all parts of the tokens, from what their programs left."""
    ROWS: tl.constexpr = left.shape[0]
    total = tl.zeros((ROWS, D), tl.float32)
    largest = tl.full((ROWS,), -1e30, tl.float32)
    scale = tl.zeros((ROWS,), tl.float32)
    mask = tl.reshape(is_query, (ROWS,))
    for part in tl.range(0, SPLITS):
        at = left + part * QUERIES
        # Past the first-level cache, which may hold older numbers.
        part_largest = tl.load(statistics + 2 * at, mask, other=-1e30, cache_modifier=".cg")
        part_scale = tl.load(statistics + 2 * at + 1, mask, other=1.0, cache_modifier=".cg")
        places = sums + at[:, None] * D + tl.arange(0, D)[None, :]
        part_total = tl.load(places, is_query, other=0.0, cache_modifier=".cg")
        before = largest
        largest = tl.maximum(before, part_largest)
        fading = tl.exp2(before - largest)
        weight = tl.exp2(part_largest - largest)
        scale = scale * fading + part_scale * weight
        total = total * fading[:, None] + part_total * weight[:, None]
    return total / scale[:, None]
