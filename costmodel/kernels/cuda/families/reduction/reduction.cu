// sums[row] = sum over column of values[row, column] in float32.
//
// threads_per_row threads sum a row together and a block takes rows_per_block of them. A thread keeps `items` sums of
// load_width columns each, so that as many loads are on the way; load_width divides the number of columns. What the
// threads have is added in a tree, by shuffles within warps or through shared memory alone (Harris 2007, "Optimizing
// Parallel Reduction in CUDA"), so that a config always gives the same sum.

constexpr int THREADS = threads_per_row * rows_per_block;
constexpr int WARP_PART = threads_per_row < 32 ? threads_per_row : 32;  // threads of a row in one warp
constexpr int WARPS = threads_per_row / WARP_PART;
constexpr int STEP = threads_per_row * load_width;

struct alignas(4 * load_width) Vector {
    float values[load_width];
};

// The sum of this thread's columns.
__device__ __forceinline__ float own_sum(const float* __restrict__ row, int thread) {
    float sums[items][load_width] = {};
    for (int first = thread * load_width; first < DIM_n; first += STEP * items)
#pragma unroll
        for (int item = 0; item < items; ++item) {
            const int column = first + item * STEP;
            if (DIM_n % (STEP * items) != 0 && column >= DIM_n) break;
            const Vector vector = *reinterpret_cast<const Vector*>(row + column);
#pragma unroll
            for (int i = 0; i < load_width; ++i) sums[item][i] += vector.values[i];
        }
    float sum = 0.0f;
#pragma unroll
    for (int item = 0; item < items; ++item)
#pragma unroll
        for (int i = 0; i < load_width; ++i) sum += sums[item][i];
    return sum;
}

template <int COUNT>
__device__ __forceinline__ float add_within_warp(float sum) {
#pragma unroll
    for (int distance = COUNT / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance, COUNT);
    return sum;
}

// Adds COUNT values, one a thread, through shared memory; the first thread gets the sum.
template <int COUNT>
__device__ __forceinline__ float add_in_shared(float sum, float* shared, int thread) {
    if (thread < COUNT) shared[thread] = sum;
#pragma unroll
    for (int distance = COUNT / 2; distance > 0; distance /= 2) {
        __syncthreads();
        if (thread < distance) shared[thread] += shared[thread + distance];
    }
    return shared[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    reduction(float* __restrict__ sums, const float* __restrict__ values) {
    extern __shared__ float shared_memory[];
    const int thread = threadIdx.x, row = blockIdx.x * rows_per_block + threadIdx.y;
    const bool inside = DIM_m % rows_per_block == 0 || row < DIM_m;
    float sum = inside ? own_sum(values + static_cast<long long>(row) * DIM_n, thread) : 0.0f;
    if (!use_shuffle) {
        sum = add_in_shared<threads_per_row>(sum, shared_memory + threadIdx.y * threads_per_row, thread);
    } else {
        sum = add_within_warp<WARP_PART>(sum);
        if (WARPS > 1) {
            float* const of_warps = shared_memory + threadIdx.y * WARPS;
            if (thread % WARP_PART == 0) of_warps[thread / WARP_PART] = sum;
            __syncthreads();
            sum = 0.0f;
            if (thread == 0)
                for (int warp = 0; warp < WARPS; ++warp) sum += of_warps[warp];
        }
    }
    if (thread == 0 && inside) sums[row] = sum;
}
