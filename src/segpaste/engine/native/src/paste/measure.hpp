// Areas and boxes of visible pixels.

#pragma once

#include "paste/visibility.hpp"

namespace SEGPASTE_NAMESPACE {

// The first and one past the last index of a line that ``holds``, both ``size`` and 0 where there is none.
template <class F>
inline void find_ends(i64 size, F holds, i64& first, i64& end) {
    i64 i = 0;
    while (i < first && i < size && !holds(i)) ++i;
    first = least(first, i);
    i = size;
    while (i > end && !holds(i - 1)) --i;
    end = most(end, i);
}

// The number of pixels of a mask that layers hide.
inline i64 count_hidden(const Picture<const u8>& mask, const Box& box, const Seen& seen) {
    Box near = common(box, seen.reach);
    i64 hidden = 0;
    for (i64 y = near.y1; y < near.y2; ++y) {
        const u8* line = mask.at(y) + near.x1;
        if (y + AHEAD < near.y2) fetch(mask.at(y + AHEAD) + near.x1, near.width());
        const i16* layer = seen.layer + seen.at(y, near.x1);
        for (i64 i = 0; i < near.width(); ++i) hidden += line[i] & (layer[i] >= 0);
    }
    return hidden;
}

// The pixels of a mask in its box; counting ends as soon as there are ``enough``.
inline i64 count_pixels(const Picture<const u8>& mask, const Box& box, i64 enough) {
    i64 total = 0;
    for (i64 y = box.y1; y < box.y2 && total < enough; ++y) {
        if (y + AHEAD < box.y2) fetch(mask.at(y + AHEAD) + box.x1, box.width());
        total += count(mask.at(y) + box.x1, box.width());
    }
    return total;
}

// The box around the pixels that ``holds(y, i)``, i from the left edge of ``box``; zero where there is none.
template <class F>
inline Box enclosing(const Box& box, F holds) {
    i64 width = box.width(), top = box.y1, bottom = box.y2, first = width, end = 0;
    auto has_any = [&](i64 y) {
        for (i64 i = 0; i < width; ++i) {
            if (holds(y, i)) return true;
        }
        return false;
    };
    while (top < bottom && !has_any(top)) ++top;
    while (top < bottom && !has_any(bottom - 1)) --bottom;
    if (top == bottom) return {0, 0, 0, 0};
    auto widen = [&](i64 y) { find_ends(width, [&](i64 i) { return holds(y, i); }, first, end); };
    widen((top + bottom) / 2);  // mostly the widest line, after which there is nothing left to find
    for (i64 y = top; y < bottom && !(first == 0 && end == width); ++y) widen(y);
    return {box.x1 + first, top, box.x1 + end, bottom};
}

// The box of the visible part of a mask of which ``hidden`` pixels are hidden.
inline Box visible_box(const Picture<const u8>& mask, const Box& box, const Seen& seen, i64 hidden) {
    if (hidden == 0) return enclosing(box, [&](i64 y, i64 i) { return mask.at(y)[box.x1 + i] != 0; });
    const Box& reach = seen.reach;
    return enclosing(box, [&](i64 y, i64 i) {
        i64 x = box.x1 + i;
        if (!mask.at(y)[x]) return false;
        bool is_near = x >= reach.x1 && x < reach.x2 && y >= reach.y1 && y < reach.y2;
        return !(is_near && seen.layer[seen.at(y, x)] >= 0);
    });
}

// The visible area of a paste and its box; with owners each pixel belongs to its owner only.
inline void measure_paste(Paste& paste, const Seen& seen, bool exclusive) {
    const Box& box = paste.box;
    i64 width = box.width(), first = width, end = 0, top = box.y2, bottom = 0;
    paste.area = 0;
    paste.shown = {0, 0, 0, 0};
    if (box.is_empty()) return;
    i16 j = i16(paste.layer), k = i16(paste.slot);
    const u8* cut = paste.cut;
    for (i64 y = box.y1; y < box.y2; ++y, cut += width) {
        const i16* layer = seen.layer + seen.at(y, box.x1);
        const i16* owner = exclusive ? seen.owner + seen.at(y, box.x1) : nullptr;
        i64 num_shown = 0;
        if (owner) {
            for (i64 i = 0; i < width; ++i) num_shown += (layer[i] == j) & (owner[i] == k);
        } else {
            for (i64 i = 0; i < width; ++i) num_shown += (layer[i] == j) & cut[i];
        }
        if (num_shown == 0) continue;
        paste.area += num_shown;
        top = least(top, y);
        bottom = y + 1;
        auto is_shown = [&](i64 i) { return layer[i] == j && (owner ? owner[i] == k : cut[i] != 0); };
        find_ends(width, is_shown, first, end);
    }
    if (paste.area > 0) paste.shown = {box.x1 + first, top, box.x1 + end, bottom};
}

// The end of the run of equal labels that begins at x.
inline i64 end_of_run(const i64* line, i64 x, i64 width) {
    constexpr i64 STEP = 8;
    i64 label = line[x++];
    for (; x + STEP <= width; x += STEP) {
        i64 differences = 0;
        for (i64 i = 0; i < STEP; ++i) differences |= line[x + i] ^ label;
        if (differences) break;
    }
    while (x < width && line[x] == label) ++x;
    return x;
}

// Pixels of each watched semantic class in the target.
inline void count_classes(const ComposeJob& job, i64 b, i64* counts) {
    memset(counts, 0, size_t(job.num_stuff) * sizeof(i64));
    Picture<const i64> semantic = picture<const i64>(job.target.semantic, b);
    for (i64 y = 0; semantic.data && y < job.height; ++y) {
        const i64* line = semantic.at(y);
        for (i64 x = 0, end = 0; x < job.width; x = end) {  // run after run: neighbours are mostly alike
            end = end_of_run(line, x, job.width);
            if (line[x] >= 0 && line[x] < job.num_stuff) counts[line[x]] += end - x;
        }
    }
}

// The same without those that layers hide.
inline void count_seen_classes(const ComposeJob& job, i64 b, const Seen& seen, const i64* counts, i64* seen_counts) {
    memcpy(seen_counts, counts, size_t(job.num_stuff) * sizeof(i64));
    Picture<const i64> semantic = picture<const i64>(job.target.semantic, b);
    const Box& reach = seen.reach;
    for (i64 y = reach.y1; semantic.data && y < reach.y2; ++y) {
        const i64* line = semantic.at(y) + reach.x1;
        const i16* layer = seen.layer + seen.at(y, reach.x1);
        for (i64 i = 0; i < reach.width(); ++i) {
            if (layer[i] >= 0 && line[i] >= 0 && line[i] < job.num_stuff) seen_counts[line[i]] -= 1;
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
