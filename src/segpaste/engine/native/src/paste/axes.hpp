// Axes of a layer: which source pixels each column and each line of the canvas reads.
//
// The integers of `segpaste.engine.reference.geometry`, for the columns and rows where a carried object lies; divisions by
// the scale are computed incrementally from pixel to pixel.

#pragma once

#include "base/arena.hpp"
#include "base/wide.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 WEIGHT_ONE = 1 << 11;  // weights of an axis sum to this

// The map of one axis of a layer: output pixel x reads around (x + 1/2 - offset) * den / num - 1/2.
struct Map {
    i64 offset, num, den, extent;
    bool flip;
};

// Taps of a triangle filter for output pixels; all arrays start at the first one. A tap of no weight repeats another's
// index: nothing is read that has no weight.
struct Taps {
    i64 count, size;  // of pixels, as `table_size` says
    u32* idx;         // [count, size]
    i32* weight;      // [count, size]
    i32* starts;      // [count, size], of the `stretch` of this and the next WIDE - 1 pixels
    i64* before;      // [size], the source pixel before the first tap, counted from the other end where flipped
    i64 last;         // source pixel
    bool flip;

    i64 row(i64 t, i64 i) const { return idx[t * size + i]; }
    i32 share(i64 t, i64 i) const { return weight[t * size + i]; }

    // The least and the greatest source pixel that taps t to u of the i-th to the j-th output pixel may read.
    void find_reach(i64 t, i64 u, i64 i, i64 j, i64& low, i64& high) const {
        low = clamp(before[i] + 1 + t, i64(0), last), high = clamp(before[j] + 1 + u, i64(0), last);
        if (!flip) return;
        i64 mirrored = last - high;
        high = last - low;
        low = mirrored;
    }

    // Where tap t of the i-th to the i + WIDE - 1-th output pixel reads.
    Places places(i64 t, i64 i) const { return {idx + t * size + i, starts[t * size + i]}; }
};

// Pixels that a table of ``size`` pixels has: WIDE - 1 more, so that WIDE may be read from each one on.
inline i64 table_size(i64 size) { return size + WIDE - 1; }

// Where output pixels first to end - 1 read the source along one axis; all arrays start at ``first``.
struct Axis {
    i64 first, end;
    i32* nearest;  // `table_size` of them, -1 where the layer does not reach
    Taps filter;   // of the image
    Taps linear;   // of depth and normals; count 0 if no field is interpolated

    i64 size() const { return end - first; }

    // The least and the greatest source pixel that the i-th to the j-th output pixel may read.
    void find_reach(i64 i, i64 j, i64& low, i64& high) const { filter.find_reach(0, filter.count - 1, i, j, low, high); }
};

// From one output pixel to the next: 2 * den / (2 * num) source pixels, in whole ones and a remainder.
struct Step {
    i64 size, whole, part;

    explicit Step(const Map& map) : size(2 * map.num), whole(2 * map.den / size), part(2 * map.den % size) {}

    void advance(i64& index, i64& rest) const {
        index += whole;
        rest += part;
        if (rest >= size) rest -= size, ++index;
    }
};

inline void fill_nearest(const Axis& axis, const Map& map) {
    i64 shifted = (2 * (axis.first - map.offset) + 1) * map.den, step = 2 * map.num;
    i64 index = floor_div(shifted, step), rest = shifted - index * step;
    Step next(map);
    for (i64 i = 0; i < table_size(axis.size()); ++i) {
        bool reaches = index >= 0 && index < map.extent;
        axis.nearest[i] = i32(!reaches ? -1 : map.flip ? map.extent - 1 - index : index);
        next.advance(index, rest);
    }
}

// How many taps a filter of this radius (in source pixels, times num) has at most.
inline i64 num_taps(i64 radius, i64 num) { return (2 * radius + num - 1) / num; }

inline void fill_taps(const Taps& taps, i64 first, const Map& map, i64 radius) {
    i64 step = 2 * map.num, position = (2 * (first - map.offset) + 1) * map.den - map.num;
    i64 lowest = floor_div(position - 2 * radius, step), rest = position - 2 * radius - lowest * step;
    i64 last = taps.last, size = taps.size;
    Step next(map);
    for (i64 i = 0; i < size; ++i) {
        taps.before[i] = lowest;
        i64 distance = step - rest - 2 * radius;  // of the first tap, at lowest + 1
        i64 total = 0, upto = 0, before = 0, used = 0;
        for (i64 t = 0; t < taps.count; ++t) {
            i64 far = distance + step * t;
            total += most(2 * radius - (far < 0 ? -far : far), i64(0));
        }
        for (i64 t = 0; t < taps.count; ++t) {
            i64 far = distance + step * t;
            upto += most(2 * radius - (far < 0 ? -far : far), i64(0));
            i64 share = upto * WEIGHT_ONE / total;
            taps.weight[t * size + i] = i32(share - before);
            if (share > before) used = t;
            before = share;
            i64 index = clamp(lowest + 1 + t, i64(0), last);
            taps.idx[t * size + i] = u32(map.flip ? last - index : index);
        }
        for (i64 t = 0; t < taps.count; ++t) {
            if (taps.weight[t * size + i] == 0) taps.idx[t * size + i] = taps.idx[used * size + i];
        }
        next.advance(lowest, rest);
    }
}

// Lines of ``width`` numbers are read; with ``together`` the same stretch for all taps.
inline void fill_starts(const Taps& taps, i64 width, bool together) {
    for (i64 t = 0; t < taps.count; ++t) {
        for (i64 i = 0; PERMUTES && i + WIDE <= taps.size; ++i) {
            i64 low, high;
            taps.find_reach(together ? 0 : t, together ? taps.count - 1 : t, i, i + WIDE - 1, low, high);
            taps.starts[t * taps.size + i] = stretch(low, high, width);
        }
    }
}

inline Taps take_taps(Arena& arena, const Map& map, i64 count, i64 size) {
    return {count, size, take<u32>(arena, count * size), take<i32>(arena, count * size), take<i32>(arena, count * size),
            take<i64>(arena, size), most(map.extent - 1, i64(0)), map.flip};
}

// The tables of one axis. ``most_taps`` bounds the image filter: with two taps it is plain interpolation.
inline Axis make_axis(Arena& arena, i64 first, i64 end, const Map& map, i64 most_taps, bool with_linear, i64 width) {
    i64 size = table_size(end - first), radius = most_taps == 2 ? map.num : most(map.num, map.den);
    i64 used = least(most_taps, most(num_taps(radius, map.num), i64(2)));
    Axis axis = {first, end, take<i32>(arena, size), take_taps(arena, map, used, size),
                 take_taps(arena, map, with_linear ? 2 : 0, size)};
    if (arena.failed) return axis;
    fill_nearest(axis, map);
    fill_taps(axis.filter, first, map, radius);
    fill_starts(axis.filter, MANY, false);
    if (with_linear) fill_taps(axis.linear, first, map, map.num), fill_starts(axis.linear, width, true);
    return axis;
}

}  // namespace SEGPASTE_NAMESPACE
