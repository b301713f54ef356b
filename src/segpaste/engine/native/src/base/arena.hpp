// Memory of one thread, kept from step to step. Blocks are given back in the reverse order of their allocation.

#pragma once

#include "base/numbers.hpp"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_poison_memory_region(const volatile void* start, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* start, size_t size);
#endif

namespace SEGPASTE_NAMESPACE {

// Under the address sanitizer, free memory is poisoned, and a new block is filled with noise.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t GAP = 64;  // between two blocks

inline void close_bytes(void* start, size_t size) { __asan_poison_memory_region(start, size); }

inline void open_bytes(void* start, size_t size) {
    __asan_unpoison_memory_region(start, size);
    memset(start, 0xa5, size);
}
#else
constexpr size_t GAP = 0;

inline void close_bytes(void*, size_t) {}

inline void open_bytes(void*, size_t) {}
#endif

struct Chunk {
    Chunk* before;
    size_t size;  // bytes after this header
};

struct Arena {
    Chunk* last;   // last chunk in use
    size_t used;   // bytes of the last chunk
    bool failed;   // malloc has failed; all later blocks are null
};

// Memory of one thread: of the row that it works on, and of rows that it writes later.
struct Workspace {
    Arena work, kept;
};

constexpr size_t CHUNK = size_t(1) << 20;
constexpr size_t KEPT = size_t(64) << 20;  // a larger chunk is not kept for the next step

struct Mark {
    Chunk* chunk;
    size_t used;
};

inline Mark mark(const Arena& arena) { return {arena.last, arena.used}; }

// The first usable byte of a chunk.
inline u8* start_of(Chunk* chunk) {
    return reinterpret_cast<u8*>((reinterpret_cast<size_t>(chunk + 1) + 63) & ~size_t(63));
}

// Give back the memory taken since `to`. After all is given back, the last chunk is kept for the next step, unless it
// is large.
inline void release(Arena& arena, Mark to) {
    if (!to.chunk && arena.last && arena.last->size <= KEPT) {
        while (Chunk* before = arena.last->before) {
            arena.last->before = before->before;
            free(before);
        }
    } else {
        while (arena.last != to.chunk) {
            Chunk* before = arena.last->before;
            free(arena.last);
            arena.last = before;
        }
    }
    arena.used = to.used;
    arena.failed = false;
    if (arena.last) close_bytes(start_of(arena.last) + arena.used, arena.last->size - arena.used);
}

inline void* take_bytes(Arena& arena, size_t size) {
    size_t room = ((size + 63) & ~size_t(63)) + GAP;
    if (!arena.last || arena.used + room > arena.last->size) {
        size_t whole = most(room, arena.last ? 2 * arena.last->size : CHUNK);
        auto chunk = static_cast<Chunk*>(malloc(sizeof(Chunk) + 64 + whole));
        if (!chunk) {
            arena.failed = true;
            return nullptr;
        }
        *chunk = {arena.last, whole};
        arena.last = chunk;
        arena.used = 0;
        close_bytes(start_of(chunk), whole);
    }
    u8* block = start_of(arena.last) + arena.used;
    arena.used += room;
    open_bytes(block, size);
    return block;
}

// Allocate ``count`` values, not initialised, aligned to 64 bytes; null if there is no memory.
template <class T>
T* take(Arena& arena, i64 count) {
    return static_cast<T*>(take_bytes(arena, size_t(most(count, i64(1))) * sizeof(T)));
}

}  // namespace SEGPASTE_NAMESPACE
