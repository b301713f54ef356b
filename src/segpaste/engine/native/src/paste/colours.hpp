// Colours of a layer, filtered line by line: down the columns first, then along the row.

#pragma once

#include "paste/axes.hpp"
#include "scene/pictures.hpp"

namespace SEGPASTE_NAMESPACE {

// How each kind of pixel is summed: integers exactly, floats in float32.
template <class T>
struct Sums;

template <>
struct Sums<u8> {
    using Sum = u32;  // unsigned, for pixels that are not needed may overflow
    static Words read(const u8* from) { return reinterpret_cast<Words>(widened(load(from))); }
    static Words finished(Words total) { return (total + (1 << 21)) >> 22; }  // rounded half up
    static void write(u8* to, Words values) { store(to, narrowed(reinterpret_cast<Ints>(values))); }
};

template <>
struct Sums<f32> {
    using Sum = f32;
    static Floats read(const f32* from) { return load(from); }
    static Floats finished(Floats total) { return total * 0x1p-22f; }
    static void write(f32* to, Floats values) { store(to, values); }
};

template <>
struct Sums<Half> {
    using Sum = f32;
    static Floats read(const Half* from) {
        Floats values;
        for (i64 i = 0; i < WIDE; ++i) values[i] = widened(from[i]);
        return values;
    }
    static Floats finished(Floats total) { return total * 0x1p-22f; }
    static void write(Half* to, Floats values) {
        for (i64 i = 0; i < WIDE; ++i) to[i] = to_half(values[i]);
    }
};

template <>
struct Sums<BFloat> {
    using Sum = f32;
    static Floats read(const BFloat* from) {
        Floats values;
        for (i64 i = 0; i < WIDE; ++i) values[i] = widened(from[i]);
        return values;
    }
    static Floats finished(Floats total) { return total * 0x1p-22f; }
    static void write(BFloat* to, Floats values) {
        for (i64 i = 0; i < WIDE; ++i) to[i] = to_bfloat(values[i]);
    }
};

// An image of one row: [C, H, W] with any strides of the last and the first.
template <class T>
struct Image {
    T* data;
    i64 channel, line, column;

    T* at(i64 c, i64 y) const { return data + c * channel + y * line; }
};

template <class T>
Image<T> image(const Plane& plane, i64 row) {
    return {static_cast<T*>(plane.data) + row * plane.stride[0], plane.stride[1], plane.stride[2], plane.stride[3]};
}

// Numbers that `read_colours` needs room for, in a line of so many pixels of the source: pixels after the end of a strip may
// read any column, and the last stretch begins at the last column.
inline i64 room_for_colours(i64 source_width) { return source_width + 2 * WIDE; }

// WIDE pixels of a line, ``count`` before its end; those past the end are zeros.
template <class T>
inline Wide<typename Sums<T>::Sum> pixels(const T* line, i64 step, i64 count) {
    if (step == 1 && count >= WIDE) return Sums<T>::read(line);
    T copy[WIDE] = {};
    for (i64 i = 0; i < least(count, WIDE); ++i) copy[i] = line[i * step];
    return Sums<T>::read(copy);
}

// Columns low to high of one channel, filtered down the columns. Lines of no weight are not read: they may hold NaN.
template <class T>
inline void sum_columns(const Image<const T>& source, i64 c, const Taps& taps, i64 line, i64 low, i64 high, i64 width,
                        typename Sums<T>::Sum* columns) {
    using Sum = typename Sums<T>::Sum;
    i64 begin = 0, end = taps.count, step = source.column;
    while (taps.share(begin, line) == 0) ++begin;
    while (taps.share(end - 1, line) == 0) --end;
    auto at = [&](i64 t) { return source.at(c, taps.row(t, line)); };
    const T *first = at(begin), *second = at(end - 1);
    Sum first_weight = Sum(taps.share(begin, line)), second_weight = Sum(taps.share(end - 1, line));
    for (i64 x = low; x <= high; x += WIDE, columns += WIDE) {
        i64 count = width - x;
        auto sums = pixels(first + x * step, step, count) * first_weight;
        for (i64 t = begin + 1; t < end - 1; ++t) {
            i32 weight = taps.share(t, line);
            if (weight) sums += pixels(at(t) + x * step, step, count) * Sum(weight);
        }
        if (begin + 1 < end) sums += pixels(second + x * step, step, count) * second_weight;
        store(columns, sums);
    }
}

// A tap's share of pixels. A tap of no weight gives zero: an infinite colour times zero would be NaN.
inline Words part(Words values, Ints weights) { return values * reinterpret_cast<Words>(weights); }

inline Floats part(Floats values, Ints weights) {
    Floats product = values * __builtin_convertvector(weights, Floats);
    return weights != 0 ? product : Floats{};
}

// Pixels at to at + size - 1 of the table of taps, filtered along the line.
template <class T>
inline void sum_along(const Taps& taps, i64 at, i64 size, const typename Sums<T>::Sum* columns, T* out) {
    auto tap = [&](i64 t, i64 i) {
        return part(taps.places(t, i).read(columns), load(taps.weight + t * taps.size + i));
    };
    for (i64 i = 0; i < size; i += WIDE) {
        auto total = tap(0, at + i) + tap(1, at + i);
        for (i64 t = 2; t < taps.count; ++t) total += tap(t, at + i);
        Sums<T>::write(out + i, Sums<T>::finished(total));
    }
}

// The filtered image under pixels first to end - 1 of line y; [C, n], and up to WIDE - 1 more are written.
//
// ``room`` is as `room_for_colours` says; ``width`` that of the source's canvas.
template <class T>
inline void read_colours(const Image<const T>& source, i64 num_channels, i64 width, const Axis& x_axis, const Axis& y_axis,
                         i64 y, i64 first, i64 end, typename Sums<T>::Sum* room, T* out) {
    const Taps& taps = x_axis.filter;
    i64 size = end - first, at = first - x_axis.first, low, high;
    x_axis.find_reach(at, at + size - 1, low, high);
    for (i64 c = 0; c < num_channels; ++c) {
        sum_columns(source, c, y_axis.filter, y - y_axis.first, low, high, width, room + low);
        sum_along<T>(taps, at, size, room, out + c * size);
    }
}

}  // namespace SEGPASTE_NAMESPACE
