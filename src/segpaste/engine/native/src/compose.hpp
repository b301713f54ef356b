// A whole paste, row after row: lay out, resolve, measure, keep what must not be hidden, assign slots, render.
//
// Nothing in it looks at two rows of the target at once, so a thread takes a row from end to end, while it is in the
// cache. In place, what other rows still read is held back until they have read it.

#pragma once

#include "paint.hpp"

namespace SEGPASTE_NAMESPACE {

// What remains to be written of a row that other rows still read.
struct HeldRow {
    HeldRow* before;
    i64 row;
    Mark mark;  // of the memory that it takes
    Slot* slots;
    Box* target_boxes;
    u8* ignored;  // [num_stuff], classes that lose their label, or null
    Strip* strips;
    Stamp* stamps;  // of each strip
    i64 num_strips;
};

// Wait for another thread; give up the processor now and then, in case it needs this one.
struct Patience {
    i64 rounds = 0;

    void wait() {
        if (++rounds % 64 == 0) {
            sched_yield();
            return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
};

// No product leaves 64 bits within these limits, on canvases of up to 2 ** 20: a layer that touches the canvas is moved by
// at most its own length.
constexpr i64 LARGEST_TERM = i64(1) << 40;
constexpr i64 FARTHEST_MOVE = i64(1) << 60;

inline ErrorCode check(const ComposeJob& job) {
    i64 num_slots = job.num_slots, k_s = job.num_source_slots;
    i64 longest = most(most(job.height, job.width), most(job.source_height, job.source_width));
    i64 largest = least(LARGEST_TERM, (i64(1) << 60) / most(longest, i64(1)));
    if (job.num_layers > MOST_LAYERS || (job.with_owner && k_s > MOST_LAYERS)) return TOO_MANY_LAYERS;
    for (i64 b = 0; b < job.num_rows; ++b) {
        i64 num_carried = 0, num_free = 0;
        for (i64 at = b * job.num_layers; at < (b + 1) * job.num_layers; ++at) {
            if (job.source_idx[at] < 0 || job.source_idx[at] >= job.num_source_rows) return WRONG_SOURCE_ROW;
            for (i64 i = 2 * at; i < 2 * at + 2; ++i) {
                if (job.scale_num[i] <= 0 || job.scale_den[i] <= 0) return WRONG_SCALE;
                if (job.scale_num[i] > largest || job.scale_den[i] > largest) return WRONG_SCALE;
                if (job.translate[i] < -FARTHEST_MOVE || job.translate[i] > FARTHEST_MOVE) return WRONG_PLACE;
            }
            for (i64 k = 0; k < k_s - job.has_fragment; ++k) num_carried += job.drawn[at * k_s + k] != 0;
        }
        for (i64 k = 0; k < num_slots; ++k) num_free += !job.target_rows.valid[b * num_slots + k];
        if (num_carried > num_free) return TOO_MANY_CARRIED;
    }
    return NO_ERROR;
}

// Whether a layer pastes anything.
inline bool reads(const ComposeJob& job, i64 row, i64 j) {
    const u8* drawn = job.drawn + (row * job.num_layers + j) * job.num_source_slots;
    for (i64 k = 0; k < job.num_source_slots; ++k) {
        if (drawn[k]) return true;
    }
    return false;
}

inline void count_readers(const ComposeJob& job) {
    for (i64 row = 0; row < job.num_rows; ++row) {
        for (i64 j = 0; j < job.num_layers; ++j) {
            if (reads(job, row, j)) job.readers[job.source_idx[row * job.num_layers + j]] += 1;
        }
    }
}

// The first thread checks, before anything is written; the others wait for what it finds.
inline bool is_checked(ComposeJob& job) {
    enum : i64 { UNCHECKED = 0, CHECKING = 1, CHECKED = 2 };
    i64 state = UNCHECKED;
    if (__atomic_compare_exchange_n(&job.check_state, &state, i64(CHECKING), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        job.error = check(job);
        if (!job.error && job.in_place && job.reads_itself) count_readers(job);
        __atomic_store_n(&job.check_state, i64(CHECKED), __ATOMIC_RELEASE);
    }
    Patience patience;
    while (__atomic_load_n(&job.check_state, __ATOMIC_ACQUIRE) != CHECKED) patience.wait();
    return __atomic_load_n(&job.error, __ATOMIC_RELAXED) == NO_ERROR;
}

// One thread's work.
template <class T>
struct Composer {
    using Sum = typename Sums<T>::Sum;

    ComposeJob& job;
    Arena& arena;
    Arena& kept;  // for what is held back
    Mover mover;
    HeldRow* held = nullptr;  // the last one

    // Of the row that is worked on.
    i64 b = 0, num_pastes = 0;
    Layer* layers = nullptr;
    Paste* pastes = nullptr;
    Slot* slots = nullptr;
    Box* target_boxes = nullptr;
    u8* ignored = nullptr;
    Seen seen = {};
    Room room = {};
    i64 *class_before = nullptr, *class_after = nullptr;

    bool is_free(i64 k) const { return !job.target_rows.valid[b * job.num_slots + k]; }

    i64 slot_at(i64 j, i64 k) const { return (b * job.num_layers + j) * job.num_source_slots + k; }

    // Where a source slot lies on the canvas.
    Box paste_box(i64 j, i64 k, const Extent& extent) const {
        i64 at = b * job.num_layers + j, num_slots = job.num_source_slots - job.has_fragment;
        if (k == num_slots) return {0, 0, extent.width, extent.height};  // of a fragment, which stands where it stood
        const f32* edges = job.source_rows.boxes + 4 * (job.source_idx[at] * num_slots + k);
        const i64 *num = job.scale_num + 2 * at, *den = job.scale_den + 2 * at, *move = job.translate + 2 * at;
        Box part = clipped_box(edges, extent.width, extent.height);  // nothing is read of what is beyond
        i64 left = part.x1, right = part.x2;
        if (job.hflip[at]) {
            i64 mirrored = extent.width - right;
            right = extent.width - left;
            left = mirrored;
        }
        Box box = {clamp(scaled_edge(left, num[0], den[0]) + move[0], i64(0), job.width),
                   clamp(scaled_edge(part.y1, num[1], den[1]) + move[1], i64(0), job.height),
                   clamp(scaled_edge(right, num[0], den[0]) + move[0], i64(0), job.width),
                   clamp(scaled_edge(part.y2, num[1], den[1]) + move[1], i64(0), job.height)};
        box.x2 = most(box.x1, box.x2);
        box.y2 = most(box.y1, box.y2);
        return box;
    }

    // The factor on a layer's depth: the ratio of focal lengths, over the scale in perspective.
    f32 depth_scale(i64 at) const {
        if (!job.target.depth.data || !job.source.depth.data) return 1.0f;
        f32 factor = 1.0f;
        if (job.target_camera && job.source_camera) {
            factor = f32(focal_length(job.target_camera + 4 * b) / focal_length(job.source_camera + 4 * job.source_idx[at]));
        }
        if (job.perspective) {
            const i64 *num = job.scale_num + 2 * at, *den = job.scale_den + 2 * at;
            factor *= f32(__builtin_sqrt((f64(den[0]) * f64(den[1])) / (f64(num[0]) * f64(num[1]))));
        }
        return factor;
    }

    static f64 focal_length(const f32* camera) {
        return __builtin_sqrt(f64(camera[0])) * __builtin_sqrt(f64(camera[1]));
    }

    // Layers, their tables and their pastes; what the row may read of the source.
    void lay_out() {
        i64 k_s = job.num_source_slots, width = job.width, height = job.height;
        target_boxes = take<Box>(arena, job.num_slots);
        layers = take<Layer>(arena, job.num_layers);
        num_pastes = 0;
        for (i64 i = slot_at(0, 0); i < slot_at(job.num_layers, 0); ++i) num_pastes += job.drawn[i] != 0;
        pastes = take<Paste>(arena, num_pastes);
        if (arena.failed) return;
        for (i64 k = 0; k < job.num_slots; ++k) {
            target_boxes[k] = clipped_box(job.target_rows.boxes + 4 * (b * job.num_slots + k), width, height);
        }
        bool reads_between = job.target.depth.data || job.target.normals.data;
        Paste* next = pastes;
        seen.reach = {width, height, 0, 0};
        for (i64 j = 0; j < job.num_layers; ++j) {
            i64 at = b * job.num_layers + j;
            Layer& layer = layers[j];
            layer = {job.source_idx[at], job.hflip[at] != 0, depth_scale(at), {}, {}, nullptr};
            if (job.mixed_classes) layer.classes = job.mixed_classes + at * job.num_mixed;
            Paste* first = next;
            Box around = {width, height, 0, 0};
            Extent extent = {};
            for (i64 k = 0; k < k_s; ++k) {
                if (!job.drawn[slot_at(j, k)]) continue;
                if (next == first) {
                    extent = picture_extent(job.source.padding, layer.source, job.source_height, job.source_width);
                }
                *next = {j, k, paste_box(j, k, extent), nullptr, nullptr, nullptr, true, 0, {0, 0, 0, 0}, 0};
                if (!next->box.is_empty()) around.enclose(next->box);
                ++next;
            }
            if (next == first || around.is_empty()) continue;
            seen.reach.enclose(around);
            const i64 *num = job.scale_num + 2 * at, *den = job.scale_den + 2 * at, *move = job.translate + 2 * at;
            Map columns = {move[0], num[0], den[0], extent.width, layer.flip};
            Map lines = {move[1], num[1], den[1], extent.height, false};
            layer.x = make_axis(arena, around.x1, around.x2, columns, job.num_taps, reads_between);
            layer.y = make_axis(arena, around.y1, around.y2, lines, job.num_taps, reads_between);
        }
        if (seen.reach.is_empty()) seen.reach = {0, 0, 0, 0};
    }

    // Masks as the target sees them, and room to find out what is seen.
    void cut_out_all() {
        bool has_depth = job.target.depth.data && job.source.depth.data;
        i64 largest = 0, area = seen.reach.size();
        MixedSource mixed = {job.source, job.source_rows, job.mixed_eligible, job.num_source_slots - job.has_fragment,
                             job.num_mixed, job.source_height, job.source_width};
        for (i64 n = 0; n < num_pastes; ++n) {
            Paste& paste = pastes[n];
            i64 size = paste.box.size();
            largest = most(largest, size);
            if (paste.box.is_empty()) continue;
            paste.cut = take<u8>(arena, size);
            if (has_depth) paste.depth = take<f32>(arena, size), paste.depth_ok = take<u8>(arena, size);
            if (arena.failed) continue;
            const Layer& layer = layers[paste.layer];
            if (is_fragment(paste)) {
                mixed.cut_fragment(layer.source, layer.classes, {paste.box.x2, paste.box.y2}, paste.cut);
            } else {
                cut_out(paste, layer, job.source);
            }
        }
        seen.layer = take<i16>(arena, area);
        seen.owner = job.with_owner ? take<i16>(arena, area) : nullptr;
        bool keeps_depth = has_depth && job.num_layers > 1;
        room = {take<u8>(arena, largest), keeps_depth ? take<f32>(arena, area) : nullptr,
                keeps_depth ? take<u8>(arena, area) : nullptr, job.rank ? take<i16>(arena, area) : nullptr};
        class_before = take<i64>(arena, job.num_stuff);
        class_after = take<i64>(arena, job.num_stuff);
    }

    void look(const Guards& guards) {
        resolve(job, b, layers, pastes, num_pastes, guards, room, seen);
        for (i64 n = 0; n < num_pastes; ++n) {
            if (pastes[n].is_carried) {
                measure_paste(pastes[n], seen, job.exclusive);
            } else {
                pastes[n].area = 0;
            }
        }
        if (job.num_stuff) count_classes(job, b, seen, class_before, class_after);
    }

    // Mark stuff classes that lost pixels and fell below a threshold; whether there are any.
    bool find_wiped_out(u8* marked) const {
        bool any = false;
        for (i64 label = 0; label < job.num_stuff; ++label) {
            i64 before = class_before[label], after = class_after[label];
            bool too_little = after * job.stuff_den < before * job.stuff_num || after < job.stuff_px;
            marked[label] = job.is_stuff[label] && after < before && too_little;
            any |= marked[label] != 0;
        }
        return any;
    }

    // Close the pixels of instances of which too much is hidden; whether there are any.
    bool find_over_hidden(u8* closed) const {
        bool any = false;
        for (i64 k = 0; k < job.num_slots; ++k) {
            if (is_free(k)) continue;
            Picture<const u8> mask = picture<const u8>(job.target.masks, b, k);
            i64 hidden = count_hidden(mask, target_boxes[k], seen);
            if (hidden == 0 || hidden * job.hidden_den <= count_pixels(mask, target_boxes[k], MANY) * job.hidden_num) continue;
            if (!any) memset(closed, 0, size_t(seen.reach.size()));
            any = true;
            Box box = common(target_boxes[k], seen.reach);
            for (i64 y = box.y1; y < box.y2; ++y) {
                for (i64 x = box.x1; x < box.x2; ++x) closed[seen.at(y, x)] |= mask.at(y)[x];
            }
        }
        return any;
    }

    // Look until every paste that is left is seen and nothing is hidden that must not be.
    void settle() {
        bool guards_objects = job.hidden_num < job.hidden_den;
        u8* wiped = take<u8>(arena, job.num_stuff);
        u8* closed = guards_objects ? take<u8>(arena, seen.reach.size()) : nullptr;
        if (arena.failed) return;
        Guards guards = {nullptr, job.num_stuff, nullptr};
        look(guards);
        for (i64 n = 0; n < num_pastes; ++n) pastes[n].free_area = pastes[n].area;
        if (job.num_stuff && job.reverts_stuff && find_wiped_out(wiped)) guards.classes = wiped;
        if (guards_objects && find_over_hidden(closed)) guards.pixels = closed;
        if (guards.classes || guards.pixels) look(guards);
        i64* dropped = job.dropped + 3 * b;
        dropped[0] = dropped[1] = dropped[2] = 0;
        for (i64 n = 0; n < num_pastes; ++n) {
            if (pastes[n].area >= job.min_area_px) continue;
            dropped[pastes[n].free_area >= job.min_area_px ? 1 : pastes[n].free_area == 0 ? 0 : 2] += 1;
        }
        for (i64 num_gone = remove_small(); num_gone > 0;) {
            look(guards);
            num_gone = remove_small();  // again only where priorities and depth both decide
            dropped[2] += num_gone;
        }
        if (job.num_stuff && !job.reverts_stuff && find_wiped_out(wiped)) ignored = wiped;
    }

    i64 remove_small() {
        i64 num_gone = 0;
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].area >= job.min_area_px) continue;
            pastes[n].is_carried = false;
            ++num_gone;
        }
        return num_gone;
    }

