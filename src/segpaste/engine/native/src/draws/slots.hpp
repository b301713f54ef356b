// The slots that layers carry: `segpaste.engine.reference.draws.slots`, bit for bit.

#pragma once

#include "draws/rows.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr i64 HIGHEST = i64(1) << 62;

// Choice of the slots of one batch, row after row.
struct SlotDrawer {
    const DrawJob& job;
    i64 num_slots, num_layers;  // K_s, L
    i64* num_alike;  // [S, K_s], eligible slots of the slot's class; 0 where it is not eligible
    i64* priority;   // [L, K] of the row, -1 where nothing may be chosen
    i64* order;      // [max(L * K, S / B)]
    i64* spare;      // likewise

    // Whether only some of the eligible objects are pasted.
    bool takes_part() const { return job.candidate_num < job.candidate_den; }

    u64 layer_state(i64 seed, u64 name, i64 layer) const { return indexed(keyed(seed, name), layer); }

    // The row of the tables that a layer reads.
    i64 row_of(i64 at) const { return job.pick == GIVEN ? at : job.source_idx[at]; }

    // For the layers of a target some of the rows that belong to it, uniform over rows with an eligible instance.
    void choose_own(i64 b, i64* values) const {
        i64 num_own = job.num_source_rows / job.num_rows;
        for (i64 i = 0; i < num_own; ++i) {
            bool offers = job.eligible[(b * num_own + i) * num_slots];
            values[i] = offers ? priority_of(layer_state(job.seeds[b], CROP, i)) : -1;
        }
        sort_descending(values, num_own, order, spare);
        for (i64 j = 0; j < num_layers; ++j) {
            job.source_idx[b * num_layers + j] = b * num_own + order[j];
            job.layer_valid[b * num_layers + j] = values[order[j]] >= 0;
        }
    }

    // The target's own row for all its layers, where it has an eligible instance.
    void choose_same() const {
        for (i64 at = 0; at < job.num_rows * num_layers; ++at) {
            bool offers = false;
            for (i64 k = 0; k < num_slots; ++k) offers |= job.eligible[at / num_layers * num_slots + k] != 0;
            job.source_idx[at] = offers ? at / num_layers : 0;
            job.layer_valid[at] = offers;
        }
    }

    // At temperature 0 class counts are not needed: 1 for each eligible slot.
    void count_alike() const {
        for (i64 s = 0; s < job.num_source_rows; ++s) {
            const u8* eligible = job.eligible + s * num_slots;
            const i64* labels = job.labels + s * num_slots;
            for (i64 k = 0; k < num_slots; ++k) {
                i64 count = eligible[k];
                if (job.limits[3] > 0 && eligible[k]) {
                    for (i64 other = 0; other < num_slots; ++other) {
                        count += other != k && eligible[other] && labels[other] == labels[k];
                    }
                }
                num_alike[s * num_slots + k] = count;
            }
        }
    }

    // The priority of a slot of 62 random bits, one of ``alike`` of its class: `segpaste.engine.reference.draws.slots`.
    i64 weighted(i64 bits, i64 alike) const {
        if (job.limits[3] == 0) return bits;
        i64 number = bits + 1, zeros = 0;
        while (number < HIGHEST) number <<= 1, ++zeros;
        i64 step = number >> 54 & 255, between = number >> 24 & ((i64(1) << 30) - 1);
        i64 low = job.log_table[step], high = job.log_table[step + 1];
        i64 wait = (zeros << 32) - low - ((high - low) * between >> 30);
        return HIGHEST - 1 - wait * job.inverse_weights[least(alike, job.num_weights - 1)];
    }

    // If each layer carries one object, layers of one source take different slots of it, in random order.
    void prioritise(i64 b) const {
        i64 seed = job.seeds[b];
        for (i64 j = 0; j < num_layers; ++j) {
            i64 first = j, turn = 0, source = row_of(b * num_layers + j), *row = priority + j * num_slots;
            if (job.one_each) find_turn(b, j, first, turn);
            for (i64 k = 0; k < num_slots; ++k) {
                i64 alike = num_alike[source * num_slots + k];
                row[k] = -1;
                if (job.layer_valid[b * num_layers + j] && alike > 0) {
                    row[k] = weighted(priority_of(indexed(layer_state(seed, SLOT, first), k)), alike);
                }
            }
            if (!job.one_each) continue;
            sort_descending(row, num_slots, order, spare);
            i64 kept = turn < num_slots ? order[turn] : -1;
            for (i64 k = 0; k < num_slots; ++k) {
                row[k] = k == kept && row[k] >= 0 ? priority_of(layer_state(seed, LAYER, j)) : -1;
            }
        }
    }

    // The first layer with the source of layer j, and the number of such layers that take a slot before j.
    void find_turn(i64 b, i64 j, i64& first, i64& turn) const {
        const i64* source = job.source_idx + b * num_layers;
        i64 own = priority_of(layer_state(job.seeds[b], LAYER, j));
        for (i64 i = 0; i < num_layers; ++i) {
            if (source[i] != source[j]) continue;
            first = least(first, i);
            bool is_valid = job.layer_valid[b * num_layers + i];
            i64 other = is_valid ? priority_of(layer_state(job.seeds[b], LAYER, i)) : -1;
            turn += job.limits[3] == 0 || other == own ? i < j : other > own;
        }
    }

    // Whether an instance of a target has a box with an area.
    bool has_objects(i64 b) const {
        const i64* boxes = job.occupied + 4 * b * job.num_slots;
        for (i64 k = 0; k < job.num_slots; ++k) {
            if (boxes[4 * k + 2] > boxes[4 * k] && boxes[4 * k + 3] > boxes[4 * k + 1]) return true;
        }
        return false;
    }

    // Put the eligible slots of highest priority into ``carried``; they count as ``does_not_fit`` until placed.
    void choose_slots(i64 b) const {
        i64 seed = job.seeds[b], count = num_layers * num_slots, available = 0;
        bool has_source = false;
        for (i64 i = 0; i < count; ++i) available += priority[i] >= 0;
        for (i64 j = 0; j < num_layers; ++j) has_source |= job.layer_valid[b * num_layers + j] != 0;
        bool tries = happens(keyed(seed, PASTE), job.limits[0]) && (!job.needs_objects || has_objects(b));
        i64 limit = job.counts_available ? available : job.limits[2];
        i64 wanted = tries ? integer(keyed(seed, COUNT), least(job.limits[1], limit), least(job.limits[2], limit)) : 0;
        i64 num_tried = least(wanted, available), num_chosen = takes_part() ? num_tried : least(num_tried, job.num_free[b]);
        u8* carried = job.carried + b * count;
        if (num_chosen >= available) {
            for (i64 i = 0; i < count; ++i) carried[i] = priority[i] >= 0;
        } else {
            sort_descending(priority, count, order, spare);
            memset(carried, 0, size_t(count));
            for (i64 i = 0; i < num_chosen; ++i) carried[order[i]] = 1;
        }
        i64 no_source = tries && !has_source;
        job.tried[b] = num_tried + no_source;
        job.no_source[b] = no_source;
        job.no_free_slot[b] = num_tried - num_chosen;
        job.does_not_fit[b] = num_chosen;
    }
};

}  // namespace SEGPASTE_NAMESPACE
