// Colours of a layer, filtered line by line: down the columns first, then along the row.

#pragma once

#include "layout.hpp"

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

// Up to four channels of one pixel, side by side: one load, one product and one sum for all of them.
template <class T>
using Lanes = typename Sums<T>::Lanes;

constexpr i64 NUM_LANES = 4;

// Pixels are summed in blocks of this many: vectors of any length divide it, and no loop ends in single pixels.
constexpr i64 BLOCK = 16;

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

// A block of each of four channels, side by side.
template <class T>
inline void interleave(const typename Sums<T>::Sum (*sums)[BLOCK], Lanes<T>* lanes) {
    for (i64 i = 0; i < BLOCK; i += 4) {
        Lanes<T> a, b, c, d;
        __builtin_memcpy(&a, sums[0] + i, sizeof a);
        __builtin_memcpy(&b, sums[1] + i, sizeof b);
        __builtin_memcpy(&c, sums[2] + i, sizeof c);
        __builtin_memcpy(&d, sums[3] + i, sizeof d);
        Lanes<T> ab = SHUFFLED(a, b, 0, 4, 1, 5), cd = SHUFFLED(c, d, 0, 4, 1, 5);
        lanes[i] = SHUFFLED(ab, cd, 0, 1, 4, 5);
        lanes[i + 1] = SHUFFLED(ab, cd, 2, 3, 6, 7);
        ab = SHUFFLED(a, b, 2, 6, 3, 7), cd = SHUFFLED(c, d, 2, 6, 3, 7);
        lanes[i + 2] = SHUFFLED(ab, cd, 0, 1, 4, 5);
        lanes[i + 3] = SHUFFLED(ab, cd, 2, 3, 6, 7);
    }
}

// Columns low to high of up to four channels, filtered down the columns, into lanes.
template <class T>
inline void sum_columns(const Image<const T>& source, i64 num_channels, i64 first_channel, const Axis& y_axis, i64 y,
                        i64 low, i64 high, i64 width, Lanes<T>* lanes) {
    using Sum = typename Sums<T>::Sum;
    const Taps& taps = y_axis.filter;
    i64 size = y_axis.size(), line = y - y_axis.first;
    Sum sums[NUM_LANES][BLOCK] = {};
    auto weight = [&](i64 t) { return taps.weight[t * size + line]; };
    i64 begin = 0, end = taps.count;
    while (weight(begin) == 0) ++begin;
    while (weight(end - 1) == 0) --end;
    for (i64 x = low; x <= high; x += BLOCK, lanes += BLOCK) {
        for (i64 c = 0; c < num_channels; ++c) {
            auto at = [&](i64 t) { return source.at(first_channel + c, taps.idx[t * size + line]) + x * source.column; };
            sum_block<T>(begin, end, at, weight, source.column, width - x, sums[c]);
        }
        interleave<T>(sums, lanes);
    }
}

// A tap's share of a pixel. What has no weight gives nothing, for infinite colours times zero would be no number.
template <class T>
inline Lanes<T> part(Lanes<T> value, i32 weight) {
    using Sum = typename Sums<T>::Sum;
    Lanes<T> product = value * Sum(weight);
    bool is_integer = Sum(0.5) == Sum(0);
    return is_integer || weight != 0 ? product : Lanes<T>{};
}

// The filtered image under pixels first to end - 1 of line y; [C, n]. Up to `BLOCK` - 1 values behind it are written too.
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
        auto sums = reinterpret_cast<const Sum*>(totals);
        for (i64 lane = 0; lane < together; ++lane) {  // in this order: a plane overruns into the next one
            T* plane = out + (c + lane) * size;
            for (i64 i = 0; i < size; i += BLOCK) {
                for (i64 n = 0; n < BLOCK; ++n) plane[i + n] = Sums<T>::finished(sums[NUM_LANES * (i + n) + lane]);
            }
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
