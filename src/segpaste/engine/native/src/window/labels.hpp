// Masks and label maps read through a window: only the nearest source pixel of every output pixel.

#pragma once

#include "window/resize.hpp"

namespace SEGPASTE_NAMESPACE::reading {

// Area and box of what a plane shows; five words as Python has them.
struct Shown {
    i64 area, x1, y1, x2, y2;

    static Shown nothing(const Window& window) { return {0, window.out_width, window.out_height, 0, 0}; }

    void add(i64 pixels, i64 left, i64 top, i64 right, i64 bottom) {
        area += pixels;
        x1 = least(x1, left), y1 = least(y1, top), x2 = most(x2, right), y2 = most(y2, bottom);
    }

    void store(i64* words) const {
        const i64 found[5] = {area, x1, y1, x2, y2};
        for (i64 i = 0; i < 5; ++i) words[i] = area ? found[i] : 0;
    }
};

inline bool is_blank(const u8* line, i64 size) {
    u64 found = 0;
    i64 i = 0;
    for (; i + 64 <= size && !found; i += 64) {
        for (i64 k = 0; k < 64; k += 8) found |= load_u64(line + i + k);
    }
    for (; i < size; ++i) found |= line[i];
    return found == 0;
}

// A line of a plane of bytes, added to its shown.
inline void measure_line(const u8* line, i64 y, i64 inside, Shown& shown) {
    i64 area = 0, left = 0, right = inside;
    for (i64 x = 0; x < inside; ++x) area += line[x] != 0;
    if (area == 0) return;
    while (line[left] == 0) ++left;
    while (line[right - 1] == 0) --right;
    shown.add(area, left, y, right, y + 1);
}

// A plane whose pixels are of type T.
template <class T>
void read_plane(const Window& window, const T* in, const i32* columns, T fill, T* out, Shown& shown) {
    Span rows = rows_of(window);
    i64 inside = window.inside_width, before = -1;
    bool blank = false;
    Shown line = Shown::nothing(window);
    for (i64 y = 0; y < window.out_height; ++y, out += window.out_width) {
        if (y >= window.inside_height) {
            for (i64 x = 0; x < window.out_width; ++x) out[x] = fill;
            continue;
        }
        i64 row = rows.nearest(rows.first + y);
        const T* source = in + row * window.width;
        if (row == before) {
            memcpy(out, out - window.out_width, size_t(window.out_width) * sizeof(T));
        } else {
            blank = sizeof(T) == 1 && is_blank(reinterpret_cast<const u8*>(source), window.width);
            if (blank) {
                memset(out, 0, size_t(inside));
            } else {
                for (i64 x = 0; x < inside; ++x) out[x] = source[columns[x]];
            }
            for (i64 x = inside; x < window.out_width; ++x) out[x] = fill;
            line = Shown::nothing(window);
            if (sizeof(T) == 1 && !blank) measure_line(reinterpret_cast<const u8*>(out), y, inside, line);
        }
        if (line.area) shown.add(line.area, line.x1, y, line.x2, y + 1);
        before = row;
    }
}

// Returns 1 if there is no memory.
inline i64 read_planes(const PlanesJob& job, Arena& arena) {
    const Window& window = job.window;
    Span span = columns_of(window);
    auto columns = take<i32>(arena, span.inside);
    if (arena.failed) return 1;
    for (i64 i = 0; i < span.inside; ++i) columns[i] = i32(span.nearest(span.unflipped(i)));
    for (i64 n = 0; n < job.num_planes; ++n) {
        Shown shown = Shown::nothing(window);
        const u8* in = job.in + n * window.height * window.width * job.pixel_size;
        u8* out = job.out + n * window.out_height * window.out_width * job.pixel_size;
        if (job.pixel_size == 1) {
            read_plane(window, in, columns, u8(job.fill), out, shown);
        } else {
            read_plane(window, reinterpret_cast<const i64*>(in), columns, job.fill, reinterpret_cast<i64*>(out), shown);
        }
        if (job.measures) shown.store(job.measures + 5 * n);
    }
    return 0;
}

}  // namespace SEGPASTE_NAMESPACE::reading
