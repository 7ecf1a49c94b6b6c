// CUDA on the CPU: what a kernel means, run exactly where there is no GPU.
//
// Blocks run one after the other. The threads of a block are fibres that take turns in random order and give way
// only where they wait for each other, so that a barrier that lacks shows as a wrong result. Shared memory starts as
// NaN. What CUDA leaves undefined (threads that wait at different places, a warp that is not whole) ends the program.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint3 { unsigned int x, y, z; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned int x, y; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx, blockDim, gridDim;

template <class Number>
Number min(Number a, Number b) { return b < a ? b : a; }
template <class Number>
Number max(Number a, Number b) { return a < b ? b : a; }

namespace emulation {

constexpr int WARP = 32;

[[noreturn]] void fail(const char* what);
int lane();

// Waits for all threads of the block that have not ended.
void meet_all();

// All lanes of a warp come to the same place and bring something; the last one acts for all.
void meet_warp(const char* place, void* brought, void (*action)(void* const* of_lanes));

template <class Value>
struct Shuffled {
    Value value, result;
    int source;
};

template <class Value>
void exchange(void* const* of_lanes) {
    auto lanes = reinterpret_cast<Shuffled<Value>* const*>(of_lanes);
    for (int which = 0; which < WARP; ++which) lanes[which]->result = lanes[lanes[which]->source]->value;
}

template <class Value>
Value shuffle(const char* place, unsigned int mask, Value value, int source, int width) {
    if (mask != ~0u) fail("only whole warps are emulated");
    const int first = lane() / width * width;
    Shuffled<Value> own{value, value, source >= first && source < first + width ? source : lane()};
    meet_warp(place, &own, exchange<Value>);
    return own.result;
}

}  // namespace emulation

inline void __syncthreads() { emulation::meet_all(); }

void __syncwarp(unsigned int mask = ~0u);

template <class Value>
Value __shfl_down_sync(unsigned int mask, Value value, unsigned int delta, int width = 32) {
    return emulation::shuffle("__shfl_down_sync", mask, value, emulation::lane() + static_cast<int>(delta), width);
}

template <class Value>
Value __shfl_xor_sync(unsigned int mask, Value value, int bits, int width = 32) {
    return emulation::shuffle("__shfl_xor_sync", mask, value, emulation::lane() ^ bits, width);
}

template <class Value>
Value __shfl_sync(unsigned int mask, Value value, int source, int width = 32) {
    return emulation::shuffle("__shfl_sync", mask, value, emulation::lane() / width * width + source % width, width);
}

unsigned int __ballot_sync(unsigned int mask, bool holds);

inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

template <class Value>
Value atomicAdd(Value* address, Value value) {
    const Value before = *address;
    *address = before + value;
    return before;
}

template <class Value>
Value __ldg(const Value* address) { return *address; }

template <class Value>
Value __ldcg(const Value* address) { return *address; }

template <class Value>
Value __ldcs(const Value* address) { return *address; }

inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }

// What matmul_float16.cu and sparse_linear_float16.cu say in PTX.
void copy_async(void* shared, const void* global, bool inside);
void commit_copies();
void wait_for_copies(int latest);
template <int LATEST>
void wait_for_copies() { wait_for_copies(LATEST); }
void load_matrices(unsigned int (&registers)[4], const void* row);
void load_matrices_transposed(unsigned int (&registers)[4], const void* row);
void multiply_add(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
void multiply_add_sparse(float (&sums)[4], const unsigned int (&a)[4], const unsigned int (&b)[4],
                         unsigned int metadata);
