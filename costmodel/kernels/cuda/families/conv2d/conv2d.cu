// output[y, x] = sum over i, j of input[y + i, x + j] filter[i, j]: one image, float32, the input wider and higher
// than the output by the filter less one.
//
// The parameters are those of the autotuning community's benchmark (van Werkhoven, Maassen, Bal and Seinstra 2014,
// "Optimizing convolution operations on GPUs using adaptive tiling"). A block of threads computes tile_size_x x
// tile_size_y results a thread, block_size_x and block_size_y apart, so that neighbours read neighbours. With use_shmem
// it first copies what it reads into shared memory. Any size goes.

constexpr int TILE_X = block_size_x * tile_size_x;
constexpr int TILE_Y = block_size_y * tile_size_y;
constexpr int INPUT_X = DIM_w + filter_width - 1;
constexpr int INPUT_Y = DIM_h + filter_height - 1;
constexpr int SHARED_X = TILE_X + filter_width - 1;
constexpr int SHARED_Y = TILE_Y + filter_height - 1;
// Where a warp spans rows of threads, padding makes the banks of one row follow those of the row before.
constexpr int PADDING = use_padding ? ((block_size_x - SHARED_X) % 32 + 32) % 32 : 0;
constexpr int SHARED_STRIDE = SHARED_X + PADDING;

__constant__ float d_filter[filter_height * filter_width];

__device__ __forceinline__ float read(const float* address) { return read_only ? __ldg(address) : *address; }

// Copies the part of the input that the block reads; what is outside the input is read by nobody who writes.
__device__ __forceinline__ void stage(float* shared, const float* input, int first_x, int first_y) {
    for (int y = threadIdx.y; y < SHARED_Y; y += block_size_y)
        for (int x = threadIdx.x; x < SHARED_X; x += block_size_x) {
            const int input_x = min(first_x + x, INPUT_X - 1), input_y = min(first_y + y, INPUT_Y - 1);
            shared[y * SHARED_STRIDE + x] = read(input + static_cast<long long>(input_y) * INPUT_X + input_x);
        }
}

extern "C" __global__ void __launch_bounds__(block_size_x* block_size_y)
    conv2d(float* output, const float* input, const float* filter) {
    extern __shared__ float shared_memory[];
    const float* weights = use_cmem ? d_filter : filter;
    const int first_x = blockIdx.x * TILE_X, first_y = blockIdx.y * TILE_Y;
    if (use_shmem) {
        stage(shared_memory, input, first_x, first_y);
        __syncthreads();
    }

    float sums[tile_size_y][tile_size_x] = {};
#pragma unroll 1
    for (int i = 0; i < filter_height; ++i)
#pragma unroll
        for (int j = 0; j < filter_width; ++j) {
            const float weight = weights[i * filter_width + j];
#pragma unroll
            for (int tile_y = 0; tile_y < tile_size_y; ++tile_y)
#pragma unroll
                for (int tile_x = 0; tile_x < tile_size_x; ++tile_x) {
                    const int x = threadIdx.x + tile_x * block_size_x, y = threadIdx.y + tile_y * block_size_y;
                    float pixel;
                    if (use_shmem) {
                        pixel = shared_memory[(y + i) * SHARED_STRIDE + x + j];
                    } else {  // threads outside the image read its edge
                        const int inside_x = DIM_w % TILE_X ? min(first_x + x, DIM_w - 1) : first_x + x;
                        const int inside_y = DIM_h % TILE_Y ? min(first_y + y, DIM_h - 1) : first_y + y;
                        pixel = read(input + static_cast<long long>(inside_y + i) * INPUT_X + inside_x + j);
                    }
                    sums[tile_y][tile_x] += pixel * weight;
                }
        }

#pragma unroll
    for (int tile_y = 0; tile_y < tile_size_y; ++tile_y)
#pragma unroll
        for (int tile_x = 0; tile_x < tile_size_x; ++tile_x) {
            const int x = first_x + threadIdx.x + tile_x * block_size_x;
            const int y = first_y + threadIdx.y + tile_y * block_size_y;
            if (x < DIM_w && y < DIM_h) output[static_cast<long long>(y) * DIM_w + x] = sums[tile_y][tile_x];
        }
}
