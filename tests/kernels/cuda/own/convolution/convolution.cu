#define IMAGE_WIDTH (512 + filter_width - 1)

__constant__ float d_filter[filter_height * filter_width];

template <int padding>
__device__ void load(float (*tile)[block_size_x * tile_size_x + filter_width - 1 + padding], const float *image, int x0, int y0) {
    for (int y = threadIdx.y; y < block_size_y * tile_size_y + filter_height - 1; y += block_size_y) {
        for (int x = threadIdx.x; x < block_size_x * tile_size_x + filter_width - 1; x += block_size_x) {
            tile[y][x] = image[(y0 + y) * IMAGE_WIDTH + x0 + x];
        }
    }
}

extern "C" __global__ void convolution_kernel(float *output, const float *image, const float *filter) {
    __shared__ float tile[block_size_y * tile_size_y + filter_height - 1][block_size_x * tile_size_x + filter_width - 1 + use_padding];
    int x0 = blockIdx.x * block_size_x * tile_size_x, y0 = blockIdx.y * block_size_y * tile_size_y;
    load<use_padding>(tile, image, x0, y0);
    __syncthreads();
    for (int ty = threadIdx.y; ty < block_size_y * tile_size_y; ty += block_size_y) {
        for (int tx = threadIdx.x; tx < block_size_x * tile_size_x; tx += block_size_x) {
            float sum = 0.0f;
            for (int i = 0; i < filter_height; i++) {
                for (int j = 0; j < filter_width; j++) {
                    sum += tile[ty + i][tx + j] * d_filter[i * filter_width + j];
                }
            }
            output[(y0 + ty) * 512 + x0 + tx] = sum;
        }
    }
}
