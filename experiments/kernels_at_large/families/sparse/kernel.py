"""Kernels whose reads follow an index: sparse matrices, bags, segments and hash tables."""

import triton
import triton.language as tl


@triton.jit
def csr_vector_rows(starts, columns, values, x, y, M, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Sparse matrix times vector, a program for each few rows, which walks along each in blocks."""
    for k in range(ROWS):
        row = tl.program_id(0) * ROWS + k
        if row < M:
            first, last = tl.load(starts + row), tl.load(starts + row + 1)
            total = tl.zeros((BLOCK,), tl.float32)
            for at in range(first, last, BLOCK):
                i = at + tl.arange(0, BLOCK)
                column = tl.load(columns + i, i < last, other=0)
                total += tl.load(values + i, i < last, other=0.0) * tl.load(x + column, i < last, other=0.0)
            tl.store(y + row, tl.sum(total))


@triton.jit
def csr_scalar_rows(starts, columns, values, x, y, M, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """Sparse matrix times vector, a lane (or ``WIDE`` of them) for each row, as long as any row lasts."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.load(starts + row, row < M, other=0)
    last = tl.load(starts + row + 1, row < M, other=0)
    longest = tl.max(last - first)
    total = tl.zeros((ROWS, WIDE), tl.float32)
    step = 0
    while step < longest:
        i = first[:, None] + step + tl.arange(0, WIDE)[None, :]
        ok = i < last[:, None]
        column = tl.load(columns + i, ok, other=0)
        total += tl.load(values + i, ok, other=0.0) * tl.load(x + column, ok, other=0.0)
        step += WIDE
    tl.store(y + row, tl.sum(total, axis=1), row < M)


@triton.jit
def ell_product(columns, values, x, y, M, WIDTH: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Sparse matrix of rows of one length, stored by columns, times vector."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.range(0, WIDTH, loop_unroll_factor=UNROLL):
        column = tl.load(columns + k * M + row, row < M, other=0)
        total += tl.load(values + k * M + row, row < M, other=0.0) * tl.load(x + column, row < M, other=0.0)
    tl.store(y + row, total, row < M)


@triton.jit
def coo_atomics(rows, columns, values, x, y, n, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    """Sparse matrix in any order times vector, an atomic addition for each element."""
    for item in tl.static_range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        product = tl.load(values + i, i < n) * tl.load(x + tl.load(columns + i, i < n, other=0), i < n)
        tl.atomic_add(y + tl.load(rows + i, i < n, other=0), product, i < n, sem="relaxed")


@triton.jit
def block_sparse_product(
    starts, columns, blocks, b, c, N, SIDE: tl.constexpr, BN: tl.constexpr, ROWS_FIRST: tl.constexpr
):
    """Product of a matrix of dense float16 blocks with a dense one."""
    row = tl.program_id(1 - ROWS_FIRST)
    n = tl.program_id(ROWS_FIRST) * BN + tl.arange(0, BN)
    s = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, BN), tl.float32)
    for k in range(tl.load(starts + row), tl.load(starts + row + 1)):
        tile = tl.load(blocks + k * SIDE * SIDE + s[:, None] * SIDE + s[None, :])
        at = tl.load(columns + k) * SIDE + s
        total += tl.dot(tile, tl.load(b + at[:, None] * N + n[None, :], (n < N)[None, :], other=0.0))
    tl.store(c + (row * SIDE + s)[:, None] * N + n[None, :], total.to(tl.float16), (n < N)[None, :])


@triton.jit
def csr_times_dense(starts, columns, values, b, c, N, BN: tl.constexpr, BK: tl.constexpr):
    """Sparse matrix times a dense one: ``BK`` rows of it are gathered at a time."""
    row = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((BK, BN), tl.float32)
    for at in range(first, last, BK):
        k = at + tl.arange(0, BK)
        column = tl.load(columns + k, k < last, other=0)
        weight = tl.load(values + k, k < last, other=0.0)
        ok = (k < last)[:, None] & (n < N)[None, :]
        total += weight[:, None] * tl.load(b + column[:, None] * N + n[None, :], ok, other=0.0)
    tl.store(c + row * N + n, tl.sum(total, axis=0), n < N)


@triton.jit
def sampled_products(rows, columns, a, b, out, n, D: tl.constexpr, PAIRS: tl.constexpr, BD: tl.constexpr):
    """Dot products of rows of ``a`` and ``b`` where a sparse mask has elements."""
    i = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    r = tl.load(rows + i, i < n, other=0)[:, None]
    c = tl.load(columns + i, i < n, other=0)[:, None]
    total = tl.zeros((PAIRS,), tl.float32)
    for start in tl.static_range(0, D, BD):
        d = start + tl.arange(0, BD)[None, :]
        ok = (i < n)[:, None] & (d < D)
        left = tl.load(a + r * D + d, ok, other=0.0).to(tl.float32)
        total += tl.sum(left * tl.load(b + c * D + d, ok, other=0.0).to(tl.float32), axis=1)
    tl.store(out + i, total, i < n)


@triton.jit
def embedding_bags(table, index, starts, out, D, BD: tl.constexpr, AT_ONCE: tl.constexpr, MEAN: tl.constexpr):
    """Sum or mean of the rows that each bag names."""
    bag = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    first, last = tl.load(starts + bag), tl.load(starts + bag + 1)
    total = tl.zeros((AT_ONCE, BD), tl.float32)
    for at in range(first, last, AT_ONCE):
        i = at + tl.arange(0, AT_ONCE)
        row = tl.load(index + i, i < last, other=0).to(tl.int64)
        ok = (i < last)[:, None] & (d < D)[None, :]
        total += tl.load(table + row[:, None] * D + d[None, :], ok, other=0.0).to(tl.float32)
    result = tl.sum(total, axis=0)
    if MEAN:
        result /= tl.maximum(last - first, 1).to(tl.float32)
    tl.store(out + bag * D + d, result, d < D)


@triton.jit
def jagged_to_padded(values, starts, out, L, D, BL: tl.constexpr, BD: tl.constexpr):
    """Sequences of different lengths, cut or filled up with zeros to one length."""
    sequence = tl.program_id(2)
    place = tl.program_id(0) * BL + tl.arange(0, BL)[:, None]
    d = tl.program_id(1) * BD + tl.arange(0, BD)[None, :]
    first = tl.load(starts + sequence)
    inside = first + place < tl.load(starts + sequence + 1)
    value = tl.load(values + (first + place) * D + d, inside & (d < D), other=0.0)
    tl.store(out + (sequence * L + place) * D + d, value, (place < L) & (d < D))


@triton.jit
def hash_lookup(keys, values, asked, found, n, SLOTS: tl.constexpr, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    """Look keys up in an open table by linear probing; -1 where there is none."""
    for item in range(ITEMS):
        i = (tl.program_id(0) * ITEMS + item) * BLOCK + tl.arange(0, BLOCK)
        key = tl.load(asked + i, i < n, other=-1)
        slot = ((key * 40503) >> 4) & (SLOTS - 1)
        answer = tl.full((BLOCK,), -1, tl.int32)
        searching = (i < n).to(tl.int32)
        while tl.max(searching) > 0:
            there = tl.load(keys + slot, searching > 0, other=-1)
            hit = (searching > 0) & (there == key)
            answer = tl.where(hit, tl.load(values + slot, hit, other=0), answer)
            searching = tl.where(hit | (there == -1), 0, searching)
            slot = (slot + 1) & (SLOTS - 1)
        tl.store(found + i, answer, i < n)
