// An object cut out of its image: the content averaged, or copied, into the middle of a crop, whose rest repeats its edge.
//
// The integers of `segpaste.datasets.cutting`: down the columns first, then along the row, rounded once.

#pragma once

#include "window/window.hpp"

namespace SEGPASTE_NAMESPACE::reading {

constexpr i64 SHARE_ONE = 1 << 11;  // weights of an axis sum to this
constexpr i64 COLORS = 3;
constexpr i64 WIDEST = 4;  // bytes of a pixel of which three are colours

// Where the pixels of the content along one axis read the image; tap t of pixel i is at i * count + t.
struct CutAxis {
    i64 count;
    i32* nearest;
    i32* idx;
    i32* weight;
};

inline CutAxis make_cut_axis(Arena& arena, const CutSide& side, i64 num, i64 den) {
    i64 radius = 2 * most(num, den), count = (2 * den + num - 1) / num;
    CutAxis axis = {count, take<i32>(arena, side.size), take<i32>(arena, side.size * count),
                    take<i32>(arena, side.size * count)};
    if (arena.failed) return axis;
    for (i64 i = 0; i < side.size; ++i) {
        i64 position = (2 * i + 1) * den - num, total = 0, upto = 0, before = 0;
        axis.nearest[i] = i32(side.start + least((position + num) / (2 * num), side.end - side.start - 1));
        i64 first = floor_div(position - radius, 2 * num) + 1;
        auto height = [&](i64 t) {
            i64 distance = 2 * num * (first + t) - position;
            return most(radius - (distance < 0 ? -distance : distance), i64(0));
        };
        for (i64 t = 0; t < count; ++t) total += height(t);
        for (i64 t = 0; t < count; ++t) {
            upto += height(t);
            i64 share = upto * SHARE_ONE / total;
            axis.weight[i * count + t] = i32(share - before);
            axis.idx[i * count + t] = i32(clamp(first + t + side.start, i64(0), side.length - 1));
            before = share;
        }
    }
    return axis;
}

// Averages the content; ``line`` has room for the columns ``low`` to ``high`` - 1 of three channels.
inline void average_content(const CutJob& job, const CutAxis& down, const CutAxis& along, i64 low, i64 high, i32* line) {
    bool is_together = job.channel_stride == 1 && (job.column_stride == COLORS || job.column_stride == WIDEST);
    i64 width = high - low, pixel = is_together ? job.column_stride : 1, channel = is_together ? 1 : width;
    i64 size = is_together ? (width - 1) * pixel + COLORS : COLORS * width;
    for (i64 y = 0; y < job.rows.size; ++y) {
        for (i64 k = 0; k < size; ++k) line[k] = 0;
        for (i64 t = 0; t < down.count; ++t) {
            i32 weight = down.weight[y * down.count + t];
            const u8* source = job.in + down.idx[y * down.count + t] * job.line_stride + low * job.column_stride;
            if (weight == 0) continue;
            if (is_together) {
                for (i64 k = 0; k < size; ++k) line[k] += weight * i32(source[k]);
                continue;
            }
            for (i64 c = 0; c < COLORS; ++c) {
                const u8* plane = source + c * job.channel_stride;
                i32* sums = line + c * width;
                if (job.column_stride == 1) {
                    for (i64 k = 0; k < width; ++k) sums[k] += weight * i32(plane[k]);
                } else {
                    for (i64 k = 0; k < width; ++k) sums[k] += weight * i32(plane[k * job.column_stride]);
                }
            }
        }
        u8* out = job.out + (job.rows.before + y) * job.columns.room + job.columns.before;
        i64 plane = job.rows.room * job.columns.room;
        for (i64 x = 0; x < job.columns.size; ++x) {
            i32 totals[COLORS] = {};
            for (i64 t = 0; t < along.count; ++t) {
                i32 weight = along.weight[x * along.count + t];
                const i32* sums = line + (along.idx[x * along.count + t] - low) * pixel;
                for (i64 c = 0; c < COLORS; ++c) totals[c] += weight * sums[c * channel];
            }
            for (i64 c = 0; c < COLORS; ++c) out[c * plane + x] = u8((totals[c] + (1 << 21)) >> 22);
        }
    }
}

inline void copy_content(const CutJob& job) {
    for (i64 c = 0; c < COLORS; ++c) {
        const u8* plane = job.in + c * job.channel_stride + job.columns.start * job.column_stride;
        for (i64 y = 0; y < job.rows.size; ++y) {
            const u8* source = plane + (job.rows.start + y) * job.line_stride;
            u8* out = job.out + (c * job.rows.room + job.rows.before + y) * job.columns.room + job.columns.before;
            if (job.column_stride == 1) {
                memcpy(out, source, size_t(job.columns.size));
            } else {
                for (i64 x = 0; x < job.columns.size; ++x) out[x] = source[x * job.column_stride];
            }
        }
    }
}

// Repeats the edge of the content up to the edge of the crop.
inline void repeat_edges(const CutJob& job) {
    i64 width = job.columns.room, left = job.columns.before, right = left + job.columns.size;
    i64 top = job.rows.before, bottom = top + job.rows.size;
    for (i64 c = 0; c < COLORS; ++c) {
        u8* plane = job.out + c * job.rows.room * width;
        for (i64 y = top; y < bottom; ++y) {
            u8* line = plane + y * width;
            memset(line, line[left], size_t(left));
            memset(line + right, line[right - 1], size_t(width - right));
        }
        for (i64 y = 0; y < top; ++y) memcpy(plane + y * width, plane + top * width, size_t(width));
        for (i64 y = bottom; y < job.rows.room; ++y) memcpy(plane + y * width, plane + (bottom - 1) * width, size_t(width));
    }
}

// Returns 1 if there is no memory.
inline i64 cut_out(const CutJob& job, Arena& arena) {
    CutAxis down = make_cut_axis(arena, job.rows, job.num, job.den);
    CutAxis along = make_cut_axis(arena, job.columns, job.num, job.den);
    if (arena.failed) return 1;
    if (job.num == job.den) {
        copy_content(job);
    } else {
        i64 low = job.columns.length, high = 0;
        for (i64 i = 0; i < job.columns.size * along.count; ++i) {
            low = least(low, i64(along.idx[i]));
            high = most(high, i64(along.idx[i]) + 1);
        }
        auto line = take<i32>(arena, WIDEST * (high - low));
        if (arena.failed) return 1;
        average_content(job, down, along, low, high, line);
    }
    repeat_edges(job);
    memset(job.alpha, 0, size_t(job.rows.room * job.columns.room));
    for (i64 y = 0; y < job.rows.size; ++y) {
        const u8* source = job.mask + down.nearest[y] * job.columns.length;
        u8* out = job.alpha + (job.rows.before + y) * job.columns.room + job.columns.before;
        for (i64 x = 0; x < job.columns.size; ++x) out[x] = source[along.nearest[x]];
    }
    return 0;
}

}  // namespace SEGPASTE_NAMESPACE::reading
