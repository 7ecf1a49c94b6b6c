// C[m, n] = A[m, k] B[k, n] on Tensor Cores: float16, row-major, sums in float32.
//
// A block computes block_m x block_n results. Slabs of A and B, block_k deep, come into shared memory by asynchronous
// copies, `stages` of them on the way at once. Of each slab the warps (warps_m x warps_n x k_warps) load fragments by
// ldmatrix and multiply them by mma.m16n8k16 (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions"). Warps
// along k share the results of a tile and add theirs up at the end, which gives a small tile more warps.
//
// n and k are multiples of 8, as rows are copied in pieces of 16 bytes; otherwise any size goes.

#include <cuda_fp16.h>

constexpr int TILE_WARPS = warps_m * warps_n;
constexpr int TILE_THREADS = 32 * TILE_WARPS;
constexpr int THREADS = TILE_THREADS * k_warps;
constexpr int WARP_M = block_m / warps_m;
constexpr int WARP_N = block_n / warps_n;
constexpr int FRAGMENTS_M = WARP_M / 16;
constexpr int FRAGMENTS_N = WARP_N / 8;
constexpr int STEPS = block_k / 16 / k_warps;  // of a slab, for one warp
constexpr int PIECE = 8;                       // elements in 16 bytes
constexpr int SLAB = (block_m + block_n) * block_k;
constexpr int SLABS = (DIM_k + block_k - 1) / block_k;

#ifdef __CUDACC__

__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes, or zeros where the source is outside the matrix.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most the LATEST groups of copies are still on the way.
template <int LATEST>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(LATEST) : "memory");
}

__device__ __forceinline__ void load_matrices(unsigned int (&registers)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned int (&registers)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void multiply_add(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0,
                                             unsigned int b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif  // where there is no such compiler, who includes this file says what these do

// Offset of a piece of a row in shared memory. Pieces change places by row, so that eight rows of one column of
// pieces lie in different banks.
template <int COLUMNS>
__device__ __forceinline__ int swizzled(int row, int piece) {
    constexpr int PIECES = COLUMNS / PIECE;
    constexpr int ROWS_OF_A_LINE = PIECES < 8 ? 8 / PIECES : 1;  // 128 bytes are a line
    constexpr int MASK = PIECES < 8 ? PIECES - 1 : 7;
    return row * COLUMNS + (piece ^ (row / ROWS_OF_A_LINE & MASK)) * PIECE;
}

// Starts to copy ROWS x COLUMNS elements from (first_row, first_column) of a matrix of SOURCE_ROWS x SOURCE_COLUMNS.
template <int ROWS, int COLUMNS, int SOURCE_ROWS, int SOURCE_COLUMNS>
__device__ __forceinline__ void stage(half* shared, const half* __restrict__ source, int first_row, int first_column) {
    constexpr int PIECES = ROWS * COLUMNS / PIECE;
    constexpr int IN_A_ROW = COLUMNS / PIECE;
#pragma unroll
    for (int round = 0; round < (PIECES + THREADS - 1) / THREADS; ++round) {
        const int which = round * THREADS + threadIdx.x;
        if (PIECES % THREADS != 0 && which >= PIECES) break;
        const int row = which / IN_A_ROW, piece = which % IN_A_ROW;
        const int source_row = first_row + row, source_column = first_column + piece * PIECE;
        const bool inside = (SOURCE_ROWS % ROWS == 0 || source_row < SOURCE_ROWS) &&
                            (SOURCE_COLUMNS % COLUMNS == 0 || source_column < SOURCE_COLUMNS);
        const half* from = inside ? source + static_cast<long long>(source_row) * SOURCE_COLUMNS + source_column : source;
        copy_async(shared + swizzled<COLUMNS>(row, piece), from, inside);
    }
}

// The tile of this block: in groups of group_m rows of tiles, so that neighbours in time share rows of A and columns
// of B in the L2 cache.
__device__ __forceinline__ void choose_tile(int& tile_m, int& tile_n) {
    const int which = blockIdx.y * gridDim.x + blockIdx.x;
    const int in_a_group = group_m * gridDim.x;
    const int first = which / in_a_group * group_m;
    const int rows = min(static_cast<int>(gridDim.y) - first, group_m);
    tile_m = first + which % in_a_group % rows;
    tile_n = which % in_a_group / rows;
}

struct Fragments {
    unsigned int a[FRAGMENTS_M][4];
    unsigned int b[FRAGMENTS_N / 2][4];

    // Loads step `step` of a slab: lanes 0..15 give the rows of the first 8 columns, lanes 16..31 those of the next.
    __device__ __forceinline__ void load(const half* slab, int warp_row, int warp_column, int step) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
            const int row = warp_row + 16 * i + lane % 16;
            load_matrices(a[i], slab + swizzled<block_k>(row, 2 * step + lane / 16));
        }
        const half* slab_b = slab + block_m * block_k;
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N / 2; ++j) {
            const int row = 16 * step + lane % 16;
            load_matrices_transposed(b[j], slab_b + swizzled<block_n>(row, warp_column / PIECE + 2 * j + lane / 16));
        }
    }
};

