// gradient[row, :] += sum over the lookups of a row of weights[lookup] * of_bags[bags[lookup], :] in float32: what a
// table gets from the gradient of an embedding bag. The lookups come twice: in the order of bags, and sorted by row.
// `width` is DIM_d.
//
// threads_per_row threads take a row together, vector_width columns each at a time, in_flight lookups under way. Such a
// group has lookups_per_group lookups in a row; grid_blocks blocks take turns, or as many as there are lookups if 0.
// Variants:
//   by_lookup   lookups in the order of bags, each added to its row by atomics
//   by_run      lookups in the order of rows: what a group has of one row is summed first, then added by atomics
//   by_segment  the group that has the first lookup of a row takes all lookups of it: no atomics
// An atomic operation adds atomic_width columns, one at a time before sm_90. Rows of of_bags come by load_with.

enum Variants { by_lookup, by_run, by_segment };

constexpr int LOOKUPS = DIM_b * DIM_l;
constexpr int GROUPS = block_size / threads_per_row;
constexpr int CHUNKS = (LOOKUPS + lookups_per_group - 1) / lookups_per_group;
constexpr int STEP = threads_per_row * vector_width;  // columns
constexpr int STEPS = (DIM_d + STEP - 1) / STEP;

#include "../row_vectors.h"

// Adds a vector to what is in device memory, where others add as well.
__device__ __forceinline__ void add_atomically(float* to, const Vector& vector) {
#if __CUDA_ARCH__ >= 900
    using Part = Native<atomic_width>::Type;
#pragma unroll
    for (int j = 0; j < vector_width; j += atomic_width)
        atomicAdd(reinterpret_cast<Part*>(to + j), *reinterpret_cast<const Part*>(vector.values + j));
#else
#pragma unroll
    for (int j = 0; j < vector_width; ++j) atomicAdd(to + j, vector.values[j]);
#endif
}

__device__ __forceinline__ void add_alone(float* to, const Vector& vector) {
    Vector sum = *reinterpret_cast<Vector*>(to);
#pragma unroll
    for (int j = 0; j < vector_width; ++j) sum.values[j] += vector.values[j];
    *reinterpret_cast<Vector*>(to) = sum;
}

// Adds this thread's columns of a row to the gradient, and makes them 0.
__device__ __forceinline__ void flush(float* __restrict__ gradient, long long row, int width, int lane, Vector (&sums)[STEPS]) {
    float* const to = gradient + row * width + lane * vector_width;
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        if (has_column(step, lane)) {
            if (variant == by_segment)
                add_alone(to + step * STEP, sums[step]);
            else
                add_atomically(to + step * STEP, sums[step]);
            sums[step] = Vector{};
        }
}

extern "C" __global__ void __launch_bounds__(block_size) embedding_bag_backward(
    float* __restrict__ gradient, const float* __restrict__ of_bags, const int* __restrict__ indices,
    const int* __restrict__ bags, const float* __restrict__ weights, const int* __restrict__ sorted_indices,
    const int* __restrict__ sorted_bags, const float* __restrict__ sorted_weights, int width) {
    const int* const rows = variant == by_lookup ? indices : sorted_indices;
    const int* const bag_of = variant == by_lookup ? bags : sorted_bags;
    const float* const weight_of = variant == by_lookup ? weights : sorted_weights;
    const int lane = threadIdx.x % threads_per_row;

    for (int chunk = blockIdx.x * GROUPS + threadIdx.x / threads_per_row; chunk < CHUNKS; chunk += gridDim.x * GROUPS) {
        int first = chunk * lookups_per_group;
        const int last = min(first + lookups_per_group, LOOKUPS);
        if (variant == by_segment) {
            while (first < last && first > 0 && rows[first] == rows[first - 1]) ++first;
            if (first == last) continue;
        }
        const int last_row = rows[last - 1];
        int row = -1;
        Vector sums[STEPS] = {};
        for (bool more = true; more && first < LOOKUPS; first += in_flight) {
            int own_rows[in_flight];  // -1 where there is no lookup
            int own_bags[in_flight];
            float scales[in_flight];
            Vector vectors[in_flight][STEPS];
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int lookup = first + i;
                own_rows[i] = -1;
                if (lookup < (variant == by_segment ? LOOKUPS : last)) own_rows[i] = rows[lookup];
                if (lookup >= last && own_rows[i] != last_row) own_rows[i] = -1;
                own_bags[i] = own_rows[i] >= 0 ? bag_of[lookup] : 0;
                scales[i] = own_rows[i] >= 0 ? weight_of[lookup] : 0.0f;
            }
            more = own_rows[in_flight - 1] >= 0;
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const float* const from = of_bags + own_bags[i] * width + lane * vector_width;
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
                    if (own_rows[i] >= 0 && has_column(step, lane)) vectors[i][step] = load_vector(from + step * STEP);
            }
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                if (own_rows[i] < 0) break;
                if (row >= 0 && (variant == by_lookup || own_rows[i] != row)) flush(gradient, row, width, lane, sums);
                row = own_rows[i];
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
#pragma unroll
                    for (int j = 0; j < vector_width; ++j)
                        if (has_column(step, lane)) sums[step].values[j] += scales[i] * vectors[i][step].values[j];
            }
        }
        if (row >= 0) flush(gradient, row, width, lane, sums);
    }
}
