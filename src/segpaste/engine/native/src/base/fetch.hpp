// Requests for memory that is needed soon.

#pragma once

#include "base/numbers.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 CACHE_LINE = 64;

// For functions that only fetch: gcc finds no effect in them, and leaves out calls that it has not inlined.
#define FETCHES [[gnu::always_inline]] inline

// Fetch ``size`` bytes that will be read.
FETCHES void fetch(const void* start, i64 size) {
    auto at = static_cast<const u8*>(start), end = at + size;
    for (at -= reinterpret_cast<size_t>(at) % CACHE_LINE; at < end; at += CACHE_LINE) __builtin_prefetch(at, 0);
}

// Fetch ``size`` bytes that will be written over in part.
FETCHES void fetch_to_write(void* start, i64 size) {
    auto at = static_cast<u8*>(start), end = at + size;
    for (at -= reinterpret_cast<size_t>(at) % CACHE_LINE; at < end; at += CACHE_LINE) __builtin_prefetch(at, 1);
}

}  // namespace SEGPASTE_NAMESPACE
