// Requests for memory that is needed soon.

#pragma once

#include "base/numbers.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 CACHE_LINE = 64;

// For functions that only fetch: gcc finds no effect in them, and leaves out calls that it has not inlined.
#define FETCHES [[gnu::always_inline]] inline

// So many lines of a box are fetched before they are needed.
constexpr i64 AHEAD = 4;

// Fetch ``count`` values that will be read.
template <class T>
FETCHES void fetch(const T* values, i64 count) {
    auto at = reinterpret_cast<const u8*>(values), end = at + count * i64(sizeof(T));
    for (at -= reinterpret_cast<size_t>(at) % CACHE_LINE; at < end; at += CACHE_LINE) __builtin_prefetch(at, 0);
}

// Fetch ``count`` values, of which some will be written over.
template <class T>
FETCHES void fetch_to_write(T* values, i64 count) {
    auto at = reinterpret_cast<const u8*>(values), end = at + count * i64(sizeof(T));
    for (at -= reinterpret_cast<size_t>(at) % CACHE_LINE; at < end; at += CACHE_LINE) __builtin_prefetch(at, 1);
}

}  // namespace SEGPASTE_NAMESPACE
