// Visibility: loops over boxes, not over the canvas.
//
// The carried masks of a row are first mapped to the canvas of the target. Each paste in turn then offers its pixels;
// the target, the source, priorities and depth remove pixels from the offer, and the remaining ones are visible.

#pragma once

#include "base/fetch.hpp"
#include "paste/surfaces.hpp"
#include "scene/fragment.hpp"

namespace SEGPASTE_NAMESPACE {

// The visible layer within a box of the canvas, ``reach``; outside of it the target is visible.
struct Seen {
    Box reach;
    i16* layer;  // [h, w] of the box, -1 for the target
    i16* owner;  // [h, w], the source slot of the layer; null if no field needs it

    i64 at(i64 y, i64 x) const { return (y - reach.y1) * reach.width() + x - reach.x1; }
};

// Pixels of the target that must not be hidden.
struct Guards {
    const u8* classes;  // [num_classes], or null
    i64 num_classes;
    const u8* pixels;   // [h, w] of the reach, or null
};

// Memory for one row, reused by every resolve.
struct Room {
    u8* offered;    // [largest box]
    u8 *flags, *taken;  // [the wider of source and canvas]
    f32* behind;    // [h, w] of the reach: depth of the visible layer so far, or null
    u8* behind_ok;  // likewise, whether there is one
    i16* front;     // likewise, its priority, or null
};

// The bytes of a line of ``width`` at ``size`` columns of it, 0 where a column is -1; up to WIDE - 1 more are written.
inline void take_columns(const u8* line, i64 width, const i32* columns, i64 size, u8* out) {
    for (i64 i = 0; i < size; i += WIDE) {
        i32 first = columns[i], last = columns[i + WIDE - 1];  // the columns between them lie between them
        if (PERMUTES && least(first, last) >= 0) {
            i32 start = stretch(least(first, last), most(first, last), width);
            Places places = {reinterpret_cast<const u32*>(columns + i), start};
            store(out + i, narrowed(places.read(line)));
            continue;
        }
        for (i64 n = i; n < least(i + WIDE, size); ++n) out[n] = columns[n] < 0 ? 0 : line[columns[n]];
    }
}

// The mask of a paste with swapped axes, read column by column.
inline void cut_out_swapped(const Paste& paste, const Layer& layer, const Picture<const u8>& mask) {
    const Box& box = paste.box;
    const i32 *lines = layer.x.nearest - layer.x.first, *columns = layer.y.nearest - layer.y.first;
    u8* cut = paste.cut;
    for (i64 y = box.y1; y < box.y2; ++y) {
        for (i64 x = box.x1; x < box.x2; ++x) *cut++ = lines[x] < 0 || columns[y] < 0 ? 0 : mask.at(lines[x])[columns[y]];
    }
}

inline void cut_out(const Paste& paste, const Layer& layer, const Planes& source) {
    Picture<const u8> mask = {static_cast<const u8*>(source.masks.data) + layer.source * source.masks.stride[0] +
                                  paste.slot * source.masks.stride[1],
                              source.masks.stride[2]};
    if (layer.swap_axes) return cut_out_swapped(paste, layer, mask);
    const Box& box = paste.box;
    i64 width = box.width(), at = box.x1 - layer.x.first, low, high;
    layer.x.find_reach(at, at + width - 1, low, high);
    const i32 *columns = layer.x.nearest + at, *rows = layer.y.nearest - layer.y.first;
    u8* cut = paste.cut;
    i64 before = -1;
    for (i64 y = box.y1; y < box.y2; ++y, cut += width) {
        i64 row = rows[y];
        if (y + AHEAD < box.y2) fetch(mask.at(most(rows[y + AHEAD], 0)) + low, high + 1 - low);
        if (row < 0) {
            memset(cut, 0, size_t(width));
        } else if (row == before) {  // an enlarged source repeats its rows
            memcpy(cut, cut - width, size_t(width));
        } else {
            take_columns(mask.at(row), layer.width, columns, width, cut);
        }
        before = row;
    }
}

// Keep the offer where the target may be pasted over: no padding, no void that stays, nothing that is guarded.
inline void withdraw_closed(const ComposeJob& job, i64 b, const Seen& seen, const Guards& guards, const Box& box, u8* offered) {
    Picture<const u8> padding = picture<const u8>(job.target.padding, b);
    Picture<const i64> semantic = picture<const i64>(job.target.semantic, b);
    i64 width = box.width();
    for (i64 y = box.y1; y < box.y2; ++y, offered += width) {
        if (padding.data) {
            const u8* line = padding.at(y) + box.x1;
            for (i64 i = 0; i < width; ++i) offered[i] &= line[i] ^ 1;
        }
        if (guards.pixels) {
            const u8* line = guards.pixels + seen.at(y, box.x1);
            for (i64 i = 0; i < width; ++i) offered[i] &= line[i] ^ 1;
        }
        if (!semantic.data) continue;
        const i64* line = semantic.at(y) + box.x1;
        if (y + AHEAD < box.y2) fetch(line + AHEAD * semantic.line, width);
        for (i64 i = 0; !job.covers_void && i < width; ++i) offered[i] &= line[i] != job.ignore_index;
        if (!guards.classes) continue;
        for (i64 i = 0; i < width; ++i) {
            if (line[i] >= 0 && line[i] < guards.num_classes && guards.classes[line[i]]) offered[i] = 0;
        }
    }
}

// Keep the offer where the source is neither padding nor ignored. ``flags`` [width of the source's lines + WIDE] and ``taken`` [width of
// the box + WIDE] are overwritten.
inline void withdraw_hidden(const ComposeJob& job, const Layer& layer, const Box& box, u8* flags, u8* taken, u8* offered) {
    Picture<const u8> padding = picture<const u8>(layer.planes->padding, layer.source);
    Picture<const i64> semantic = picture<const i64>(layer.planes->semantic, layer.source);
    i64 width = box.width(), at = box.x1 - layer.x.first, low, high, before = -1;
    layer.x.find_reach(at, at + width - 1, low, high);
    const i32 *columns = layer.x.nearest + at, *rows = layer.y.nearest - layer.y.first;
    for (i64 y = box.y1; y < box.y2; ++y, offered += width) {
        i64 row = most(rows[y], 0);
        const i64* label = semantic.data ? semantic.at(row) : nullptr;
        if (label && y + AHEAD < box.y2) fetch(semantic.at(most(rows[y + AHEAD], 0)) + low, high + 1 - low);
        if (row != before) {  // an enlarged source repeats its rows
            for (i64 x = low; x <= high; ++x) flags[x] = !(padding.data && padding.at(row)[x]);
            for (i64 x = low; label && x <= high; ++x) flags[x] &= label[x] != job.ignore_index;
            for (i64 x = low; layer.classes && x <= high; ++x) flags[x] &= in_table(layer.classes, job.num_mixed, label[x]);
            take_columns(flags, layer.width, columns, width, taken);
        }
        for (i64 i = 0; i < width; ++i) offered[i] &= taken[i];
        before = row;
    }
}

inline void withdraw_outranked(const Seen& seen, const i16* front, i16 rank, const Box& box, u8* offered) {
    i64 width = box.width();
    for (i64 y = box.y1; y < box.y2; ++y, offered += width) {
        const i16* line = front + seen.at(y, box.x1);
        for (i64 i = 0; i < width; ++i) offered[i] &= rank >= line[i];
    }
}

inline void raise_ranks(const Seen& seen, i16* front, i16 rank, const Box& box, const u8* offered) {
    i64 width = box.width();
    for (i64 y = box.y1; y < box.y2; ++y, offered += width) {
        i16* line = front + seen.at(y, box.x1);
        for (i64 i = 0; i < width; ++i) line[i] = offered[i] ? rank : line[i];
    }
}

// Keep the offer where it is nearer than what is seen so far, or that has no depth; remember the new depth.
inline void withdraw_farther(const Seen& seen, const Room& room, const Paste& paste, u8* offered) {
    const Box& box = paste.box;
    i64 width = box.width();
    const f32* depth = paste.depth;
    const u8* ok = paste.depth_ok;
    for (i64 y = box.y1; y < box.y2; ++y, offered += width, depth += width, ok += width) {
        i64 at = seen.at(y, box.x1);
        for (i64 i = 0; i < width; ++i) {
            if (!offered[i] || seen.layer[at + i] == paste.layer) continue;
            if (room.behind_ok[at + i] && !(ok[i] && depth[i] < room.behind[at + i])) {
                offered[i] = 0;
            } else {
                room.behind[at + i] = depth[i];
                room.behind_ok[at + i] = ok[i];
            }
        }
    }
}

// Keep the offer where it is nearer than the target, or that has no depth: all that a single layer needs.
inline void withdraw_behind(const ComposeJob& job, i64 b, const Paste& paste, u8* offered) {
    const Box& box = paste.box;
    i64 width = box.width();
    const f32* depth = paste.depth;
    const u8* ok = paste.depth_ok;
    u8 any = job.orders_by_value != 0;
    Picture<const f32> target = picture<const f32>(job.target.depth, b);
    Picture<const u8> target_valid = picture<const u8>(job.target.depth_valid, b);
    for (i64 y = box.y1; y < box.y2; ++y, offered += width, depth += width, ok += width) {
        const f32* theirs = target.at(y) + box.x1;
        const u8* valid = target_valid.at(y) + box.x1;
        if (y + AHEAD < box.y2) fetch(theirs + AHEAD * target.line, width), fetch(valid + AHEAD * target_valid.line, width);
        for (i64 i = 0; i < width; ++i) {
            bool is_there = ((valid[i] | any) != 0) & (theirs[i] > 0) & (theirs[i] < INFINITE);
            bool is_nearer = (ok[i] != 0) & (depth[i] < theirs[i]);
            offered[i] &= is_nearer | !is_there;
        }
    }
}

inline void see(const Seen& seen, const Paste& paste, const u8* offered) {
    const Box& box = paste.box;
    i64 width = box.width();
    i16 layer = i16(paste.layer), slot = i16(paste.slot);
    for (i64 y = box.y1; y < box.y2; ++y, offered += width) {
        i16* line = seen.layer + seen.at(y, box.x1);
        for (i64 i = 0; i < width; ++i) line[i] = offered[i] ? layer : line[i];
        if (!seen.owner) continue;
        i16* owners = seen.owner + seen.at(y, box.x1);
        for (i64 i = 0; i < width; ++i) owners[i] = offered[i] ? slot : owners[i];
    }
}

// Depth of the target where it decides what is nearer, to be written over by layers.
inline void start_depth(const ComposeJob& job, i64 b, const Seen& seen, const Room& room) {
    const Box& reach = seen.reach;
    u8 any = job.orders_by_value != 0;
    for (i64 y = reach.y1; y < reach.y2; ++y) {
        const f32* depth = picture<const f32>(job.target.depth, b).at(y) + reach.x1;
        const u8* valid = picture<const u8>(job.target.depth_valid, b).at(y) + reach.x1;
        i64 at = seen.at(y, reach.x1);
        for (i64 i = 0; i < reach.width(); ++i) {
            room.behind[at + i] = depth[i];
            room.behind_ok[at + i] = (valid[i] | any) && is_finite(depth[i]) && depth[i] > 0;
        }
    }
}

// Priorities of what the target shows, to be written over by layers; 0 for classes that are not known.
inline void start_ranks(const ComposeJob& job, i64 b, const Seen& seen, const Room& room) {
    const Box& reach = seen.reach;
    Picture<const i64> semantic = picture<const i64>(job.target.semantic, b);
    for (i64 y = reach.y1; y < reach.y2; ++y) {
        i64 at = seen.at(y, reach.x1);
        const i64* line = semantic.data ? semantic.at(y) + reach.x1 : nullptr;
        for (i64 i = 0; i < reach.width(); ++i) {
            bool is_known = line && line[i] >= 0 && line[i] < job.num_ranks;
            room.front[at + i] = is_known ? job.rank[line[i]] : i16(0);
        }
    }
}

// The label of a slot of the source; 0 for a fragment.
inline i64 label_of(const ComposeJob& job, const Layer& layer, i64 slot) {
    i64 num_slots = job.num_source_slots - job.has_fragment;
    return slot < num_slots ? job.source_rows.labels[layer.source * num_slots + slot] : 0;
}

inline i16 rank_of(const ComposeJob& job, i64 label) {
    return label >= 0 && label < job.num_ranks ? job.rank[label] : i16(0);
}

// Resolve the visible pixels of the carried pastes; ``pastes`` are ordered by layer, and by slot within a layer.
inline void resolve(const ComposeJob& job, i64 b, const Layer* layers, Paste* pastes, i64 num_pastes, const Guards& guards,
                    const Room& room, const Seen& seen) {
    i64 area = seen.reach.size();
    for (i64 i = 0; i < area; ++i) seen.layer[i] = -1;
    for (i64 i = 0; seen.owner && i < area; ++i) seen.owner[i] = -1;
    bool has_depth = job.target.depth.data && job.source.depth.data;
    bool has_closed = job.target.semantic.data || job.target.padding.data || guards.pixels;
    bool has_hidden = job.source.semantic.data || job.source.padding.data;
    if (room.behind) start_depth(job, b, seen, room);
    if (room.front) start_ranks(job, b, seen, room);
    for (i64 end = 0, first = 0; first < num_pastes; first = end) {
        while (end < num_pastes && pastes[end].layer == pastes[first].layer) ++end;
        const Layer& layer = layers[pastes[first].layer];
        for (i64 n = end - 1; n >= first; --n) {  // the lowest slot last: it owns the pixel
            Paste& paste = pastes[n];
            if (!paste.is_carried || paste.box.is_empty()) continue;
            if (!(has_depth || has_closed || has_hidden || room.front)) {
                see(seen, paste, paste.cut);
                continue;
            }
            i16 rank = room.front ? rank_of(job, label_of(job, layer, paste.slot)) : i16(0);
            memcpy(room.offered, paste.cut, size_t(paste.box.size()));
            if (has_closed) withdraw_closed(job, b, seen, guards, paste.box, room.offered);
            if (has_hidden) withdraw_hidden(job, layer, paste.box, room.flags, room.taken, room.offered);
            if (room.front) withdraw_outranked(seen, room.front, rank, paste.box, room.offered);
            if (has_depth) {
                read_depth(layer, *layer.planes, paste.box, room.offered, job.orders_by_value != 0, paste.depth, paste.depth_ok);
                if (room.behind) {
                    withdraw_farther(seen, room, paste, room.offered);
                } else {
                    withdraw_behind(job, b, paste, room.offered);
                }
            }
            if (room.front) raise_ranks(seen, room.front, rank, paste.box, room.offered);
            see(seen, paste, room.offered);
        }
    }
}

}  // namespace SEGPASTE_NAMESPACE
