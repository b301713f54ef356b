// An image of uint8 resized with antialiasing into its place: along each row first, rounded, then down the columns.

#pragma once

#include "window/window.hpp"

namespace SEGPASTE_NAMESPACE::reading {

using Bytes16 = u8 __attribute__((vector_size(16)));
using Longs2 = u64 __attribute__((vector_size(16)));
using Shorts8 = i16 __attribute__((vector_size(16)));
using Ints4 = i32 __attribute__((vector_size(16)));

#if defined(__clang__)
#define SEGPASTE_SHUFFLE(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define SEGPASTE_SHUFFLE(one, other, ...) __builtin_shuffle(one, other, Bytes16{__VA_ARGS__})
#endif

// Lines that are filtered along the row together: as many as a vector of pairs has room for.
#if defined(__AVX2__)
constexpr i64 LINES = 2;
#else
constexpr i64 LINES = 1;
#endif

constexpr i64 PIXEL = 4;  // bytes of a pixel of up to four channels, and the numbers of a pair of them

using Shorts = i16 __attribute__((vector_size(16 * LINES)));
using Ints = i32 __attribute__((vector_size(16 * LINES)));

// Sums of the products of neighbouring pairs.
inline Ints sum_pairs(Shorts a, Shorts b) {
#if defined(__AVX2__)
    return __builtin_ia32_pmaddwd256(a, b);
#elif defined(__x86_64__)
    return __builtin_ia32_pmaddwd128(a, b);
#else
    auto x = reinterpret_cast<Ints>(a), y = reinterpret_cast<Ints>(b);
    return (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
}

inline u64 load_u64(const u8* at) {
    u64 bytes;
    __builtin_memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

inline Shorts twin_weights(const i16* at) {
    i32 pair;
    __builtin_memcpy(&pair, at, sizeof pair);
    return reinterpret_cast<Shorts>(Ints{} + pair);
}

inline Ints rounded(Ints total, i64 bits) {
    total >>= i32(bits);
    return total < 255 ? total : Ints{} + 255;
}

// Two neighbouring pixels of STRIDE bytes, channel by channel: what a pair of taps multiplies.
template <i64 STRIDE>
inline Shorts8 pair_of(u64 bytes) {
    auto both = reinterpret_cast<Bytes16>(Longs2{bytes, 0});
    return reinterpret_cast<Shorts8>(
        STRIDE == 3 ? SEGPASTE_SHUFFLE(both, both, 0, 15, 3, 15, 1, 15, 4, 15, 2, 15, 5, 15, 15, 15, 15, 15)
                    : SEGPASTE_SHUFFLE(both, both, 0, 15, 4, 15, 1, 15, 5, 15, 2, 15, 6, 15, 3, 15, 7, 15));
}

// Each pixel next to its right neighbour; ``pairs`` are LINES apart. Nothing after the pixels is read, nor the last
// ``unused`` bytes of the last one.
template <i64 STRIDE>
inline void pair_pixels(const u8* pixels, i64 count, Shorts8* pairs, i64 unused = 0) {
    i64 k = 0, size = count * STRIDE - unused;
    for (; k * STRIDE + 8 <= size; ++k) pairs[k * LINES] = pair_of<STRIDE>(load_u64(pixels + k * STRIDE));
    for (; k < count; ++k) {
        u8 end[8] = {};
        for (i64 i = 0; i < size - k * STRIDE; ++i) end[i] = pixels[k * STRIDE + i];
        pairs[k * LINES] = pair_of<STRIDE>(load_u64(end));
    }
}

// Columns low to high - 1 of a line; ``room`` holds them as pixels of four bytes where they do not lie together.
inline void pair_line(const ImageJob& job, i64 y, i64 low, i64 high, u8* room, Shorts8* pairs) {
    const u8* line = job.in + y * job.line_stride + low * job.column_stride;
    i64 count = high - low, channels = job.num_channels;
    bool is_together = job.channel_stride == 1 && channels >= 3;
    if (is_together && job.column_stride == 3) return pair_pixels<3>(line, count, pairs);
    if (is_together && job.column_stride == 4) return pair_pixels<4>(line, count, pairs, 4 - channels);
    if (job.column_stride == 1 && channels == 3) {
        const u8 *red = line, *green = red + job.channel_stride, *blue = green + job.channel_stride;
        for (i64 k = 0; k < count; ++k) {
            room[PIXEL * k] = red[k], room[PIXEL * k + 1] = green[k], room[PIXEL * k + 2] = blue[k];
            room[PIXEL * k + 3] = 0;
        }
    } else {
        for (i64 c = 0; c < channels; ++c) {
            const u8* plane = line + c * job.channel_stride;
            for (i64 k = 0; k < count; ++k) room[PIXEL * k + c] = plane[k * job.column_stride];
        }
    }
    pair_pixels<PIXEL>(room, count, pairs);
}

// Numbers up to 255, four to a pixel, as bytes: a pixel for each line.
inline void store_pixels(Ints numbers, i64 at, u8* const* out) {
    Bytes16 parts[LINES];
    __builtin_memcpy(parts, &numbers, sizeof parts);
    for (i64 n = 0; n < LINES; ++n) {
        Bytes16 low = SEGPASTE_SHUFFLE(parts[n], parts[n], 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
        i32 pixel = reinterpret_cast<Ints4>(low)[0];
        __builtin_memcpy(out[n] + PIXEL * at, &pixel, sizeof pixel);
    }
}

// LINES lines along the row, from the pairs of all of them, which start at column ``low``; ``out`` has a line for each.
// COUNT is the number of taps where it is known, else 0.
template <i64 COUNT>
inline void filter_lines(const Filter& filter, i64 inside, i64 low, const Shorts* pairs, u8* const* out) {
    const i64 count = COUNT ? COUNT : filter.count, bits = filter.bits;
    i32 half = i32(1) << (bits - 1);
    for (i64 i = 0; i < inside; ++i) {
        const Shorts* at = pairs + (filter.first[i] - low);
        const i16* weight = filter.weight + i * count;
        Ints total = Ints{} + half;
        for (i64 t = 0; t < count; t += 2) total += sum_pairs(at[t], twin_weights(weight + t));
        store_pixels(rounded(total, bits), i, out);
    }
}

// Sixteen bytes of two lines side by side, as numbers: what a pair of taps down the columns multiplies.
inline void pair_lines(const u8* one, const u8* other, Shorts* pairs) {
    Bytes16 a, b;
    __builtin_memcpy(&a, one, sizeof a);
    __builtin_memcpy(&b, other, sizeof b);
    Bytes16 low = SEGPASTE_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    Bytes16 high = SEGPASTE_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#if defined(__AVX2__)
    pairs[0] = __builtin_convertvector(low, Shorts);
    pairs[1] = __builtin_convertvector(high, Shorts);
#else
    Bytes16 zero = {}, halves[2] = {low, high};
    for (i64 k = 0; k < 2; ++k) {
        Bytes16 h = halves[k];
        pairs[2 * k] = reinterpret_cast<Shorts>(
            SEGPASTE_SHUFFLE(h, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
        pairs[2 * k + 1] = reinterpret_cast<Shorts>(
            SEGPASTE_SHUFFLE(h, zero, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
    }
#endif
}

constexpr i64 BLOCK = 4 * LINES;  // pixels that the columns are filtered for at once

// A block of pixels whose first ones are the lanes of ``parts[0]``: its bytes, channel after channel.
inline void part_channels(const Ints* parts, i64 stride, u8* out) {
    Ints together = parts[0] | parts[1] << 8 | parts[2] << 16 | parts[3] << 24;
#if defined(__AVX2__)
    Bytes16 even, odd;
    __builtin_memcpy(&even, &together, sizeof even);
    __builtin_memcpy(&odd, reinterpret_cast<const u8*>(&together) + sizeof even, sizeof odd);
    Bytes16 halves[2] = {SEGPASTE_SHUFFLE(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                         SEGPASTE_SHUFFLE(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#else
    Ints halves[1] = {together};
#endif
    for (i64 c = 0; c < PIXEL; ++c) {
        __builtin_memcpy(out + c * stride, reinterpret_cast<const u8*>(halves) + c * BLOCK, BLOCK);
    }
}

// A line down the columns, of ``count`` lines, an even number; pixels of four bytes in, four planes ``stride`` apart out.
inline void filter_columns(const u8* const* lines, const i16* weight, i64 count, i64 bits, i64 num_pixels, i64 stride,
                           u8* out) {
    i32 half = i32(1) << (bits - 1);
    for (i64 i = 0; i < num_pixels; i += BLOCK) {
        Ints totals[4];
        for (auto& total : totals) total = Ints{} + half;
        for (i64 t = 0; t < count; t += 2) {
            const u8 *one = lines[t] + PIXEL * i, *other = lines[t + 1] + PIXEL * i;
            Shorts pair = twin_weights(weight + t);
            Shorts pairs[4];
            for (i64 k = 0; k < LINES; ++k) pair_lines(one + 16 * k, other + 16 * k, pairs + 4 / LINES * k);
            for (i64 k = 0; k < 4; ++k) totals[k] += sum_pairs(pairs[k], pair);
        }
        for (auto& total : totals) total = rounded(total, bits);
        part_channels(totals, stride, out + i);
    }
}

inline void pad_planes(const Window& window, i64 num_planes, i64 fill, u8* out) {
    for (i64 n = 0; n < num_planes; ++n, out += window.out_height * window.out_width) {
        i64 beside = window.out_width - window.inside_width;
        for (i64 y = 0; beside && y < window.inside_height; ++y) {
            memset(out + y * window.out_width + window.inside_width, int(fill), size_t(beside));
        }
        i64 below = window.out_height - window.inside_height;
        memset(out + window.inside_height * window.out_width, int(fill), size_t(below * window.out_width));
    }
}

// Ring buffer of the lines that the columns read, filtered along the row at first use, LINES at once.
struct Lines {
    const ImageJob& job;
    const Filter& filter;
    i64 low, high;  // the columns of the source that the window reads
    i64 count, size, next;
    u8 *ring, *room;
    Shorts* pairs;

    u8* place(i64 y) const { return ring + y % count * size; }

    const u8* at(i64 y) {
        for (; next <= y; next += LINES) {
            u8* places[LINES];
            for (i64 n = 0; n < LINES; ++n) {
                i64 line = least(next + n, job.window.height - 1);
                places[n] = place(next + n);
                pair_line(job, line, low, high, room, reinterpret_cast<Shorts8*>(pairs) + n);
            }
            auto run = filter.count == 2 ? filter_lines<2> : filter.count == 4 ? filter_lines<4> : filter_lines<0>;
            run(filter, job.window.inside_width, low, pairs, places);
        }
        return place(y);
    }
};

// Memory for the lines of a job; ``pairs`` is null if there is none.
inline Lines take_lines(Arena& arena, const ImageJob& job, const Filter& along, const Filter& down, i64 size) {
    i64 low = job.window.width, high = 0, count = down.count + LINES;
    for (i64 i = 0; i < job.window.inside_width; ++i) {
        low = least(low, i64(along.first[i]));
        high = most(high, least(i64(along.first[i]) + along.count, job.window.width));
    }
    i64 width = high - low;
    Lines lines = {job, along, low, high, count, size, down.first[0], take<u8>(arena, count * size),
                   take<u8>(arena, PIXEL * width), take<Shorts>(arena, width + along.count)};
    if (arena.failed) return lines;
    memset(lines.room, 0, size_t(PIXEL * width));
    memset(lines.pairs + width, 0, size_t(along.count) * sizeof(Shorts));
    return lines;
}

// Returns 1 if there is no memory.
inline i64 read_image(const ImageJob& job, Arena& arena) {
    const Window& window = job.window;
    i64 inside = window.inside_width, rounded_up = (inside + BLOCK - 1) / BLOCK * BLOCK;
    Filter along = make_filter(arena, columns_of(window)), down = make_filter(arena, rows_of(window));
    if (arena.failed) return 1;
    Lines lines = take_lines(arena, job, along, down, PIXEL * rounded_up);
    auto used = take<const u8*>(arena, down.count);
    auto planes = take<u8>(arena, PIXEL * rounded_up);
    if (arena.failed) return 1;
    for (i64 y = 0; y < window.inside_height; ++y) {
        for (i64 t = 0; t < down.count; ++t) {
            used[t] = lines.at(least(i64(down.first[y]) + t, window.height - 1));
        }
        filter_columns(used, down.weight + y * down.count, down.count, down.bits, inside, rounded_up, planes);
        for (i64 c = 0; c < job.num_channels; ++c) {
            memcpy(job.out + (c * window.out_height + y) * window.out_width, planes + c * rounded_up, size_t(inside));
        }
    }
    pad_planes(window, job.num_channels, job.fill, job.out);
    return 0;
}

}  // namespace SEGPASTE_NAMESPACE::reading