// Adds up what the warps along k have, in their order; the first of them ends with all of it.
__device__ __forceinline__ void add_up(float (&sums)[FRAGMENTS_M][FRAGMENTS_N][4], float* shared, int k_warp) {
    float* own = shared + threadIdx.x % TILE_THREADS;
    for (int from = 1; from < k_warps; ++from) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; ++i) {
            float& sum = sums[i / 4 / FRAGMENTS_N][i / 4 % FRAGMENTS_N][i % 4];
            if (k_warp == from) own[i * TILE_THREADS] = sum;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; ++i) {
            float& sum = sums[i / 4 / FRAGMENTS_N][i / 4 % FRAGMENTS_N][i % 4];
            if (k_warp == 0) sum += own[i * TILE_THREADS];
        }
    }
}

// Writes each pair of results from where it is: 16 bytes of a row at a time.
__device__ __forceinline__ void store_pairs(half* __restrict__ C, const float (&sums)[FRAGMENTS_M][FRAGMENTS_N][4],
                                            int first_row, int first_column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            const int row = first_row + 16 * i + 8 * part + lane / 4;
            if (DIM_m % block_m != 0 && row >= DIM_m) continue;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                const int column = first_column + 8 * j + lane % 4 * 2;
                if (DIM_n % block_n != 0 && column >= DIM_n) continue;
                *reinterpret_cast<half2*>(C + static_cast<long long>(row) * DIM_n + column) =
                    __floats2half2_rn(sums[i][j][2 * part], sums[i][j][2 * part + 1]);
            }
        }
}

// Brings the tile together in shared memory first, then writes whole rows of it, 16 bytes a thread.
__device__ __forceinline__ void store_rows(half* __restrict__ C, const float (&sums)[FRAGMENTS_M][FRAGMENTS_N][4],
                                           half* shared, int tile_row, int tile_column, int warp_row, int warp_column,
                                           bool holds_results) {
    const int lane = threadIdx.x % 32;
    __syncthreads();
    if (holds_results) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int part = 0; part < 2; ++part)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    const int row = warp_row + 16 * i + 8 * part + lane / 4, piece = warp_column / PIECE + j;
                    *reinterpret_cast<half2*>(shared + swizzled<block_n>(row, piece) + lane % 4 * 2) =
                        __floats2half2_rn(sums[i][j][2 * part], sums[i][j][2 * part + 1]);
                }
    }
    __syncthreads();
    constexpr int PIECES = block_m * block_n / PIECE;
    constexpr int IN_A_ROW = block_n / PIECE;
#pragma unroll
    for (int round = 0; round < (PIECES + THREADS - 1) / THREADS; ++round) {
        const int which = round * THREADS + threadIdx.x;
        const int row = which / IN_A_ROW, piece = which % IN_A_ROW;
        if (PIECES % THREADS != 0 && which >= PIECES) break;
        if (DIM_m % block_m != 0 && tile_row + row >= DIM_m) continue;
        if (DIM_n % block_n != 0 && tile_column + piece * PIECE >= DIM_n) continue;
        *reinterpret_cast<uint4*>(C + static_cast<long long>(tile_row + row) * DIM_n + tile_column + piece * PIECE) =
            *reinterpret_cast<const uint4*>(shared + swizzled<block_n>(row, piece));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_float16(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C) {
    extern __shared__ uint4 shared_memory[];
    half* const slabs = reinterpret_cast<half*>(shared_memory);

    int tile_m, tile_n;
    choose_tile(tile_m, tile_n);
    const int tile_row = tile_m * block_m, tile_column = tile_n * block_n;
    const int warp = threadIdx.x / 32, k_warp = warp / TILE_WARPS;
    const int warp_row = warp % TILE_WARPS / warps_n * WARP_M, warp_column = warp % warps_n * WARP_N;

    const auto stage_slab = [&](int which) {
        half* slab = slabs + which % stages * SLAB;
        if (which < SLABS) {
            stage<block_m, block_k, DIM_m, DIM_k>(slab, A, tile_row, which * block_k);
            stage<block_k, block_n, DIM_k, DIM_n>(slab + block_m * block_k, B, which * block_k, tile_column);
        }
        commit_copies();  // an empty group behind the last slab, so that those on the way are counted alike
    };

    float sums[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    Fragments fragments[2];  // those of the next step load while the products of this one are made
#pragma unroll
    for (int which = 0; which < stages - 1; ++which) stage_slab(which);

    for (int which = 0; which < SLABS; ++which) {
        wait_for_copies<stages - 2>();
        __syncthreads();  // this slab is there for all, and all are done with the one before it
        stage_slab(which + stages - 1);
        const half* slab = slabs + which % stages * SLAB;
        fragments[0].load(slab, warp_row, warp_column, k_warp * STEPS);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS) fragments[(step + 1) % 2].load(slab, warp_row, warp_column, k_warp * STEPS + step + 1);
            const Fragments& now = fragments[step % 2];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
                    multiply_add(sums[i][j], now.a[i], now.b[j / 2][j % 2 * 2], now.b[j / 2][j % 2 * 2 + 1]);
        }
    }

    wait_for_copies<0>();
    if (k_warps > 1) add_up(sums, reinterpret_cast<float*>(shared_memory), k_warp);
    if (store_width == 8)
        store_rows(C, sums, slabs, tile_row, tile_column, warp_row, warp_column, k_warp == 0);
    else if (k_warp == 0)
        store_pairs(C, sums, tile_row + warp_row, tile_column + warp_column);
}
