// Copies and fills that bypass the caches, for memory that is not read again soon.

#pragma once

#include "base/numbers.hpp"

namespace SEGPASTE_NAMESPACE {

#if defined(__AVX512F__)
constexpr size_t LINE = 64;
#elif defined(__AVX2__)
constexpr size_t LINE = 32;
#else
constexpr size_t LINE = 16;
#endif

using Line = u8 __attribute__((vector_size(LINE)));
using LooseLine = u8 __attribute__((vector_size(LINE), aligned(1)));

inline void store_past(Line* to, Line line) {
#if defined(__clang__)
    __builtin_nontemporal_store(line, to);
#elif defined(__SANITIZE_ADDRESS__)  // it does not check the stores below
    *to = line;
#elif defined(__AVX512F__)
    using Words = long long __attribute__((vector_size(64)));
    __builtin_ia32_movntdq512(reinterpret_cast<Words*>(to), reinterpret_cast<Words>(line));
#elif defined(__AVX2__)
    using Words = long long __attribute__((vector_size(32)));
    __builtin_ia32_movntdq256(reinterpret_cast<Words*>(to), reinterpret_cast<Words>(line));
#elif defined(__x86_64__)
    using Words = long long __attribute__((vector_size(16)));
    __builtin_ia32_movntdq(reinterpret_cast<Words*>(to), reinterpret_cast<Words>(line));
#else
    *to = line;
#endif
}

// Return the number of bytes up to the next multiple of a cache line.
inline size_t before_line(const void* at) { return (LINE - reinterpret_cast<size_t>(at) % LINE) % LINE; }

inline void fence() {
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#endif
}

inline void stream_copy(void* to, const void* from, size_t size) {
    auto out = static_cast<u8*>(to);
    auto in = static_cast<const u8*>(from);
    size_t head = least(before_line(out), size);
    memcpy(out, in, head);
    size_t at = head;
    for (; at + LINE <= size; at += LINE) {
        store_past(reinterpret_cast<Line*>(out + at), *reinterpret_cast<const LooseLine*>(in + at));
    }
    memcpy(out + at, in + at, size - at);
}

inline void stream_zeros(void* to, size_t size) {
    auto out = static_cast<u8*>(to);
    size_t head = least(before_line(out), size);
    memset(out, 0, head);
    size_t at = head;
    for (; at + LINE <= size; at += LINE) store_past(reinterpret_cast<Line*>(out + at), Line{});
    memset(out + at, 0, size - at);
}

// Copies and zero fills; large ones bypass the caches.
struct Mover {
    bool streams;

    void copy(void* to, const void* from, size_t size) const {
        if (streams && size >= 1024) {
            stream_copy(to, from, size);
        } else {
            memcpy(to, from, size);
        }
    }

    void zeros(void* to, size_t size) const {
        if (streams && size >= 1024) {
            stream_zeros(to, size);
        } else {
            memset(to, 0, size);
        }
    }
};

}  // namespace SEGPASTE_NAMESPACE
