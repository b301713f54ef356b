// The counter-based generator of `segpaste.seeding`, equal to it bit for bit.

#pragma once

#include "base/numbers.hpp"

namespace SEGPASTE_NAMESPACE {

// The first 8 bytes of the SHA-256 of each draw's name, little-endian; a test computes them again.
constexpr u64 SOURCE = 0xb80042ba9467cf41;
constexpr u64 CROP = 0x05858626bd765637;
constexpr u64 CLASS = 0x3f20d3043e118908;
constexpr u64 SCALE = 0x907f44312a8069f4;
constexpr u64 SIZE = 0xeba43d6f84bedccc;
constexpr u64 HFLIP = 0xa07db77123a688c5;
constexpr u64 VFLIP = 0xfb467fb3600c6847;
constexpr u64 TURN = 0x4f4484f64538479b;
constexpr u64 QUARTERS = 0x84758f8b2ab52730;
constexpr u64 PASTE = 0x35ea2aa1d583c1a2;
constexpr u64 COUNT = 0x2978932b3a49356c;
constexpr u64 SLOT = 0xa642b73183835865;
constexpr u64 LAYER = 0x762150a9cfd7c1da;
constexpr u64 TRANSLATE = 0x4616080de290d67f;
constexpr u64 STRATUM = 0x7ddde54565e06b61;

inline u64 mixed(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

inline u64 keyed(i64 seed, u64 name) { return mixed(u64(seed) ^ name); }

inline u64 indexed(u64 state, i64 index) {
    return mixed(state + (u64(index) ^ 0xD1B54A32D192ED03) * 0x9E3779B97F4A7C15);
}

// 62 bits, as an integer >= 0.
inline i64 priority_of(u64 state) { return i64(state >> 2); }

// The integer from ``low`` to ``high`` at ``fraction`` / 2**32 of the range.
inline i64 within(u64 fraction, i64 low, i64 high) {
    return low + i64((fraction * u64(most(high - low + 1, i64(1)))) >> 32);
}

// Uniform from ``low`` to ``high``, by the upper half of the bits.
inline i64 integer(u64 state, i64 low, i64 high) { return within(state >> 32, low, high); }

inline bool happens(u64 state, i64 threshold) { return i64(state >> 32) < threshold; }

}  // namespace SEGPASTE_NAMESPACE
