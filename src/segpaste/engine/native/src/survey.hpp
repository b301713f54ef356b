// What a placement must know of a batch.

#pragma once

#include "numbers.hpp"
#include "records.hpp"

namespace SEGPASTE_NAMESPACE {

struct Extent {
    i64 width, height;
};

// The picture of a row: what lies before the last column and row without padding.
inline Extent picture_extent(const Plane& padding, i64 row, i64 height, i64 width) {
    if (!padding.data) return {width, height};
    Extent extent = {0, 0};
    for (i64 y = 0; y < height; ++y) {
        auto line = static_cast<const u8*>(padding.data) + row * padding.stride[0] + y * padding.stride[2];
        i64 x = width;
        while (x > extent.width && line[x - 1]) --x;
        bool any = x > extent.width;
        for (i64 i = 0; i < x && !any; ++i) any = !line[i];
        if (any) extent = {most(extent.width, x), y + 1};
    }
    return extent;
}

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
            job.eligible[i] = job.rows.valid[i] && box[2] > box[0] && box[3] > box[1] && is_pasted;
            job.num_free[b] += !job.rows.valid[i];
            i64* occupied = job.occupied + 4 * i;
            occupied[0] = floor_edge(box[0]);
            occupied[1] = floor_edge(box[1]);
            occupied[2] = ceil_edge(box[2]);
            occupied[3] = ceil_edge(box[3]);
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
