// Pixels: what is pasted is read from the source strip after strip, then written over the target.
//
// A strip is a run of pixels in one line of one paste: those between the first and the last that are shown. Reading and
// writing are apart, so that a batch can be pasted into itself in place: everything is read before it is written over.

#pragma once

#include "base/fetch.hpp"
#include "base/stream.hpp"
#include "paste/colours.hpp"
#include "paste/measure.hpp"

namespace SEGPASTE_NAMESPACE {

// What was read of one strip; absent fields are null.
struct Strip {
    i64 y, first, end;
    const u8* shown;
    void* colours;  // [C, n]
    i64* semantic;
    f32* depth;
    u8* depth_ok;
    f32* normals;  // [3, room]

    i64 size() const { return end - first; }
    i64 room() const { return size() + WIDE - 1; }
};

// Room for the fields of a strip of ``size`` pixels.
inline Strip take_strip(const ComposeJob& job, Arena& arena, i64 size, i64 pixel_bytes) {
    Strip strip = {};
    strip.colours = take<u8>(arena, (size * job.num_channels + WIDE) * pixel_bytes);
    if (job.target.semantic.data) strip.semantic = take<i64>(arena, size);
    if (job.target.depth.data) strip.depth = take<f32>(arena, size), strip.depth_ok = take<u8>(arena, size);
    if (job.target.normals.data) strip.normals = take<f32>(arena, 3 * (size + WIDE - 1));
    return strip;
}

// Keep the visible pixels of a paste.
inline void keep_shown(const Paste& paste, const Seen& seen, bool exclusive) {
    const Box& box = paste.box;
    i64 width = box.width();
    i16 j = i16(paste.layer), k = i16(paste.slot);
    u8* cut = paste.cut;
    for (i64 y = box.y1; y < box.y2; ++y, cut += width) {
        const i16* layer = seen.layer + seen.at(y, box.x1);
        if (exclusive) {
            const i16* owner = seen.owner + seen.at(y, box.x1);
            for (i64 i = 0; i < width; ++i) cut[i] = (layer[i] == j) & (owner[i] == k);
        } else {
            for (i64 i = 0; i < width; ++i) cut[i] &= layer[i] == j;
        }
    }
}

// The semantic class of a paste whose source has no semantic map.
inline i64 class_of(const ComposeJob& job, i64 label) {
    return job.is_thing && label >= 0 && label < job.num_things && job.is_thing[label] ? label : job.ignore_index;
}

// Strips are fetched fewer lines ahead, for they have more fields.
constexpr i64 STRIPS_AHEAD = 2;

// Fetch what a later strip reads of the source and, if it ``is_written`` at once, what it writes over.
template <class T>
FETCHES void fetch_ahead(const ComposeJob& job, i64 b, const Layer& layer, const Paste& paste, const Stamp& stamp,
                         const Strip& strip, bool is_written) {
    i64 y = strip.y + STRIPS_AHEAD, first = strip.first, size = strip.size(), low, high;
    if (y >= paste.box.y2) return;
    layer.x.find_reach(first - layer.x.first, strip.end - 1 - layer.x.first, low, high);
    const Taps &filter = layer.y.filter, &linear = layer.y.linear;
    i64 line = y - layer.y.first, row = filter.row(filter.count - 1, line), count = high + 1 - low;
    Image<const T> from = image<const T>(layer.planes->images, layer.source);
    for (i64 c = 0; c < job.num_channels; ++c) fetch(from.at(c, row) + low * from.column, count * from.column);
    if (strip.normals && job.source.normals.data) {
        for (i64 c = 0; c < 3; ++c) {
            fetch(picture<const f32>(layer.planes->normals, layer.source, c).at(linear.row(1, line)) + low, count);
        }
    }
    if (!is_written) return;
    Image<T> to = image<T>(job.out.images, b);
    for (i64 c = 0; c < job.num_channels; ++c) fetch_to_write(to.at(c, y) + first * to.column, size * to.column);
    if (stamp.slot >= 0) fetch_to_write(picture<u8>(job.out.masks, b, stamp.slot).at(y) + first, size);
    if (strip.semantic) fetch_to_write(picture<i64>(job.out.semantic, b).at(y) + first, size);
    if (job.out.panoptic.data) fetch_to_write(picture<i64>(job.out.panoptic, b).at(y) + first, size);
    if (strip.depth) fetch_to_write(picture<f32>(job.out.depth, b).at(y) + first, size);
    for (i64 c = 0; strip.normals && c < 3; ++c) fetch_to_write(picture<f32>(job.out.normals, b, c).at(y) + first, size);
}

// Read every field under one strip of a paste.
template <class T>
inline void read_strip(const ComposeJob& job, const Layer& layer, const Paste& paste, const Seen& seen,
                       typename Sums<T>::Sum* room, Strip& strip) {
    i64 size = strip.size(), of = (strip.y - paste.box.y1) * paste.box.width() + strip.first - paste.box.x1;
    Image<const T> picture_of = image<const T>(layer.planes->images, layer.source);
    read_colours(picture_of, job.num_channels, layer.width, layer.x, layer.y, strip.y, strip.first, strip.end, room,
                 static_cast<T*>(strip.colours));
    if (strip.semantic && job.source.semantic.data) {
        i64 row = layer.y.nearest[strip.y - layer.y.first];
        const i64* line = picture<const i64>(layer.planes->semantic, layer.source).at(most(row, i64(0)));
        const i32* columns = layer.x.nearest + (strip.first - layer.x.first);
        for (i64 i = 0; i < size; ++i) strip.semantic[i] = row < 0 || columns[i] < 0 ? 0 : line[columns[i]];
    } else if (strip.semantic) {
        const i16* owner = seen.owner + seen.at(strip.y, strip.first);
        for (i64 i = 0; i < size; ++i) {
            strip.semantic[i] = class_of(job, label_of(job, layer, most(owner[i], i16(0))));
        }
    }
    if (strip.depth && paste.depth) {
        const f32* depth = paste.depth + of;
        const u8* state = paste.depth_ok + of;
        for (i64 i = 0; i < size; ++i) {
            strip.depth_ok[i] = state[i] == VALID_DEPTH;
            strip.depth[i] = state[i] == VALID_DEPTH ? depth[i] : 0.0f;
        }
    } else if (strip.depth) {
        memset(strip.depth, 0, size_t(size) * sizeof(f32));
        memset(strip.depth_ok, 0, size_t(size));
    }
    if (strip.normals && job.source.normals.data) {
        read_normals(layer, *layer.planes, strip.y, strip.first, strip.end, strip.room(), strip.normals);
    } else if (strip.normals) {
        memset(strip.normals, 0, size_t(3 * strip.room()) * sizeof(f32));
    }
}

// Write what is shown. The three do not overlap: told so, the compiler takes vectors; else it goes pixel by pixel.
template <class T>
inline void put(T* __restrict line, const u8* __restrict shown, const T* __restrict values, i64 size) {
    for (i64 i = 0; i < size; ++i) line[i] = shown[i] ? values[i] : line[i];
}

inline u64 load_eight(const u8* bytes) {
    u64 eight;
    __builtin_memcpy(&eight, bytes, 8);
    return eight;
}

// The same for bytes, eight in a word: most strips are too short for vectors of bytes.
inline void put(u8* line, const u8* shown, const u8* values, i64 size) {
    i64 i = 0;
    for (; i + 8 <= size; i += 8) {
        u64 old = load_eight(line + i);
        old ^= (old ^ load_eight(values + i)) & (load_eight(shown + i) * 0xff);
        __builtin_memcpy(line + i, &old, 8);
    }
    for (; i < size; ++i) line[i] = shown[i] ? values[i] : line[i];
}

// Take what is shown out of flags, each 0 or 1.
inline void clear_shown(u8* flags, const u8* shown, i64 size) {
    i64 i = 0;
    for (; i + 8 <= size; i += 8) {
        u64 old = load_eight(flags + i) & (load_eight(shown + i) ^ 0x0101010101010101u);
        __builtin_memcpy(flags + i, &old, 8);
    }
    for (; i < size; ++i) flags[i] &= shown[i] ^ 1;
}

template <class T>
inline void put_image(const Image<T>& out, const Strip& strip, i64 num_channels, const T* values) {
    i64 size = strip.size(), step = out.column;
    for (i64 c = 0; c < num_channels; ++c, values += size) {
        T* line = out.at(c, strip.y) + strip.first * step;
        if (step == 1) {
            put(line, strip.shown, values, size);
        } else {
            for (i64 i = 0; i < size; ++i) {
                if (strip.shown[i]) line[i * step] = values[i];
            }
        }
    }
}

// Write one strip over a row of the output.
template <class T>
inline void write_strip(const ComposeJob& job, i64 b, const Strip& strip, const Stamp& stamp, const Slot* slots,
                        const Box* target_boxes) {
    i64 size = strip.size(), y = strip.y;
    put_image(image<T>(job.out.images, b), strip, job.num_channels, static_cast<const T*>(strip.colours));
    if (stamp.slot >= 0) memcpy(picture<u8>(job.out.masks, b, stamp.slot).at(y) + strip.first, strip.shown, size_t(size));
    for (i64 k = 0; k < job.num_slots; ++k) {  // visible pixels of a paste leave the masks of survivors
        const Box& box = target_boxes[k];
        if (!slots[k].survives || y < box.y1 || y >= box.y2) continue;
        i64 first = most(strip.first, box.x1), end = least(strip.end, box.x2);
        clear_shown(picture<u8>(job.out.masks, b, k).at(y) + first, strip.shown + first - strip.first, end - first);
    }
    if (strip.semantic) put(picture<i64>(job.out.semantic, b).at(y) + strip.first, strip.shown, strip.semantic, size);
    if (job.out.panoptic.data) {
        i64* line = picture<i64>(job.out.panoptic, b).at(y) + strip.first;
        for (i64 i = 0; i < size; ++i) line[i] = strip.shown[i] ? stamp.id : line[i];
    }
    if (strip.depth) {
        put(picture<f32>(job.out.depth, b).at(y) + strip.first, strip.shown, strip.depth, size);
        u8* valid = picture<u8>(job.out.depth_valid, b).at(y) + strip.first;
        for (i64 i = 0; i < size; ++i) valid[i] &= strip.depth_ok[i] | (strip.shown[i] ^ 1);
    }
    for (i64 c = 0; strip.normals && c < 3; ++c) {
        put(picture<f32>(job.out.normals, b, c).at(y) + strip.first, strip.shown, strip.normals + c * strip.room(), size);
    }
}

inline i64 pixel_bytes(const ComposeJob& job) { return job.pixel_kind == UINT8 ? 1 : job.pixel_kind == FLOAT32 ? 4 : 2; }

// Whether the output of a step is too large to be found in a cache afterwards.
inline bool is_large(const ComposeJob& job) {
    i64 bytes = pixel_bytes(job) * job.num_channels + job.num_slots;
    return job.num_rows * job.height * job.width * bytes > (i64(4) << 20);
}

// A field of one row as the target has it, with ``size`` bytes a pixel.
inline void copy_plane(const Mover& mover, const Plane& out, const Plane& target, i64 b, i64 num_channels, i64 height,
                       i64 width, i64 bytes) {
    if (!out.data) return;
    auto to = static_cast<u8*>(out.data) + b * out.stride[0] * bytes;
    auto from = static_cast<const u8*>(target.data) + b * target.stride[0] * bytes;
    bool is_last = out.stride[1] == 1 && num_channels > 1;  // channels last: a line holds all channels
    i64 line = is_last ? width * num_channels : width, outer = is_last ? 1 : num_channels;
    bool has_same_lines = is_last ? target.stride[1] == 1 && target.stride[3] == num_channels : target.stride[3] == 1;
    bool is_whole = out.stride[2] == line && target.stride[2] == line;
    for (i64 c = 0; has_same_lines && c < outer; ++c) {
        u8* there = to + (is_last ? 0 : c * out.stride[1] * bytes);
        const u8* here = from + (is_last ? 0 : c * target.stride[1] * bytes);
        if (is_whole) {
            mover.copy(there, here, size_t(height * line * bytes));
        } else {
            for (i64 y = 0; y < height; ++y) {
                memcpy(there + y * out.stride[2] * bytes, here + y * target.stride[2] * bytes, size_t(line * bytes));
            }
        }
    }
    if (has_same_lines) return;
    for (i64 c = 0; c < num_channels; ++c) {
        for (i64 y = 0; y < height; ++y) {
            for (i64 x = 0; x < width; ++x) {
                i64 at = c * out.stride[1] + y * out.stride[2] + x * out.stride[3];
                i64 of = c * target.stride[1] + y * target.stride[2] + x * target.stride[3];
                memcpy(to + at * bytes, from + of * bytes, size_t(bytes));
            }
        }
    }
}

// Row b as the target has it, without masks.
inline void copy_row(const ComposeJob& job, const Mover& mover, i64 b) {
    i64 height = job.height, width = job.width, bytes = pixel_bytes(job);
    copy_plane(mover, job.out.images, job.target.images, b, job.num_channels, height, width, bytes);
    copy_plane(mover, job.out.semantic, job.target.semantic, b, 1, height, width, 8);
    copy_plane(mover, job.out.panoptic, job.target.panoptic, b, 1, height, width, 8);
    copy_plane(mover, job.out.depth, job.target.depth, b, 1, height, width, 4);
    copy_plane(mover, job.out.depth_valid, job.target.depth_valid, b, 1, height, width, 1);
    copy_plane(mover, job.out.normals, job.target.normals, b, 3, height, width, 4);
    if (mover.streams) fence();
}

// Depth that is NaN becomes 0 and invalid.
inline void clean_depth(const ComposeJob& job, i64 b) {
    for (i64 y = 0; y < job.height; ++y) {
        f32* depth = picture<f32>(job.out.depth, b).at(y);
        u8* valid = picture<u8>(job.out.depth_valid, b).at(y);
        u32 num_bad = 0;
        for (i64 x = 0; x < job.width; ++x) num_bad += !is_finite(depth[x]);
        for (i64 x = 0; num_bad && x < job.width; ++x) {
            if (!is_finite(depth[x])) depth[x] = 0, valid[x] = 0;
        }
    }
}

// Remove from row b of the output what no longer belongs to it, except pixels that are pasted over.
//
// Masks of an output that is not the target lie line after line without a gap.
inline void write_losses(const ComposeJob& job, const Mover& mover, i64 b, const Slot* slots, const Box* target_boxes,
                         const u8* ignored) {
    if (job.out.depth.data) clean_depth(job, b);
    for (i64 y = 0; ignored && job.out.semantic.data && y < job.height; ++y) {
        i64* line = picture<i64>(job.out.semantic, b).at(y);
        for (i64 x = 0; x < job.width; ++x) {
            if (line[x] >= 0 && line[x] < job.num_stuff && ignored[line[x]]) line[x] = job.ignore_index;
        }
    }
    for (i64 k = 0; k < job.num_slots; ++k) {
        const Box& box = target_boxes[k];
        Picture<const u8> mask = picture<const u8>(job.target.masks, b, k);
        Picture<u8> out = picture<u8>(job.out.masks, b, k);
        if (slots[k].is_dropped && job.out.panoptic.data) {  // its pixels belong to no instance
            for (i64 y = box.y1; y < box.y2; ++y) {
                i64 *ids = picture<i64>(job.out.panoptic, b).at(y), *labels = picture<i64>(job.out.semantic, b).at(y);
                const u8* line = mask.at(y);
                for (i64 x = box.x1; x < box.x2; ++x) {
                    if (!line[x]) continue;
                    ids[x] = 0;
                    labels[x] = job.ignore_index;
                }
            }
        }
        if (job.in_place) {  // the whole mask, since a wrong box may not enclose it
            for (i64 y = 0; slots[k].is_dropped && y < job.height; ++y) memset(out.at(y), 0, size_t(job.width));
            continue;
        }
        // From the end of what was kept of one line to the start of what is kept of the next one: zeros.
        u8* zeros = out.data;
        for (i64 y = box.y1; slots[k].survives && y < box.y2 && box.x1 < box.x2; ++y) {
            u8* kept = out.at(y) + box.x1;
            mover.zeros(zeros, size_t(kept - zeros));
            memcpy(kept, mask.at(y) + box.x1, size_t(box.width()));
            zeros = kept + box.width();
        }
        mover.zeros(zeros, size_t(out.data + job.height * job.width - zeros));
    }
    if (mover.streams) fence();
}

}  // namespace SEGPASTE_NAMESPACE
