"""The k experts of each token with the largest logits, and their weights: a softmax over these or over all.

The largest is taken k times from the logits of a token, which are in registers; of equals, the first.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def power_of_two(size):
    """The smallest power of two that is not less."""
    return 1 << (size - 1).bit_length()


@triton.jit
def expert_routing(
    logits,
    weights,
    experts,
    t,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    OF_CHOSEN: tl.constexpr,
    ROWS: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """One program: ROWS tokens, or with PROGRAMS > 0 its share of all."""
    if PROGRAMS == 0:
        route(logits, weights, experts, tl.program_id(0), t, EXPERTS, TOP_K, OF_CHOSEN, ROWS)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(t, ROWS), PROGRAMS):
            route(logits, weights, experts, tile, t, EXPERTS, TOP_K, OF_CHOSEN, ROWS)


@triton.jit
def route(
    logits,
    weights,
    experts,
    tile,
    t,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    OF_CHOSEN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Route ROWS tokens."""
    rows = tile * ROWS + tl.arange(0, ROWS)
    every = tl.arange(0, power_of_two(EXPERTS))
    places = tl.arange(0, power_of_two(TOP_K))[None, :]
    inside = (rows < t)[:, None] & (every < EXPERTS)[None, :]
    at = rows.to(tl.int64)[:, None] * EXPERTS + every[None, :]
    left = tl.load(logits + at, inside, other=-float("inf"))
    left = tl.where((rows < t)[:, None], left, 0.0)  # rows outside give numbers too
    highest = tl.max(left, axis=1)[:, None]
    total = tl.sum(tl.exp(left - highest), axis=1)[:, None]
    chosen = tl.zeros((ROWS, power_of_two(TOP_K)), tl.int32)
    powers = tl.zeros((ROWS, power_of_two(TOP_K)), tl.float32)
    for place in tl.static_range(TOP_K):
        largest = tl.max(left, axis=1)[:, None]
        expert = tl.min(tl.where(left == largest, every[None, :], EXPERTS), axis=1)[:, None]
        chosen = tl.where(places == place, expert, chosen)
        powers = tl.where(places == place, tl.exp(largest - highest), powers)
        left = tl.where(every[None, :] == expert, -float("inf"), left)
    if OF_CHOSEN:
        total = tl.sum(powers, axis=1)[:, None]
    at = rows.to(tl.int64)[:, None] * TOP_K + places
    inside = (rows < t)[:, None] & (places < TOP_K)
    tl.store(weights + at, powers / total, inside)
    tl.store(experts + at, chosen, inside)
