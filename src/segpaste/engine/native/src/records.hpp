// What Python hands over: plain records of numbers and pointers, the same for every instruction set.
//
// `segpaste.engine.native.jobs` fills them, word for word. Every number is an int64. A null pointer stands for what is absent.

#pragma once

#include <stdint.h>

// A pixel field of a batch: [rows, channels or slots, H, W]. Strides count elements; the last one is 1, except for images.
struct Plane {
    void* data;
    int64_t stride[4];
};

// Which rows of the sources the layers take.
enum Pick { GIVEN = 0, OTHERS = 1, OWN = 2, SAME = 3 };

// Written by scripts/write_records.py from the schema of the records; do not edit.

// Pixel fields of a batch.
struct Planes {
    Plane images;  // [B, C, H, W] uint8, float16, bfloat16, float32
    Plane masks;  // [B, K, H, W] bool
    Plane semantic;  // [B, H, W] int64
    Plane panoptic;  // [B, H, W] int64
    Plane depth;  // [B, 1, H, W] float32
    Plane depth_valid;  // [B, 1, H, W] bool
    Plane normals;  // [B, 3, H, W] float32
    Plane padding;  // [B, 1, H, W] bool
};

// Instances of a batch.
struct Rows {
    float* boxes;  // [B, K, 4]
    int64_t* labels;  // [B, K]
    int32_t* ids;  // [B, K]
    uint8_t* valid;  // [B, K]
};

struct SurveyJob {
    int64_t ignore_index;
    int64_t whole_only;  // whether instances that touch the border of their image may not be pasted
    int64_t num_rows, num_slots, height, width;
    // Classes
    const uint8_t* is_thing;  // [num_classes], or null
    const uint8_t* is_stuff;  // [num_stuff], or null
    // Survey, written
    uint8_t* eligible;  // [B, K]
    int64_t* occupied;  // [B, K, 4]
    int64_t* num_free;  // [B]
    int64_t* extent;  // [B, 2]
    uint8_t* present;  // [B, num_mixed], or null
    int64_t num_classes, num_stuff, num_mixed;
    Rows rows;
    Plane padding;
    Plane semantic;
};

struct RowsJob {
    int64_t num_rows, num_layers;
    // Candidates
    const int64_t* seeds;  // [B]
    const uint8_t* offers;  // [B]
    // LayerRows, written
    int64_t* source_idx;  // [B, L]
    uint8_t* layer_valid;  // [B, L]
};

struct DrawJob {
    int64_t pick;  // a Pick; rows that are given are read
    int64_t num_rows, num_source_slots;
    // Targets
    const int64_t* seeds;  // [B]
    const int64_t* occupied;  // [B, K_t, 4]
    const int64_t* num_free;  // [B]
    const int64_t* extent;  // [B, 2]
    const int32_t* regions;  // [B, R, H + 1, W + 1], or null
    // Sources
    const uint8_t* eligible;  // [S, K_s]
    const int64_t* boxes;  // [S, K_s, 4]
    const int64_t* labels;  // [S, K_s]
    const int64_t* source_extent;  // [S, 2]
    const int64_t* shrunk;  // [S], or null
    // DrawTables
    const int64_t* limits;  // [4]
    const int64_t* size_table;  // [num_sizes, 2]
    const int64_t* inverse_weights;  // [num_weights]
    const int64_t* log_table;  // [257]
    const int64_t* region_table;  // [num_region_classes]
    // Placement, written
    int64_t* source_idx;  // [B, L]
    uint8_t* layer_valid;  // [B, L]
    int64_t* scale_num;  // [B, L, 2]
    int64_t* scale_den_out;  // [B, L, 2]
    int64_t* translate;  // [B, L, 2]
    uint8_t* hflip;  // [B, L]
    uint8_t* carried;  // [B, L, K_s]
    uint8_t* vflip;  // [B, L]
    uint8_t* swap_axes;  // [B, L]
    // PlacementCounts, written
    int64_t* tried;  // [B]
    int64_t* no_source;  // [B]
    int64_t* no_free_slot;  // [B]
    int64_t* does_not_fit;  // [B]
    int64_t* outside_region;  // [B], or null
    int64_t* covers_too_much;  // [B], or null
    int64_t num_slots, num_regions, region_height, region_width, num_source_rows, num_sizes,
        num_weights, num_region_classes;
    // DrawRules
    int64_t num_layers, low_scale, high_scale, scale_den, flip_threshold, vflip_threshold,
        turn_threshold, max_attempts, patch, on_grid, whole_patches, one_each, clips, seen_num,
        seen_den, keeps_place, hides_cuts, fits_scale, region_num, region_den, counts_available,
        cover_num, cover_den, candidate_num, candidate_den, needs_objects;
};

