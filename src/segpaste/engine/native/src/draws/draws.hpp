// The draws of a placement: those of `segpaste.seeding` and `segpaste.engine.reference.draws`, bit for bit.

#pragma once

#include "base/arena.hpp"
#include "draws/covers.hpp"
#include "scene/boxes.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 FAR = i64(1) << 44;
constexpr i64 SCALE_ONE = i64(1) << 16;           // `SCALE_DEN`
constexpr i64 LARGEST_NUM = 64 * SCALE_ONE;
constexpr i64 SIZE_DEN = 16, GRID_TRIES = 8;

// Draws of one batch, row after row.
struct Drawer : CoverDrawer {
    u8* cut;     // [K, 4], the sides of each box that lie on the border of its picture
    i64* region;  // [K], the region of each

    // The rectangle around the chosen boxes of a layer.
    struct Around {
        i64 x1, y1, x2, y2;
        bool is_empty;
    };

    Around around(const u8* carried) const {
        Around all = {FAR, FAR, -FAR, -FAR, true};
        for (i64 k = 0; k < num_slots; ++k) {
            if (!carried[k]) continue;
            const i64* box = boxes + 4 * k;
            all = {least(all.x1, box[0]), least(all.y1, box[1]), most(all.x2, box[2]), most(all.y2, box[3]), false};
        }
        return all;
    }

    // How a layer is turned, by quarters anticlockwise, and then flipped.
    void draw_orientation(i64 seed, i64 j, i64 at) const {
        i64 quarters = 0;
        if (happens(layer_state(seed, TURN, j), job.turn_threshold)) quarters = integer(layer_state(seed, QUARTERS, j), 1, 3);
        job.hflip[at] = happens(layer_state(seed, HFLIP, j), job.flip_threshold) != (quarters >= 2);
        job.vflip[at] = happens(layer_state(seed, VFLIP, j), job.vflip_threshold) != (quarters == 1 || quarters == 2);
        job.swap_axes[at] = quarters % 2;
    }

    // The edges of a box along one axis of its picture, flipped, and whether they lie on its border; written at ``to``.
    void place_axis(const i64* box, i64 size, bool flip, i64 to) const {
        bool ends[2] = {box[0] <= 0, box[2] >= size};
        boxes[to] = flip ? size - box[2] : box[0];
        boxes[to + 2] = flip ? size - box[0] : box[2];
        cut[to] = ends[flip];
        cut[to + 2] = ends[!flip];
    }

    // Whether some translation by whole patches keeps the scaled rectangle from corner to opposite inside.
    bool has_room(i64 corner, i64 opposite, i64 size, i64 num) const {
        i64 first = -floor_div(scaled_edge(corner, num, job.scale_den), job.patch);
        return first <= floor_div(size - scaled_edge(opposite, num, job.scale_den), job.patch);
    }

    // The numerator of a scale on the canvas' grid: the first try with room for the chosen boxes, else the smallest.
    i64 grid_scale(i64 b, i64 j, const u8* carried, const i64* extent) const {
        Around all = around(carried);
        for (i64 attempt = 0; attempt < GRID_TRIES; ++attempt) {
            u64 state = indexed(layer_state(job.seeds[b], SCALE, j), attempt);
            i64 num = integer(state, job.low_scale, job.high_scale) * job.patch;
            if (all.is_empty) return num;
            if (has_room(all.x1, all.x2, extent[0], num) && has_room(all.y1, all.y2, extent[1], num)) return num;
        }
        return job.low_scale * job.patch;
    }

    // The largest scale at which the chosen boxes fit into the picture.
    i64 largest_fitting(const u8* carried, const i64* extent) const {
        Around all = around(carried);
        if (!job.fits_scale || all.is_empty) return LARGEST_NUM;
        i64 across = floor_div(extent[0] * SCALE_ONE, most(all.x2 - all.x1, i64(1)));
        i64 down = floor_div(extent[1] * SCALE_ONE, most(all.y2 - all.y1, i64(1)));
        return least(least(across, down), LARGEST_NUM);
    }

