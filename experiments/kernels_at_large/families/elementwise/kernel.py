"""Kernels that compute each element from the elements at its place."""

import triton
import triton.language as tl


@triton.jit
def gelu_tanh(x, out, n, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    first = tl.program_id(0) * BLOCK * ITEMS
    for item in tl.static_range(ITEMS):
        at = first + item * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n).to(tl.float32)
        inner = 0.7978845608 * (v + 0.044715 * v * v * v)
        tanh = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * inner))
        tl.store(out + at, (0.5 * v * (1.0 + tanh)).to(tl.float16), mask=at < n)


@triton.jit
def swiglu_halves(
    x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, COLUMNS_FIRST: tl.constexpr
):
    """Multiply the right half of each row by the SiLU of its left half."""
    if COLUMNS_FIRST:
        pid_n, pid_m = tl.program_id(0), tl.program_id(1)
    else:
        pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    left = x_ptr + offs_m[:, None] * (2 * N) + offs_n[None, :]
    gate = tl.load(left, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(left + N, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def mix_bits(word):
    """The finaliser of MurmurHash3."""
    word = word ^ (word >> 16)
    word = word * 0x85EBCA6B
    word = word ^ (word >> 13)
    word = word * 0xC2B2AE35
    return word ^ (word >> 16)


@triton.jit
def bias_dropout_residual(
    x, bias, residual, out, rows, N: tl.constexpr, seed, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Add a bias, zero a quarter of the elements by a hash of their place, and add the residual."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    shift = tl.load(bias + columns, inside).to(tl.float32)
    for i in tl.static_range(ROWS):
        row = tl.program_id(1) * ROWS + i
        if row < rows:
            at = row.to(tl.int64) * N + columns
            word = mix_bits(at.to(tl.uint32) ^ seed.to(tl.uint32))
            value = tl.load(x + at, inside).to(tl.float32) + shift
            kept = tl.where(word >= 0x40000000, value * (4.0 / 3.0), 0.0)
            tl.store(out + at, kept + tl.load(residual + at, inside).to(tl.float32), inside)


@triton.jit
def horner_polynomial(x, coefficients, out, n, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    """Evaluate a polynomial, highest coefficient first, in programs that stay until all blocks are done."""
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n)
        total = tl.zeros((BLOCK,), tl.float32) + tl.load(coefficients)
        for power in tl.static_range(1, DEGREE + 1):
            total = tl.fma(total, v, tl.load(coefficients + power))
        tl.store(out + at, total, mask=at < n)


@triton.jit
def lambert_w(x, w, n, STEPS: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Solve ``w exp(w) = x`` for ``x >= 0`` by Halley's steps."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(x + at, mask=at < n, other=1.0)
    root = tl.log(1.0 + z)
    for _ in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
        power = tl.exp(root)
        error = root * power - z
        root = root - error / (power * (root + 1.0) - 0.5 * (root + 2.0) * error / (root + 1.0))
    tl.store(w + at, root, mask=at < n)


@triton.jit
def spread_bits(v):
    """Move the bits of the low half to the even places."""
    v = v & 0xFFFF
    v = (v | (v << 8)) & 0x00FF00FF
    v = (v | (v << 4)) & 0x0F0F0F0F
    v = (v | (v << 2)) & 0x33333333
    return (v | (v << 1)) & 0x55555555


@triton.jit
def morton_codes(rows, columns, codes, ones, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """Interleave the bits of two 16-bit places, and count the ones of each code."""
    for part in tl.static_range(PARTS):
        at = (tl.program_id(0) + part * tl.num_programs(0)) * BLOCK + tl.arange(0, BLOCK)
        code = spread_bits(tl.load(columns + at, at < n, other=0))
        code |= spread_bits(tl.load(rows + at, at < n, other=0)) << 1
        tl.store(codes + at, code, at < n)
        count = code - ((code >> 1) & 0x55555555)
        count = (count & 0x33333333) + ((count >> 2) & 0x33333333)
        count = (count + (count >> 4)) & 0x0F0F0F0F
        tl.store(ones + at, ((count * 0x01010101) >> 24).to(tl.int8), at < n)


@triton.jit
def shared_exponent_quantise(x, codes, exponents, groups, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """Write groups as 8-bit integers times a power of two, found in the bits of the largest of each."""
    group = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    mask = (group < groups)[:, None]
    v = tl.load(x + at, mask, other=0.0).to(tl.float32)
    exponent = (tl.max(tl.abs(v), axis=1).to(tl.int32, bitcast=True) >> 23) - 127
    scale = ((133 - exponent) << 23).to(tl.float32, bitcast=True)  # 2 ** (6 - exponent)
    code = tl.floor(v * scale[:, None] + 0.5)
    code = tl.minimum(tl.maximum(code, -127.0), 127.0)
    tl.store(codes + at, code.to(tl.int8), mask)
    tl.store(exponents + group, exponent.to(tl.int8), group < groups)


@triton.jit
def dequantise_int4(
    packed, scales, zeros, out, M, K: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr
):
    """Unpack two numbers a byte, the even place in the low half, and scale them by groups along K."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    rk = tl.program_id(1) * (BK // 2) + tl.arange(0, BK // 2)[None, :]
    inside = (rm < M) & (rk < K // 2)
    byte = tl.load(packed + rm * (K // 2) + rk, inside, other=0).to(tl.int32)
    of_group = rm * (K // GROUP) + 2 * rk // GROUP
    scale, zero = tl.load(scales + of_group, inside), tl.load(zeros + of_group, inside)
    low = ((byte & 15).to(tl.float16) - zero) * scale
    high = (((byte >> 4) & 15).to(tl.float16) - zero) * scale
    rk = tl.program_id(1) * BK + tl.arange(0, BK)[None, :]
    tl.store(out + rm * K + rk, tl.interleave(low, high), (rm < M) & (rk < K))


@triton.jit
def complex_multiply(a, b, out, n, BLOCK: tl.constexpr, PAIRS: tl.constexpr):
    """Multiply numbers whose parts lie side by side; as ``PAIRS``, or as two strided vectors each."""
    start = tl.program_id(0) * BLOCK
    if PAIRS:
        at = 2 * start + tl.arange(0, 2 * BLOCK)
        a_real, a_imag = tl.split(tl.reshape(tl.load(a + at, at < 2 * n), (BLOCK, 2)))
        b_real, b_imag = tl.split(tl.reshape(tl.load(b + at, at < 2 * n), (BLOCK, 2)))
        real = a_real * b_real - a_imag * b_imag
        imag = a_real * b_imag + a_imag * b_real
        tl.store(out + at, tl.interleave(real, imag), at < 2 * n)
    else:
        at = start + tl.arange(0, BLOCK)
        a_real, a_imag = tl.load(a + 2 * at, at < n), tl.load(a + 2 * at + 1, at < n)
        b_real, b_imag = tl.load(b + 2 * at, at < n), tl.load(b + 2 * at + 1, at < n)
        tl.store(out + 2 * at, a_real * b_real - a_imag * b_imag, at < n)
        tl.store(out + 2 * at + 1, a_real * b_imag + a_imag * b_real, at < n)


@triton.jit
def select_and_clamp(choice, a, b, c, out, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Take ``a``, ``b`` or ``c`` as ``choice`` is 0, 1 or 2, clamped to one and doubled, by descriptors."""
    place = [tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N]
    chosen = _tiles(choice, M, N, BLOCK_M, BLOCK_N).load(place)
    va = _tiles(a, M, N, BLOCK_M, BLOCK_N).load(place)
    vb = _tiles(b, M, N, BLOCK_M, BLOCK_N).load(place)
    vc = _tiles(c, M, N, BLOCK_M, BLOCK_N).load(place)
    value = tl.where(chosen == 0, va, tl.where(chosen == 1, vb, vc))
    value = 2.0 * tl.clamp(value, -1.0, 1.0)
    _tiles(out, M, N, BLOCK_M, BLOCK_N).store(place, value)


@triton.jit
def _tiles(base, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    return tl.make_tensor_descriptor(base, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])


@triton.jit
def scale_rows_shift_columns(
    x, row_scale, column_shift, out, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr
):
    """Broadcast a column of factors and a row of shifts over a matrix, tiles in groups of rows."""
    pid = tl.program_id(0)
    across, down = tl.cdiv(N, BN), tl.cdiv(M, BM)
    group = pid // (GROUP * across)
    height = min(down - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * across)) % height
    pid_n = (pid % (GROUP * across)) // height
    r = pid_m * BM + tl.arange(0, BM)
    c = pid_n * BN + tl.arange(0, BN)
    m = (r < M)[:, None] & (c < N)[None, :]
    where = r[:, None] * N + c[None, :]
    factor = tl.load(row_scale + r, r < M)[:, None]
    shift = tl.load(column_shift + c, c < N)[None, :]
    tl.store(out + where, tl.load(x + where, m) * factor + shift, m)


@triton.jit
def weighted_sum_of_six(
    a, b, c, d, e, f, out, n, BLOCK: tl.constexpr, CHUNK: tl.constexpr, STAGES: tl.constexpr
):
    """Add up six arrays, each with a weight of its own; a program owns ``CHUNK`` blocks that touch."""
    first = tl.program_id(0).to(tl.int64) * BLOCK * CHUNK
    for i in tl.range(0, CHUNK, num_stages=STAGES):
        o = first + i * BLOCK + tl.arange(0, BLOCK)
        ok = o < n
        total = 0.5 * tl.load(a + o, ok).to(tl.float32) - 0.25 * tl.load(b + o, ok).to(tl.float32)
        total += 0.125 * tl.load(c + o, ok).to(tl.float32) + 2.0 * tl.load(d + o, ok).to(tl.float32)
        total += 1.5 * tl.load(e + o, ok).to(tl.float32) - 0.75 * tl.load(f + o, ok).to(tl.float32)
        tl.store(out + o, total.to(tl.float16), ok)
