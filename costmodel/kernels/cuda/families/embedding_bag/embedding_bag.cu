// y[bag, :] = sum over the lookups of a bag of weights[lookup] * table[indices[lookup], :] in float32; an empty bag
// gives zeros. Bag i has the lookups from offsets[i] to offsets[i + 1].
//
// threads_per_row threads take a row together, vector_width columns each at a time. row_groups such groups share the
// lookups of a bag and add up by shuffles within warps, then through shared memory. A group has in_flight lookups under
// way. A block has bags_per_block bags at a time; grid_blocks blocks take turns, or as many as there are bags if 0.
// Indices and weights come straight from global memory or through shared memory, staged_lookups at a time; rows by
// load_with, which says whether they stay in L1 (__ldg), in L2 alone (__ldcg) or in neither for long (__ldcs).

constexpr int BAG_THREADS = threads_per_row * row_groups;
constexpr int THREADS = BAG_THREADS * bags_per_block;
constexpr int STEP = threads_per_row * vector_width;  // columns
constexpr int STEPS = (DIM_d + STEP - 1) / STEP;
constexpr int WARP_THREADS = BAG_THREADS < 32 ? BAG_THREADS : 32;  // of a bag in one warp
constexpr int WARP_GROUPS = threads_per_row < WARP_THREADS ? WARP_THREADS / threads_per_row : 1;
constexpr int PARTS = row_groups / WARP_GROUPS;  // sums of a bag after shuffles
constexpr int TILES = (DIM_b + bags_per_block - 1) / bags_per_block;

#include "../row_vectors.h"

// Adds the lookups first, first + row_groups, ... before `end` to the sums of this thread's columns.
__device__ __forceinline__ void add_lookups(
    float (&sums)[STEPS][vector_width], const float* __restrict__ table, const int* indices, const float* weights,
    int first, int end, int lane) {
    for (; first < end; first += row_groups * in_flight) {
        int rows[in_flight];
        float scales[in_flight];
        Vector vectors[in_flight][STEPS];
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            const int lookup = first + i * row_groups;
            rows[i] = lookup < end ? indices[lookup] : -1;
            scales[i] = lookup < end ? weights[lookup] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            const float* const row = table + static_cast<long long>(rows[i]) * DIM_d + lane * vector_width;
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                if (rows[i] >= 0 && has_column(step, lane)) vectors[i][step] = load_vector(row + step * STEP);
        }
#pragma unroll
        for (int i = 0; i < in_flight; ++i)
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
#pragma unroll
                for (int j = 0; j < vector_width; ++j)
                    if (rows[i] >= 0 && has_column(step, lane)) sums[step][j] += scales[i] * vectors[i][step].values[j];
    }
}

// Adds up what the groups of a bag in one warp have; the first group gets the sums.
__device__ __forceinline__ void add_within_warp(float (&sums)[STEPS][vector_width]) {
#pragma unroll
    for (int distance = WARP_THREADS / 2; distance >= threads_per_row; distance /= 2)
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int j = 0; j < vector_width; ++j) sums[step][j] += __shfl_xor_sync(0xffffffffu, sums[step][j], distance);
}

__device__ __forceinline__ void store_row(float* to, const float (&sums)[STEPS][vector_width], int lane) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        if (has_column(step, lane)) {
            Vector vector;
#pragma unroll
            for (int j = 0; j < vector_width; ++j) vector.values[j] = sums[step][j];
            *reinterpret_cast<Vector*>(to + step * STEP + lane * vector_width) = vector;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS) embedding_bag(
    float* __restrict__ y, const float* __restrict__ table, const int* __restrict__ indices,
    const int* __restrict__ offsets, const float* __restrict__ weights) {
    extern __shared__ float4 shared_memory[];
    float* const partial_sums = reinterpret_cast<float*>(shared_memory);
    float* const staged_weights = partial_sums + (PARTS > 1 ? bags_per_block * PARTS * DIM_d : 0);
    int* const staged_indices = reinterpret_cast<int*>(staged_weights + staged_lookups);

    const int own_bag = threadIdx.x / BAG_THREADS, bag_thread = threadIdx.x % BAG_THREADS;
    const int group = bag_thread / threads_per_row, lane = bag_thread % threads_per_row;

    for (int tile = blockIdx.x; tile < TILES; tile += gridDim.x) {
        const int first_bag = tile * bags_per_block, bag = first_bag + own_bag;
        const bool inside = DIM_b % bags_per_block == 0 || bag < DIM_b;
        const int begin = inside ? offsets[bag] : 0, end = inside ? offsets[bag + 1] : 0;
        float sums[STEPS][vector_width] = {};
        if (staged_lookups == 0) {
            add_lookups(sums, table, indices, weights, begin + group, end, lane);
        } else {
            const int last = offsets[min(first_bag + bags_per_block, DIM_b)];
            for (int first = offsets[first_bag]; first < last; first += staged_lookups) {
                const int count = min(staged_lookups, last - first);
                __syncthreads();
                for (int i = threadIdx.x; i < count; i += THREADS) {
                    staged_indices[i] = indices[first + i];
                    staged_weights[i] = weights[first + i];
                }
                __syncthreads();
                const int from = max(begin - first, 0), to = min(end - first, count);
                add_lookups(sums, table, staged_indices, staged_weights, from + group, to, lane);
            }
        }

        if (WARP_GROUPS > 1) add_within_warp(sums);
        if (PARTS == 1) {
            if (group == 0 && inside) store_row(y + static_cast<long long>(bag) * DIM_d, sums, lane);
        } else {
            float* const of_bag = partial_sums + own_bag * PARTS * DIM_d;
            if (grid_blocks > 0) __syncthreads();  // all have read what is overwritten
            if (group % WARP_GROUPS == 0) {
                float* const part = of_bag + group / WARP_GROUPS * DIM_d;
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
#pragma unroll
                    for (int j = 0; j < vector_width; ++j)
                        if (has_column(step, lane)) part[step * STEP + lane * vector_width + j] = sums[step][j];
            }
            __syncthreads();
            for (int column = bag_thread; inside && column < DIM_d; column += BAG_THREADS) {
                float sum = 0.0f;
#pragma unroll
                for (int part = 0; part < PARTS; ++part) sum += of_bag[part * DIM_d + column];
                y[static_cast<long long>(bag) * DIM_d + column] = sum;
            }
        }
    }
}
