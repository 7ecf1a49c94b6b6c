// Half precision on the CPU, in place of CUDA's header of this name: what the kernel families use of it.
#pragma once

using half = _Float16;

struct alignas(4) half2 {
    half x, y;
};

inline half __float2half_rn(float value) { return static_cast<half>(value); }
inline float __half2float(half value) { return static_cast<float>(value); }
inline half2 __floats2half2_rn(float x, float y) { return {static_cast<half>(x), static_cast<half>(y)}; }
