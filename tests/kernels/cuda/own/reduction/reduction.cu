template <typename T>
__global__ void sum_blocks(T *sums, const T *values, int n) {
    extern __shared__ float part[];
    T sum = 0;
    for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += block_size_x * num_blocks) {
        sum += values[i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int left = block_size_x / 2; left > 0; left /= 2) {
        if (threadIdx.x < left) {
            part[threadIdx.x] += part[threadIdx.x + left];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicAdd(sums, part[0]);
    }
}
