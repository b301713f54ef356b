// Facts about a batch that a placement needs.

#pragma once

#include "scene/boxes.hpp"
#include "scene/pictures.hpp"

namespace SEGPASTE_NAMESPACE {

inline void survey(const SurveyJob& job) {
    for (i64 b = 0; b < job.num_rows; ++b) {
        Extent extent = picture_extent(job.padding, b, job.height, job.width);
        job.extent[2 * b] = extent.width;
        job.extent[2 * b + 1] = extent.height;
        job.num_free[b] = 0;
        for (i64 i = b * job.num_slots; i < (b + 1) * job.num_slots; ++i) {
            const f32* box = job.rows.boxes + 4 * i;
            i64 label = job.rows.labels[i];
            bool is_pasted = !job.is_thing || (label >= 0 && label < job.num_classes && job.is_thing[label]);
            job.num_free[b] += !job.rows.valid[i];
            i64* occupied = job.occupied + 4 * i;
            occupied[0] = floor_edge(box[0]);
            occupied[1] = floor_edge(box[1]);
            occupied[2] = ceil_edge(box[2]);
            occupied[3] = ceil_edge(box[3]);
            bool is_cut = occupied[0] <= 0 || occupied[1] <= 0 || occupied[2] >= extent.width || occupied[3] >= extent.height;
            bool has_extent = box[2] > box[0] && box[3] > box[1];
            job.eligible[i] = job.rows.valid[i] && has_extent && is_pasted && !(job.whole_only && is_cut);
        }
    }
}

// The classes that may be mixed and have a pixel in the picture of a row.
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

}  // namespace SEGPASTE_NAMESPACE
