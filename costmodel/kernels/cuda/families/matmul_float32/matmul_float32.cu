// C[m, n] = A[m, k] B[k, n] on CUDA cores: float32, row-major.
//
// A block computes block_m x block_n results, a thread thread_m x thread_n of them in registers (Volkov and Demmel 2008,
// "Benchmarking GPUs to tune dense linear algebra"). A slab of A and one of B, block_k deep, are in shared memory, that
// of A with its columns as rows, so that both are read by row. With double_buffer the next slab is on its way through
// registers while this one is multiplied, into a second pair of buffers.
//
// Global memory is read load_width elements at a time, which must divide n and k; m is any number.

constexpr int THREADS_M = block_m / thread_m;
constexpr int THREADS_N = block_n / thread_n;
constexpr int THREADS = THREADS_M * THREADS_N;
constexpr int GROUP_M = thread_m < 4 ? thread_m : 4;  // rows of a thread that lie side by side, and columns:
constexpr int GROUP_N = thread_n < 4 ? thread_n : 4;  // groups of neighbouring threads are neighbours
constexpr int STRIDE_A = block_m + 4;                 // the columns of A that a warp writes go to different banks
constexpr int SLAB = (STRIDE_A + block_n) * block_k;
constexpr int BUFFERS = double_buffer ? 2 : 1;
constexpr int SLABS = (DIM_k + block_k - 1) / block_k;

// What a thread copies of one slab of ROWS x COLUMNS elements of a matrix of SOURCE_ROWS x SOURCE_COLUMNS.
template <int ROWS, int COLUMNS, int SOURCE_ROWS, int SOURCE_COLUMNS>
struct Piece {
    static constexpr int VECTORS = ROWS * COLUMNS / load_width;
    static constexpr int IN_A_ROW = COLUMNS / load_width;
    static constexpr int ROUNDS = (VECTORS + THREADS - 1) / THREADS;
    float values[ROUNDS][load_width];

    // Reads from (first_row, first_column) on, zeros outside the matrix.
    __device__ __forceinline__ void load(const float* __restrict__ source, int first_row, int first_column) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int which = round * THREADS + threadIdx.x;
            const int row = first_row + which / IN_A_ROW, column = first_column + which % IN_A_ROW * load_width;
            const bool inside = (VECTORS % THREADS == 0 || which < VECTORS) &&
                                (SOURCE_ROWS % ROWS == 0 || row < SOURCE_ROWS) &&
                                (SOURCE_COLUMNS % COLUMNS == 0 || column < SOURCE_COLUMNS);
            const float* from = source + static_cast<long long>(row) * SOURCE_COLUMNS + column;
            if (!inside) {
#pragma unroll
                for (int i = 0; i < load_width; ++i) values[round][i] = 0.0f;
            } else if (load_width == 4) {
                *reinterpret_cast<float4*>(values[round]) = *reinterpret_cast<const float4*>(from);
            } else if (load_width == 2) {
                *reinterpret_cast<float2*>(values[round]) = *reinterpret_cast<const float2*>(from);
            } else {
                values[round][0] = *from;
            }
        }
    }

    // Writes it to shared memory, element (row, column) to row * row_stride + column * column_stride.
    __device__ __forceinline__ void store(float* shared, int row_stride, int column_stride) const {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int which = round * THREADS + threadIdx.x;
            const int row = which / IN_A_ROW, column = which % IN_A_ROW * load_width;
            if (VECTORS % THREADS != 0 && which >= VECTORS) break;
            if (load_width == 4 && column_stride == 1) {
                *reinterpret_cast<float4*>(shared + row * row_stride + column) =
                    *reinterpret_cast<const float4*>(values[round]);
            } else {
#pragma unroll
                for (int i = 0; i < load_width; ++i)
                    shared[row * row_stride + (column + i) * column_stride] = values[round][i];
            }
        }
    }
};

