// What kernels of a pruned layer share: y[m, n] = x[m, k] W[n, k]^T on CUDA cores, sums in float32.
//
// Every block of DIM_g weights of a row has KEPT non-zeros, in groups of DIM_u neighbours; DIM_v neighbouring rows keep
// the same ones (Cao et al., AAAI 2019; nmSPARSE, MLSys 2023). `values` has the kept weights of each row in order,
// `indices` says once for DIM_v rows which group of its block each kept group is.
//
// A thread makes thread_m x thread_n results, of thread_m rows of x and thread_n rows of W, which share their indices.
// row_threads threads, which are in one warp, share the weights of a row and add up their sums at the end: many of them
// make a product of matrix and vector, one a product of matrices. Weights are read load_width at a time. With stages = 1
// the block first brings a slab of x, the blocks of W in block_k columns, into shared memory, its columns as rows, so
// that one weight meets a vector of them; with 0 it reads x where it is.
//
// Who includes this file defines Element, as_float and as_element.
#pragma once

enum Variant { dense, gather, dense_tensor, gather_tensor, sparse_tensor };

constexpr int GROUPS_BY_SPARSITY = (2 * DIM_g * (100 - DIM_s) + 100 * DIM_u) / (200 * DIM_u);
constexpr int KEPT = DIM_u * (GROUPS_BY_SPARSITY ? GROUPS_BY_SPARSITY : 1);  // of a block
constexpr int KEPT_OF_ROW = DIM_k / DIM_g * KEPT;

template <int BYTES>
struct WordOf;
template <>
struct WordOf<1> { using type = unsigned char; };
template <>
struct WordOf<2> { using type = unsigned short; };
template <>
struct WordOf<4> { using type = unsigned int; };
template <>
struct WordOf<8> { using type = uint2; };
template <>
struct WordOf<16> { using type = uint4; };

// Reads an array in one access from memory that nobody writes.
template <class Type, int COUNT>
__device__ __forceinline__ void read_global(Type (&to)[COUNT], const Type* from) {
    using Word = typename WordOf<COUNT * sizeof(Type)>::type;
    *reinterpret_cast<Word*>(to) = __ldg(reinterpret_cast<const Word*>(from));
}

// Copies an array in one access, to or from shared memory.
template <int COUNT, class Type>
__device__ __forceinline__ void copy_vector(Type* to, const Type* from) {
    using Word = typename WordOf<COUNT * sizeof(Type)>::type;
    *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from);
}

// The column of an entry of a row: `same_block` is an entry of the same block.
__device__ __forceinline__ unsigned int column_of(unsigned int entry, unsigned int same_block, unsigned int group) {
    return same_block / KEPT * DIM_g + group * DIM_u + entry % DIM_u;
}

template <bool DENSE>
struct OnCores {
    static constexpr int ENTRIES = DENSE ? DIM_k : KEPT_OF_ROW;  // of a row
    static constexpr int SLAB_COLUMNS = DENSE || block_k < DIM_g ? block_k : block_k / DIM_g * DIM_g;  // whole blocks
    static constexpr int SLABS = stages ? (DIM_k + SLAB_COLUMNS - 1) / SLAB_COLUMNS : 1;
    static constexpr int SLAB_ENTRIES = SLABS == 1 ? ENTRIES : DENSE ? block_k : block_k / DIM_g * KEPT;
    static constexpr int ROUNDS = (SLAB_ENTRIES + row_threads * load_width - 1) / (row_threads * load_width);
    static constexpr int INDICES = DIM_u < load_width ? load_width / DIM_u : 1;  // of what is read at a time
    static constexpr int WIDEST = 16 / sizeof(Element);  // elements of the widest access
    static constexpr int BATCH_THREADS = block_m / thread_m;
    static constexpr int STRIDE = block_m + (BATCH_THREADS % 2 ? 0 : thread_m);  // an odd number of vectors
    static constexpr int ALL_THREADS = row_threads * BATCH_THREADS * (block_n / thread_n);

    // Brings columns of one row of x to shared memory, 16 bytes a thread.
    static __device__ __forceinline__ void stage_row(Element* shared, const Element* __restrict__ x, int first_column) {
        const int columns = min(SLAB_COLUMNS, DIM_k - first_column);
        for (int column = threadIdx.x * WIDEST; column < columns; column += ALL_THREADS * WIDEST) {
            alignas(16) Element vector[WIDEST];
            read_global(vector, x + first_column + column);
            copy_vector<WIDEST>(shared + column, vector);
        }
    }

