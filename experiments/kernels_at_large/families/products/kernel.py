"""Products of matrices and vectors of many forms and types."""

import triton
import triton.language as tl


@triton.jit
def swizzle(pid, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Tiles of GROUP rows of tiles follow each other, column by column."""
    width = GROUP * tiles_n
    group = pid // width
    rows = tl.minimum(tiles_m - group * GROUP, GROUP)
    return group * GROUP + (pid % width) % rows, (pid % width) // rows


@triton.jit
def int8_weight_product(
    a_ptr,
    w_ptr,
    scale_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    pid_m, pid_n = swizzle(tl.program_id(0), tl.cdiv(M, BLOCK_SIZE_M), tl.cdiv(N, BLOCK_SIZE_N), GROUP_SIZE_M)
    offs_m = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_n = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        w = tl.load(w_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0)
        accumulator = tl.dot(a, w.to(tl.float16), accumulator)
        a_ptrs += BLOCK_SIZE_K
        w_ptrs += BLOCK_SIZE_K * N
    c = accumulator * tl.load(scale_ptr + offs_n)[None, :]
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptr + offs_cm[:, None] * N + offs_cn[None, :], c.to(tl.float16), mask=c_mask)


@triton.jit
def int4_weight_product(
    x,
    packed,
    scales,
    y,
    M,
    N,
    K: tl.constexpr,
    GROUP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Weights are eight to an int32, along K, with a scale for each GROUP of them."""
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    lane = tl.arange(0, BK)
    shift = (lane % 8 * 4)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        block = tl.load(x + m[:, None] * K + k + lane[None, :], (m < M)[:, None], other=0.0)
        words = tl.load(packed + ((k + lane) // 8)[:, None] * N + n[None, :], (n < N)[None, :], other=0)
        scale = tl.load(scales + k // GROUP * N + n, n < N, other=0.0)
        weights = (((words >> shift) & 15) - 8).to(tl.float16) * scale[None, :]
        total += tl.dot(block, weights)
    tl.store(y + m[:, None] * N + n[None, :], total.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def int8_product(
    A,
    B,
    row_scale,
    column_scale,
    C,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Whole numbers times whole numbers; B lies transposed."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        rk = start + tl.arange(0, BLOCK_K)
        a = tl.load(A + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0)
        b = tl.load(B + rn[None, :] * K + rk[:, None], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0)
        acc += tl.dot(a, b, out_dtype=tl.int32)
    scale_m = tl.load(row_scale + rm, mask=rm < M, other=0.0)
    scale_n = tl.load(column_scale + rn, mask=rn < N, other=0.0)
    result = acc.to(tl.float32) * scale_m[:, None] * scale_n[None, :]
    tl.store(
        C + rm[:, None] * N + rn[None, :], result.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N)
    )


@triton.jit
def gemv(matrix, vector, out, N, K, ROWS: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    places = matrix + rows[:, None].to(tl.int64) * K + lanes[None, :]
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(0, K, BLOCK, num_stages=DEPTH):
        inside = first + lanes < K
        block = tl.load(places + first, (rows < N)[:, None] & inside[None, :], other=0.0)
        acc += (
            block.to(tl.float32) * tl.load(vector + first + lanes, inside, other=0.0).to(tl.float32)[None, :]
        )
    tl.store(out + rows, tl.sum(acc, 1), rows < N)


@triton.jit
def gemv_of_columns(
    x, w, y, sums, arrivals, K, N, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr
):
    """y = x w, with K shared by SPLITS programs."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLITS) * BLOCK_K
    first = tl.program_id(1) * share
    end = tl.minimum(first + share, K)
    acc = tl.zeros((BLOCK_N,), tl.float32)
    while first < end:
        k = first + tl.arange(0, BLOCK_K)
        w_block = tl.load(w + k[:, None] * N + n[None, :], (k < end)[:, None] & (n < N)[None, :], other=0.0)
        x_block = tl.load(x + k, k < end, other=0.0)
        acc += tl.sum(w_block.to(tl.float32) * x_block.to(tl.float32)[:, None], axis=0)
        first += BLOCK_K
    tl.atomic_add(sums + n, acc, n < N)
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tl.program_id(0), 1) == SPLITS - 1:
        tl.store(y + n, tl.load(sums + n, n < N, cache_modifier=".cg"), n < N)
        tl.debug_barrier()
        tl.store(sums + n, tl.zeros((BLOCK_N,), tl.float32), n < N)
        tl.store(arrivals + tl.program_id(0), 0)


@triton.jit
def thin_product(a, b, c, N, K, M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A few rows times a transposed matrix, without Tensor Cores."""
    m = tl.arange(0, M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((M, BLOCK_N), tl.float32)
    for first in range(0, K, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        left = tl.load(a + m[:, None] * K + k[None, :], (k < K)[None, :], other=0.0).to(tl.float32)
        right = tl.load(b + n[:, None] * K + k[None, :], (n < N)[:, None] & (k < K)[None, :], other=0.0).to(
            tl.float32
        )
        acc += tl.sum(left[:, None, :] * right[None, :, :], axis=2)
    tl.store(c + m[:, None] * N + n[None, :], acc, (n < N)[None, :])


@triton.jit
def add_share(out, sums, arrivals, tile, places, mask, acc, share, WHOLE: tl.constexpr):
    """Add a share of a tile to what others left; who completes the WHOLE writes it, and leaves zeros."""
    tl.atomic_add(sums + places, acc, mask, sem="relaxed")
    tl.debug_barrier()
    if tl.atomic_add(arrivals + tile, share) + share == WHOLE:
        total = tl.load(sums + places, mask, other=0.0, cache_modifier=".cg")
        tl.store(out + places, total.to(out.dtype.element_ty), mask)
        tl.debug_barrier()
        tl.store(sums + places, tl.zeros_like(acc), mask)
        tl.store(arrivals + tile, 0)


@triton.jit
def split_k_product(
    a,
    b,
    c,
    sums,
    arrivals,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rm = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K * SPLIT_K):
        k = start + rk
        left = tl.load(a + rm[:, None] * K + k[None, :], (rm < M)[:, None] & (k < K)[None, :], other=0.0)
        right = tl.load(b + k[:, None] * N + rn[None, :], (k < K)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(left, right, acc)
    places = rm[:, None] * N + rn[None, :]
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    add_share(c, sums, arrivals, tile, places, mask, acc, 1, SPLIT_K)


@triton.jit
def stream_k_product(
    a,
    b,
    c,
    sums,
    arrivals,
    M,
    N,
    K: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """All steps of all tiles, one after the other, are shared evenly; a tile may be several programs'."""
    STEPS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(M, BLOCK_M) * tiles_n * STEPS
    step = tl.program_id(0) * steps // PROGRAMS
    end = (tl.program_id(0) + 1) * steps // PROGRAMS
    while step < end:
        tile = step // STEPS
        first = step % STEPS
        last = tl.minimum(first + end - step, STEPS)
        rm = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for block in range(first, last):
            k = block * BLOCK_K + tl.arange(0, BLOCK_K)
            left = tl.load(a + rm[:, None] * K + k[None, :], (rm < M)[:, None] & (k < K)[None, :], other=0.0)
            right = tl.load(b + k[:, None] * N + rn[None, :], (k < K)[:, None] & (rn < N)[None, :], other=0.0)
            acc = tl.dot(left, right, acc)
        places = rm[:, None] * N + rn[None, :]
        mask = (rm < M)[:, None] & (rn < N)[None, :]
        if last - first == STEPS:
            tl.store(c + places, acc.to(tl.float16), mask)
        else:
            add_share(c, sums, arrivals, tile, places, mask, acc, last - first, STEPS)
        step += last - first


@triton.jit
def batched_small_product(
    A, B, C, batch, S: tl.constexpr, WIDTH: tl.constexpr, PER_PROGRAM: tl.constexpr, TF32: tl.constexpr
):
    i = tl.arange(0, WIDTH)
    tile = i[:, None] * S + i[None, :]
    for turn in range(PER_PROGRAM):
        which = tl.program_id(0) * PER_PROGRAM + turn
        size = tl.where(which < batch, S, 0)
        inside = (i < size)[:, None] & (i < size)[None, :]
        a = tl.load(A + which * S * S + tile, inside, other=0.0)
        b = tl.load(B + which * S * S + tile, inside, other=0.0)
        c = tl.dot(a, b, input_precision="tf32" if TF32 else "ieee")
        tl.store(C + which * S * S + tile, c, inside)


@triton.jit
def outer_products(u, v, out, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    batch = tl.program_id(2)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    left = tl.load(u + batch * M + m, m < M, other=0.0)
    right = tl.load(v + batch * N + n, n < N, other=0.0)
    place = (batch.to(tl.int64) * M + m[:, None]) * N + n[None, :]
    tl.store(out + place, left[:, None] * right[None, :], (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def triangular_product(
    lower,
    b,
    c,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LONGEST_FIRST: tl.constexpr,
):
    """What is above the diagonal counts as zero, and whole blocks of it are left out."""
    pid_m = tl.program_id(1)
    if LONGEST_FIRST:
        pid_m = tl.num_programs(1) - 1 - pid_m
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, tl.minimum((pid_m + 1) * BLOCK_M, M), BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        a = tl.load(
            lower + rm[:, None] * M + k[None, :], (rm < M)[:, None] & (k[None, :] <= rm[:, None]), other=0.0
        )
        x = tl.load(b + k[:, None] * N + rn[None, :], (k < M)[:, None] & (rn < N)[None, :], other=0.0)
        acc += tl.dot(a, x)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), (rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def product_residual_relu(
    a_ptr,
    b_ptr,
    residual_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    residual_desc = tl.make_tensor_descriptor(residual_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    pid_m, pid_n = swizzle(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])
        b = b_desc.load([k * BLOCK_K, pid_n * BLOCK_N])
        acc = tl.dot(a, b, acc)
    residual = residual_desc.load([pid_m * BLOCK_M, pid_n * BLOCK_N])
    c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], tl.maximum(acc + residual, 0.0).to(tl.float16))


@triton.jit
def transposed_product(
    x,
    dy,
    dw,
    sums,
    arrivals,
    K,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """A transposed times B, as gradients of weights are: long sums, few results."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(tl.program_id(2) * BLOCK_K, K, SPLITS * BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        left = tl.load(x + k[:, None] * M + m[None, :], (k < K)[:, None] & (m < M)[None, :], other=0.0)
        right = tl.load(dy + k[:, None] * N + n[None, :], (k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc += tl.dot(tl.trans(left), right)
    places = m[:, None] * N + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    if SPLITS == 1:
        tl.store(dw + places, acc.to(tl.float16), mask)
    else:
        tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        add_share(dw, sums, arrivals, tile, places, mask, acc, 1, SPLITS)


@triton.jit
def gram_matrix(x, gram, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """X times X transposed: tiles of the lower triangle, each stored twice."""
    tile = tl.program_id(0)
    row = ((tl.sqrt(8.0 * tile + 1.0) - 1.0) / 2.0).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > tile, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= tile, row + 1, row)
    column = tile - row * (row + 1) // 2
    i = row * BLOCK + tl.arange(0, BLOCK)
    j = column * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        left = tl.load(x + i[:, None] * K + k[None, :], (i < N)[:, None] & (k < K)[None, :], other=0.0)
        right = tl.load(x + j[None, :] * K + k[:, None], (j < N)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (i < N)[:, None] & (j < N)[None, :]
    tl.store(gram + i[:, None] * N + j[None, :], acc, mask)
    if row != column:
        tl.store(gram + j[None, :] * N + i[:, None], acc, mask)


@triton.jit
def low_rank_product(
    x,
    down,
    up,
    y,
    M,
    N,
    K,
    R: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SHARES: tl.constexpr,
):
    """(x down) up: the narrow middle stays in registers; SHARES programs compute it for parts of N."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    r = tl.arange(0, R)
    middle = tl.zeros((BLOCK_M, R), tl.float32)
    for first in range(0, K, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        left = tl.load(x + m[:, None] * K + k[None, :], (m < M)[:, None] & (k < K)[None, :], other=0.0)
        middle = tl.dot(
            left, tl.load(down + k[:, None] * R + r[None, :], (k < K)[:, None], other=0.0), middle
        )
    narrow = middle.to(tl.float16)
    for block in range(tl.program_id(1), tl.cdiv(N, BLOCK_N), SHARES):
        n = block * BLOCK_N + tl.arange(0, BLOCK_N)
        out = tl.dot(narrow, tl.load(up + r[:, None] * N + n[None, :], (n < N)[None, :], other=0.0))
        tl.store(y + m[:, None] * N + n[None, :], out.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def complex_product(
    ar, ai, br, bi, cr, ci, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, THREE: tl.constexpr
):
    """Real and imaginary parts in four products, or, after Gauss, in three."""
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a = m[:, None] * K + k[None, :]
    at_b = k[:, None] * N + n[None, :]
    real = tl.zeros((BM, BN), tl.float32)
    imaginary = tl.zeros((BM, BN), tl.float32)
    cross = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        mask_a = (m < M)[:, None] & (first + k < K)[None, :]
        mask_b = (first + k < K)[:, None] & (n < N)[None, :]
        a_re = tl.load(ar + at_a, mask_a, other=0.0)
        a_im = tl.load(ai + at_a, mask_a, other=0.0)
        b_re = tl.load(br + at_b, mask_b, other=0.0)
        b_im = tl.load(bi + at_b, mask_b, other=0.0)
        if THREE:
            real = tl.dot(a_re, b_re, real)
            imaginary = tl.dot(a_im, b_im, imaginary)
            cross = tl.dot(a_re + a_im, b_re + b_im, cross)
        else:
            real = tl.dot(a_re, b_re, real)
            real = tl.dot(-a_im, b_im, real)
            imaginary = tl.dot(a_re, b_im, imaginary)
            imaginary = tl.dot(a_im, b_re, imaginary)
        at_a += BK
        at_b += BK * N
    if THREE:
        cross = cross - real - imaginary
        real = real - imaginary
        imaginary = cross
    mask = (m < M)[:, None] & (n < N)[None, :]
    tl.store(cr + m[:, None] * N + n[None, :], real.to(tl.float16), mask)
    tl.store(ci + m[:, None] * N + n[None, :], imaginary.to(tl.float16), mask)
