// y[m, n] = x[m, k] W[n, k]^T, where W is pruned: float32, row-major, on CUDA cores (see sparse_linear.h).
//
// The variant `dense` reads W with its zeros, `gather` its kept weights and their indices.

using Element = float;

__device__ __forceinline__ float as_float(float value) { return value; }
__device__ __forceinline__ float as_element(float value) { return value; }

#include "../sparse_linear.h"

using Kernel = OnCores<variant == dense>;

extern "C" __global__ void __launch_bounds__(Kernel::ALL_THREADS)
    sparse_linear_float32(const float* __restrict__ x, const float* __restrict__ W, const float* __restrict__ values,
                          const unsigned char* __restrict__ indices, float* __restrict__ y) {
    extern __shared__ float4 shared_memory[];
    Kernel::run(x, variant == dense ? W : values, indices, y, reinterpret_cast<float*>(shared_memory));
}