    bool is_fragment(const Paste& paste) const { return job.has_fragment && paste.slot == job.num_source_slots - 1; }

    // The largest id of the row, also among ids that have pixels and no instance.
    i64 last_id() const {
        i64 largest = 0;
        for (i64 k = 0; k < job.num_slots; ++k) {
            if (!is_free(k)) largest = most(largest, i64(job.target_rows.ids[b * job.num_slots + k]));
        }
        Picture<const i64> panoptic = picture<const i64>(job.target.panoptic, b);
        for (i64 y = 0; panoptic.data && y < job.height; ++y) {
            for (i64 x = 0; x < job.width; ++x) largest = most(largest, panoptic.at(y)[x]);
        }
        return least(largest, job.largest_id);
    }

    void write_row(i64 k, const Box& box, i64 label, i64 id, bool valid) const {
        i64 at = b * job.num_slots + k;
        f32* edges = job.out_rows.boxes + 4 * at;
        edges[0] = f32(box.x1), edges[1] = f32(box.y1), edges[2] = f32(box.x2), edges[3] = f32(box.y2);
        job.out_rows.labels[at] = label;
        job.out_rows.ids[at] = i32(id);
        job.out_rows.valid[at] = valid;
    }

    // Whether enough of an instance is left. Counting stops as soon as the answer is known.
    bool is_left(const Picture<const u8>& mask, const Box& box, i64 hidden) const {
        i64 part = job.residual_den - job.residual_num, needed = hidden + job.min_area_px;
        if (hidden > 0) needed = part > 0 ? most(needed, -floor_div(-hidden * job.residual_den, part)) : MANY;
        return count_pixels(mask, box, needed) >= needed;
    }

