#define WIDTH 1024

__global__ void matrix_multiply(float *C, const float *A, const float *B) {
    __shared__ float a[block_size_y * tile_size_y][block_size_x];
    __shared__ float b[block_size_x][block_size_x * tile_size_x];
    int x = blockIdx.x * block_size_x * tile_size_x + threadIdx.x;
    int y = blockIdx.y * block_size_y * tile_size_y + threadIdx.y;
    float sum[tile_size_y][tile_size_x] = {};

    for (int k = 0; k < WIDTH; k += block_size_x) {
        __syncthreads();
        for (int i = 0; i < tile_size_y; i++) {
            a[threadIdx.y + i * block_size_y][threadIdx.x] = A[(y + i * block_size_y) * WIDTH + k + threadIdx.x];
        }
        for (int row = threadIdx.y; row < block_size_x; row += block_size_y) {
            for (int j = 0; j < tile_size_x; j++) {
                b[row][threadIdx.x + j * block_size_x] = B[(k + row) * WIDTH + x + j * block_size_x];
            }
        }
        __syncthreads();
        for (int kb = 0; kb < block_size_x; kb++) {
            #pragma unroll
            for (int i = 0; i < tile_size_y; i++) {
                #pragma unroll
                for (int j = 0; j < tile_size_x; j++) {
                    sum[i][j] += a[threadIdx.y + i * block_size_y][kb] * b[kb][threadIdx.x + j * block_size_x];
                }
            }
        }
    }
    for (int i = 0; i < tile_size_y; i++) {
        for (int j = 0; j < tile_size_x; j++) {
            C[(y + i * block_size_y) * WIDTH + x + j * block_size_x] = sum[i][j];
        }
    }
}