    // The scales of a layer, and its boxes scaled by them.
    void draw_scale(i64 b, i64 j, const u8* carried, const i64* labels) const {
        const i64* extent = job.extent + 2 * b;
        i64 den = job.scale_den, seed = job.seeds[b], num, low = job.low_scale, high = job.high_scale;
        i64 largest = largest_fitting(carried, extent);
        if (job.on_grid) {
            num = grid_scale(b, j, carried, extent);
        } else {
            i64 shrunk = job.shrunk ? most(job.shrunk[row_of(b * num_layers + j)], i64(1)) : SCALE_ONE;
            num = integer(layer_state(seed, SCALE, j), low, clamp(floor_div(largest * shrunk, SCALE_ONE), low, high));
            if (job.shrunk) num = least(floor_div(num * SCALE_ONE, shrunk), LARGEST_NUM);
        }
        i64 *nums = job.scale_num + 2 * (b * num_layers + j), *dens = job.scale_den_out + 2 * (b * num_layers + j);
        nums[0] = nums[1] = num;
        dens[0] = dens[1] = den;
        if (job.one_each && num_slots > 0 && !job.on_grid) {
            i64 slot = 0;
            while (slot < num_slots - 1 && !carried[slot]) ++slot;
            if (!carried[slot]) slot = 0;
            const i64* box = boxes + 4 * slot;
            i64 sides[2] = {most(box[2] - box[0], i64(1)), most(box[3] - box[1], i64(1))};
            i64 others = job.num_sizes - 1, label = labels[slot];
            const i64* range = job.size_table + 2 * (label >= 0 && label <= others ? label : others);
            if (range[0] > 0) {
                i64 size = integer(layer_state(seed, SIZE, j), range[0], range[1]);
                i64 wanted = floor_div(size * den, SIZE_DEN * most(sides[0], sides[1]));
                num = clamp(wanted, low, clamp(largest, low, high));
                nums[0] = nums[1] = num;
            }
            if (job.whole_patches) {
                for (i64 axis = 0; axis < 2; ++axis) {
                    i64 half = den * job.patch;
                    i64 count = most(floor_div(2 * sides[axis] * num + half, 2 * half), i64(1));
                    count = most(least(count, most(floor_div(extent[axis], job.patch), count - 1)), i64(1));
                    nums[axis] = count * job.patch;
                    dens[axis] = sides[axis];
                }
            }
        }
        for (i64 i = 0; i < 4 * num_slots; ++i) boxes[i] = scaled_edge(boxes[i], nums[i % 2], dens[i % 2]);
    }

    u64 stratum(i64 seed, i64 j, i64 attempt, i64 axis) const {
        return indexed(indexed(layer_state(seed, STRATUM, j), attempt), axis) >> 2;
    }

    // The position of a place in its range, times 2**32; on patches each layer of an image has its own part of it.
    i64 fraction(u64 state, i64 seed, i64 j, i64 attempt, i64 axis) const {
        i64 drawn = i64(indexed(state, axis) >> 32);
        if (!(job.on_grid || job.whole_patches)) return drawn;
        i64 turn = 0, own = i64(stratum(seed, j, attempt, axis));
        for (i64 i = 0; i < num_layers; ++i) {
            i64 other = i64(stratum(seed, i, attempt, axis));
            turn += other < own || (other == own && i < j);
        }
        return floor_div((turn << 32) + drawn, num_layers);
    }

    // The translation along one axis of the rectangle from corner to opposite.
    i64 offset(i64 part, i64 corner, i64 opposite, i64 size, bool is_empty) const {
        i64 low = least(-corner, size - opposite), high = most(-corner, size - opposite);
        if (job.clips && !is_empty) {
            i64 side = least(most(opposite - corner, i64(0)), LONGEST_SIDE);
            i64 hidden = floor_div(side * (job.seen_den - job.seen_num), job.seen_den);
            low -= hidden;
            high += hidden;
        }
        if (!(job.on_grid || job.whole_patches)) return within(u64(part), low, high);
        i64 phase = job.whole_patches ? corner : 0;
        i64 first = -floor_div(-low - phase, job.patch), last = floor_div(high + phase, job.patch);
        return within(u64(part), first, last) * job.patch - phase;
    }

    bool fits(const i64* box, i64 x, i64 y, const i64* extent) const {
        i64 x1 = box[0] + x, y1 = box[1] + y, x2 = box[2] + x, y2 = box[3] + y;
        if (x1 >= 0 && y1 >= 0 && x2 <= extent[0] && y2 <= extent[1]) return true;
        if (!job.clips) return false;
        i64 area = side(most(x1, i64(0)), least(x2, extent[0])) * side(most(y1, i64(0)), least(y2, extent[1]));
        return area > 0 && area * job.seen_den >= side(x1, x2) * side(y1, y2) * job.seen_num;
    }

