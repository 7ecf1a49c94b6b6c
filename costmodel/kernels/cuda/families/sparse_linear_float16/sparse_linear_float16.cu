// y[m, n] = x[m, k] W[n, k]^T, where W is pruned: float16, row-major, sums in float32.
//
// The variants `dense` and `gather` are on CUDA cores (see sparse_linear.h). On Tensor Cores outputs are the rows of a
// product and rows of x its columns, in tiles of block_n x block_m by warps_n x warps_m x k_warps warps:
//
// - dense_tensor multiplies W with its zeros.
// - gather_tensor takes the kept weights of rows that share their indices as a dense matrix. A slab of x is turned
//   round in shared memory, its columns as rows, and ldmatrix reads those rows of it that the indices name.
// - sparse_tensor is for two of four (Mishra et al. 2021, "Accelerating sparse deep neural networks"): the kept weights,
//   and in `metadata` two bits for each, go to mma.sp, which chooses among the columns of x itself.
//
// Slabs, block_k columns deep, come by asynchronous copies, stages - 1 of them on the way at once.

#include <cuda_fp16.h>

using Element = half;

__device__ __forceinline__ float as_float(half value) { return __half2float(value); }
__device__ __forceinline__ half as_element(float value) { return __float2half_rn(value); }

#include "../sparse_linear.h"

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

// The same with two of four elements of a row of `a`, of 32: the first two lanes of every four say which.
__device__ __forceinline__ void multiply_add_sparse(float (&sums)[4], const unsigned int (&a)[4],
                                                    const unsigned int (&b)[4], unsigned int metadata) {
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata));
}

#endif  // where there is no such compiler, who includes this file says what these do

constexpr bool ON_TENSOR_CORES = variant == dense_tensor || variant == gather_tensor || variant == sparse_tensor;
// What is not on Tensor Cores has tiles that they could not take, and none of the code below.
constexpr int TILE_M = ON_TENSOR_CORES ? block_m : 16;
constexpr int TILE_N = ON_TENSOR_CORES ? block_n : 16;
constexpr int TILE_K = ON_TENSOR_CORES ? block_k : 32;
constexpr int STAGES = ON_TENSOR_CORES ? stages : 2;
constexpr int TILE_WARPS = warps_m * warps_n;
constexpr int TILE_THREADS = 32 * TILE_WARPS;
constexpr int THREADS = ON_TENSOR_CORES ? TILE_THREADS * k_warps : OnCores<variant == dense>::ALL_THREADS;
constexpr int WARP_M = TILE_M / warps_m;
constexpr int WARP_N = TILE_N / warps_n;
constexpr int FRAGMENTS_M = WARP_M / 8;
constexpr int FRAGMENTS_N = WARP_N / 16;
constexpr int PIECE = 8;  // elements in 16 bytes
constexpr int WEIGHTS_OF_ROW = variant == dense_tensor ? DIM_k : KEPT_OF_ROW;
constexpr int SLAB_WEIGHTS = variant == dense_tensor ? TILE_K : ON_TENSOR_CORES ? TILE_K / DIM_g * KEPT : 16;  // of a row
constexpr int SLAB_COLUMNS = (SLAB_WEIGHTS + 15) / 16 * 16;  // with zeros behind the weights
constexpr int STEPS = SLAB_COLUMNS / 16 / k_warps;           // of a slab, for one warp
constexpr int SLABS = DIM_k / TILE_K;

// Rows in shared memory are an odd number of pieces apart, so that eight rows at one piece lie in different banks.
__device__ constexpr int padded(int columns) { return columns + PIECE; }

constexpr int WEIGHTS_SIZE = TILE_N * padded(SLAB_COLUMNS);
constexpr int X_SIZE = TILE_M * padded(TILE_K);
constexpr int METADATA_SIZE = variant == sparse_tensor ? TILE_N / 16 * padded(TILE_K) : 0;  // in elements
constexpr int SLAB = WEIGHTS_SIZE + X_SIZE + METADATA_SIZE;

// Starts to copy ROWS x COLUMNS elements from (first_row, first_column) of a matrix of SOURCE_ROWS x SOURCE_COLUMNS, and
// zeros up to PADDED_COLUMNS.
template <int ROWS, int COLUMNS, int SOURCE_ROWS, int SOURCE_COLUMNS, int PADDED_COLUMNS = COLUMNS>
__device__ __forceinline__ void stage(half* shared, const half* __restrict__ source, int first_row, int first_column) {
    constexpr int PIECES = ROWS * PADDED_COLUMNS / PIECE;
    constexpr int IN_A_ROW = PADDED_COLUMNS / PIECE;
#pragma unroll
    for (int round = 0; round < (PIECES + THREADS - 1) / THREADS; ++round) {
        const int which = round * THREADS + threadIdx.x;
        if (PIECES % THREADS != 0 && which >= PIECES) break;
        const int row = which / IN_A_ROW, column = which % IN_A_ROW * PIECE;
        const bool inside = (SOURCE_ROWS % ROWS == 0 || first_row + row < SOURCE_ROWS) &&
                            (COLUMNS == PADDED_COLUMNS || column < COLUMNS);
        const half* from = inside ? source + (first_row + row) * SOURCE_COLUMNS + first_column + column : source;
        copy_async(shared + row * padded(PADDED_COLUMNS) + column, from, inside);
    }
}

