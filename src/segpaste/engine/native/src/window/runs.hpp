// Run lengths of COCO rasterised directly into an output, without a mask of the size of the picture.
//
// Runs go down the columns of the source, background first. A column of the output reads only the runs of the source
// column that it shows: each edge of a run toggles the pixel at its place, and a pass down the rows accumulates the
// toggles.

#pragma once

#include "window/labels.hpp"

namespace SEGPASTE_NAMESPACE::reading {

constexpr i64 MOST_CHARACTERS = 6;  // of one number

// The numbers in compressed text, or -1 where it breaks off or has other characters: 5 bits a character and one that
// says that the number goes on, lowest first; from the fourth number on the difference to the number two before.
inline i64 decode_text(const u8* text, i64 size, i64* numbers) {
    i64 count = 0, value = 0, used = 0;
    for (i64 i = 0; i < size; ++i) {
        i64 code = i64(text[i]) - 48;
        if (code < 0 || code > 63 || used == MOST_CHARACTERS) return -1;
        value |= (code & 31) << (5 * used++);
        if (code & 32) continue;
        if (code & 16) value -= i64(1) << (5 * used);
        numbers[count] = value + (count > 2 ? numbers[count - 2] : 0);
        ++count;
        value = used = 0;
    }
    return used ? -1 : count;
}

// Whether the runs fill a picture of so many pixels; the area of the foreground.
inline bool fill_picture(const i64* runs, i64 count, i64 num_pixels, i64& area) {
    i64 total = 0;
    area = 0;
    for (i64 i = 0; i < count; ++i) {
        if (runs[i] < 0 || runs[i] > num_pixels - total) return false;
        total += runs[i];
        area += i & 1 ? runs[i] : 0;
    }
    return total == num_pixels;
}

// How many pixels of the window, before any flip, lie before each source pixel; [size + 1].
inline i32* count_before(Arena& arena, const Span& span) {
    auto before = take<i32>(arena, span.size + 1);
    if (arena.failed) return nullptr;
    i64 first = span.flip ? span.resized - span.first - span.inside : span.first, reached = 0;
    for (i64 i = 0; i < span.inside; ++i) {
        for (i64 source = span.nearest(first + i); reached <= source; ++reached) before[reached] = i32(i);
    }
    for (; reached <= span.size; ++reached) before[reached] = i32(span.inside);
    return before;
}

// Calls ``visit`` with output columns and rows (x1, x2, y1, y2), before any flip, of every piece of a run in one column.
template <class Visit>
inline void visit_pieces(const i64* runs, i64 count, i64 height, const i32* columns, const i32* rows, Visit visit) {
    i64 x = 0, y = 0;
    for (i64 i = 0; i < count; ++i) {
        i64 left = runs[i];
        if (!(i & 1)) {
            y += left;
            if (y >= height) x += y / height, y %= height;
            continue;
        }
        while (left > 0) {
            i64 end = least(y + left, height);
            if (columns[x] < columns[x + 1] && rows[y] < rows[end]) visit(columns[x], columns[x + 1], rows[y], rows[end]);
            left -= end - y;
            y = end;
            if (y == height) y = 0, ++x;
        }
    }
}

// Returns 1 if there is no memory, 2 if the runs do not fit the picture.
inline i64 read_runs(const RunsJob& job, Arena& arena) {
    const Window& window = job.window;
    auto runs = static_cast<const i64*>(job.counts);
    i64 count = job.num_counts, num_pixels = window.height * window.width;
    if (job.is_text) {
        auto numbers = take<i64>(arena, count);
        if (arena.failed) return 1;
        count = decode_text(static_cast<const u8*>(job.counts), count, numbers);
        runs = numbers;
    }
    if (count < 0 || !fill_picture(runs, count, num_pixels, job.measures[0])) return 2;
    const i32 *columns = count_before(arena, columns_of(window)), *rows = count_before(arena, rows_of(window));
    if (arena.failed) return 1;
    Shown shown = Shown::nothing(window);
    i64 inside = window.inside_width, line = window.out_width;
    visit_pieces(runs, count, window.height, columns, rows, [&](i64 x1, i64 x2, i64 y1, i64 y2) {
        bool flip = window.flip != 0;
        shown.add((x2 - x1) * (y2 - y1), flip ? inside - x2 : x1, y1, flip ? inside - x1 : x2, y2);
    });
    shown.store(job.measures + 1);
    if (!job.out || !shown.area) return 0;
    visit_pieces(runs, count, window.height, columns, rows, [&](i64 x1, i64 x2, i64 y1, i64 y2) {
        for (i64 i = x1; i < x2; ++i) {
            u8* column = job.out + (window.flip ? inside - 1 - i : i);
            column[y1 * line] ^= 1;
            if (y2 < shown.y2) column[y2 * line] ^= 1;
        }
    });
    for (i64 y = shown.y1 + 1; y < shown.y2; ++y) {
        u8* row = job.out + y * line;
        const u8* above = row - line;
        for (i64 x = shown.x1; x < shown.x2; ++x) row[x] ^= above[x];
    }
    return 0;
}

}  // namespace SEGPASTE_NAMESPACE::reading