    // Pixels that a moved box shares with each of the others, summed; beyond 64 bits it wraps around, as torch's sum.
    u64 overlap(const i64* box, i64 x, i64 y, const i64* others) const {
        u64 total = 0;
        for (i64 k = 0; k < job.num_slots; ++k) {
            const i64* other = others + 4 * k;
            i64 width = least(box[2] + x, other[2]) - most(box[0] + x, other[0]);
            i64 height = least(box[3] + y, other[3]) - most(box[1] + y, other[1]);
            total += u64(most(width, i64(0))) * u64(most(height, i64(0)));
        }
        return total;
    }

    // Whether a moved box ends at the border of the picture wherever it did in its own.
    bool hides_cuts(i64 k, i64 x, i64 y, const i64* extent) const {
        const i64* box = boxes + 4 * k;
        const u8* sides = cut + 4 * k;
        bool ends[4] = {box[0] + x <= 0, box[1] + y <= 0, box[2] + x >= extent[0], box[3] + y >= extent[1]};
        for (i64 side = 0; side < 4; ++side) {
            if (sides[side] && !ends[side]) return false;
        }
        return true;
    }

    // Keep the centre of the boxes; ``before`` encloses the chosen ones before scaling.
    void keep_place(i64 b, i64 j, const Around& before, u8* carried) const {
        i64* translate = job.translate + 2 * (b * num_layers + j);
        Around after = around(carried);
        translate[0] = before.is_empty ? 0 : floor_div(before.x1 + before.x2 - after.x1 - after.x2, 2);
        translate[1] = before.is_empty ? 0 : floor_div(before.y1 + before.y2 - after.y1 - after.y2, 2);
        keep_fitting(b, j, translate[0], translate[1], carried);
    }

    // Whether enough of the part of a moved box in the picture lies in its region.
    bool in_region(i64 b, i64 k, i64 x, i64 y) const {
        if (!job.regions || region[k] >= job.num_regions) return true;
        const i64 *box = boxes + 4 * k, *extent = job.extent + 2 * b;
        i64 x1 = clamp(box[0] + x, i64(0), extent[0]), y1 = clamp(box[1] + y, i64(0), extent[1]);
        i64 x2 = clamp(box[2] + x, i64(0), extent[0]), y2 = clamp(box[3] + y, i64(0), extent[1]);
        const i32* sums = job.regions + (b * job.num_regions + region[k]) * job.region_height * job.region_width;
        const i32 *above = sums + y1 * job.region_width, *below = sums + y2 * job.region_width;
        i64 inside = i64(below[x2]) - above[x2] - below[x1] + above[x1], area = (x2 - x1) * (y2 - y1);
        return inside * job.region_den >= area * job.region_num;
    }

    // Keep in ``carried``, the slots of layer j, only those that may be pasted at a place.
    void keep_fitting(i64 b, i64 j, i64 x, i64 y, u8* carried) const {
        const i64* extent = job.extent + 2 * b;
        for (i64 k = 0; k < num_slots; ++k) {
            if (!carried[k]) continue;
            bool is_fit = fits(boxes + 4 * k, x, y, extent) && (!job.hides_cuts || hides_cuts(k, x, y, extent));
            bool is_inside = is_fit && in_region(b, k, x, y);
            carried[k] = is_inside && covers_little(b, k, x, y);
            job.outside_region[b] += is_fit && !is_inside;
            job.covers_too_much[b] += is_inside && !carried[k];
            if (takes_part() && carried[k]) covers[j * num_slots + k] = cover(b, k, x, y);
        }
    }