struct MixtureJob {
    int64_t num_rows, num_layers, num_slots, height, width, num_classes;
    // Chances
    const int64_t* seeds;  // [B]
    const int64_t* limits;  // [4]
    // Survey
    const uint8_t* eligible;  // [B, K]
    const int64_t* num_free;  // [B]
    const uint8_t* present;  // [B, num_classes], or null
    // LayerRows
    const int64_t* source_idx;  // [B, L]
    const uint8_t* layer_valid;  // [B, L]
    // Mixture, written
    uint8_t* classes;  // [B, L, num_classes]
    // Placement, written
    uint8_t* carried;  // [B, L, K_s]
    // PlacementCounts, written
    int64_t* tried;  // [B]
    int64_t* no_source;  // [B]
    int64_t* no_free_slot;  // [B]
    int64_t num_source_slots;
    Planes planes;
    Rows rows;
};

struct ComposeJob {
    int64_t pixel_kind;  // a PixelKind
    int64_t largest_id;  // ids in the target above this count as this
    int64_t exclusive;  // each pixel belongs to exactly one instance
    int64_t with_owner;  // a requested field needs the owner (source slot) of each pasted pixel
    int64_t has_fragment;  // sources have a slot more than rows, which belongs to no instance and takes no row
    int64_t in_place;  // ``out`` is the target
    int64_t reads_itself;  // the source is the target, row by row
    int64_t shares_memory;  // the source lies in the target's memory, in whatever order
    int64_t num_threads;
    int64_t* readers;  // [B] zeros, in place: by how many layers a row is still read
    int64_t* is_taken;  // [B] zeros, in place: whether a thread works on it
    int64_t num_rows, num_layers, num_slots, num_source_slots, num_source_rows, num_channels,
        height, width, source_height, source_width, num_visible;
    // Placement
    const int64_t* source_idx;  // [B, L]
    const int64_t* scale_num;  // [B, L, 2]
    const int64_t* scale_den;  // [B, L, 2]
    const int64_t* translate;  // [B, L, 2]
    const uint8_t* hflip;  // [B, L]
    const uint8_t* drawn;  // [B, L, K_s]
    const uint8_t* vflip;  // [B, L]
    const uint8_t* swap_axes;  // [B, L]
    // Classes
    const uint8_t* is_thing;  // [num_things], or null
    const uint8_t* is_stuff;  // [num_stuff], or null
    const int16_t* rank;  // [num_ranks], or null
    // Mixture
    const uint8_t* mixed_classes;  // [B, L, num_mixed]
    const uint8_t* mixed_eligible;  // [S, K]
    // Cameras
    const float* target_camera;  // [B, 4], or null
    const float* source_camera;  // [S, 4], or null
    // Outcome, written
    uint8_t* carried;  // [B, L, K_s]
    int64_t* dropped;  // [B, 3]
    int64_t* slot_layer;  // [B, K]
    int64_t* slot_source;  // [B, K]
    int64_t* slot_lost;  // [B, K]
    int16_t* layer;  // [V, H, W]
    int64_t num_things, num_stuff, num_ranks, num_mixed;
    // PasteRules
    int64_t num_taps, min_area_px, residual_num, residual_den, residual_px, box_shift_px, stuff_num,
        stuff_den, stuff_px, reverts_stuff, hidden_num, hidden_den, ignore_index, perspective,
        covers_void, orders_by_value;
    Planes target;
    Planes source;
    Planes out;
    Rows target_rows;
    Rows source_rows;
    Rows out_rows;
    int64_t check_state, next_row, num_read, error;  // shared between threads
};

struct StepJob {
    SurveyJob survey;
    DrawJob draw;
    ComposeJob compose;
};

// End of what scripts/write_records.py writes.

enum PixelKind { UINT8 = 0, FLOAT32 = 1, FLOAT16 = 2, BFLOAT16 = 3 };

// Layers, and slots of the source, are int16 where they are told of pixels.
constexpr int64_t MOST_LAYERS = 32767;

enum ErrorCode {
    NO_ERROR = 0,
    OUT_OF_MEMORY = 1,
    WRONG_SOURCE_ROW = 2,
    WRONG_SCALE = 3,
    TOO_MANY_CARRIED = 4,
    WRONG_PLACE = 5,
    TOO_MANY_LAYERS = 6,
};
