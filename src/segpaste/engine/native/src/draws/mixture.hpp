// ClassMix: pixels of some classes of a source that belong to no pasted instance, and the draws of these classes.

#pragma once

#include "base/arena.hpp"
#include "draws/rows.hpp"
#include "scene/fragment.hpp"

namespace SEGPASTE_NAMESPACE {

struct MixtureDrawer {
    const MixtureJob& job;
    MixedSource source;
    i64 *values, *order, *spare;  // [max(L * K, num_classes)]
    u8* fragment;                 // [H, W]

    // Half of the classes of a layer's source, rounded up, uniformly at random.
    void choose_classes(i64 b, i64 j, const u8* present, u8* classes) const {
        i64 num_present = 0;
        u64 state = indexed(keyed(job.seeds[b], CLASS), j);
        for (i64 c = 0; c < job.num_classes; ++c) {
            values[c] = present[c] ? priority_of(indexed(state, c)) : -1;
            num_present += present[c];
        }
        memset(classes, 0, size_t(job.num_classes));
        sort_descending(values, job.num_classes, order, spare);
        for (i64 i = 0; i < (num_present + 1) / 2; ++i) classes[order[i]] = 1;
    }

    void draw_row(i64 b) const {
        i64 num_layers = job.num_layers, k_s = job.num_slots, num_wanted = 0, num_fragments = 0;
        bool tries = happens(keyed(job.seeds[b], PASTE), job.limits[0]), has_source = false;
        u8* carried = job.carried + b * num_layers * (k_s + 1);
        memset(carried, 0, size_t(num_layers * (k_s + 1)));
        for (i64 j = 0; j < num_layers; ++j) {
            i64 at = b * num_layers + j, row = job.source_idx[at];
            u8* classes = job.classes + at * job.num_classes;
            has_source |= job.layer_valid[at] != 0;
            if (tries && job.layer_valid[at]) {
                choose_classes(b, j, job.present + row * job.num_classes, classes);
            } else {
                memset(classes, 0, size_t(job.num_classes));
                continue;
            }
            Extent extent = picture_extent(job.planes.padding, row, job.height, job.width);
            source.cut_fragment(row, classes, extent, fragment);
            carried[j * (k_s + 1) + k_s] = count(fragment, extent.height * extent.width) > 0;
            num_fragments += carried[j * (k_s + 1) + k_s];
        }
        for (i64 j = 0; j < num_layers; ++j) {
            i64 at = b * num_layers + j;
            u64 state = indexed(keyed(job.seeds[b], SLOT), j);
            for (i64 k = 0; k < k_s; ++k) {
                bool wanted = source.wants(job.source_idx[at], k, job.classes + at * job.num_classes);
                values[j * k_s + k] = wanted ? priority_of(indexed(state, k)) : -1;
                num_wanted += wanted;
            }
        }
        i64 num_kept = least(num_wanted, job.num_free[b]);
        sort_descending(values, num_layers * k_s, order, spare);
        for (i64 i = 0; i < num_kept; ++i) carried[order[i] / k_s * (k_s + 1) + order[i] % k_s] = 1;
        job.no_source[b] = tries && !has_source;
        job.tried[b] = num_wanted + num_fragments + job.no_source[b];
        job.no_free_slot[b] = num_wanted - num_kept;
    }
};

inline ErrorCode draw_classes(const MixtureJob& job, Arena& arena) {
    Mark before = mark(arena);
    for (i64 at = 0; at < job.num_rows * job.num_layers; ++at) {
        if (job.source_idx[at] < 0 || job.source_idx[at] >= job.num_rows) return WRONG_SOURCE_ROW;
    }
    i64 size = most(job.num_layers * job.num_slots, job.num_classes);
    MixtureDrawer drawer = {job,
                            {job.planes, job.rows, job.eligible, job.num_slots, job.num_classes, job.height, job.width},
                            take<i64>(arena, size), take<i64>(arena, size), take<i64>(arena, size),
                            take<u8>(arena, job.height * job.width)};
    ErrorCode error = arena.failed ? OUT_OF_MEMORY : NO_ERROR;
    for (i64 b = 0; !error && b < job.num_rows; ++b) drawer.draw_row(b);
    release(arena, before);
    return error;
}

}  // namespace SEGPASTE_NAMESPACE
