// Memory of one thread, kept from step to step: what is taken is given back in the reverse order.

#pragma once

#include "numbers.hpp"

namespace SEGPASTE_NAMESPACE {

struct Chunk {
    Chunk* before;
    size_t size;  // of what follows this header
};

struct Arena {
    Chunk* last;   // of the chunks in use
    size_t used;   // bytes of the last chunk
    bool failed;   // malloc gave nothing; everything taken since is null
};

// What one thread has: room for the row that it works on, and for what it holds back of others.
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

// Give back what was taken since; of all of it the last chunk stays for the next step, unless it is large.
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
}

inline void* take_bytes(Arena& arena, size_t size) {
    size = (size + 63) & ~size_t(63);
    if (!arena.last || arena.used + size > arena.last->size) {
        size_t room = most(size, arena.last ? 2 * arena.last->size : CHUNK);
        auto chunk = static_cast<Chunk*>(malloc(sizeof(Chunk) + 64 + room));
        if (!chunk) {
            arena.failed = true;
            return nullptr;
        }
        *chunk = {arena.last, room};
        arena.last = chunk;
        arena.used = 0;
    }
    size_t start = (reinterpret_cast<size_t>(arena.last + 1) + 63) & ~size_t(63);
    void* block = reinterpret_cast<void*>(start + arena.used);
    arena.used += size;
    return block;
}

// Room for ``count`` values, not filled, aligned to 64 bytes; null where there is no memory.
template <class T>
T* take(Arena& arena, i64 count) {
    return static_cast<T*>(take_bytes(arena, size_t(most(count, i64(1))) * sizeof(T)));
}

}  // namespace SEGPASTE_NAMESPACE
