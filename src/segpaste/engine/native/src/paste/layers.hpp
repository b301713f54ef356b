// The layers of one row of the target, and the objects that they carry.

#pragma once

#include "paste/axes.hpp"
#include "scene/boxes.hpp"

namespace SEGPASTE_NAMESPACE {

// One layer over one row of the target.
struct Layer {
    i64 source;  // the row of the source batch
    bool hflip, vflip, swap_axes;
    f32 depth_scale;
    Axis x, y;  // empty where nothing is carried
    const u8* classes;  // [num_mixed], with ClassMix the classes that it pastes, or null
    const Planes* planes;  // of the source, all but its masks with swapped axes if ``swap_axes``
    i64 width;             // of a line of these planes
};

// One carried object of a layer: the mask of a source slot, as the target sees it.
struct Paste {
    i64 layer, slot;
    Box box;         // on the canvas
    u8* cut;         // [h, w], where the mask covers its box; after the resolve where it is visible
    f32* depth;      // [h, w] on the target's scale where the paste is offered, or null
    u8* depth_ok;    // [h, w], a `DepthState`
    bool is_carried;  // not taken out
    i64 area;        // visible pixels
    Box shown;       // around the visible pixels
    i64 free_area;   // visible pixels before anything is guarded
};

// What an output slot holds.
struct Slot {
    bool survives, is_dropped;  // the target's instance
    Box visible;                // around its visible pixels
    i64 paste;                  // index of the paste that it holds, -1 if none
};

// Values of a paste other than its pixels.
struct Stamp {
    i64 slot;  // of the output; -1 for a fragment, which takes no row
    i64 id;    // fresh, 0 if it has no row
};

}  // namespace SEGPASTE_NAMESPACE
