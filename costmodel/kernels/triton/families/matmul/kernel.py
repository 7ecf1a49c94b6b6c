"""C[b, m, n] = epilogue(A[b, m, k] B[b, k, n]): row-major operands, sums in float32.

A tile is BLOCK_M x BLOCK_N results of one matrix. By default a program computes one tile. With PROGRAMS > 0
that many programs walk over all tiles. With SPLIT_K > 1 that many programs share the reduction of a tile:
each writes its sums to ``partials``, and the last to arrive adds them up, in their order, so that two runs
give the same.

The steps of the epilogue come in this order: bias, add, activation, mul. An input that it has not is None.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def has(epilogue, step):
    """Whether an epilogue, such as "bias_gelu", has a step."""
    return step in epilogue.split("_")


@triton.constexpr_function
def divided_up(size, block):
    """How many blocks cover a size."""
    return (size + block - 1) // block


@triton.jit
def matmul(
    a,
    b,
    bias,
    add,
    mul,
    c,
    partials,
    arrivals,
    BATCH: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    EPILOGUE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    """One program."""
    program = tl.program_id(0)
    if PROGRAMS > 0:
        tiles: tl.constexpr = BATCH * divided_up(M, BLOCK_M) * divided_up(N, BLOCK_N)
        for tile in tl.range(program, tiles, PROGRAMS, flatten=True):
            matrix, row, column = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
            sums = product(a, b, matrix, row, column, 0, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K)
            write(sums, bias, add, mul, c, matrix, row, column, M, N, EPILOGUE, BLOCK_M, BLOCK_N)
    else:
        tile, part = program // SPLIT_K, program % SPLIT_K
        matrix, row, column = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        sums = product(a, b, matrix, row, column, part, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K)
        if SPLIT_K == 1:
            write(sums, bias, add, mul, c, matrix, row, column, M, N, EPILOGUE, BLOCK_M, BLOCK_N)
        else:
            offsets, inside = results(matrix, row, column, M, N, BLOCK_M, BLOCK_N)
            tl.store(partials + part.to(tl.int64) * (BATCH * M * N) + offsets, sums, mask=inside)
            tl.debug_barrier()  # all threads have written before one of them says so
            if tl.atomic_add(arrivals + tile, 1, sem="acq_rel") == SPLIT_K - 1:
                sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                for _ in range(SPLIT_K):
                    sums += tl.load(partials + offsets, mask=inside, other=0.0)
                    partials += BATCH * M * N
                write(sums, bias, add, mul, c, matrix, row, column, M, N, EPILOGUE, BLOCK_M, BLOCK_N)
                tl.store(arrivals + tile, 0)  # as the next run expects it


@triton.jit
def place(
    tile,
    M: tl.constexpr,
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Matrix, first row and first column of a tile.

    Neighbours in time share rows of A and columns of B, which are then in L2.
    """
    tiles_m: tl.constexpr = divided_up(M, BLOCK_M)
    tiles_n: tl.constexpr = divided_up(N, BLOCK_N)
    matrix = tile // (tiles_m * tiles_n)
    tile = tile % (tiles_m * tiles_n)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    tile = tile % (GROUP_M * tiles_n)
    return matrix, (first + tile % height) * BLOCK_M, tile // height * BLOCK_N


@triton.jit
def product(
    a,
    b,
    matrix,
    row,
    column,
    part,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    """Sums of a tile over one of SPLIT_K parts of k."""
    slabs: tl.constexpr = divided_up(K, BLOCK_K * SPLIT_K)
    EVEN_K: tl.constexpr = K % (BLOCK_K * SPLIT_K) == 0
    rows, columns, ks = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :], tl.arange(0, BLOCK_K)
    first = part * (slabs * BLOCK_K)
    # Where a tile begins is counted in 64 bits, what is in it in 32.
    a += (matrix.to(tl.int64) * M + row) * K + first + rows * K + ks[None, :]
    b += (matrix.to(tl.int64) * K + first) * N + column + ks[:, None] * N + columns
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for slab in range(slabs):
        left = K - first - slab * BLOCK_K
        slab_a = load(a, rows < M - row, ks[None, :] < left, M % BLOCK_M == 0, EVEN_K)
        slab_b = load(b, columns < N - column, ks[:, None] < left, N % BLOCK_N == 0, EVEN_K)
        sums = tl.dot(slab_a, slab_b, sums, input_precision="ieee")
        a += BLOCK_K
        b += BLOCK_K * N
    return sums


@triton.jit
def load(pointers, inside, inside_k, EVEN: tl.constexpr, EVEN_K: tl.constexpr):
    """Elements, or zeros outside of the matrix."""
    if EVEN and EVEN_K:
        return tl.load(pointers)
    elif EVEN_K:
        return tl.load(pointers, mask=inside, other=0.0)
    else:
        return tl.load(pointers, mask=inside & inside_k, other=0.0)


@triton.jit
def results(
    matrix, row, column, M: tl.constexpr, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Offsets of a tile's results, and which of them are in the matrix."""
    rows, columns = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    offsets = (matrix.to(tl.int64) * M + row) * N + column + (rows * N + columns)
    return offsets, (rows < M - row) & (columns < N - column)


@triton.jit
def write(
    x,
    bias,
    add,
    mul,
    c,
    matrix,
    row,
    column,
    M: tl.constexpr,
    N: tl.constexpr,
    EPILOGUE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Write the epilogue of a tile's sums."""
    offsets, inside = results(matrix, row, column, M, N, BLOCK_M, BLOCK_N)
    if bias is not None:
        columns = column + tl.arange(0, BLOCK_N)
        x += tl.load(bias + columns, mask=columns < N, other=0.0)[None, :]
    if add is not None:
        x += tl.load(add + offsets, mask=inside, other=0.0)
    if has(EPILOGUE, "relu"):
        x = tl.maximum(x, 0.0)
    elif has(EPILOGUE, "relu6"):
        x = tl.minimum(tl.maximum(x, 0.0), 6.0)
    elif has(EPILOGUE, "gelu"):
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif has(EPILOGUE, "silu"):
        x = x * tl.sigmoid(x)
    if mul is not None:
        x *= tl.load(mul + offsets, mask=inside, other=0.0)
    tl.store(c + offsets, x.to(c.dtype.element_ty), mask=inside)
