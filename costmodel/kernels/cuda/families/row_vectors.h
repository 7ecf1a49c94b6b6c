// Rows of a table, vector_width columns at a time: STEPS steps of STEP columns, of threads_per_row threads each. It is
// included behind the constants that it uses.

template <int WIDTH>
struct Native;
template <>
struct Native<1> { using Type = float; };
template <>
struct Native<2> { using Type = float2; };
template <>
struct Native<4> { using Type = float4; };

struct alignas(4 * vector_width) Vector {
    float values[vector_width];
};

__device__ __forceinline__ Vector load_vector(const float* from) {
    const auto native = load_with(reinterpret_cast<const Native<vector_width>::Type*>(from));
    return reinterpret_cast<const Vector&>(native);
}

__device__ __forceinline__ bool has_column(int step, int lane) {
    return DIM_d % STEP == 0 || step * STEP + lane * vector_width < DIM_d;
}