    // A place for a layer; ``carried`` keeps the chosen slots that may be pasted there.
    void draw_place(i64 b, i64 j, u8* carried) const {
        const i64 *extent = job.extent + 2 * b, *occupied = job.occupied + 4 * b * job.num_slots;
        i64 seed = job.seeds[b], best_score = 0, best_x = 0, best_y = 0;
        Around all = around(carried);
        if (all.is_empty) all = {0, 0, extent[0], extent[1], true};
        for (i64 attempt = 0; attempt < job.max_attempts; ++attempt) {
            u64 state = indexed(layer_state(seed, TRANSLATE, j), attempt);
            i64 x_part = fraction(state, seed, j, attempt, 0), y_part = fraction(state, seed, j, attempt, 1);
            i64 x = offset(x_part, all.x1, all.x2, extent[0], all.is_empty);
            i64 y = offset(y_part, all.y1, all.y2, extent[1], all.is_empty);
            u64 sum = 0;
            for (i64 k = 0; job.max_attempts > 1 && k < num_slots; ++k) {
                const i64* box = boxes + 4 * k;
                if (!carried[k] || !fits(box, x, y, extent)) continue;
                if (in_region(b, k, x, y) && covers_little(b, k, x, y)) sum += u64(FAR) - overlap(box, x, y, occupied);
            }
            i64 score = i64(sum);
            if (attempt == 0 || score > best_score) best_score = score, best_x = x, best_y = y;
        }
        i64* translate = job.translate + 2 * (b * num_layers + j);
        translate[0] = best_x;
        translate[1] = best_y;
        keep_fitting(b, j, best_x, best_y, carried);
    }

    void draw_row(i64 b) const {
        prioritise(b);
        choose_slots(b);
        i64 num_fitting = 0;
        job.outside_region[b] = job.covers_too_much[b] = 0;
        for (i64 j = 0; j < num_layers; ++j) {
            i64 at = b * num_layers + j, source = row_of(at);
            draw_orientation(job.seeds[b], j, at);
            i64 x_axis = job.swap_axes[at], y_axis = !x_axis;
            const i64* extent = job.source_extent + 2 * source;
            for (i64 k = 0; k < num_slots; ++k) {
                const i64* box = job.boxes + 4 * (source * num_slots + k);
                place_axis(box + x_axis, extent[x_axis], job.hflip[at], 4 * k);
                place_axis(box + y_axis, extent[y_axis], job.vflip[at], 4 * k + 1);
            }
            const i64* labels = job.labels + source * num_slots;
            for (i64 k = 0; k < num_slots; ++k) {
                i64 others = job.num_region_classes - 1;
                region[k] = job.region_table[labels[k] >= 0 && labels[k] <= others ? labels[k] : others];
            }
            u8* carried = job.carried + at * num_slots;
            Around before = around(carried);
            draw_scale(b, j, carried, labels);
            if (job.keeps_place) {
                keep_place(b, j, before, carried);
            } else {
                draw_place(b, j, carried);
            }
            for (i64 k = 0; k < num_slots; ++k) num_fitting += carried[k];
        }
        job.does_not_fit[b] -= num_fitting + job.outside_region[b] + job.covers_too_much[b];
        if (takes_part()) take_part(b);
    }
};

// Rows for the layers, and slots, scale, orientation and place for every layer of every target.
inline ErrorCode draw(const DrawJob& job, Arena& arena) {
    Mark before = mark(arena);
    i64 k = job.num_source_slots, count = job.num_layers * k, num_own = job.num_rows ? job.num_source_rows / job.num_rows : 0;
    i64 most_sorted = most(most(count, k), num_own);
    auto offers = take<u8>(arena, job.num_rows);
    auto values = take<i64>(arena, most(job.num_rows, num_own));
    SlotDrawer slots = {job, k, job.num_layers, take<i64>(arena, job.num_source_rows * k), take<i64>(arena, count),
                        take<i64>(arena, most_sorted), take<i64>(arena, most_sorted)};
    CoverDrawer covers = {slots, take<i64>(arena, 4 * k), take<i64>(arena, count)};
    Drawer drawer = {covers, take<u8>(arena, 4 * k), take<i64>(arena, k)};
    if (!arena.failed) {
        if (job.pick == OTHERS) {
            for (i64 s = 0; s < job.num_rows; ++s) {
                offers[s] = 0;
                for (i64 i = 0; i < k; ++i) offers[s] |= job.eligible[s * k + i];
            }
            RowsJob rows = {.num_rows = job.num_rows, .num_layers = job.num_layers, .seeds = job.seeds, .offers = offers,
                            .source_idx = job.source_idx, .layer_valid = job.layer_valid};
            choose_rows(rows, values);
        }
        if (job.pick == SAME) drawer.choose_same();
        for (i64 b = 0; job.pick == OWN && b < job.num_rows; ++b) drawer.choose_own(b, values);
        drawer.count_alike();
        for (i64 b = 0; b < job.num_rows; ++b) drawer.draw_row(b);
    }
    ErrorCode error = arena.failed ? OUT_OF_MEMORY : NO_ERROR;
    release(arena, before);
    return error;
}

}  // namespace SEGPASTE_NAMESPACE