// Turns a slab of x round: its columns become rows, of TILE_M elements.
__device__ __forceinline__ void turn_round(half* turned, const half* slab) {
    const int lane = threadIdx.x % 32;
    for (int which = threadIdx.x / 32; which < TILE_M / 8 * (TILE_K / 32); which += THREADS / 32) {
        const int batch = which % (TILE_M / 8) * 8, column = which / (TILE_M / 8) * 32;
        unsigned int registers[4];
        load_matrices_transposed(registers, slab + (batch + lane % 8) * padded(TILE_K) + column + lane / 8 * PIECE);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            *reinterpret_cast<unsigned int*>(turned + (column + 8 * i + lane / 4) * padded(TILE_M) + batch +
                                             lane % 4 * 2) = registers[i];
    }
}

// Which rows of a slab of x, once turned round, the weights of each step meet; one for lanes l and l + 16.
struct NamedRows {
    int rows[STEPS];

    __device__ __forceinline__ void load(const unsigned char* __restrict__ indices, int which_slab, int first_step) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int entry_of_slab = min((first_step + step) * 16 + static_cast<int>(threadIdx.x % 16), SLAB_WEIGHTS - 1);
            const int entry = which_slab * SLAB_WEIGHTS + entry_of_slab;
            rows[step] = column_of(entry, entry, __ldg(indices + entry / DIM_u)) - which_slab * TILE_K;
        }
    }
};

struct Fragments {
    unsigned int weights[FRAGMENTS_N][4];
    unsigned int x[FRAGMENTS_M][4];  // two of them, but for sparse_tensor
    unsigned int metadata[FRAGMENTS_N];

    // Loads step `step` of a slab, for the tile of a warp that begins at (first_n, first_m) of the block's.
    __device__ __forceinline__ void load(const half* slab, const half* turned, int first_n, int first_m, int step,
                                         int named_row) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i) {
            const int row = first_n + 16 * i + lane % 16;
            load_matrices(weights[i], slab + row * padded(SLAB_COLUMNS) + (2 * step + lane / 16) * PIECE);
        }
        const half* slab_x = slab + WEIGHTS_SIZE;
        if (variant == sparse_tensor) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_M; ++j)
                load_matrices(x[j], slab_x + (first_m + 8 * j + lane % 8) * padded(TILE_K) +
                                        (4 * step + lane / 8) * PIECE);
            const unsigned int* words = reinterpret_cast<const unsigned int*>(slab_x + X_SIZE);
#pragma unroll
            for (int i = 0; i < FRAGMENTS_N; ++i)
                metadata[i] =
                    words[(first_n / 16 + i) * padded(TILE_K) / 2 + step * 16 + lane / 4 * 2 + lane % 2];
        } else {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_M; j += 2) {
                unsigned int both[4];
                if (variant == gather_tensor)
                    load_matrices_transposed(
                        both, turned + named_row * padded(TILE_M) + first_m + 8 * j + lane / 16 * PIECE);
                else
                    load_matrices(both, slab_x + (first_m + 8 * j + lane / 16 * 8 + lane % 8) * padded(TILE_K) +
                                            (2 * step + lane / 8 % 2) * PIECE);
                x[j][0] = both[0], x[j][1] = both[1];
                x[j + 1][0] = both[2], x[j + 1][1] = both[3];
            }
        }
    }

    __device__ __forceinline__ void multiply(float (&sums)[FRAGMENTS_N][FRAGMENTS_M][4]) const {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_M; ++j)
                if (variant == sparse_tensor)
                    multiply_add_sparse(sums[i][j], weights[i], x[j], metadata[i]);
                else
                    multiply_add(sums[i][j], weights[i], x[j][0], x[j][1]);
    }
};

// Adds up what the warps along k have, in their order; the first of them ends with all of it.
__device__ __forceinline__ void add_up(float (&sums)[FRAGMENTS_N][FRAGMENTS_M][4], float* shared, int k_warp) {
    float* own = shared + threadIdx.x % TILE_THREADS;
    for (int from = 1; from < k_warps; ++from) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N * FRAGMENTS_M * 4; ++i)
            if (k_warp == from) own[i * TILE_THREADS] = sums[i / 4 / FRAGMENTS_M][i / 4 % FRAGMENTS_M][i % 4];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N * FRAGMENTS_M * 4; ++i)
            if (k_warp == 0) sums[i / 4 / FRAGMENTS_M][i / 4 % FRAGMENTS_M][i % 4] += own[i * TILE_THREADS];
    }
}

