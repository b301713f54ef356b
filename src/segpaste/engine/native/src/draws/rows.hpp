// The source rows of layers, and the order of priorities.

#pragma once

#include "base/random.hpp"
#include "records.hpp"

namespace SEGPASTE_NAMESPACE {

// Sort by descending priority, equal ones in their order: a merge sort.
inline void sort_descending(const i64* values, i64 count, i64* order, i64* spare) {
    for (i64 i = 0; i < count; ++i) order[i] = i;
    i64 *from = order, *to = spare;
    for (i64 width = 1; width < count; width *= 2) {
        for (i64 low = 0; low < count; low += 2 * width) {
            i64 middle = least(low + width, count), end = least(low + 2 * width, count), a = low, c = middle;
            for (i64 i = low; i < end; ++i) {
                bool takes_first = a < middle && (c >= end || values[from[a]] >= values[from[c]]);
                to[i] = takes_first ? from[a++] : from[c++];
            }
        }
        i64* swapped = from;
        from = to;
        to = swapped;
    }
    if (from != order) memcpy(order, from, size_t(count) * sizeof(i64));
}

// Another row of the batch for each layer, uniform over rows with an eligible instance; ``twins`` is memory for [B].
inline void choose_rows(const RowsJob& job, i64* twins) {
    for (i64 s = 0; s < job.num_rows; ++s) {
        twins[s] = 0;
        for (i64 other = 0; other < s; ++other) twins[s] += job.seeds[other] == job.seeds[s];
    }
    for (i64 b = 0; b < job.num_rows; ++b) {
        for (i64 j = 0; j < job.num_layers; ++j) {
            u64 state = indexed(keyed(job.seeds[b], SOURCE), j);
            i64 best = -1, chosen = 0;
            for (i64 s = 0; s < job.num_rows; ++s) {
                if (!job.offers[s] || s == b) continue;
                i64 candidate = priority_of(indexed(indexed(state, job.seeds[s]), twins[s]));
                if (candidate > best) best = candidate, chosen = s;
            }
            job.source_idx[b * job.num_layers + j] = chosen;
            job.layer_valid[b * job.num_layers + j] = best >= 0;
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
