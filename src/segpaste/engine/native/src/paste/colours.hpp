// Colours of a layer, filtered line by line: down the columns first, then along the row.

#pragma once

#include "paste/axes.hpp"
#include "scene/pictures.hpp"

// Lanes of two vectors side by side, by their numbers.
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define SHUFFLED(one, other, ...) __builtin_shuffle(one, other, i32 __attribute__((vector_size(16))){__VA_ARGS__})
#endif

namespace SEGPASTE_NAMESPACE {

// How each kind of pixel is summed: integers exactly, floats in float32.
template <class T>
struct Sums;

template <>
struct Sums<u8> {
    using Sum = i32;
    using Lanes = i32 __attribute__((vector_size(16)));
    static Sum wide(u8 value) { return value; }
    static Lanes finished(Lanes total) { return (total + (1 << 21)) >> 22; }  // rounded half up
    static u8 narrow(Sum value) { return u8(value); }
};

template <>
struct Sums<f32> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(f32 value) { return value; }
    static Lanes finished(Lanes total) { return total * 0x1p-22f; }
    static f32 narrow(Sum value) { return value; }
};

template <>
struct Sums<Half> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(Half value) { return widened(value); }
    static Lanes finished(Lanes total) { return total * 0x1p-22f; }
    static Half narrow(Sum value) { return to_half(value); }
};

