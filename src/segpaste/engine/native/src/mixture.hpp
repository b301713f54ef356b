// ClassMix: what lies in some classes of a source and belongs to no instance that is pasted; and its draws.

#pragma once

#include "draws.hpp"
#include "surfaces.hpp"

namespace SEGPASTE_NAMESPACE {

inline bool in_table(const u8* table, i64 size, i64 label) { return label >= 0 && label < size && table[label]; }

// Rows of a batch that classes are taken from.
struct MixedSource {
    const Planes& planes;
    const Rows& rows;
    const u8* eligible;  // [S, K]
    i64 num_slots, num_classes, height, width;

    bool wants(i64 row, i64 k, const u8* classes) const {
        i64 at = row * num_slots + k;
        return eligible[at] && in_table(classes, num_classes, rows.labels[at]);
    }

    // The fragment of the classes [num_classes] within the picture of a row, [extent.height, extent.width].
    void cut_fragment(i64 row, const u8* classes, const Extent& extent, u8* cut) const {
        Picture<const i64> semantic = picture<const i64>(planes.semantic, row), panoptic = picture<const i64>(planes.panoptic, row);
        Picture<const u8> padding = picture<const u8>(planes.padding, row);
        for (i64 y = 0; y < extent.height; ++y) {
            const i64 *label = semantic.at(y), *id = panoptic.data ? panoptic.at(y) : nullptr;
            const u8* pad = padding.data ? padding.at(y) : nullptr;
            u8* line = cut + y * extent.width;
            for (i64 x = 0; x < extent.width; ++x) {
                line[x] = in_table(classes, num_classes, label[x]) && !(id && id[x]) && !(pad && pad[x]);
            }
        }
        for (i64 k = 0; !panoptic.data && k < num_slots; ++k) {
            if (!wants(row, k, classes)) continue;
            Box box = clipped_box(rows.boxes + 4 * (row * num_slots + k), extent.width, extent.height);
            Picture<const u8> mask = picture<const u8>(planes.masks, row, k);
            for (i64 y = box.y1; y < box.y2; ++y) {
                u8* line = cut + y * extent.width;
                for (i64 x = box.x1; x < box.x2; ++x) line[x] &= mask.at(y)[x] ^ 1;
            }
        }
    }
};

// Which classes have a pixel in the picture of a row, of those that may be mixed.
inline void find_present(const SurveyJob& job, i64 row, u8* present) {
    memset(present, 0, size_t(job.num_mixed));
    Picture<const i64> semantic = picture<const i64>(job.semantic, row);
    Picture<const u8> padding = picture<const u8>(job.padding, row);
    for (i64 y = 0; y < job.height; ++y) {
        const i64* line = semantic.at(y);
        const u8* pad = padding.data ? padding.at(y) : nullptr;
        for (i64 x = 0; x < job.width; ++x) {
            i64 label = line[x];
            if (label < 0 || label >= job.num_mixed || label == job.ignore_index || (pad && pad[x])) continue;
            present[label] = !job.is_thing || job.is_thing[label] || job.is_stuff[label];
        }
    }
}

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