// Reads what thread `thread` of THREADS multiplies of one row: groups of GROUP elements, THREADS * GROUP apart.
template <int COUNT, int GROUP, int THREADS_OF_A_ROW>
__device__ __forceinline__ void load_row(float (&values)[COUNT], const float* row, int thread) {
#pragma unroll
    for (int group = 0; group < COUNT / GROUP; ++group) {
        const float* from = row + (group * THREADS_OF_A_ROW + thread) * GROUP;
        if (GROUP == 4) {
            *reinterpret_cast<float4*>(values + group * GROUP) = *reinterpret_cast<const float4*>(from);
        } else {
#pragma unroll
            for (int i = 0; i < GROUP; ++i) values[group * GROUP + i] = from[i];
        }
    }
}

__device__ __forceinline__ void multiply_slab(float (&sums)[thread_m][thread_n], const float* slab, int thread_row,
                                              int thread_column) {
#pragma unroll
    for (int step = 0; step < block_k; ++step) {
        alignas(16) float a[thread_m], b[thread_n];
        load_row<thread_m, GROUP_M, THREADS_M>(a, slab + step * STRIDE_A, thread_row);
        load_row<thread_n, GROUP_N, THREADS_N>(b, slab + STRIDE_A * block_k + step * block_n, thread_column);
#pragma unroll
        for (int i = 0; i < thread_m; ++i)
#pragma unroll
            for (int j = 0; j < thread_n; ++j) sums[i][j] += a[i] * b[j];
    }
}

__device__ __forceinline__ void store_results(float* __restrict__ C, const float (&sums)[thread_m][thread_n],
                                              int tile_row, int tile_column, int thread_row, int thread_column) {
#pragma unroll
    for (int i = 0; i < thread_m; ++i) {
        const int row = tile_row + (i / GROUP_M * THREADS_M + thread_row) * GROUP_M + i % GROUP_M;
        if (DIM_m % block_m != 0 && row >= DIM_m) continue;
#pragma unroll
        for (int group = 0; group < thread_n / GROUP_N; ++group) {
            const int column = tile_column + (group * THREADS_N + thread_column) * GROUP_N;
            float* to = C + static_cast<long long>(row) * DIM_n + column;
            const float* from = sums[i] + group * GROUP_N;
            if (GROUP_N == 4 && DIM_n % 4 == 0) {
                if (DIM_n % block_n != 0 && column >= DIM_n) continue;
                *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
            } else {
#pragma unroll
                for (int j = 0; j < GROUP_N; ++j)
                    if (DIM_n % block_n == 0 || column + j < DIM_n) to[j] = from[j];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_float32(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
    extern __shared__ float4 shared_memory[];
    float* const slabs = reinterpret_cast<float*>(shared_memory);

    // In groups of group_m rows of tiles, so that neighbours in time share rows of A and columns of B in the L2 cache.
    const int tile = blockIdx.y * gridDim.x + blockIdx.x;
    const int in_a_group = group_m * gridDim.x;
    const int first = tile / in_a_group * group_m;
    const int rows = min(static_cast<int>(gridDim.y) - first, group_m);
    const int tile_row = (first + tile % in_a_group % rows) * block_m;
    const int tile_column = tile % in_a_group / rows * block_n;
    const int thread_row = threadIdx.x / THREADS_N, thread_column = threadIdx.x % THREADS_N;

    alignas(16) Piece<block_m, block_k, DIM_m, DIM_k> piece_a;
    alignas(16) Piece<block_k, block_n, DIM_k, DIM_n> piece_b;
    const auto load_slab = [&](int which) {
        piece_a.load(A, tile_row, which * block_k);
        piece_b.load(B, which * block_k, tile_column);
    };
    const auto store_slab = [&](int which) {
        float* slab = slabs + which % BUFFERS * SLAB;
        piece_a.store(slab, 1, STRIDE_A);
        piece_b.store(slab + STRIDE_A * block_k, block_n, 1);
    };

    alignas(16) float sums[thread_m][thread_n] = {};
    load_slab(0);
    store_slab(0);
    __syncthreads();
    for (int which = 0; which < SLABS; ++which) {
        const bool more = which + 1 < SLABS;
        if (more) load_slab(which + 1);
        multiply_slab(sums, slabs + which % BUFFERS * SLAB, thread_row, thread_column);
        if (!double_buffer) __syncthreads();  // all are done with the only buffer
        if (more) store_slab(which + 1);
        __syncthreads();
    }
    store_results(C, sums, tile_row, tile_column, thread_row, thread_column);
}
