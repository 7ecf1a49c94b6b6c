// Accelerations of n bodies that attract each other: the sum over j of mass_j (x_j - x_i) / (|x_j - x_i|^2 + 0.01)^1.5 in
// float32 (Nyland, Harris and Prins 2007, "Fast N-Body Simulation with CUDA"). A body is x, y, z and its mass; the fourth
// number of an acceleration is 0.
//
// A thread sums for bodies_per_thread bodies, block_size / threads_per_body apart. threads_per_body threads of a warp
// share their bodies, each with a part of the others, and add up by shuffles. Others come through shared memory, tile_size
// at a time, or straight from global memory. Any n goes.

constexpr int GROUPS = block_size / threads_per_body;
constexpr int BODIES = GROUPS * bodies_per_thread;  // of a block
constexpr int TILES = (DIM_n + tile_size - 1) / tile_size;

__device__ __forceinline__ void attract(float4& acceleration, const float4& body, const float4& other) {
    const float x = other.x - body.x, y = other.y - body.y, z = other.z - body.z;
    const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
    const float scale = other.w * inverse * inverse * inverse;
    acceleration.x += x * scale;
    acceleration.y += y * scale;
    acceleration.z += z * scale;
}

__device__ __forceinline__ float add_parts(float sum) {
#pragma unroll
    for (int distance = threads_per_body / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance, 32);
    return sum;
}

extern "C" __global__ void __launch_bounds__(block_size)
    nbody(float4* __restrict__ accelerations, const float4* __restrict__ bodies) {
    extern __shared__ float4 shared_memory[];
    const int group = threadIdx.x / threads_per_body, part = threadIdx.x % threads_per_body;
    const int first = blockIdx.x * BODIES + group;

    float4 own[bodies_per_thread], sums[bodies_per_thread];
#pragma unroll
    for (int i = 0; i < bodies_per_thread; ++i) {
        own[i] = bodies[min(first + i * GROUPS, DIM_n - 1)];  // behind the last, it is computed but not written
        sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    for (int tile = 0; tile < TILES; ++tile) {
        const int count = DIM_n % tile_size == 0 ? tile_size : min(tile_size, DIM_n - tile * tile_size);
        const float4* others = bodies + tile * tile_size;
        if (use_shared) {
            __syncthreads();
            for (int j = threadIdx.x; j < count; j += block_size) shared_memory[j] = others[j];
            __syncthreads();
        }
#pragma unroll unroll_factor
        for (int j = part; j < count; j += threads_per_body) {
            const float4 other = use_shared ? shared_memory[j] : others[j];
#pragma unroll
            for (int i = 0; i < bodies_per_thread; ++i) attract(sums[i], own[i], other);
        }
    }

#pragma unroll
    for (int i = 0; i < bodies_per_thread; ++i) {
        const float4 sum = make_float4(add_parts(sums[i].x), add_parts(sums[i].y), add_parts(sums[i].z), 0.0f);
        const int body = first + i * GROUPS;
        if (part == 0 && body < DIM_n) accelerations[body] = sum;
    }
}
