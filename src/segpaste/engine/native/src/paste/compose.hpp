// A whole paste, row after row: lay out, resolve, measure, keep what must not be hidden, assign slots, render.
//
// No step needs two rows of the target at once, so a thread completes a row while it is in the cache. In place, the
// writes to a row are held back until no other row reads it.

#pragma once

#include "paste/paint.hpp"
#include "paste/row.hpp"
#include "paste/turns.hpp"

namespace SEGPASTE_NAMESPACE {

// The writes to a row that are held back because other rows still read it.
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

// One thread's work.
template <class T>
struct Composer : TargetRow {
    using Sum = typename Sums<T>::Sum;

    Arena& kept;  // for what is held back
    Mover mover;
    HeldRow* held = nullptr;  // the last one

    // Visit every strip of a paste: the part of a line between its first and its last visible pixel.
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

    // Write the row immediately: each strip after it is read.
    void pass(const Stamp* stamps, Sum* sums) {
        write_losses(job, mover, b, slots, target_boxes, ignored);
        Strip strip = take_strip(job, arena, job.width, sizeof(T));
        if (arena.failed) return;
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].box.is_empty()) continue;
            keep_shown(pastes[n], seen, job.exclusive);
            for_strips(pastes[n], [&](i64 y, i64 first, i64 end, const u8* shown) {
                fill(strip, y, first, end, shown);
                fetch_ahead<T>(job, b, layers[pastes[n].layer], pastes[n], stamps[n], strip, true);
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
        auto sums = take<Sum>(arena, room_for_colours(most(job.source_width, job.source_height)));
        if (arena.failed || kept.failed) return nullptr;
        *row = {held, b, before, own_slots, own_boxes, own_ignored, strips, marks, 0};
        for (i64 n = 0; n < num_pastes; ++n) {
            if (!pastes[n].is_carried || pastes[n].box.is_empty()) continue;
            for_strips(pastes[n], [&](i64 y, i64 first, i64 end, const u8* shown) {
                Strip strip = take_strip(job, kept, end - first, sizeof(T));
                const u8* own_shown = copy_kept(shown, end - first);
                if (kept.failed) return;
                fill(strip, y, first, end, own_shown);
                fetch_ahead<T>(job, b, layers[pastes[n].layer], pastes[n], stamps[n], strip, false);
                read_strip<T>(job, layers[pastes[n].layer], pastes[n], seen, sums, strip);
                marks[row->num_strips] = stamps[n];
                strips[row->num_strips++] = strip;
            });
        }
        return kept.failed ? nullptr : row;
    }

    // Write the row that was held back last, and free its memory.
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

    // Complete one row. In place it is held back while ``must_hold``.
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
        auto sums = take<Sum>(arena, room_for_colours(most(job.source_width, job.source_height)));
        if (!arena.failed) pass(stamps, sums);
        ErrorCode error = arena.failed ? OUT_OF_MEMORY : NO_ERROR;
        if (job.in_place) write_rows_over(b);
        release(arena, before);
        return error;
    }

    bool has_failed() const { return __atomic_load_n(&job.error, __ATOMIC_RELAXED) != NO_ERROR; }

    void fail(ErrorCode error) const {
        if (error) __atomic_store_n(&job.error, i64(error), __ATOMIC_RELAXED);
    }

    // In place among the rows of one batch: each is written as soon as no other layer reads it.
    void compose_among_themselves() {
        for (i64 row = take_next(job); row >= 0 && !has_failed(); row = take_next(job)) {
            ErrorCode error = compose_row(row, readers(job, row) > 0);
            if (error) return fail(error);
            finish_reading(job, row);
            while (held && readers(job, held->row) == 0) write_held();
        }
        Patience patience;
        while (held && !has_failed()) {
            if (readers(job, held->row) == 0) {
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
    Composer<T> composer = {{job, workspace.work}, workspace.kept, {!job.in_place && is_large(job)}};
    if (job.in_place && job.reads_itself) {
        composer.compose_among_themselves();
    } else {
        composer.compose_apart();
    }
    release(workspace.work, {nullptr, 0});
    release(workspace.kept, {nullptr, 0});
}

// Take rows until none is left. Every thread of a step calls this with the same job, which receives the error.
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
