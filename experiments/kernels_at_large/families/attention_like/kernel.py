"""Parts and kinds of attention, forward and backward."""

import triton
import triton.language as tl


@triton.jit
def decode_attention(
    q,
    k,
    v,
    lengths,
    out,
    part_sums,
    part_tops,
    part_totals,
    arrivals,
    H,
    S,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """One query a head; programs share its keys, and the last to arrive combines what they found."""
    head = tl.program_id(0)
    part = tl.program_id(1)
    length = tl.load(lengths + head // H)
    share = tl.cdiv(tl.cdiv(length, BLOCK), SPLITS) * BLOCK
    first = part * share
    end = tl.minimum(first + share, length)
    d = tl.arange(0, D)
    query = tl.load(q + head * D + d).to(tl.float32) * scale
    top = -1e30
    total = 0.0
    acc = tl.zeros((D,), tl.float32)
    while first < end:
        at = first + tl.arange(0, BLOCK)
        places = (head * S + at)[:, None] * D + d[None, :]
        keys = tl.load(k + places, (at < end)[:, None], other=0.0).to(tl.float32)
        score = tl.where(at < end, tl.sum(keys * query[None, :], 1), -1e30)
        higher = tl.maximum(top, tl.max(score, 0))
        weight = tl.exp(score - higher)
        values = tl.load(v + places, (at < end)[:, None], other=0.0).to(tl.float32)
        acc = acc * tl.exp(top - higher) + tl.sum(weight[:, None] * values, 0)
        total = total * tl.exp(top - higher) + tl.sum(weight, 0)
        top = higher
        first += BLOCK
    slot = head * SPLITS + part
    tl.store(part_sums + slot * D + d, acc)
    tl.store(part_tops + slot, top)
    tl.store(part_totals + slot, total)
    tl.debug_barrier()
    if tl.atomic_add(arrivals + head, 1) == SPLITS - 1:
        slots = head * SPLITS + tl.arange(0, SPLITS)
        tops = tl.load(part_tops + slots, cache_modifier=".cg")
        weights = tl.exp(tops - tl.max(tops, 0))
        sums = tl.load(part_sums + slots[:, None] * D + d[None, :], cache_modifier=".cg")
        scales = tl.sum(tl.load(part_totals + slots, cache_modifier=".cg") * weights, 0)
        tl.store(out + head * D + d, (tl.sum(sums * weights[:, None], 0) / scales).to(tl.float16))
        tl.store(arrivals + head, 0)


@triton.jit
def grouped_query_decode(
    Q, K, V, Out, S, sm_scale, R: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr, ROWS: tl.constexpr
):
    """R queries share each head of keys and values; they are padded to what Tensor Cores take."""
    pid = tl.program_id(0)
    offs_r = tl.arange(0, ROWS)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BLOCK_N)
    q_ptrs = Q + (pid * R + offs_r[:, None]) * D + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_r[:, None] < R, other=0.0)
    base = pid.to(tl.int64) * S * D
    m_i = tl.full([ROWS], value=float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([ROWS], dtype=tl.float32)
    acc = tl.zeros([ROWS, D], dtype=tl.float32)
    for start_n in range(0, S, BLOCK_N):
        n = start_n + offs_n
        k = tl.load(K + base + n[None, :] * D + offs_d[:, None], mask=n[None, :] < S, other=0.0)
        qk = tl.dot(q, k) * sm_scale
        qk = tl.where(n[None, :] < S, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(qk - m_new[:, None])
        v = tl.load(V + base + n[:, None] * D + offs_d[None, :], mask=n[:, None] < S, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.float16), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    o_ptrs = Out + (pid * R + offs_r[:, None]) * D + offs_d[None, :]
    tl.store(o_ptrs, (acc / l_i[:, None]).to(tl.float16), mask=offs_r[:, None] < R)


@triton.jit
def window_attention(
    q, k, v, out, S, WINDOW, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Each query sees the WINDOW keys up to its own place."""
    start = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * S * D
    m = start + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    query = tl.load(q + base + m[:, None] * D + d[None, :], (m < S)[:, None], other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    first = tl.maximum(start - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
    for at in range(first, tl.minimum(start + BLOCK_M, S), BLOCK_N):
        n = at + tl.arange(0, BLOCK_N)
        key = tl.load(k + base + n[:, None] * D + d[None, :], (n < S)[:, None], other=0.0)
        score = tl.dot(query, tl.trans(key)) * (scale * 1.44269504)
        seen = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - WINDOW)
        score = tl.where(seen, score, -1e30)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.where(seen, tl.exp2(score - higher[:, None]), 0.0)
        fading = tl.exp2(top - higher)
        value = tl.load(v + base + n[:, None] * D + d[None, :], (n < S)[:, None], other=0.0)
        acc = tl.dot(weight.to(tl.float16), value, acc * fading[:, None])
        total = total * fading + tl.sum(weight, 1)
        top = higher
    tl.store(
        out + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16), (m < S)[:, None]
    )


@triton.jit
def alibi_step(
    query,
    acc,
    top,
    total,
    k_desc,
    v_desc,
    row,
    m,
    at,
    limit,
    slope,
    scale,
    BLOCK_N: tl.constexpr,
    DIAGONAL: tl.constexpr,
):
    n = at + tl.arange(0, BLOCK_N)
    score = tl.dot(query, k_desc.load([row + at, 0]).T) * scale
    score += slope * (n[None, :] - m[:, None]).to(tl.float32)
    if DIAGONAL:
        score = tl.where((n[None, :] <= m[:, None]) & (n < limit)[None, :], score, -1e30)
    higher = tl.maximum(top, tl.max(score, 1))
    weight = tl.exp(score - higher[:, None])
    fading = tl.exp(top - higher)
    acc = tl.dot(weight.to(tl.float16), v_desc.load([row + at, 0]), acc * fading[:, None])
    return acc, higher, total * fading + tl.sum(weight, 1)


@triton.jit
def alibi_attention(
    q,
    k,
    v,
    slopes,
    out,
    heads,
    S,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAVY_FIRST: tl.constexpr,
):
    """Causal, with a bias that falls with the distance; whole blocks first, then those with the diagonal."""
    blocks = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) % heads
    block = tl.program_id(0) // heads
    if HEAVY_FIRST:
        block = blocks - 1 - block
    row = head * S
    q_desc = tl.make_tensor_descriptor(q, [heads * S, D], [D, 1], [BLOCK_M, D])
    k_desc = tl.make_tensor_descriptor(k, [heads * S, D], [D, 1], [BLOCK_N, D])
    v_desc = tl.make_tensor_descriptor(v, [heads * S, D], [D, 1], [BLOCK_N, D])
    query = q_desc.load([row + block * BLOCK_M, 0])
    slope = tl.load(slopes + head)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    whole = block * BLOCK_M // BLOCK_N * BLOCK_N
    for at in range(0, whole, BLOCK_N):
        acc, top, total = alibi_step(
            query, acc, top, total, k_desc, v_desc, row, m, at, S, slope, scale, BLOCK_N, False
        )
    for at in range(whole, tl.minimum((block + 1) * BLOCK_M, S), BLOCK_N):
        acc, top, total = alibi_step(
            query, acc, top, total, k_desc, v_desc, row, m, at, S, slope, scale, BLOCK_N, True
        )
    places = (row + m)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out + places, (acc / total[:, None]).to(tl.float16), (m < S)[:, None])


@triton.jit
def paged_gather(
    cache,
    table,
    out,
    S,
    pages,
    PAGE: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Copy the tokens of each sequence from its pages into one piece."""
    sequence = tl.program_id(2)
    t = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    page = tl.load(table + sequence * pages + t // PAGE, t < S, other=0)
    source = (page.to(tl.int64) * PAGE + t % PAGE)[:, None] * D + d[None, :]
    mask = (t < S)[:, None] & (d < D)[None, :]
    target = (sequence.to(tl.int64) * S + t)[:, None] * D + d[None, :]
    tl.store(out + target, tl.load(cache + source, mask), mask)


@triton.jit
def paged_decode(
    q,
    k_cache,
    v_cache,
    table,
    lengths,
    out,
    pages,
    scale,
    H: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
):
    """One query a head, with keys and values in pages of all heads; a program takes some heads."""
    sequence = tl.program_id(1)
    h = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    lane = h[:, None] * D + tl.arange(0, D)[None, :]
    query = tl.load(q + sequence * H * D + lane).to(tl.float32) * scale
    length = tl.load(lengths + sequence)
    top = tl.full((HEADS,), -1e30, tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, D), tl.float32)
    for first in range(0, length, BLOCK):
        t = first + tl.arange(0, BLOCK)
        mask = (t < length)[:, None, None]
        page = tl.load(table + sequence * pages + t // PAGE, t < length, other=0)
        places = (page * PAGE + t % PAGE)[:, None, None] * (H * D) + lane[None, :, :]
        score = tl.sum(tl.load(k_cache + places, mask, other=0.0).to(tl.float32) * query[None, :, :], axis=2)
        score = tl.where((t < length)[:, None], score, -1e30)
        higher = tl.maximum(top, tl.max(score, axis=0))
        weight = tl.exp(score - higher[None, :])
        fading = tl.exp(top - higher)
        values = tl.load(v_cache + places, mask, other=0.0).to(tl.float32)
        acc = acc * fading[:, None] + tl.sum(weight[:, :, None] * values, axis=0)
        total = total * fading + tl.sum(weight, axis=0)
        top = higher
    tl.store(out + sequence * H * D + lane, (acc / total[:, None]).to(tl.float16))


@triton.jit
def linear_attention(
    q, k, v, out, T, D: tl.constexpr, E: tl.constexpr, CHUNK: tl.constexpr, BLOCK_E: tl.constexpr
):
    """Causal attention without softmax: pairs within a chunk, and a state of all chunks before it."""
    head = tl.program_id(1)
    t = tl.arange(0, CHUNK)
    d = tl.arange(0, D)
    e = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    state = tl.zeros((D, BLOCK_E), tl.float32)
    for first in range(0, T, CHUNK):
        inside = (first + t < T)[:, None]
        row = (head * T + first + t)[:, None]
        query = tl.load(q + row * D + d[None, :], inside, other=0.0)
        key = tl.load(k + row * D + d[None, :], inside, other=0.0)
        value = tl.load(v + row * E + e[None, :], inside, other=0.0)
        pairs = tl.where(t[:, None] >= t[None, :], tl.dot(query, tl.trans(key)), 0.0)
        result = tl.dot(query, state.to(tl.float16)) + tl.dot(pairs.to(tl.float16), value)
        state += tl.dot(tl.trans(key), value)
        tl.store(out + row * E + e[None, :], result.to(tl.float16), inside)


@triton.jit
def relative_scores(
    q, k, relative, scores, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Scores of all pairs, with what was computed for each query and distance shifted to its place."""
    head = tl.program_id(2)
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    query = tl.load(q + (head * S + i[:, None]) * D + d[None, :], (i < S)[:, None], other=0.0)
    key = tl.load(k + (head * S + j[None, :]) * D + d[:, None], (j < S)[None, :], other=0.0)
    mask = (i < S)[:, None] & (j < S)[None, :]
    distance = j[None, :] - i[:, None] + S - 1
    shifted = tl.load(relative + (head * S + i[:, None]) * (2 * S - 1) + distance, mask, other=0.0)
    score = (tl.dot(query, key) + shifted.to(tl.float32)) * scale
    tl.store(scores + (head * S + i[:, None]) * S + j[None, :], score.to(tl.float16), mask)


@triton.jit
def capped_scores(
    q_ptr,
    k_ptr,
    s_ptr,
    Q,
    K,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STEP: tl.constexpr,
):
    """Scores under a soft cap; the head's dimension is walked in steps."""
    pid = tl.program_id(0)
    tiles_k = tl.cdiv(K, BLOCK_K)
    offs_q = (pid // tiles_k) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    offs_k = (pid % tiles_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    q_ptr += tl.program_id(1) * Q * D
    k_ptr += tl.program_id(1) * K * D
    s_ptr += tl.program_id(1).to(tl.int64) * Q * K
    acc = tl.zeros((BLOCK_Q, BLOCK_K), dtype=tl.float32)
    for start in tl.static_range(0, D, STEP):
        offs_d = start + tl.arange(0, STEP)
        q = tl.load(q_ptr + offs_q[:, None] * D + offs_d[None, :], mask=offs_q[:, None] < Q, other=0.0)
        k = tl.load(k_ptr + offs_k[None, :] * D + offs_d[:, None], mask=offs_k[None, :] < K, other=0.0)
        acc += tl.dot(q, k)
    capped = 10.0 * (2.0 * tl.sigmoid(acc * 0.2 * 0.125) - 1.0)
    mask = (offs_q[:, None] < Q) & (offs_k[None, :] < K)
    tl.store(s_ptr + offs_q[:, None] * K + offs_k[None, :], capped.to(tl.float16), mask=mask)


@triton.jit
def value_aggregation(
    p,
    v,
    out,
    Q,
    K,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PROGRAMS: tl.constexpr,
    tiles,
):
    """Weighted sums of values; persistent programs take blocks of queries of all heads in turns."""
    d = tl.arange(0, D)
    per_head = tl.cdiv(Q, BLOCK_M)
    for tile in range(tl.program_id(0), tiles * per_head, PROGRAMS):
        head = tile // per_head
        m = tile % per_head * BLOCK_M + tl.arange(0, BLOCK_M)
        acc = tl.zeros((BLOCK_M, D), tl.float32)
        for first in range(0, K, BLOCK_K):
            n = first + tl.arange(0, BLOCK_K)
            weights = tl.load(
                p + (head * Q + m)[:, None] * K + n[None, :], (m < Q)[:, None] & (n < K)[None, :], other=0.0
            )
            values = tl.load(v + (head * K + n)[:, None] * D + d[None, :], (n < K)[:, None], other=0.0)
            acc = tl.dot(weights, values, acc)
        tl.store(out + (head * Q + m)[:, None] * D + d[None, :], acc.to(tl.float16), (m < Q)[:, None])


@triton.jit
def attention_grad_delta(o, do, delta, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    at = row[:, None] * D + d[None, :]
    left = tl.load(o + at, mask=(row < rows)[:, None], other=0.0).to(tl.float32)
    right = tl.load(do + at, mask=(row < rows)[:, None], other=0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(left * right, axis=1), mask=row < rows)


@triton.jit
def attention_grad_query(
    Q, K, V, DO, LSE, DELTA, DQ, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    start_m = tl.program_id(0) * BLOCK_M
    off = tl.program_id(1) * S
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < S
    rows = (off + offs_m)[:, None] * D + offs_d[None, :]
    q = tl.load(Q + rows, mask=mask_m[:, None], other=0.0)
    do = tl.load(DO + rows, mask=mask_m[:, None], other=0.0)
    lse = tl.load(LSE + off + offs_m, mask=mask_m, other=0.0)
    delta = tl.load(DELTA + off + offs_m, mask=mask_m, other=0.0)
    dq = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    for start_n in range(0, S, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        columns = (off + offs_n)[None, :] * D + offs_d[:, None]
        kT = tl.load(K + columns, mask=(offs_n < S)[None, :], other=0.0)
        vT = tl.load(V + columns, mask=(offs_n < S)[None, :], other=0.0)
        p = tl.exp(tl.dot(q, kT) * scale - lse[:, None])
        ds = p * (tl.dot(do, vT) - delta[:, None])
        ds = tl.where((offs_n < S)[None, :], ds, 0.0)
        dq += tl.dot(ds.to(tl.float16), tl.trans(kT))
    tl.store(DQ + rows, (dq * scale).to(tl.float16), mask=mask_m[:, None])


@triton.jit
def attention_grad_key_value(
    Q, K, V, DO, LSE, DELTA, DK, DV, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    start_n = tl.program_id(0) * BLOCK_N
    off = tl.program_id(1) * S
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    mask_n = offs_n < S
    columns = (off + offs_n)[:, None] * D + offs_d[None, :]
    k = tl.load(K + columns, mask=mask_n[:, None], other=0.0)
    v = tl.load(V + columns, mask=mask_n[:, None], other=0.0)
    dk = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    for start_m in range(0, S, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        mask_m = offs_m < S
        rows = (off + offs_m)[:, None] * D + offs_d[None, :]
        q = tl.load(Q + rows, mask=mask_m[:, None], other=0.0)
        do = tl.load(DO + rows, mask=mask_m[:, None], other=0.0)
        lse = tl.load(LSE + off + offs_m, mask=mask_m, other=0.0)
        delta = tl.load(DELTA + off + offs_m, mask=mask_m, other=0.0)
        pT = tl.exp(tl.dot(k, tl.trans(q)) * scale - lse[None, :])
        dv += tl.dot(pT.to(tl.float16), do)
        dsT = pT * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk += tl.dot(dsT.to(tl.float16), q)
    tl.store(DK + columns, (dk * scale).to(tl.float16), mask=mask_n[:, None])
    tl.store(DV + columns, dv.to(tl.float16), mask=mask_n[:, None])
