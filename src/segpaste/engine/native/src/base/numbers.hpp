// Small integers and floats. Everything but the records lies in a namespace of its instruction set.

#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
void* malloc(size_t size);
void free(void* block);
void* memcpy(void* to, const void* from, size_t size);
void* memset(void* to, int value, size_t size);
int sched_yield(void);
}

namespace SEGPASTE_NAMESPACE {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using f32 = float;
using f64 = double;

constexpr f32 INFINITE = __builtin_inff();

template <class T>
constexpr T least(T a, T b) { return b < a ? b : a; }

template <class T>
constexpr T most(T a, T b) { return a < b ? b : a; }

template <class T>
constexpr T clamp(T value, T low, T high) { return least(most(value, low), high); }

// Rounded towards minus infinity, as Python's ``//``; the divisor is > 0.
constexpr i64 floor_div(i64 a, i64 b) {
    i64 quotient = a / b;
    return quotient - (a % b < 0);
}

inline bool is_finite(f32 value) { return __builtin_fabsf(value) < INFINITE; }

// Edges of boxes as integers, clamped to this distance; NaN becomes the least value.
constexpr i64 FARTHEST_EDGE = i64(1) << 30;

inline i64 floor_edge(f32 edge) {
    if (!(edge > -f32(FARTHEST_EDGE) && edge < f32(FARTHEST_EDGE))) return edge > 0 ? FARTHEST_EDGE : -FARTHEST_EDGE;
    i64 whole = i64(edge);
    return whole - (f32(whole) > edge);
}

inline i64 ceil_edge(f32 edge) {
    if (!(edge > -f32(FARTHEST_EDGE) && edge < f32(FARTHEST_EDGE))) return edge > 0 ? FARTHEST_EDGE : -FARTHEST_EDGE;
    i64 whole = i64(edge);
    return whole + (f32(whole) < edge);
}

// Half precision without hardware support: to float32 exactly, from float32 to the nearest, ties to even.
inline f32 from_bits(u32 bits) {
    f32 value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

inline u32 bits_of(f32 value) {
    u32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

struct Half {
    u16 bits;
};

struct BFloat {
    u16 bits;
};

inline f32 widened(Half half) {
    u32 sign = u32(half.bits & 0x8000) << 16, magnitude = half.bits & 0x7fff;
    if (magnitude >= 0x7c00) return from_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x400) {  // zero and subnormal numbers are multiples of 2 ** -24
        f32 value = f32(magnitude) * 0x1p-24f;
        return from_bits(sign | bits_of(value));
    }
    return from_bits(sign | ((magnitude << 13) + 0x38000000));
}

inline Half to_half(f32 value) {
    u32 bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return {u16(sign | 0x7e00)};
    if (magnitude >= 0x47800000) return {u16(sign | 0x7c00)};
    if (magnitude < 0x38800000) {  // subnormal: the addition rounds to multiples of 2 ** -24
        u32 rounded = bits_of(from_bits(magnitude) + 0.5f) - bits_of(0.5f);
        return {u16(sign | rounded)};
    }
    u32 rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
    return {u16(sign | rounded >> 13)};
}

inline f32 widened(BFloat value) { return from_bits(u32(value.bits) << 16); }

inline BFloat to_bfloat(f32 value) {
    u32 bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return {u16(bits >> 16 | 0x40)};
    return {u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

constexpr i64 MANY = i64(1) << 62;  // more than any count

// Return the number of flags, each 0 or 1, that are set.
inline i64 count(const u8* flags, i64 size) {
    i64 total = 0, i = 0;
    for (; i + 8 <= size; i += 8) {
        u64 eight;
        __builtin_memcpy(&eight, flags + i, 8);
        total += __builtin_popcountll(eight);
    }
    for (; i < size; ++i) total += flags[i];
    return total;
}

}  // namespace SEGPASTE_NAMESPACE
