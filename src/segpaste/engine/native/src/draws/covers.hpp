// How much of the target's boxes pastes cover: `segpaste.engine.reference.draws._places`, bit for bit.

#pragma once

#include "draws/slots.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 LONGEST_SIDE = i64(1) << 20;
constexpr i64 COVER_ONE = i64(1) << 22, TOO_MUCH = 2 * COVER_ONE;

// Choice among placed objects by how much they cover.
struct CoverDrawer : SlotDrawer {
    i64* boxes;   // [K, 4] of the layer's source
    i64* covers;  // [L, K] of the row, how much of an instance's box each candidate covers

    static i64 side(i64 first, i64 end) { return least(most(end - first, i64(0)), LONGEST_SIDE); }

    // The largest fraction of an instance's box that a moved box covers, times COVER_ONE; TOO_MUCH above the limit.
    i64 cover(i64 b, i64 k, i64 x, i64 y) const {
        const i64* box = boxes + 4 * k;
        i64 largest = 0;
        for (i64 i = 0; i < job.num_slots; ++i) {
            const i64* other = job.occupied + 4 * (b * job.num_slots + i);
            i64 area = side(other[0], other[2]) * side(other[1], other[3]);
            if (area == 0) continue;
            i64 shared = side(most(box[0] + x, other[0]), least(box[2] + x, other[2])) *
                         side(most(box[1] + y, other[1]), least(box[3] + y, other[3]));
            if (shared * job.cover_den >= area * job.cover_num) return TOO_MUCH;
            largest = most(largest, floor_div(shared * COVER_ONE, area));
        }
        return largest;
    }

    bool covers_little(i64 b, i64 k, i64 x, i64 y) const {
        return job.cover_num > job.cover_den || cover(b, k, x, y) != TOO_MUCH;
    }

    // Keep the candidates in ``carried`` [L, K] that cover the least; the others do not count as tried.
    void take_part(i64 b) const {
        i64 count = num_layers * num_slots, num = 0, candidates = 0;
        u8* carried = job.carried + b * count;
        for (i64 i = 0; i < count; ++i) {
            candidates += carried[i];
            priority[i] = carried[i] ? 2 * COVER_ONE - covers[i] : -1;
        }
        i64 product = candidates * job.candidate_num, den = job.candidate_den;
        num = floor_div(product, den);
        i64 twice = 2 * (product - num * den);
        num += twice > den || (twice == den && num % 2 == 1);
        i64 num_kept = least(num, job.num_free[b]);
        job.tried[b] -= candidates - num;
        job.no_free_slot[b] += num - num_kept;
        sort_descending(priority, count, order, spare);
        memset(carried, 0, size_t(count));
        for (i64 i = 0; i < num_kept; ++i) carried[order[i]] = 1;
    }
};

}  // namespace SEGPASTE_NAMESPACE
