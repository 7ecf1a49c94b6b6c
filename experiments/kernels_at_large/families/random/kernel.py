"""Kernels that draw random numbers."""

import triton
import triton.language as tl


@triton.jit
def philox_uniform(out, n, seed, BLOCK: tl.constexpr, FOUR: tl.constexpr):
    """Uniform numbers; the ``FOUR`` that one run of the generator gives, or the first of each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FOUR:
        a, b, c, d = tl.rand4x(seed, at)
        tl.store(out + at, a + 2.0 * b + 4.0 * c + 8.0 * d, at < n)
    else:
        bits, second, third, fourth = tl.randint4x(seed, at)
        total = _unit(bits) + 2.0 * _unit(second)
        tl.store(out + at, total + 4.0 * _unit(third) + 8.0 * _unit(fourth), at < n)


@triton.jit
def _unit(bits):
    whole = bits.to(tl.int32, bitcast=True)
    return tl.where(whole < 0, -whole - 1, whole).to(tl.float32) * 4.6566127342e-10


@triton.jit
def seeded_dropout(x, y, n, p, seed, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    for item in range(ITEMS):
        o = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        keep = tl.rand(seed, o) > p
        v = tl.load(x + o, o < n, other=0.0).to(tl.float32)
        tl.store(y + o, tl.where(keep, v / (1.0 - p), 0.0).to(tl.float16), o < n)


@triton.jit
def normal_noise(x, y, n, scale, seed, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """Add normal noise, by programs that stride over the array."""
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), PROGRAMS):
        o = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + o, tl.load(x + o, o < n) + scale * tl.randn(seed, o), o < n)


@triton.jit
def bernoulli_words(words, n, limit, seed, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr):
    """Masks of 32 bits a word, each set where a random word is below the limit."""
    w = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, 32, AT_ONCE):
        bit = first + tl.arange(0, AT_ONCE)[None, :]
        drawn = tl.randint(seed, w[:, None] * 32 + bit).to(tl.int32, bitcast=True)
        total += tl.sum((drawn < limit).to(tl.int32) << bit, axis=1)
    tl.store(words + w, total, w < n)


@triton.jit
def sign_projection(x, y, M, K, N, seed, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Project rows on columns of random signs that no memory holds."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        ok = (m < M)[:, None] & (k < K)[None, :]
        v = tl.load(x + m[:, None] * K + k[None, :], ok, other=0.0)
        odd = tl.randint(seed, k[:, None] * N + n[None, :]).to(tl.int32, bitcast=True) & 1
        total += tl.dot(v, (1 - 2 * odd).to(tl.float16))
    tl.store(y + m[:, None] * N + n[None, :], total, (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def darts_at_a_circle(hits, n, throws, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Count how many points of a congruential generator lie in a quarter of a circle."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = (lane * 747796405 + 12345).to(tl.uint32)
    inside = tl.zeros((BLOCK,), tl.int32)
    for _ in tl.range(0, throws, loop_unroll_factor=UNROLL):
        state = state * 1664525 + 1013904223
        across = (state >> 17).to(tl.int32)
        state = state * 1664525 + 1013904223
        up = (state >> 17).to(tl.int32)
        inside += (across * across + up * up < 1073676289).to(tl.int32)
    tl.atomic_add(hits, tl.sum(tl.where(lane < n, inside, 0)))


@triton.jit
def xorshift_walk(states, positions, n, STEPS: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Walk left or right by the lowest bit of an xorshift generator; states stay where they came to."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.load(states + i, i < n, other=1)
    position = tl.zeros((BLOCK,), tl.int32)
    for _ in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
        state ^= state << 13
        state ^= state >> 17
        state ^= state << 5
        position += 1 - 2 * (state & 1).to(tl.int32)
    tl.store(states + i, state, i < n)
    tl.store(positions + i, position, i < n)


@triton.jit
def draw_by_counts(counts, chosen, M, N: tl.constexpr, seed, ROWS: tl.constexpr):
    """Draw a class a row in proportion to whole counts, by a prefix sum."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, triton.next_power_of_2(N))
    ok = (r < M)[:, None] & (c < N)[None, :]
    ends = tl.cumsum(tl.load(counts + r[:, None] * N + c[None, :], ok, other=0), axis=1)
    total = tl.max(ends, axis=1).to(tl.uint32)
    drawn = tl.umulhi(tl.randint(seed, r).to(tl.uint32, bitcast=True), total).to(tl.int32)
    tl.store(chosen + r, tl.sum((ends <= drawn[:, None]).to(tl.int32), axis=1), r < M)
