// output[x, y] = input[y, x] in float32, through shared memory (Ruetsch and Micikevicius 2009, "Optimizing Matrix
// Transpose in CUDA").
//
// A block takes tile_y rows and tile_x columns of the input. Both matrices are read and written load_width elements at a
// time along their rows, whose lengths it must divide; otherwise any size goes. The tiles come one after the other along
// the rows of the input, or along those of the output (by_output); streaming marks what is read as used but once.

constexpr int THREADS = tile_x / load_width * (tile_y / rows_per_thread);
constexpr int STRIDE = tile_x + padding;  // an odd one spreads a column of the tile over the banks
constexpr int ROUNDS = rows_per_thread;

template <int WIDTH>
struct VectorOf;
template <>
struct VectorOf<1> { using type = float; };
template <>
struct VectorOf<2> { using type = float2; };
template <>
struct VectorOf<4> { using type = float4; };
using Vector = VectorOf<load_width>::type;

extern "C" __global__ void __launch_bounds__(THREADS) transpose(float* output, const float* input) {
    extern __shared__ float shared_memory[];
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const int first_x = tile_x * static_cast<int>(by_output ? block / gridDim.y : blockIdx.x);
    const int first_y = tile_y * static_cast<int>(by_output ? block % gridDim.y : blockIdx.y);

    float values[ROUNDS][load_width];
    constexpr int IN_A_ROW = tile_x / load_width;
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int which = round * THREADS + threadIdx.x;
        const int x = first_x + which % IN_A_ROW * load_width, y = first_y + which / IN_A_ROW;
        if (x < DIM_n && y < DIM_m) {
            const Vector* from = reinterpret_cast<const Vector*>(input + static_cast<long long>(y) * DIM_n + x);
            const Vector vector = streaming ? __ldcs(from) : *from;
#pragma unroll
            for (int i = 0; i < load_width; ++i) values[round][i] = reinterpret_cast<const float*>(&vector)[i];
        }
    }
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int which = round * THREADS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < load_width; ++i)
            shared_memory[which / IN_A_ROW * STRIDE + which % IN_A_ROW * load_width + i] = values[round][i];
    }
    __syncthreads();

    constexpr int IN_A_COLUMN = tile_y / load_width;
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int which = round * THREADS + threadIdx.x;
        const int x = which / IN_A_COLUMN, y = which % IN_A_COLUMN * load_width;
        if (first_x + x >= DIM_n || first_y + y >= DIM_m) continue;
        Vector vector;
#pragma unroll
        for (int i = 0; i < load_width; ++i)
            reinterpret_cast<float*>(&vector)[i] = shared_memory[(y + i) * STRIDE + x];
        *reinterpret_cast<Vector*>(output + static_cast<long long>(first_x + x) * DIM_m + first_y + y) = vector;
    }
}
