// Half precision on the CPU, in place of CUDA's header of this name: what the kernel families use of it.
#pragma once

#include <cmath>

struct half {
    unsigned short bits;
};

struct alignas(4) half2 {
    half x, y;
};

inline float __half2float(half value) {
    const int exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
    const float sign = value.bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return sign * (fraction ? NAN : INFINITY);
    return sign * (exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp(1.0f * fraction, -24));
}

// Rounds to the nearest, and to even where two are as near.
inline half __float2half_rn(float value) {
    const unsigned short sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    if (std::isnan(size)) return {0x7e00};
    if (size >= 65520.0f) return {static_cast<unsigned short>(sign | 0x7c00)};
    int exponent = -24;
    if (size > 0.0f) std::frexp(size, &exponent);
    const int step = exponent > -13 ? exponent - 11 : -24;  // the last bit is worth 2^step
    const int units = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
    // A carry out of the fraction goes into the exponent, as it must.
    return {static_cast<unsigned short>(sign | ((step + 24) * 1024 + units))};
}

inline half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