// Brings the tile together in shared memory, a row of it for a row of x, then writes rows of it 16 bytes a thread.
__device__ __forceinline__ void store_tile(half* __restrict__ y, const float (&sums)[FRAGMENTS_N][FRAGMENTS_M][4],
                                           half* shared, int tile_n, int tile_m, int first_n, int first_m,
                                           bool holds_results) {
    const int lane = threadIdx.x % 32;
    __syncthreads();
    if (holds_results) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_M; ++j)
#pragma unroll
                for (int which = 0; which < 4; ++which) {
                    const int output = first_n + 16 * i + which / 2 * 8 + lane / 4;
                    const int batch = first_m + 8 * j + lane % 4 * 2 + which % 2;
                    shared[batch * padded(TILE_N) + output] = __float2half_rn(sums[i][j][which]);
                }
    }
    __syncthreads();
    constexpr int IN_A_ROW = TILE_N / PIECE;
    for (int which = threadIdx.x; which < TILE_M * IN_A_ROW; which += THREADS) {
        const int row = which / IN_A_ROW, column = which % IN_A_ROW * PIECE;
        if (DIM_m % TILE_M != 0 && tile_m + row >= DIM_m) continue;
        if (DIM_n % TILE_N != 0 && tile_n + column >= DIM_n) continue;
        copy_vector<PIECE>(y + (tile_m + row) * DIM_n + tile_n + column, shared + row * padded(TILE_N) + column);
    }
}

__device__ __forceinline__ void run_on_tensor_cores(const half* __restrict__ x, const half* __restrict__ weights,
                                                    const unsigned char* __restrict__ indices,
                                                    const half* __restrict__ metadata, half* __restrict__ y,
                                                    half* slabs) {
    const int tile_m = blockIdx.x * TILE_M, tile_n = blockIdx.y * TILE_N;
    const int warp = threadIdx.x / 32, k_warp = warp / TILE_WARPS;
    const int first_n = warp % TILE_WARPS / warps_m * WARP_N, first_m = warp % warps_m * WARP_M;
    const int vector = min(tile_n + first_n, DIM_n - 1) / DIM_v;
    const unsigned char* own_indices = indices + vector * (KEPT_OF_ROW / DIM_u);
    half* const turned = slabs + STAGES * SLAB;

    const auto stage_slab = [&](int which) {
        half* slab = slabs + which % STAGES * SLAB;
        if (which < SLABS) {
            stage<TILE_N, SLAB_WEIGHTS, DIM_n, WEIGHTS_OF_ROW, SLAB_COLUMNS>(slab, weights, tile_n,
                                                                             which * SLAB_WEIGHTS);
            stage<TILE_M, TILE_K, DIM_m, DIM_k>(slab + WEIGHTS_SIZE, x, tile_m, which * TILE_K);
            if constexpr (variant == sparse_tensor)
                stage<TILE_N / 16, TILE_K, DIM_n / 16, DIM_k>(slab + WEIGHTS_SIZE + X_SIZE, metadata, tile_n / 16,
                                                                which * TILE_K);
        }
        commit_copies();  // an empty group behind the last slab, so that those on the way are counted alike
    };

    float sums[FRAGMENTS_N][FRAGMENTS_M][4] = {};
    Fragments fragments[2];  // those of the next step load while the products of this one are made
    NamedRows named = {};
#pragma unroll
    for (int which = 0; which < STAGES - 1; ++which) stage_slab(which);

    for (int which = 0; which < SLABS; ++which) {
        if (variant == gather_tensor) named.load(own_indices, which, k_warp * STEPS);
        wait_for_copies<STAGES - 2>();
        __syncthreads();  // this slab is there for all, and all are done with the one before it
        stage_slab(which + STAGES - 1);
        const half* slab = slabs + which % STAGES * SLAB;
        if (variant == gather_tensor) {
            turn_round(turned, slab + WEIGHTS_SIZE);
            __syncthreads();
        }
        fragments[0].load(slab, turned, first_n, first_m, k_warp * STEPS, named.rows[0]);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS)
                fragments[(step + 1) % 2].load(slab, turned, first_n, first_m, k_warp * STEPS + step + 1,
                                               named.rows[step + 1 < STEPS ? step + 1 : 0]);
            fragments[step % 2].multiply(sums);
        }
    }

    wait_for_copies<0>();
    if (k_warps > 1) add_up(sums, reinterpret_cast<float*>(slabs), k_warp);
    store_tile(y, sums, slabs, tile_n, tile_m, first_n, first_m, k_warp == 0);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sparse_linear_float16(const half* __restrict__ x, const half* __restrict__ W, const half* __restrict__ values,
                          const unsigned char* __restrict__ indices, const unsigned int* __restrict__ metadata,
                          half* __restrict__ y) {
    extern __shared__ uint4 shared_memory[];
    half* const shared = reinterpret_cast<half*>(shared_memory);
    const half* weights = variant == dense || variant == dense_tensor ? W : values;
    if constexpr (ON_TENSOR_CORES)
        run_on_tensor_cores(x, weights, indices, reinterpret_cast<const half*>(metadata), y, shared);
    else
        OnCores<variant == dense>::run(x, weights, indices, y, shared);
}
