// Colours of a layer, filtered line by line: down the columns first, then along the row.

#pragma once

#include "layout.hpp"

namespace SEGPASTE_NAMESPACE {

// How each kind of pixel is summed: integers exactly, floats in float32.
template <class T>
struct Sums;

template <>
struct Sums<u8> {
    using Sum = i32;
    using Lanes = i32 __attribute__((vector_size(16)));
    static Sum wide(u8 value) { return value; }
    static u8 finished(Sum total) { return u8((total + (1 << 21)) >> 22); }  // rounded half up
};

template <>
struct Sums<f32> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(f32 value) { return value; }
    static f32 finished(Sum total) { return total * 0x1p-22f; }
};

template <>
struct Sums<Half> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(Half value) { return widened(value); }
    static Half finished(Sum total) { return to_half(total * 0x1p-22f); }
};

template <>
struct Sums<BFloat> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(BFloat value) { return widened(value); }
    static BFloat finished(Sum total) { return to_bfloat(total * 0x1p-22f); }
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

// One channel of a line, filtered: columns low to high - 1 of the source into ``sums``, which starts at low.
//
// STEP is the distance of two columns where it is known, else 0.
template <i64 STEP, class T>
inline void sum_columns(const Image<const T>& source, i64 c, const Taps& taps, i64 line, i64 size, i64 low, i64 high,
                        typename Sums<T>::Sum* sums) {
    using Sum = typename Sums<T>::Sum;
    const i64 step = STEP ? STEP : source.column;
    const T* rows[2];
    Sum weights[2];
    i64 held = 0;
    bool is_first = true;
    auto add_one = [&] {
        const T* row = rows[0];
        Sum weight = weights[0];
        if (is_first) {
            for (i64 i = 0; i < high - low; ++i) sums[i] = Sums<T>::wide(row[i * step]) * weight;
        } else {
            for (i64 i = 0; i < high - low; ++i) sums[i] += Sums<T>::wide(row[i * step]) * weight;
        }
        is_first = false;
        held = 0;
    };
    for (i64 t = 0; t < taps.count; ++t) {
        i32 weight = taps.weight[t * size + line];
        if (weight == 0) continue;  // its row is not read, it may hold NaN
        rows[held] = source.at(c, taps.idx[t * size + line]) + low * step;
        weights[held++] = Sum(weight);
        if (is_first && held == 2) {
            const T *row = rows[0], *other = rows[1];
            Sum first = weights[0], second = weights[1];
            for (i64 i = 0; i < high - low; ++i) {
                sums[i] = Sums<T>::wide(row[i * step]) * first + Sums<T>::wide(other[i * step]) * second;
            }
            is_first = false;
            held = 0;
        } else if (!is_first) {
            add_one();
        }
    }
    if (held) add_one();
}

// Up to four channels of one pixel, side by side: one load, one product and one sum for all of them.
template <class T>
using Lanes = typename Sums<T>::Lanes;

constexpr i64 NUM_LANES = 4;

// Numbers that `read_colours` needs room for, in a line of so many pixels of source and target.
inline i64 room_for_colours(i64 source_width, i64 width) {
    return NUM_LANES * (2 * source_width + width);
}

// Columns low to high - 1 of up to four channels, filtered down the columns, into lanes; ``room`` holds them planar first.
template <class T>
inline void sum_lanes(const Image<const T>& source, i64 num_channels, i64 first_channel, const Axis& y_axis, i64 y, i64 low,
                      i64 high, typename Sums<T>::Sum* room, Lanes<T>* lanes) {
    using Sum = typename Sums<T>::Sum;
    i64 count = high - low, line = y - y_axis.first;
    const Sum* planes[NUM_LANES];
    for (i64 c = 0; c < NUM_LANES; ++c) {
        Sum* plane = room + c * count;
        planes[c] = c < num_channels ? plane : room;
        if (c >= num_channels) continue;
        if (source.column == 1) {
            sum_columns<1>(source, first_channel + c, y_axis.filter, line, y_axis.size(), low, high, plane);
        } else {
            sum_columns<0>(source, first_channel + c, y_axis.filter, line, y_axis.size(), low, high, plane);
        }
    }
    for (i64 i = 0; i < count; ++i) lanes[i] = Lanes<T>{planes[0][i], planes[1][i], planes[2][i], planes[3][i]};
}

// The filtered image under pixels first to end - 1 of line y; [C, n].
//
// ``room`` is as `room_for_colours` says, aligned to 16 bytes.
template <class T>
inline void read_colours(const Image<const T>& source, i64 num_channels, const Axis& x_axis, const Axis& y_axis, i64 y,
                         i64 first, i64 end, typename Sums<T>::Sum* room, T* out) {
    using Sum = typename Sums<T>::Sum;
    const Taps& taps = x_axis.filter;
    i64 size = end - first, x_size = x_axis.size(), at = first - x_axis.first;
    u32 low = ~u32(0), high = 0;
    for (i64 t = 0; t < taps.count; ++t) {
        const u32* idx = taps.idx + t * x_size + at;
        for (i64 i = 0; i < size; ++i) low = least(low, idx[i]), high = most(high, idx[i]);
    }
    i64 count = i64(high) - low + 1;
    auto lanes = reinterpret_cast<Lanes<T>*>(room);
    auto totals = lanes + count;
    auto planar = reinterpret_cast<Sum*>(totals + size);
    for (i64 c = 0; c < num_channels; c += NUM_LANES, out += NUM_LANES * size) {
        i64 together = least(num_channels - c, NUM_LANES);
        sum_lanes(source, together, c, y_axis, y, i64(low), i64(high) + 1, planar, lanes);
        auto part = [&](i64 tap, i64 i) {
            Sum share = Sum(taps.weight[tap * x_size + at + i]);
            Lanes<T> value = lanes[taps.idx[tap * x_size + at + i] - low] * share;
            return share != 0 ? value : Lanes<T>{};  // infinite colours times nothing would be no number
        };
        for (i64 i = 0; i < size; ++i) totals[i] = part(0, i) + part(1, i);
        for (i64 tap = 2; tap < taps.count; ++tap) {
            for (i64 i = 0; i < size; ++i) totals[i] += part(tap, i);
        }
        auto sums = reinterpret_cast<const Sum*>(totals);
        for (i64 lane = 0; lane < together; ++lane) {
            T* plane = out + lane * size;
            for (i64 i = 0; i < size; ++i) plane[i] = Sums<T>::finished(sums[NUM_LANES * i + lane]);
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
