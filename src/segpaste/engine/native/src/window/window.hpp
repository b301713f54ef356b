// The source pixels of an output window: a picture resized, optionally flipped, cut and padded.

#pragma once

#include "base/arena.hpp"
#include "window/window_records.hpp"

namespace SEGPASTE_NAMESPACE::reading {

// One axis: `size` source pixels resized to `resized`, of which the window shows `inside` from `first` on.
struct Span {
    i64 size, resized, first, inside;
    bool flip;

    // Pixel i of the window, counted before the flip.
    i64 unflipped(i64 i) const { return flip ? resized - 1 - (first + i) : first + i; }
    // The source pixel whose square holds the centre of a resized pixel.
    i64 nearest(i64 i) const { return least((2 * i + 1) * size / (2 * resized), size - 1); }
};

inline Span columns_of(const Window& window) {
    return {window.width, window.resized_width, window.left, window.inside_width, window.flip != 0};
}

inline Span rows_of(const Window& window) {
    return {window.height, window.resized_height, window.top, window.inside_height, false};
}

// The taps of an antialiasing filter: pixel i of the window sums ``count`` source pixels from ``first[i]`` on, whose
// weights come in pairs; those behind the last one are 0, as may be the pixels there.
struct Filter {
    i64 count;    // even
    i64 bits;     // weights sum to about 1 << bits
    i32* first;   // [inside]
    i16* weight;  // [inside, count]
};

// The triangle of radius max(1, scale) about the centre of resized pixel i, in float64: the arithmetic and the order of
// torch's antialiased resize of uint8. Writes the weights, which sum to 1, and returns how many there are.
inline i64 triangle(i64 i, i64 size, double scale, i64 room, double* weight, i32& first) {
    double center = scale * (double(i) + 0.5), support = most(scale, 1.0), inverse = scale >= 1 ? 1 / scale : 1.0;
    first = i32(most(i64(center - support + 0.5), i64(0)));
    i64 count = clamp(least(i64(center + support + 0.5), size) - first, i64(0), room);
    double total = 0;
    for (i64 t = 0; t < count; ++t) {
        double distance = __builtin_fabs((double(t + first) - center + 0.5) * inverse);
        weight[t] = distance < 1 ? 1 - distance : 0.0;
        total += weight[t];
    }
    for (i64 t = 0; total != 0 && t < count; ++t) weight[t] /= total;
    return count;
}

// The most bits with which every weight, rounded, fits int16; at most 22.
inline i64 weight_bits(double heaviest) {
    i64 bits = 0;
    while (bits < 22 && i32(0.5 + heaviest * double(i64(2) << bits)) < (1 << 15)) ++bits;
    return bits;
}

inline Filter make_filter(Arena& arena, const Span& span) {
    double scale = double(span.size) / double(span.resized), heaviest = 0;
    double support = most(scale, 1.0);
    i64 room = (i64(support) + (double(i64(support)) < support)) * 2 + 1, count = 2;
    auto exact = take<double>(arena, (span.inside + 1) * room);
    auto numbers = take<i32>(arena, span.inside);
    Filter filter = {0, 0, take<i32>(arena, span.inside), nullptr};
    if (arena.failed) return filter;
    // All pixels, for the heaviest weight may lie outside of the window. The first one of the window, before the flip:
    i64 begin = span.flip ? span.resized - span.first - span.inside : span.first;
    for (i64 i = 0; i < span.resized; ++i) {
        bool is_inside = i >= begin && i < begin + span.inside;
        i64 at = !is_inside ? span.inside : span.flip ? begin + span.inside - 1 - i : i - begin;
        i32 first;
        i64 used = triangle(i, span.size, scale, room, exact + at * room, first);
        for (i64 t = 0; t < used; ++t) heaviest = most(heaviest, exact[at * room + t]);
        if (!is_inside) continue;
        filter.first[at] = first;
        numbers[at] = i32(used);
        count = most(count, used + (used & 1));
    }
    filter.count = count;
    filter.bits = weight_bits(heaviest);
    filter.weight = take<i16>(arena, span.inside * count);
    if (arena.failed) return filter;
    double one = double(i64(1) << filter.bits);
    for (i64 i = 0; i < span.inside; ++i) {
        for (i64 t = 0; t < count; ++t) {
            filter.weight[i * count + t] = t < numbers[i] ? i16(0.5 + exact[i * room + t] * one) : i16(0);
        }
    }
    return filter;
}

}  // namespace SEGPASTE_NAMESPACE::reading
