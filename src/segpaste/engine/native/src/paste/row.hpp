// One row of the target without its pixels: the layout of its layers, their visibility, and the slots of the output.

#pragma once

#include "paste/measure.hpp"
#include "paste/swapped.hpp"

namespace SEGPASTE_NAMESPACE {

struct TargetRow {
    ComposeJob& job;
    Arena& arena;

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
        Box part = clipped_box(edges, extent.width, extent.height);  // nothing outside of it is read
        Extent seen_as = extent;
        if (job.swap_axes[at]) part = {part.y1, part.x1, part.y2, part.x2}, seen_as = {extent.height, extent.width};
        if (job.hflip[at]) part = {seen_as.width - part.x2, part.y1, seen_as.width - part.x1, part.y2};
        if (job.vflip[at]) part = {part.x1, seen_as.height - part.y2, part.x2, seen_as.height - part.y1};
        Box box = {clamp(scaled_edge(part.x1, num[0], den[0]) + move[0], i64(0), job.width),
                   clamp(scaled_edge(part.y1, num[1], den[1]) + move[1], i64(0), job.height),
                   clamp(scaled_edge(part.x2, num[0], den[0]) + move[0], i64(0), job.width),
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
            factor *= root(f32((f64(den[0]) * f64(den[1])) / (f64(num[0]) * f64(num[1]))));
        }
        return factor;
    }

    static f64 focal_length(const f32* camera) {
        return f64(root(camera[0])) * f64(root(camera[1]));
    }

    static f32 root(f32 value) { return f32(__builtin_sqrt(f64(value))); }

    // Make the layers, their tables and pastes, within what the row may read of the source.
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
            layer = {job.source_idx[at], job.hflip[at] != 0, job.vflip[at] != 0, job.swap_axes[at] != 0, depth_scale(at),
                     {}, {}, nullptr, &job.source, job.source_width};
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
            if (layer.swap_axes) extent = {extent.height, extent.width}, layer.width = job.source_height;
            const i64 *num = job.scale_num + 2 * at, *den = job.scale_den + 2 * at, *move = job.translate + 2 * at;
            Map columns = {move[0], num[0], den[0], extent.width, layer.hflip};
            Map lines = {move[1], num[1], den[1], extent.height, layer.vflip};
            layer.x = make_axis(arena, around.x1, around.x2, columns, job.num_taps, reads_between, layer.width);
            layer.y = make_axis(arena, around.y1, around.y2, lines, job.num_taps, reads_between, layer.width);
            if (layer.swap_axes && !arena.failed) layer.planes = with_axes_swapped(job, layer, arena);
        }
        if (seen.reach.is_empty()) seen.reach = {0, 0, 0, 0};
    }

    // Make the masks on the canvas of the target, and memory for the visibility.
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
            paste.cut = take<u8>(arena, size + WIDE);
            if (has_depth) paste.depth = take<f32>(arena, size + WIDE), paste.depth_ok = take<u8>(arena, size + WIDE);
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
        i64 widest = most(most(job.source_width, job.source_height), job.width) + WIDE;
        room = {take<u8>(arena, largest + WIDE), take<u8>(arena, widest), take<u8>(arena, widest),
                keeps_depth ? take<f32>(arena, area) : nullptr, keeps_depth ? take<u8>(arena, area) : nullptr,
                job.rank ? take<i16>(arena, area) : nullptr};
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
        if (job.num_stuff) count_seen_classes(job, b, seen, class_before, class_after);
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

    // Guard the pixels of instances of which too much is hidden; return whether there are any.
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

    // Resolve until every remaining paste is visible and no guarded pixel is hidden.
    void settle() {
        bool guards_objects = job.hidden_num < job.hidden_den;
        u8* wiped = take<u8>(arena, job.num_stuff);
        u8* closed = guards_objects ? take<u8>(arena, seen.reach.size()) : nullptr;
        if (arena.failed) return;
        if (job.num_stuff) count_classes(job, b, class_before);
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
        i64 part = job.residual_den - job.residual_num, least_area = hidden + job.min_area_px, needed = least_area;
        if (hidden > 0) {
            needed = part > 0 ? most(needed, -floor_div(-hidden * job.residual_den, part)) : MANY;
            needed = most(needed, hidden + job.residual_px);
        }
        if (count_pixels(mask, box, needed) >= needed) return true;
        if (job.box_shift_px < 0 || count_pixels(mask, box, least_area) < least_area) return false;
        Box shown = visible_box(mask, box, seen, hidden);
        auto moved = [&](i64 edge, i64 before) { return edge > before ? edge - before : before - edge; };
        i64 across = most(moved(shown.x1, box.x1), moved(shown.x2, box.x2));
        return most(across, most(moved(shown.y1, box.y1), moved(shown.y2, box.y2))) <= job.box_shift_px;
    }

    // A slot without a paste: the target's instance if it survives, else nothing.
    void stay(i64 k) const {
        i64 at = b * job.num_slots + k;
        job.slot_layer[at] = job.slot_source[at] = -1;
        bool survives = slots[k].survives;
        Box box = survives ? slots[k].visible : Box{0, 0, 0, 0};
        write_row(k, box, survives ? job.target_rows.labels[at] : 0, survives ? job.target_rows.ids[at] : 0, survives);
    }

    // Survivors stay, pastes fill the slots of the others in order; ids are fresh. Writes the rows of the output.
    void assign(Stamp* stamps) {
        for (i64 k = 0; k < job.num_slots; ++k) {
            slots[k] = {false, false, {0, 0, 0, 0}, -1};
            i64& lost = job.slot_lost[b * job.num_slots + k];
            lost = 0;
            if (is_free(k)) continue;
            Picture<const u8> mask = picture<const u8>(job.target.masks, b, k);
            i64 hidden = count_hidden(mask, target_boxes[k], seen);
            slots[k].survives = is_left(mask, target_boxes[k], hidden);
            slots[k].is_dropped = !slots[k].survives;
            if (slots[k].survives) {
                slots[k].visible = visible_box(mask, target_boxes[k], seen, hidden);
            } else {
                lost = count_pixels(mask, target_boxes[k], hidden + 1) > hidden ? 2 : hidden > 0 ? 1 : 0;
            }
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

    // Report the facts of the row other than its pixels.
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
};

}  // namespace SEGPASTE_NAMESPACE
