// Checks of the arguments from Python, before anything is written.

#pragma once

#include "base/numbers.hpp"
#include "records.hpp"

namespace SEGPASTE_NAMESPACE {

// No product leaves 64 bits within these limits, on canvases of up to 2 ** 20: a layer that touches the canvas is moved by
// at most its own length.
constexpr i64 LARGEST_TERM = i64(1) << 40;
constexpr i64 FARTHEST_MOVE = i64(1) << 60;

inline ErrorCode check(const ComposeJob& job) {
    i64 num_slots = job.num_slots, k_s = job.num_source_slots;
    i64 longest = most(most(job.height, job.width), most(job.source_height, job.source_width));
    i64 largest = least(LARGEST_TERM, (i64(1) << 60) / most(longest, i64(1)));
    if (job.num_layers > MOST_LAYERS || (job.with_owner && k_s > MOST_LAYERS)) return TOO_MANY_LAYERS;
    for (i64 b = 0; b < job.num_rows; ++b) {
        i64 num_carried = 0, num_free = 0;
        for (i64 at = b * job.num_layers; at < (b + 1) * job.num_layers; ++at) {
            if (job.source_idx[at] < 0 || job.source_idx[at] >= job.num_source_rows) return WRONG_SOURCE_ROW;
            for (i64 i = 2 * at; i < 2 * at + 2; ++i) {
                if (job.scale_num[i] <= 0 || job.scale_den[i] <= 0) return WRONG_SCALE;
                if (job.scale_num[i] > largest || job.scale_den[i] > largest) return WRONG_SCALE;
                if (job.translate[i] < -FARTHEST_MOVE || job.translate[i] > FARTHEST_MOVE) return WRONG_PLACE;
            }
            for (i64 k = 0; k < k_s - job.has_fragment; ++k) num_carried += job.drawn[at * k_s + k] != 0;
        }
        for (i64 k = 0; k < num_slots; ++k) num_free += !job.target_rows.valid[b * num_slots + k];
        if (num_carried > num_free) return TOO_MANY_CARRIED;
    }
    return NO_ERROR;
}

}  // namespace SEGPASTE_NAMESPACE
