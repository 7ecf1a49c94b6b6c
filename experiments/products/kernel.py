"""Triton's kernels of a matrix product: one body, five ways to share the work out.

Only what changes the machine code is compiled in. Splits, groups of rows, programs and sizes are arguments,
so that a kernel that is compiled serves every shape whose rows are aligned alike.
"""

import triton
import triton.language as tl


@triton.jit
def place(tile, M, N, GROUP_M, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Matrix, first row and first column of a tile; groups of rows share columns of B in L2."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    matrix = tile // (tiles_m * tiles_n)
    tile = tile % (tiles_m * tiles_n)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    tile = tile % (GROUP_M * tiles_n)
    return matrix, (first + tile % height) * BLOCK_M, tile // height * BLOCK_N


@triton.jit
def sum_slabs(
    a, b, matrix, row, column, first, last, M, K, lda, ldb, ldc,
    A_T: tl.constexpr, B_T: tl.constexpr, EVEN_K: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums of a tile over the slabs from ``first`` to ``last`` of k.

    Leading dimensions stand for the sizes that they equal: the compiler knows which of them 16 divides.
    """
    rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    ks = first * BLOCK_K + tl.arange(0, BLOCK_K)
    if A_T:
        size_k = K if not B_T else ldb
        a += matrix.to(tl.int64) * lda * K + (rows % lda)[:, None] + ks[None, :] * lda
        step_a = BLOCK_K * lda
    else:
        size_k = lda
        a += matrix.to(tl.int64) * lda * M + (rows % M)[:, None] * lda + ks[None, :]
        step_a = BLOCK_K
    if B_T:
        b += matrix.to(tl.int64) * ldb * ldc + (columns % ldc)[None, :] * ldb + ks[:, None]
        step_b = BLOCK_K
    else:
        b += matrix.to(tl.int64) * ldb * K + (columns % ldb)[None, :] + ks[:, None] * ldb
        step_b = BLOCK_K * ldb
    sums = tl.zeros((BLOCK_M, BLOCK_N), ACC)
    for slab in range(first, last):
        if EVEN_K:
            x, y = tl.load(a), tl.load(b)
        else:
            inside = slab * BLOCK_K + tl.arange(0, BLOCK_K) < size_k
            x = tl.load(a, mask=inside[None, :], other=0.0)
            y = tl.load(b, mask=inside[:, None], other=0.0)
        sums = tl.dot(x, y, sums, input_precision=PRECISION, out_dtype=ACC)
        a += step_a
        b += step_b
    return sums


@triton.jit
def write(
    sums, bias, c, matrix, row, column, M, ldc,
    EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Write a tile; GELU is the approximation by a hyperbolic tangent, as cuBLASLt's is."""
    rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    if EPILOGUE > 0:
        sums += tl.load(bias + columns, mask=columns < ldc, other=0.0).to(tl.float32)[None, :]
    if EPILOGUE > 1:
        sums = sums * tl.sigmoid(1.5957691216057308 * (sums + 0.044715 * sums * sums * sums))
    c += matrix.to(tl.int64) * M * ldc + rows[:, None] * ldc + columns[None, :]
    tl.store(c, sums.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < ldc)[None, :])


@triton.jit
def inside_of(BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Offsets of the sums in a slot of ``partials``."""
    return tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]


@triton.jit(do_not_specialize=["M", "K", "batch", "GROUP_M", "splits"])
def tiles(
    a, b, bias, c, partials, arrivals, M, K, lda, ldb, ldc, batch, GROUP_M, splits,
    A_T: tl.constexpr, B_T: tl.constexpr, EVEN_K: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    EPILOGUE: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program a tile ("plain"), or ``splits`` of them, of which the last to arrive adds up ("split-k")."""
    slabs = tl.cdiv(K, BLOCK_K)
    if SPLIT:
        tile, part = tl.program_id(0) // splits, tl.program_id(0) % splits
        first, last = part * slabs // splits, (part + 1) * slabs // splits
    else:
        tile, part, first, last = tl.program_id(0), 0, 0, slabs
    matrix, row, column = place(tile, M, ldc, GROUP_M, BLOCK_M, BLOCK_N)
    sums = sum_slabs(
        a, b, matrix, row, column, first, last, M, K, lda, ldb, ldc,
        A_T, B_T, EVEN_K, ACC, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    if SPLIT:
        slot = partials + tile.to(tl.int64) * splits * (BLOCK_M * BLOCK_N) + inside_of(BLOCK_M, BLOCK_N)
        tl.store(slot + part * (BLOCK_M * BLOCK_N), sums)
        tl.debug_barrier()  # all threads have written before one of them says so
        if tl.atomic_add(arrivals + tile, 1, sem="acq_rel") == splits - 1:
            sums = tl.zeros((BLOCK_M, BLOCK_N), ACC)
            for other in range(splits):
                sums += tl.load(slot + other * (BLOCK_M * BLOCK_N), cache_modifier=".cg")
            write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)
            tl.store(arrivals + tile, 0)  # as the next run expects it
    else:
        write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)


@triton.jit(do_not_specialize=["M", "K", "batch", "GROUP_M", "programs"])
def persistent(
    a, b, bias, c, M, K, lda, ldb, ldc, batch, GROUP_M, programs,
    A_T: tl.constexpr, B_T: tl.constexpr, EVEN_K: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """``programs`` walk over all tiles."""
    count = batch * tl.cdiv(M, BLOCK_M) * tl.cdiv(ldc, BLOCK_N)
    for tile in tl.range(tl.program_id(0), count, programs, flatten=True):
        matrix, row, column = place(tile, M, ldc, GROUP_M, BLOCK_M, BLOCK_N)
        sums = sum_slabs(
            a, b, matrix, row, column, 0, tl.cdiv(K, BLOCK_K), M, K, lda, ldb, ldc,
            A_T, B_T, EVEN_K, ACC, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)


@triton.jit(do_not_specialize=["M", "K", "GROUP_M", "programs"])
def descriptors(
    a, b, bias, c, M, K, ldc, GROUP_M, programs,
    A_T: tl.constexpr, B_T: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The same by tensor descriptors of A and B, which the copy engine reads ("tma"); rows are aligned."""
    count = tl.cdiv(M, BLOCK_M) * tl.cdiv(ldc, BLOCK_N)
    for tile in tl.range(tl.program_id(0), count, programs, flatten=True):
        matrix, row, column = place(tile, M, ldc, GROUP_M, BLOCK_M, BLOCK_N)
        sums = tl.zeros((BLOCK_M, BLOCK_N), ACC)
        for slab in range(tl.cdiv(K, BLOCK_K)):
            k = slab * BLOCK_K
            x = a.load([k, row]).T if A_T else a.load([row, k])
            y = b.load([column, k]).T if B_T else b.load([k, column])
            sums = tl.dot(x, y, sums, input_precision=PRECISION, out_dtype=ACC)
        write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)


@triton.jit
def start_of(program, each, more):
    """First slab of a program when ``more`` of them have one above ``each``."""
    return program * each + min(program, more)


@triton.jit
def owner_of(slab, each, more):
    """Program that has a slab."""
    wide = more * (each + 1)
    return tl.where(slab < wide, slab // (each + 1), more + (slab - wide) // each)


@triton.jit(do_not_specialize=["M", "K", "batch", "GROUP_M", "programs"])
def stream_k(
    a, b, bias, c, partials, arrivals, M, K, lda, ldb, ldc, batch, GROUP_M, programs,
    A_T: tl.constexpr, B_T: tl.constexpr, EVEN_K: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """``programs`` share all slabs of all tiles out evenly; who finishes a tile adds up its parts.

    Source: Osama et al., "Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix
    Multiplication on the GPU" (2023). A program has at most two parts of tiles: where it starts, in its
    slot 0, and where it ends, in its slot 1.
    """
    slabs = tl.cdiv(K, BLOCK_K)
    total = batch * tl.cdiv(M, BLOCK_M) * tl.cdiv(ldc, BLOCK_N) * slabs
    each, more = total // programs, total % programs
    program = tl.program_id(0)
    now, end = start_of(program, each, more), start_of(program + 1, each, more)
    offsets = inside_of(BLOCK_M, BLOCK_N)
    while now < end:
        tile, first = now // slabs, now % slabs
        last = min(slabs, first + end - now)
        matrix, row, column = place(tile, M, ldc, GROUP_M, BLOCK_M, BLOCK_N)
        sums = sum_slabs(
            a, b, matrix, row, column, first, last, M, K, lda, ldb, ldc,
            A_T, B_T, EVEN_K, ACC, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        if (first == 0) & (last == slabs):
            write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)
        else:
            slot = program * 2 + (first == 0).to(tl.int32)
            tl.store(partials + slot * (BLOCK_M * BLOCK_N) + offsets, sums)
            tl.debug_barrier()
            done = tl.atomic_add(arrivals + tile, last - first, sem="acq_rel") + last - first
            if done == slabs:
                begin = tile * slabs
                sums = tl.zeros((BLOCK_M, BLOCK_N), ACC)
                for other in range(owner_of(begin, each, more), owner_of(begin + slabs - 1, each, more) + 1):
                    slot = other * 2 + (start_of(other, each, more) <= begin).to(tl.int32)
                    sums += tl.load(partials + slot * (BLOCK_M * BLOCK_N) + offsets, cache_modifier=".cg")
                write(sums, bias, c, matrix, row, column, M, ldc, EPILOGUE, BLOCK_M, BLOCK_N)
                tl.store(arrivals + tile, 0)
        now += last - first
