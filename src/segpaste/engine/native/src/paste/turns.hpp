// Turns of the threads of one step: who checks the job, who takes which row, and which rows are still read.

#pragma once

#include "paste/checks.hpp"

namespace SEGPASTE_NAMESPACE {

// Wait for another thread; yield the processor now and then, in case that thread needs it.
struct Patience {
    i64 rounds = 0;

    void wait() {
        if (++rounds % 64 == 0) {
            sched_yield();
            return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
};

// Whether a layer pastes anything.
inline bool reads(const ComposeJob& job, i64 row, i64 j) {
    const u8* drawn = job.drawn + (row * job.num_layers + j) * job.num_source_slots;
    for (i64 k = 0; k < job.num_source_slots; ++k) {
        if (drawn[k]) return true;
    }
    return false;
}

inline void count_readers(const ComposeJob& job) {
    for (i64 row = 0; row < job.num_rows; ++row) {
        for (i64 j = 0; j < job.num_layers; ++j) {
            if (reads(job, row, j)) job.readers[job.source_idx[row * job.num_layers + j]] += 1;
        }
    }
}

// The first thread checks, before anything is written; the others wait for what it finds.
inline bool is_checked(ComposeJob& job) {
    enum : i64 { UNCHECKED = 0, CHECKING = 1, CHECKED = 2 };
    i64 state = UNCHECKED;
    if (__atomic_compare_exchange_n(&job.check_state, &state, i64(CHECKING), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        job.error = check(job);
        if (!job.error && job.in_place && job.reads_itself) count_readers(job);
        __atomic_store_n(&job.check_state, i64(CHECKED), __ATOMIC_RELEASE);
    }
    Patience patience;
    while (__atomic_load_n(&job.check_state, __ATOMIC_ACQUIRE) != CHECKED) patience.wait();
    return __atomic_load_n(&job.error, __ATOMIC_RELAXED) == NO_ERROR;
}

// How many layers still read a row; it never rises.
inline i64 readers(const ComposeJob& job, i64 row) { return __atomic_load_n(job.readers + row, __ATOMIC_ACQUIRE); }

// Where rows are sources of each other: the row that the fewest layers still read, of those that no thread has taken;
// -1 if all are.
inline i64 take_next(const ComposeJob& job) {
    for (;;) {
        i64 chosen = -1, fewest = MANY;
        for (i64 row = 0; row < job.num_rows; ++row) {
            if (__atomic_load_n(job.is_taken + row, __ATOMIC_RELAXED)) continue;
            i64 num_readers = readers(job, row);
            if (num_readers < fewest) chosen = row, fewest = num_readers;
        }
        if (chosen < 0 || !__atomic_exchange_n(job.is_taken + chosen, i64(1), __ATOMIC_RELAXED)) return chosen;
    }
}

// The row's sources have been read.
inline void finish_reading(const ComposeJob& job, i64 row) {
    for (i64 j = 0; j < job.num_layers; ++j) {
        if (!reads(job, row, j)) continue;
        __atomic_fetch_sub(job.readers + job.source_idx[row * job.num_layers + j], i64(1), __ATOMIC_RELEASE);
    }
}

}  // namespace SEGPASTE_NAMESPACE
