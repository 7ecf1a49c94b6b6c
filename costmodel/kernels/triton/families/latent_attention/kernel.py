"""Attention of one new query a sequence to latent vectors in pages, which all heads share.

A cached token is LATENT numbers, which are its value too, and ROTARY more with its place. A program takes
BLOCK_H heads and one of SPLITS parts of a sequence's tokens; the last of a block's programs to arrive
adds up what all have left in scratch memory.
"""

import triton
import triton.language as tl


@triton.jit
def latent_attention(
    query,
    cache,
    table,
    lengths,
    output,
    sums,
    statistics,
    arrivals,
    HEADS: tl.constexpr,
    LATENT: tl.constexpr,
    ROTARY: tl.constexpr,
    PAGE: tl.constexpr,
    MOST_PAGES: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    blocks: tl.constexpr = (HEADS + BLOCK_H - 1) // BLOCK_H
    block, part = tl.program_id(0), tl.program_id(1)
    sequence, rows = block // blocks, block % blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    is_head = (rows < HEADS)[:, None]
    at_query = query + (sequence.to(tl.int64) * HEADS + rows)[:, None] * (LATENT + ROTARY)
    columns, rotary = tl.arange(0, LATENT)[None, :], tl.arange(0, ROTARY)[None, :]
    total, largest, scale = attend(
        tl.load(at_query + columns, is_head, other=0.0),
        tl.load(at_query + LATENT + rotary, is_head, other=0.0),
        cache,
        table + sequence.to(tl.int64) * MOST_PAGES,
        tl.load(lengths + sequence),
        part,
        LATENT,
        ROTARY,
        PAGE,
        BLOCK_H,
        BLOCK_N,
        SPLITS,
    )
    at_output = output + (sequence.to(tl.int64) * HEADS + rows)[:, None] * LATENT + columns
    if SPLITS > 1:
        left = block.to(tl.int64) * (SPLITS * BLOCK_H) + tl.arange(0, BLOCK_H)
        at = left + part * BLOCK_H
        tl.store(sums + at[:, None] * LATENT + columns, total)
        tl.store(statistics + 2 * at, largest)
        tl.store(statistics + 2 * at + 1, scale)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrivals + block, 1) == SPLITS - 1:
            tl.store(arrivals + block, 0)  # as the next run expects it
            result = combine(sums, statistics, left, LATENT, BLOCK_H, SPLITS)
            tl.store(at_output, result.to(output.dtype.element_ty), is_head)
    else:
        tl.store(at_output, (total / scale[:, None]).to(output.dtype.element_ty), is_head)


@triton.jit
def attend(
    latent_queries,
    rotary_queries,
    cache,
    table,
    length,
    part,
    LATENT: tl.constexpr,
    ROTARY: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """What a part of the tokens gives the heads: weighted values, largest scores, sums of weights."""
    TEMPERATURE: tl.constexpr = 1.4426950408889634 / (LATENT + ROTARY) ** 0.5  # exponents are of base 2
    total = tl.zeros((BLOCK_H, LATENT), tl.float32)
    largest = tl.full((BLOCK_H,), -1e30, tl.float32)  # finite, so that a part without tokens gives no NaN
    scale = tl.zeros((BLOCK_H,), tl.float32)
    columns, rotary = tl.arange(0, LATENT), tl.arange(0, ROTARY)
    share = tl.cdiv(tl.cdiv(length, BLOCK_N), SPLITS) * BLOCK_N
    begin = part * share
    end = tl.minimum(begin + share, length)
    for first in tl.range(begin, end, BLOCK_N):
        tokens = first + tl.arange(0, BLOCK_N)
        inside = tokens < end
        pages = tl.load(table + tokens // PAGE, inside, other=0).to(tl.int64)
        at = cache + (pages * PAGE + tokens % PAGE) * (LATENT + ROTARY)
        latent = tl.load(at[:, None] + columns[None, :], inside[:, None], other=0.0)
        placed = tl.load(at[None, :] + LATENT + rotary[:, None], inside[None, :], other=0.0)
        scores = tl.dot(rotary_queries, placed)
        scores = tl.dot(latent_queries, tl.trans(latent), scores) * TEMPERATURE
        scores = tl.where(inside[None, :], scores, -float("inf"))
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=1))
        weights = tl.exp2(scores - largest[:, None])
        fading = tl.exp2(before - largest)
        scale = scale * fading + tl.sum(weights, axis=1)
        total = tl.dot(weights.to(latent.dtype), latent, total * fading[:, None])
    return total, largest, scale


@triton.jit
def combine(sums, statistics, left, LATENT: tl.constexpr, BLOCK_H: tl.constexpr, SPLITS: tl.constexpr):
    """The softmax over all parts of the tokens, from what their programs left."""
    total = tl.zeros((BLOCK_H, LATENT), tl.float32)
    largest = tl.full((BLOCK_H,), -1e30, tl.float32)
    scale = tl.zeros((BLOCK_H,), tl.float32)
    for part in tl.range(0, SPLITS):
        at = left + part * BLOCK_H
        # Past the first-level cache, which may hold older numbers.
        part_largest = tl.load(statistics + 2 * at, cache_modifier=".cg")
        part_scale = tl.load(statistics + 2 * at + 1, cache_modifier=".cg")
        places = sums + at[:, None] * LATENT + tl.arange(0, LATENT)[None, :]
        part_total = tl.load(places, cache_modifier=".cg")
        before = largest
        largest = tl.maximum(before, part_largest)
        fading = tl.exp2(before - largest)
        weight = tl.exp2(part_largest - largest)
        scale = scale * fading + part_scale * weight
        total = total * fading[:, None] + part_total * weight[:, None]
    return total / scale[:, None]