template <>
struct Sums<BFloat> {
    using Sum = f32;
    using Lanes = f32 __attribute__((vector_size(16)));
    static Sum wide(BFloat value) { return widened(value); }
    static Lanes finished(Lanes total) { return total * 0x1p-22f; }
    static BFloat narrow(Sum value) { return to_bfloat(value); }
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

// Up to four channels of one pixel, side by side: one load, one product and one sum for all of them.
template <class T>
using Lanes = typename Sums<T>::Lanes;

constexpr i64 NUM_LANES = 4;

// Pixels are summed in blocks of this many, a multiple of every vector length, so no loop ends in single pixels.
constexpr i64 BLOCK = 16;

// Pixels of one channel that are read before those of the next one, so that a line comes in runs of cache lines.
constexpr i64 STRETCH = 4 * BLOCK;

inline i64 in_blocks(i64 count) { return (count + BLOCK - 1) / BLOCK * BLOCK; }

// Numbers that `read_colours` needs room for, in a line of so many pixels of source and target.
inline i64 room_for_colours(i64 source_width, i64 width) {
    return NUM_LANES * (in_blocks(source_width) + in_blocks(width));
}

// A block of a line, ``count`` pixels before its end: where it lies, or a copy that goes on with zeros.
template <class T>
inline const T* block(const T* line, i64 step, i64 count, T* copy) {
    if (step == 1 && count >= BLOCK) return line;
    for (i64 i = 0; i < BLOCK; ++i) copy[i] = i < count ? line[i * step] : T{};
    return copy;
}

// A block of one channel, filtered down the columns. ``line`` gives the lines of taps begin to end - 1, ``weight`` their
// weights; lines of no weight are not read, for they may hold NaN.
template <class T, class Line, class Weight>
inline void sum_block(i64 begin, i64 end, Line line, Weight weight, i64 step, i64 count, typename Sums<T>::Sum* sums) {
    using Sum = typename Sums<T>::Sum;
    T copies[2][BLOCK];
    const T* first = block(line(begin), step, count, copies[0]);
    Sum first_weight = Sum(weight(begin));
    if (end - begin == 2) {  // mostly
        const T* second = block(line(begin + 1), step, count, copies[1]);
        Sum second_weight = Sum(weight(begin + 1));
        for (i64 i = 0; i < BLOCK; ++i) {
            sums[i] = Sums<T>::wide(first[i]) * first_weight + Sums<T>::wide(second[i]) * second_weight;
        }
        return;
    }
    for (i64 i = 0; i < BLOCK; ++i) sums[i] = Sums<T>::wide(first[i]) * first_weight;
    for (i64 t = begin + 1; t < end; ++t) {
        if (weight(t) == 0) continue;
        const T* next = block(line(t), step, count, copies[0]);
        for (i64 i = 0; i < BLOCK; ++i) sums[i] += Sums<T>::wide(next[i]) * Sum(weight(t));
    }
}

// Four vectors of four numbers with rows and columns exchanged.
template <class V>
inline void transpose(V& a, V& b, V& c, V& d) {
    V ab = SHUFFLED(a, b, 0, 4, 1, 5), cd = SHUFFLED(c, d, 0, 4, 1, 5);
    V other_ab = SHUFFLED(a, b, 2, 6, 3, 7), other_cd = SHUFFLED(c, d, 2, 6, 3, 7);
    a = SHUFFLED(ab, cd, 0, 1, 4, 5), b = SHUFFLED(ab, cd, 2, 3, 6, 7);
    c = SHUFFLED(other_ab, other_cd, 0, 1, 4, 5), d = SHUFFLED(other_ab, other_cd, 2, 3, 6, 7);
}

// Four pixels of four channels, side by side.
template <class T>
inline void interleave(const typename Sums<T>::Sum (*sums)[STRETCH], i64 first, Lanes<T>* lanes) {
    for (i64 c = 0; c < NUM_LANES; ++c) __builtin_memcpy(lanes + c, sums[c] + first, sizeof(Lanes<T>));
    transpose(lanes[0], lanes[1], lanes[2], lanes[3]);
}

// The pixels of sums, channel by channel.
template <class T>
inline void separate(const Lanes<T>* totals, i64 size, i64 num_channels, T* out) {
    T last[NUM_LANES];
    for (i64 i = 0; i < size; i += NUM_LANES) {
        Lanes<T> planes[NUM_LANES];
        for (i64 n = 0; n < NUM_LANES; ++n) planes[n] = Sums<T>::finished(totals[i + n]);
        transpose(planes[0], planes[1], planes[2], planes[3]);
        bool is_whole = i + NUM_LANES <= size;
        for (i64 c = 0; c < num_channels; ++c) {
            T* to = is_whole ? out + c * size + i : last;
            for (i64 n = 0; n < NUM_LANES; ++n) to[n] = Sums<T>::narrow(planes[c][n]);
            for (i64 n = 0; !is_whole && i + n < size; ++n) out[c * size + i + n] = last[n];
        }
    }
}

// Columns low to high of up to four channels, filtered down the columns, into lanes.
template <class T>
inline void sum_columns(const Image<const T>& source, i64 num_channels, i64 first_channel, const Axis& y_axis, i64 y,
                        i64 low, i64 high, i64 width, Lanes<T>* lanes) {
    using Sum = typename Sums<T>::Sum;
    const Taps& taps = y_axis.filter;
    i64 size = y_axis.size(), line = y - y_axis.first;
    Sum sums[NUM_LANES][STRETCH] = {};
    auto weight = [&](i64 t) { return taps.weight[t * size + line]; };
    i64 begin = 0, end = taps.count;
    while (weight(begin) == 0) ++begin;
    while (weight(end - 1) == 0) --end;
    for (i64 x = low; x <= high; x += STRETCH) {
        i64 length = least(in_blocks(high + 1 - x), STRETCH);
        for (i64 c = 0; c < num_channels; ++c) {
            for (i64 i = 0; i < length; i += BLOCK) {
                auto at = [&](i64 t) {
                    return source.at(first_channel + c, taps.idx[t * size + line]) + (x + i) * source.column;
                };
                sum_block<T>(begin, end, at, weight, source.column, width - x - i, sums[c] + i);
            }
        }
        for (i64 i = 0; i < length; i += NUM_LANES, lanes += NUM_LANES) interleave<T>(sums, i, lanes);
    }
}

// A tap's share of a pixel. A tap of no weight gives zero: an infinite colour times zero would be NaN.
template <class T>
inline Lanes<T> part(Lanes<T> value, i32 weight) {
    using Sum = typename Sums<T>::Sum;
    Lanes<T> product = value * Sum(weight);
    bool is_integer = Sum(0.5) == Sum(0);
    return is_integer || weight != 0 ? product : Lanes<T>{};
}

// The filtered image under pixels first to end - 1 of line y; [C, n].
//
// ``room`` is as `room_for_colours` says, aligned to 16 bytes; ``width`` that of the source's canvas.
template <class T>
inline void read_colours(const Image<const T>& source, i64 num_channels, i64 width, const Axis& x_axis, const Axis& y_axis,
                         i64 y, i64 first, i64 end, typename Sums<T>::Sum* room, T* out) {
    using Sum = typename Sums<T>::Sum;
    const Taps& taps = x_axis.filter;
    i64 size = end - first, x_size = x_axis.size(), at = first - x_axis.first, low, high;
    taps.find_reach(at, at + size - 1, low, high);
    auto lanes = reinterpret_cast<Lanes<T>*>(room);
    auto totals = lanes + in_blocks(width);
    const Lanes<T>* columns = lanes - low;
    for (i64 c = 0; c < num_channels; c += NUM_LANES) {
        i64 together = least(num_channels - c, NUM_LANES);
        sum_columns(source, together, c, y_axis, y, low, high, width, lanes);
        const u32 *idx = taps.idx + at, *next_idx = idx + x_size;
        const i32 *weight = taps.weight + at, *next_weight = weight + x_size;
        for (i64 i = 0; i < size; ++i) {
            totals[i] = part<T>(columns[idx[i]], weight[i]) + part<T>(columns[next_idx[i]], next_weight[i]);
        }
        for (i64 tap = 2; tap < taps.count; ++tap) {
            idx = taps.idx + tap * x_size + at, weight = taps.weight + tap * x_size + at;
            for (i64 i = 0; i < size; ++i) totals[i] += part<T>(columns[idx[i]], weight[i]);
        }
        separate<T>(totals, size, together, out + c * size);
    }
}

}  // namespace SEGPASTE_NAMESPACE
