// Axes of a layer: which source pixels each column and each line of the canvas reads.
//
// The integers of `segpaste.engine.reference.geometry`, for the columns and rows where a carried object lies; divisions by
// the scale are computed incrementally from pixel to pixel.

#pragma once

#include "base/arena.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 WEIGHT_ONE = 1 << 11;  // weights of an axis sum to this

// The map of one axis of a layer: output pixel x reads around (x + 1/2 - offset) * den / num - 1/2.
struct Map {
    i64 offset, num, den, extent;
    bool flip;
};

// Taps of a triangle filter for output pixels first to end - 1; index and weight of tap t of pixel x are at
// t * (end - first) + x - first. A tap of no weight repeats another's index: nothing is read that has no weight.
struct Taps {
    i64 count;
    u32* idx;
    i32* weight;
    i64* before;  // [end - first], the source pixel before the first tap, counted from the other end where flipped
    i64 last;     // source pixel
    bool flip;

    // The least and the greatest source pixel that the i-th to the j-th output pixel may read.
    void find_reach(i64 i, i64 j, i64& low, i64& high) const {
        low = clamp(before[i] + 1, i64(0), last), high = clamp(before[j] + count, i64(0), last);
        if (!flip) return;
        i64 mirrored = last - high;
        high = last - low;
        low = mirrored;
    }
};

// Where output pixels first to end - 1 read the source along one axis; all arrays start at ``first``.
struct Axis {
    i64 first, end;
    i32* nearest;  // -1 where the layer does not reach
    Taps filter;   // of the image
    Taps linear;   // of depth and normals; count 0 if no field is interpolated

    i64 size() const { return end - first; }
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

inline void fill_nearest(Axis& axis, const Map& map) {
    i64 shifted = (2 * (axis.first - map.offset) + 1) * map.den, step = 2 * map.num;
    i64 index = floor_div(shifted, step), rest = shifted - index * step;
    Step next(map);
    for (i64 i = 0; i < axis.size(); ++i) {
        bool reaches = index >= 0 && index < map.extent;
        axis.nearest[i] = i32(!reaches ? -1 : map.flip ? map.extent - 1 - index : index);
        next.advance(index, rest);
    }
}

// How many taps a filter of this radius (in source pixels, times num) has at most.
inline i64 num_taps(i64 radius, i64 num) { return (2 * radius + num - 1) / num; }

inline void fill_taps(const Taps& taps, i64 first, i64 size, const Map& map, i64 radius) {
    i64 step = 2 * map.num, position = (2 * (first - map.offset) + 1) * map.den - map.num;
    i64 lowest = floor_div(position - 2 * radius, step), rest = position - 2 * radius - lowest * step;
    i64 last = taps.last;
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

inline Taps take_taps(Arena& arena, const Map& map, i64 count, i64 size) {
    return {count, take<u32>(arena, count * size), take<i32>(arena, count * size), take<i64>(arena, size),
            most(map.extent - 1, i64(0)), map.flip};
}

// The tables of one axis. ``most_taps`` bounds the image filter: with two taps it is plain interpolation.
inline Axis make_axis(Arena& arena, i64 first, i64 end, const Map& map, i64 most_taps, bool with_linear) {
    i64 size = end - first, radius = most_taps == 2 ? map.num : most(map.num, map.den);
    i64 used = least(most_taps, most(num_taps(radius, map.num), i64(2)));
    Axis axis = {first, end, take<i32>(arena, size), take_taps(arena, map, used, size),
                 take_taps(arena, map, with_linear ? 2 : 0, size)};
    if (arena.failed) return axis;
    fill_nearest(axis, map);
    fill_taps(axis.filter, first, size, map, radius);
    if (with_linear) fill_taps(axis.linear, first, size, map, map.num);
    return axis;
}

}  // namespace SEGPASTE_NAMESPACE
