// Vectors of 32-bit numbers as wide as the registers, and what they read of a line at places near each other.

#pragma once

#include "base/numbers.hpp"

namespace SEGPASTE_NAMESPACE {

#if defined(__AVX512F__)
constexpr i64 WIDE = 16;
#elif defined(__AVX2__)
constexpr i64 WIDE = 8;
#else
constexpr i64 WIDE = 4;
#endif

// Whether numbers of two vectors can be taken in any order, by one or two instructions.
#if defined(__AVX2__)
constexpr bool PERMUTES = true;
#else
constexpr bool PERMUTES = false;
#endif

using Floats = f32 __attribute__((vector_size(4 * WIDE)));
using Ints = i32 __attribute__((vector_size(4 * WIDE)));
using Words = u32 __attribute__((vector_size(4 * WIDE)));
using Bytes = u8 __attribute__((vector_size(WIDE)));

template <class T>
struct WideOf;

template <>
struct WideOf<f32> {
    using Type = Floats;
};

template <>
struct WideOf<i32> {
    using Type = Ints;
};

template <>
struct WideOf<u32> {
    using Type = Words;
};

template <>
struct WideOf<u8> {
    using Type = Bytes;
};

// As many numbers of a type as a register has room for numbers of 32 bits.
template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
inline Wide<T> load(const T* from) {
    Wide<T> values;
    __builtin_memcpy(&values, from, sizeof values);
    return values;
}

template <class T>
inline void store(T* to, Wide<T> values) { __builtin_memcpy(to, &values, sizeof values); }

// Bytes as numbers, and the lowest byte of each number. For x86, gcc 12 translates other code byte by byte.
inline Ints widened(Bytes bytes) {
#if defined(__clang__) || !defined(__x86_64__)
    return __builtin_convertvector(bytes, Ints);
#else
    using Sixteen = char __attribute__((vector_size(16)));
#if defined(__AVX512F__)
    return __builtin_ia32_pmovzxbd512_mask(reinterpret_cast<Sixteen>(bytes), Ints{}, -1);
#elif defined(__AVX2__)
    using Two = u64 __attribute__((vector_size(16)));
    return __builtin_ia32_pmovzxbd256(reinterpret_cast<Sixteen>(Two{reinterpret_cast<u64>(bytes)}));
#else
    using Four = u32 __attribute__((vector_size(16)));
    return __builtin_ia32_pmovzxbd128(reinterpret_cast<Sixteen>(Four{reinterpret_cast<u32>(bytes)}));
#endif
#endif
}

inline Bytes narrowed(Ints values) {
#if defined(__clang__) || defined(__AVX512F__) || !defined(__x86_64__)
    return __builtin_convertvector(values, Bytes);
#else
    using All = u8 __attribute__((vector_size(4 * WIDE)));
    constexpr u8 MASK = 4 * WIDE - 1;
    All all = __builtin_shuffle(reinterpret_cast<All>(values), All{0, 4, 8, 12, 16 & MASK, 20 & MASK, 24 & MASK, 28 & MASK});
    Bytes lowest;
    __builtin_memcpy(&lowest, &all, sizeof lowest);
    return lowest;
#endif
}

// The numbers at these places of two vectors side by side; bits of a place above the needed ones are ignored.
inline Ints permuted(Ints low, Ints high, Ints places) {
#if defined(__clang__) && defined(__AVX512F__)
    return reinterpret_cast<Ints>(__builtin_ia32_vpermi2vard512(low, places, high));
#elif defined(__clang__) && defined(__AVX2__)
    Ints of_low = __builtin_ia32_permvarsi256(low, places), of_high = __builtin_ia32_permvarsi256(high, places);
    return (places & i32(WIDE)) != 0 ? of_high : of_low;
#elif !defined(__AVX2__)
    return low + high + places;  // not called
#else
    return __builtin_shuffle(low, high, places);
#endif
}

inline Floats smaller(Floats a, Floats b) { return b < a ? b : a; }
inline Floats larger(Floats a, Floats b) { return a < b ? b : a; }

inline Floats as_floats(Ints values) { return __builtin_convertvector(values, Floats); }

// Flags of vectors are -1 or 0.
inline Ints are_finite(Floats values) {
    return reinterpret_cast<Floats>(reinterpret_cast<Ints>(values) & 0x7fffffff) < INFINITE;
}

template <class V>
inline bool any(V flags) {
    u32 words[sizeof flags / 4], found = 0;
    __builtin_memcpy(words, &flags, sizeof flags);
    for (u32 word : words) found |= word;
    return found != 0;
}

inline Floats root(Floats values) {
    Floats roots;
    for (i64 i = 0; i < WIDE; ++i) roots[i] = __builtin_sqrtf(values[i]);
    return roots;
}

// The first of 2 * WIDE numbers that include those from ``low`` to ``high`` of a line of ``size``; -1 if there is none.
inline i32 stretch(i64 low, i64 high, i64 size) {
    i64 start = least(low, size - 2 * WIDE);
    return i32(!PERMUTES || start < 0 || high - start >= 2 * WIDE ? -1 : start);
}

// The numbers of a line at WIDE places; bytes become numbers.
template <class T>
inline auto gathered(const T* line, const u32* idx) {
    Wide<decltype(T{} + T{})> found;
    for (i64 i = 0; i < WIDE; ++i) found[i] = line[idx[i]];
    return found;
}

// WIDE places of a line, which lie in a `stretch`: it is loaded and permuted, for loads of single numbers are slow.
struct Places {
    const u32* idx;
    i64 start;  // of the stretch, -1 where there is none
    Ints within;

    Places(const u32* idx, i32 start) : idx(idx), start(start), within(load(reinterpret_cast<const i32*>(idx)) - start) {}

    template <class T>
    Wide<T> read(const T* line) const {
        if (!is_near()) return gathered(line, idx);
        return reinterpret_cast<Wide<T>>(pick(load(line + start), load(line + start + WIDE)));
    }

    Ints read(const u8* line) const {
        if (!is_near()) return gathered(line, idx);
        return pick(widened(load(line + start)), widened(load(line + start + WIDE)));
    }

   private:
    bool is_near() const { return PERMUTES && start >= 0; }

    template <class V>
    Ints pick(V low, V high) const {
        return permuted(reinterpret_cast<Ints>(low), reinterpret_cast<Ints>(high), within);
    }
};

}  // namespace SEGPASTE_NAMESPACE
