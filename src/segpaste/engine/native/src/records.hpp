// What Python hands over: plain records of numbers and pointers, the same for every instruction set.
//
// `segpaste.engine.native.records` declares them once more for ctypes; a test compares the sizes. Every number is an
// int64. A null pointer stands for what is absent.

#pragma once

#include <stdint.h>

// A pixel field of a batch: [rows, channels or slots, H, W]. Strides count elements; the last one is 1, but for images.
struct Plane {
    void* data;
    int64_t stride[4];
};

struct Planes {
    Plane images;       // uint8, float32, float16 or bfloat16: Compose::pixel_kind
    Plane masks;        // uint8, [rows, K, H, W]
    Plane semantic;     // int64
    Plane panoptic;     // int64
    Plane depth;        // float32
    Plane depth_valid;  // uint8
    Plane normals;      // float32, [rows, 3, H, W]
    Plane padding;      // uint8
};

// The instances of a batch, row after row.
struct Rows {
    float* boxes;   // [rows, K, 4] xyxy
    int64_t* labels;  // [rows, K]
    int32_t* ids;     // [rows, K]
    uint8_t* valid;   // [rows, K]
};

struct SurveyJob {
    int64_t num_rows, num_slots, height, width, num_classes;
    Rows rows;
    Plane padding;
    const uint8_t* is_thing;  // [num_classes], classes that may be pasted; null for all
    uint8_t* eligible;        // [B, K], written: instances that may be pasted
    int64_t* occupied;        // [B, K, 4], written: boxes rounded outwards
    int64_t* num_free;        // [B], written: slots without an instance
    int64_t* extent;          // [B, 2], written: (width, height) of the pictures
};

struct DrawJob {
    int64_t num_rows, num_slots, num_layers;
    const int64_t* seeds;      // [B]
    const uint8_t* eligible;   // the next four: of a survey
    const int64_t* occupied;
    const int64_t* num_free;
    const int64_t* extent;
    const int64_t* labels;     // [B, K]
    const int64_t* limits;     // [4], the next four: `DrawTables`
    const int64_t* size_table;  // [num_sizes, 2]
    int64_t num_sizes;
    const int64_t* inverse_weights;
    int64_t num_weights;
    const int64_t* log_table;  // [257]
    int64_t low_scale, high_scale, scale_den, size_den, flip_threshold, max_attempts;  // from here on: `DrawRanges`
    int64_t patch, on_grid, grid_tries, whole_patches, one_each, clips, seen_num, seen_den;
    int64_t* source_idx;       // [B, L], written as all that follows
    uint8_t* layer_valid;      // [B, L]
    int64_t* scale_num;        // [B, L, 2]
    int64_t* scale_den_out;    // [B, L, 2]
    int64_t* translate;        // [B, L, 2]
    uint8_t* hflip;            // [B, L]
    uint8_t* carried;          // [B, L, K]
    int64_t* tried;            // [B]
    int64_t* no_source;        // [B]
    int64_t* no_free_slot;     // [B]
    int64_t* does_not_fit;     // [B]
};

struct ComposeJob {
    // B, L, slots of the target and of the source, rows of the source, canvases.
    int64_t num_rows, num_layers, num_slots, num_source_slots, num_source_rows;
    int64_t height, width, source_height, source_width, num_channels, pixel_kind;
    Planes target, source, out;  // in place ``out`` is the target
    Rows target_rows, source_rows, out_rows;
    const int64_t* source_idx;  // [B, L]
    const int64_t* scale_num;   // [B, L, 2]
    const int64_t* scale_den;   // [B, L, 2]
    const int64_t* translate;   // [B, L, 2]
    const uint8_t* hflip;       // [B, L]
    const uint8_t* drawn;       // [B, L, K_s], pastes that were drawn
    const float* depth_scale;   // [B, L], or null
    const uint8_t* is_thing;    // [num_things], or null
    int64_t num_things;
    const uint8_t* is_stuff;    // [num_stuff], watched classes, or null
    int64_t num_stuff;
    const int16_t* rank;        // [num_ranks], priorities of classes, or null
    int64_t num_ranks;
    // Rules; see `PasteRules`.
    int64_t num_taps, min_area_px, residual_num, residual_den, stuff_num, stuff_den, stuff_px, reverts_stuff;
    int64_t hidden_num, hidden_den, ignore_index, largest_id, exclusive, with_owner, has_fragment;  // `Rules`
    int64_t in_place;
    int64_t reads_itself;   // the source is the target, row by row
    int64_t shares_memory;  // the source lies in the target's memory, in whatever order
    // Written.
    uint8_t* carried;     // [B, L, K_s], pastes that are in the output
    int64_t* dropped;     // [B, 3]: hidden, reverted, too small
    int64_t* slot_layer;  // [B, K]
    int64_t* slot_source;  // [B, K]
    int16_t* layer;       // [B, H, W], or null
    // Shared between threads; zero at first.
    int64_t num_threads, check_state, next_row, num_read, error;
};

enum PixelKind { UINT8 = 0, FLOAT32 = 1, FLOAT16 = 2, BFLOAT16 = 3 };

enum ErrorCode {
    NO_ERROR = 0,
    OUT_OF_MEMORY = 1,
    WRONG_SOURCE_ROW = 2,
    WRONG_SCALE = 3,
    TOO_MANY_CARRIED = 4,
};
