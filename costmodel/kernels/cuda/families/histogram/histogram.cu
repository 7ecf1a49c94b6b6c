// Adds to counts[bin] how many of n float32 values fall into each of b equal bins from -4 to 4; what is less or more
// counts in the first or last bin.
//
// A block takes block_size * items values. It counts into copies of the histogram in shared memory and adds them to
// `counts` at the end, or straight into `counts` with no copies. Copies keep threads that meet the same bin apart (Gomez-
// Luna et al. 2013, "An optimized approach to histogram computation on GPU"): the copy of a thread goes by its lane or, with
// by_warp, by its warp; the copies of one bin lie side by side (interleaved) or each copy by itself.

constexpr int COPIES = copies > 0 ? copies : 1;
constexpr float SCALE = DIM_b / 8.0f;

struct alignas(4 * load_width) Vector {
    float values[load_width];
};

// Rounds after each operation, as every machine does that has no more precision.
__device__ __forceinline__ int bin_of(float value) {
    const float position = (value + 4.0f) * SCALE;
    return max(0, min(DIM_b - 1, static_cast<int>(position)));
}

__device__ __forceinline__ int place_of(int copy, int bin) {
    return interleaved ? bin * COPIES + copy : copy * DIM_b + bin;
}

extern "C" __global__ void __launch_bounds__(block_size) histogram(int* counts, const float* __restrict__ values) {
    extern __shared__ int shared_memory[];
    if (copies > 0) {
        for (int i = threadIdx.x; i < COPIES * DIM_b; i += block_size) shared_memory[i] = 0;
        __syncthreads();
    }

    const int copy = (by_warp ? threadIdx.x / 32 : threadIdx.x) % COPIES;
    const int first = (blockIdx.x * block_size * items / load_width + threadIdx.x) * load_width;
#pragma unroll
    for (int item = 0; item < items / load_width; ++item) {
        const int position = first + item * block_size * load_width;
        if (DIM_n % (block_size * items) != 0 && position >= DIM_n) break;
        const Vector vector = *reinterpret_cast<const Vector*>(values + position);
#pragma unroll
        for (int i = 0; i < load_width; ++i) {
            const int bin = bin_of(vector.values[i]);
            atomicAdd(copies > 0 ? shared_memory + place_of(copy, bin) : counts + bin, 1);
        }
    }

    if (copies > 0) {
        __syncthreads();
        for (int bin = threadIdx.x; bin < DIM_b; bin += block_size) {
            int sum = 0;
            for (int which = 0; which < COPIES; ++which) sum += shared_memory[place_of(which, bin)];
            if (sum) atomicAdd(counts + bin, sum);
        }
    }
}