    // A slot without a paste: the target's instance if it survives, else nothing.
    void stay(i64 k) const {
        i64 at = b * job.num_slots + k;
        job.slot_layer[at] = job.slot_source[at] = -1;
        bool survives = slots[k].survives;
        Box box = survives ? slots[k].rest : Box{0, 0, 0, 0};
        write_row(k, box, survives ? job.target_rows.labels[at] : 0, survives ? job.target_rows.ids[at] : 0, survives);
    }

    // Survivors stay, pastes fill the slots of the others in order; ids are fresh. Writes the rows of the output.
    void assign(Stamp* stamps) {
        for (i64 k = 0; k < job.num_slots; ++k) {
            slots[k] = {false, false, {0, 0, 0, 0}, -1};
            if (is_free(k)) continue;
            Picture<const u8> mask = picture<const u8>(job.target.masks, b, k);
            i64 hidden = count_hidden(mask, target_boxes[k], seen);
            slots[k].survives = is_left(mask, target_boxes[k], hidden);
            slots[k].is_dropped = !slots[k].survives;
            if (slots[k].survives) slots[k].rest = box_of_rest(mask, target_boxes[k], seen, hidden);
        }
        i64 id = last_id(), k = 0;
        for (i64 n = 0; n < num_pastes; ++n) {
            const Paste& paste = pastes[n];
            stamps[n] = {-1, 0};
            if (!paste.is_carried || is_fragment(paste)) continue;
            for (; slots[k].survives; ++k) stay(k);
            i64 at = b * job.num_slots + k;
            slots[k].paste = n;
            stamps[n] = {k, ++id};
            job.slot_layer[at] = paste.layer;
            job.slot_source[at] = paste.slot;
            write_row(k, paste.shown, label_of(job, layers[paste.layer], paste.slot), id, true);
            ++k;
        }
        for (; k < job.num_slots; ++k) stay(k);
    }