    // Brings columns of x to shared memory, as rows; what is outside of x as zeros.
    static __device__ __forceinline__ void stage(Element* shared, const Element* __restrict__ x, int first_batch,
                                                 int first_column) {
        if (block_m == 1 && DIM_k % WIDEST == 0) return stage_row(shared, x + first_batch * DIM_k, first_column);
#pragma unroll 4
        for (int which = threadIdx.x; which < SLAB_COLUMNS * BATCH_THREADS; which += ALL_THREADS) {
            const int column = which % SLAB_COLUMNS, batch = which / SLAB_COLUMNS * thread_m;
            if (DIM_k % SLAB_COLUMNS != 0 && first_column + column >= DIM_k) continue;
            alignas(16) Element vector[thread_m];
#pragma unroll
            for (int i = 0; i < thread_m; ++i) {
                const int row = first_batch + batch + i;
                const bool inside = DIM_m % block_m == 0 || row < DIM_m;
                vector[i] = inside ? __ldg(x + row * DIM_k + first_column + column) : as_element(0.0f);
            }
            copy_vector<thread_m>(shared + column * STRIDE + batch, vector);
        }
    }

    static __device__ __forceinline__ void run(const Element* __restrict__ x, const Element* __restrict__ weights,
                                               const unsigned char* __restrict__ indices, Element* __restrict__ y,
                                               Element* shared) {
        const int row_thread = threadIdx.x % row_threads;
        const int batch = threadIdx.x / row_threads % BATCH_THREADS * thread_m;
        const int first_batch = blockIdx.x * block_m;
        const int own_row = blockIdx.y * block_n + threadIdx.x / (row_threads * BATCH_THREADS) * thread_n;
        const int row = min(own_row, DIM_n - thread_n);  // who has none works on the last ones and writes nothing
        const Element* own_weights = weights + row * ENTRIES;
        const unsigned char* own_indices = indices + row / DIM_v * (KEPT_OF_ROW / DIM_u);

        float sums[thread_n][thread_m] = {};
        for (int slab = 0; slab < SLABS; ++slab) {
            const int first_column = slab * SLAB_COLUMNS;
            if (stages) {
                if (slab) __syncthreads();
                stage(shared, x, first_batch, first_column);
                __syncthreads();
            }
            const int first = slab * SLAB_ENTRIES, end = min(first + SLAB_ENTRIES, ENTRIES);
#pragma unroll unroll_steps
            for (int round = 0; round < ROUNDS; ++round) {
                const int start = first + (round * row_threads + row_thread) * load_width;
                if (start >= end) break;
                alignas(16) Element values[thread_n][load_width];
                alignas(16) unsigned char groups[INDICES] = {};
                if (!DENSE) read_global(groups, own_indices + start / DIM_u);
#pragma unroll
                for (int j = 0; j < thread_n; ++j) read_global(values[j], own_weights + j * ENTRIES + start);
#pragma unroll
                for (int i = 0; i < load_width; ++i) {
                    const int same_block = KEPT % load_width == 0 ? start : start + i;
                    const int column =
                        DENSE ? start + i : column_of(start + i, same_block, groups[i * INDICES / load_width]);
                    alignas(16) Element inputs[thread_m];
                    if (stages) {
                        copy_vector<thread_m>(inputs, shared + (column - first_column) * STRIDE + batch);
                    } else {
#pragma unroll
                        for (int b = 0; b < thread_m; ++b)
                            inputs[b] = __ldg(x + min(first_batch + batch + b, DIM_m - 1) * DIM_k + column);
                    }
#pragma unroll
                    for (int j = 0; j < thread_n; ++j)
#pragma unroll
                        for (int b = 0; b < thread_m; ++b) sums[j][b] += as_float(values[j][i]) * as_float(inputs[b]);
                }
            }
        }

#pragma unroll
        for (int j = 0; j < thread_n; ++j)
#pragma unroll
            for (int b = 0; b < thread_m; ++b)
#pragma unroll
                for (int distance = row_threads / 2; distance > 0; distance /= 2)
                    sums[j][b] += __shfl_xor_sync(~0u, sums[j][b], distance);
        if (own_row < DIM_n) store(y, sums, first_batch + batch, row, row_thread);
    }

    // Writes results of neighbouring rows of W, which are neighbours in y, at once; threads of a row in turns.
    static __device__ __forceinline__ void store(Element* __restrict__ y, const float (&sums)[thread_n][thread_m],
                                                 int first_batch, int row, int row_thread) {
        constexpr int TOGETHER = thread_n < WIDEST ? thread_n : WIDEST;
#pragma unroll
        for (int b = 0; b < thread_m; ++b)
#pragma unroll
            for (int part = 0; part < thread_n / TOGETHER; ++part) {
                alignas(16) Element results[TOGETHER];
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j) results[j] = as_element(sums[part * TOGETHER + j][b]);
                const bool inside = DIM_m % block_m == 0 || first_batch + b < DIM_m;
                if (inside && (b * thread_n / TOGETHER + part) % row_threads == row_thread)
                    copy_vector<TOGETHER>(y + (first_batch + b) * DIM_n + row + part * TOGETHER, results);
            }
    }
};
