// C = A B in float32, written for the parameters of CLBlast's Xgemm (Nugteren 2018, "CLBlast: A Tuned OpenCL BLAS
// Library"), which the autotuning community has as its benchmark `gemm`.
//
// Layout as in CLBlast once its inputs are prepared: all matrices by columns of A and C, so A is [k][m], B is [k][n] and
// C is [n][m] in memory, the last index with stride 1. m, n and k are multiples of MWG, NWG and KWG.
//
//   MWG, NWG, KWG    what a block computes, and its step along k
//   MDIMC, NDIMC     threads of a block
//   MDIMA, NDIMB     the same threads in another shape, while they copy A or B
//   KWI              steps along k that are unrolled
//   VWM, VWN         elements that A and C, or B, are read and written by
//   STRM, STRN       whether the elements of a thread are spread over the tile (1) or side by side (0)
//   SA, SB           whether A, or B, goes through shared memory

constexpr int THREADS = MDIMC * NDIMC;
constexpr int VECTORS_M = MWG / VWM;                  // of a row of a slab of A
constexpr int VECTORS_N = NWG / VWN;
constexpr int OWN_M = VECTORS_M / MDIMC;              // of those, what a thread multiplies
constexpr int OWN_N = VECTORS_N / NDIMC;

template <int WIDTH>
struct alignas(WIDTH < 4 ? 4 * WIDTH : 16) Vector {
    float values[WIDTH];
};
using VectorM = Vector<VWM>;
using VectorN = Vector<VWN>;

// Vector `which` of the COUNT that thread `thread` of DIM has of a row.
template <int STRIDED, int COUNT, int DIM>
__device__ __forceinline__ int position(int thread, int which) {
    return STRIDED ? thread + which * DIM : thread * COUNT + which;
}

// Copies a slab of KWG rows of IN_A_ROW vectors; the threads are DIM along a row, and the others take other rows.
template <int STRIDED, int IN_A_ROW, int DIM, class Vector>
__device__ __forceinline__ void stage(Vector* shared, const Vector* __restrict__ source, int source_stride, int thread) {
    constexpr int ROWS = KWG / (THREADS / DIM);
    constexpr int COLUMNS = IN_A_ROW / DIM;
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const int row = thread / DIM * ROWS + i, column = position<STRIDED, COLUMNS, DIM>(thread % DIM, j);
            shared[row * IN_A_ROW + column] = source[static_cast<long long>(row) * source_stride + column];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const float* __restrict__ agm, const float* __restrict__ bgm, float* __restrict__ cgm) {
    extern __shared__ float4 shared_memory[];
    VectorM* const shared_a = reinterpret_cast<VectorM*>(shared_memory);
    VectorN* const shared_b = reinterpret_cast<VectorN*>(reinterpret_cast<float*>(shared_memory) + (SA ? KWG * MWG : 0));
    const VectorM* a = reinterpret_cast<const VectorM*>(agm) + blockIdx.x * VECTORS_M;
    const VectorN* b = reinterpret_cast<const VectorN*>(bgm) + blockIdx.y * VECTORS_N;
    constexpr int STRIDE_A = DIM_m / VWM, STRIDE_B = DIM_n / VWN;
    const int thread = threadIdx.y * MDIMC + threadIdx.x;

    float sums[OWN_N][VWN][OWN_M][VWM] = {};
    for (int first = 0; first < DIM_k; first += KWG) {
        if (SA) stage<STRM, VECTORS_M, MDIMA>(shared_a, a, STRIDE_A, thread);
        if (SB) stage<STRN, VECTORS_N, NDIMB>(shared_b, b, STRIDE_B, thread);
        if (SA || SB) __syncthreads();
#pragma unroll 1
        for (int unrolled = 0; unrolled < KWG; unrolled += KWI)
#pragma unroll
            for (int step = unrolled; step < unrolled + KWI; ++step) {
                VectorM own_a[OWN_M];
                VectorN own_b[OWN_N];
#pragma unroll
                for (int i = 0; i < OWN_M; ++i) {
                    const int column = position<STRM, OWN_M, MDIMC>(threadIdx.x, i);
                    own_a[i] = SA ? shared_a[step * VECTORS_M + column] : a[static_cast<long long>(step) * STRIDE_A + column];
                }
#pragma unroll
                for (int j = 0; j < OWN_N; ++j) {
                    const int column = position<STRN, OWN_N, NDIMC>(threadIdx.y, j);
                    own_b[j] = SB ? shared_b[step * VECTORS_N + column] : b[static_cast<long long>(step) * STRIDE_B + column];
                }
#pragma unroll
                for (int j = 0; j < OWN_N * VWN; ++j)
#pragma unroll
                    for (int i = 0; i < OWN_M * VWM; ++i)
                        sums[j / VWN][j % VWN][i / VWM][i % VWM] +=
                            own_a[i / VWM].values[i % VWM] * own_b[j / VWN].values[j % VWN];
            }
        if (SA || SB) __syncthreads();
        a += static_cast<long long>(KWG) * STRIDE_A;
        b += static_cast<long long>(KWG) * STRIDE_B;
    }

#pragma unroll
    for (int j = 0; j < OWN_N * VWN; ++j) {
        const int row = blockIdx.y * NWG + position<STRN, OWN_N, NDIMC>(threadIdx.y, j / VWN) * VWN + j % VWN;
        VectorM* to = reinterpret_cast<VectorM*>(cgm) + static_cast<long long>(row) * STRIDE_A + blockIdx.x * VECTORS_M;
#pragma unroll
        for (int i = 0; i < OWN_M; ++i) {
            VectorM result;
#pragma unroll
            for (int element = 0; element < VWM; ++element) result.values[element] = sums[j / VWN][j % VWN][i][element];
            to[position<STRM, OWN_M, MDIMC>(threadIdx.x, i)] = result;
        }
    }
}