    // What is to be known of the row beside its pixels.
    void report() const {
        for (i64 i = slot_at(0, 0); i < slot_at(job.num_layers, 0); ++i) job.carried[i] = 0;
        for (i64 n = 0; n < num_pastes; ++n) job.carried[slot_at(pastes[n].layer, pastes[n].slot)] = pastes[n].is_carried;
        if (!job.layer) return;
        i16* layer = job.layer + b * job.height * job.width;
        for (i64 i = 0; i < job.height * job.width; ++i) layer[i] = -1;
        const Box& reach = seen.reach;
        for (i64 y = reach.y1; y < reach.y2; ++y) {
            memcpy(layer + y * job.width + reach.x1, seen.layer + seen.at(y, reach.x1), size_t(reach.width()) * 2);
        }
    }

    // Do something with every strip of a paste: the part of a line between the first and the last pixel that is shown.
    template <class F>
    void for_strips(const Paste& paste, F act) const {
        const Box& box = paste.box;
        i64 width = box.width();
        const u8* shown = paste.cut;
        for (i64 y = box.y1; y < box.y2; ++y, shown += width) {
            i64 first = width, end = 0;
            find_ends(width, [&](i64 i) { return shown[i] != 0; }, first, end);
            if (first < end) act(y, box.x1 + first, box.x1 + end, shown + first);
        }
    }

    void fill(Strip& strip, i64 y, i64 first, i64 end, const u8* shown) const {
        strip.y = y, strip.first = first, strip.end = end, strip.shown = shown;
    }

    // Write the row at once, strip after strip as each is read.
    void pass(const Stamp* stamps, Sum* sums) {
        write_losses(job, mover, b, slots, target_boxes, ignored);
        Strip strip = take_strip(job, arena, job.width, sizeof(T));
        if (arena.failed) return;
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].box.is_empty()) continue;
            keep_shown(pastes[n], seen, job.exclusive);
            for_strips(pastes[n], [&](i64 y, i64 first, i64 end, const u8* shown) {
                fill(strip, y, first, end, shown);
                read_strip<T>(job, layers[pastes[n].layer], pastes[n], seen, sums, strip);
                write_strip<T>(job, b, strip, stamps[n], slots, target_boxes);
            });
        }
    }

    template <class V>
    V* copy_kept(const V* values, i64 count) {
        V* copy = take<V>(kept, count);
        if (copy) memcpy(copy, values, size_t(count) * sizeof(V));
        return copy;
    }

    // Read the row and keep it for later.
    HeldRow* hold(const Stamp* stamps) {
        Mark before = mark(kept);
        i64 num_strips = 0;
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].box.is_empty()) continue;
            keep_shown(pastes[n], seen, job.exclusive);
            for_strips(pastes[n], [&](i64, i64, i64, const u8*) { ++num_strips; });
        }
        auto row = take<HeldRow>(kept, 1);
        auto strips = take<Strip>(kept, num_strips);
        auto marks = take<Stamp>(kept, num_strips);
        Slot* own_slots = copy_kept(slots, job.num_slots);
        Box* own_boxes = copy_kept(target_boxes, job.num_slots);
        u8* own_ignored = ignored ? copy_kept(ignored, job.num_stuff) : nullptr;
        auto sums = take<Sum>(arena, room_for_colours(job.source_width, job.width));
        if (arena.failed || kept.failed) return nullptr;
        *row = {held, b, before, own_slots, own_boxes, own_ignored, strips, marks, 0};
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].box.is_empty()) continue;
            for_strips(pastes[n], [&](i64 y, i64 first, i64 end, const u8* shown) {
                Strip strip = take_strip(job, kept, end - first, sizeof(T));
                const u8* own_shown = copy_kept(shown, end - first);
                if (kept.failed) return;
                fill(strip, y, first, end, own_shown);
                read_strip<T>(job, layers[pastes[n].layer], pastes[n], seen, sums, strip);
                marks[row->num_strips] = stamps[n];
                strips[row->num_strips++] = strip;
            });
        }
        return kept.failed ? nullptr : row;
    }

    // Write the row that was held last, and give its memory back.
    void write_held() {
        HeldRow* row = held;
        write_losses(job, mover, row->row, row->slots, row->target_boxes, row->ignored);
        for (i64 n = 0; n < row->num_strips; ++n) {
            write_strip<T>(job, row->row, row->strips[n], row->stamps[n], row->slots, row->target_boxes);
        }
        write_rows_over(row->row);
        held = row->before;
        release(kept, row->mark);
    }

    // In place the new instances of a row go over the target's.
    void write_rows_over(i64 row) const {
        i64 at = row * job.num_slots, n = job.num_slots;
        memcpy(job.target_rows.boxes + 4 * at, job.out_rows.boxes + 4 * at, size_t(n) * 16);
        memcpy(job.target_rows.labels + at, job.out_rows.labels + at, size_t(n) * 8);
        memcpy(job.target_rows.ids + at, job.out_rows.ids + at, size_t(n) * 4);
        memcpy(job.target_rows.valid + at, job.out_rows.valid + at, size_t(n));
    }

    // One row from end to end. In place it is held back while ``must_hold``.
    ErrorCode compose_row(i64 row, bool must_hold) {
        Mark before = mark(arena);
        b = row;
        ignored = nullptr;
        slots = take<Slot>(arena, job.num_slots);
        lay_out();
        if (!arena.failed) cut_out_all();
        auto stamps = take<Stamp>(arena, num_pastes);
        if (!arena.failed) settle();
        if (arena.failed) return OUT_OF_MEMORY;
        assign(stamps);
        report();
        if (must_hold) {
            HeldRow* last = hold(stamps);
            if (last) held = last;
            release(arena, before);
            return last ? NO_ERROR : OUT_OF_MEMORY;
        }
        if (!job.in_place) copy_row(job, mover, b);
        auto sums = take<Sum>(arena, room_for_colours(job.source_width, job.width));
        if (!arena.failed) pass(stamps, sums);
        ErrorCode error = arena.failed ? OUT_OF_MEMORY : NO_ERROR;
        if (job.in_place) write_rows_over(b);
        release(arena, before);
        return error;
    }

    // Where rows are sources of each other: the row that the fewest layers still read, of those that no thread has taken;
    // -1 if all are.
    i64 take_next() const {
        for (;;) {
            i64 chosen = -1, fewest = MANY;
            for (i64 row = 0; row < job.num_rows; ++row) {
                if (__atomic_load_n(job.is_taken + row, __ATOMIC_RELAXED)) continue;
                i64 num_readers = readers(row);
                if (num_readers < fewest) chosen = row, fewest = num_readers;
            }
            if (chosen < 0 || !__atomic_exchange_n(job.is_taken + chosen, i64(1), __ATOMIC_RELAXED)) return chosen;
        }
    }

    // How many layers still read a row; it never rises.
    i64 readers(i64 row) const { return __atomic_load_n(job.readers + row, __ATOMIC_ACQUIRE); }

    // The row's sources have been read.
    void finish_reading(i64 row) const {
        for (i64 j = 0; j < job.num_layers; ++j) {
            if (!reads(job, row, j)) continue;
            __atomic_fetch_sub(job.readers + job.source_idx[row * job.num_layers + j], i64(1), __ATOMIC_RELEASE);
        }
    }

    bool has_failed() const { return __atomic_load_n(&job.error, __ATOMIC_RELAXED) != NO_ERROR; }

    void fail(ErrorCode error) const {
        if (error) __atomic_store_n(&job.error, i64(error), __ATOMIC_RELAXED);
    }

    // In place among the rows of one batch: each is written as soon as no layer reads it any more.
    void compose_among_themselves() {
        for (i64 row = take_next(); row >= 0 && !has_failed(); row = take_next()) {
            ErrorCode error = compose_row(row, readers(row) > 0);
            if (error) return fail(error);
            finish_reading(row);
            while (held && readers(held->row) == 0) write_held();
        }
        Patience patience;
        while (held && !has_failed()) {
            if (readers(held->row) == 0) {
                write_held();
            } else {
                patience.wait();
            }
        }
    }

    // Rows that do not depend on each other. In place, over a source that shares the target's memory, all rows are read
    // before any is written.
    void compose_apart() {
        bool must_hold = job.in_place && job.shares_memory;
        for (;;) {
            i64 row = __atomic_fetch_add(&job.next_row, i64(1), __ATOMIC_RELAXED);
            if (row >= job.num_rows) break;
            if (!has_failed()) fail(compose_row(row, must_hold));
            __atomic_fetch_add(&job.num_read, i64(1), __ATOMIC_ACQ_REL);
        }
        Patience patience;
        while (must_hold && __atomic_load_n(&job.num_read, __ATOMIC_ACQUIRE) < job.num_rows) patience.wait();
        while (held && !has_failed()) write_held();
    }
};

template <class T>
void compose_as(ComposeJob& job, Workspace& workspace) {
    Composer<T> composer = {job, workspace.work, workspace.kept, {!job.in_place && is_large(job)}};
    if (job.in_place && job.reads_itself) {
        composer.compose_among_themselves();
    } else {
        composer.compose_apart();
    }
    release(workspace.work, {nullptr, 0});
    release(workspace.kept, {nullptr, 0});
}

// Take rows until none is left; every thread of a step calls this with the same job, which then holds the error.
inline void compose(ComposeJob& job, Workspace& workspace) {
    if (!is_checked(job)) return;
    switch (job.pixel_kind) {
        case UINT8: return compose_as<u8>(job, workspace);
        case FLOAT32: return compose_as<f32>(job, workspace);
        case FLOAT16: return compose_as<Half>(job, workspace);
        default: return compose_as<BFloat>(job, workspace);
    }
}

}  // namespace SEGPASTE_NAMESPACE
