// What Python hands over: plain records of numbers and pointers, the same for every instruction set.
//
// `segpaste.engine.native.binding` fills them, word for word. Every number is an int64. A null pointer stands for what is absent.

#pragma once

#include <stdint.h>

// A pixel field of a batch: [rows, channels or slots, H, W]. Strides count elements; the last one is 1, except for images.
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
    const uint8_t* is_stuff;  // [num_classes], or null, as the rest where nobody asks for what may be mixed
    Plane semantic;
    int64_t ignore_index, num_mixed;
    uint8_t* present;  // [B, num_mixed], written
    int64_t whole_only;  // whether instances that touch the border of their picture may not be pasted
};

struct RowsJob {
    int64_t num_rows, num_layers;
    const int64_t* seeds;   // [B]
    const uint8_t* offers;  // [B], rows that have something to paste
    int64_t* source_idx;    // [B, L], written
    uint8_t* layer_valid;   // [B, L], written
};

// Which rows of the sources the layers take.
enum Pick { GIVEN = 0, OTHERS = 1, OWN = 2, SAME = 3 };

struct DrawJob {
    int64_t num_rows, num_layers, num_slots, num_source_rows, num_source_slots, pick;
    const int64_t* seeds;           // [B], the first five: `Targets`
    const int64_t* occupied;        // [B, K_t, 4]
    const int64_t* num_free;        // [B]
    const int64_t* extent;          // [B, 2]
    const int32_t* regions;         // [B, num_regions, region_height, region_width], or null
    const uint8_t* eligible;        // [S, K_s], the next five: `Sources`
    const int64_t* boxes;           // [S, K_s, 4]
    const int64_t* labels;          // [S, K_s]
    const int64_t* source_extent;   // [S, 2]
    const int64_t* shrunk;          // [S], or null
    const int64_t* limits;          // [4], the next five: `DrawTables`
    const int64_t* size_table;      // [num_sizes, 2]
    const int64_t* inverse_weights;
    const int64_t* log_table;       // [257]
    const int64_t* region_table;    // [num_region_classes]
    int64_t num_sizes, num_weights, num_region_classes, num_regions, region_height, region_width;
    int64_t low_scale, high_scale, scale_den, flip_threshold, max_attempts;  // from here on: `DrawRules`
    int64_t patch, on_grid, whole_patches, one_each, clips, seen_num, seen_den;
    int64_t keeps_place, hides_cuts, fits_scale, region_num, region_den;
    int64_t counts_available, cover_num, cover_den, candidate_num, candidate_den, needs_objects;
    int64_t* source_idx;       // [B, L], read where rows are given, else written, as all that follows
    uint8_t* layer_valid;      // [B, L]
    int64_t* scale_num;        // [B, L, 2]
    int64_t* scale_den_out;    // [B, L, 2]
    int64_t* translate;        // [B, L, 2]
    uint8_t* hflip;            // [B, L]
    uint8_t* carried;          // [B, L, K_s]
    int64_t* tried;            // [B]
    int64_t* no_source;        // [B]
    int64_t* no_free_slot;     // [B]
    int64_t* does_not_fit;     // [B]
    int64_t* outside_region;   // [B]
    int64_t* covers_too_much;  // [B]
};

struct MixtureJob {
    int64_t num_rows, num_layers, num_slots, num_classes, height, width;
    Planes planes;
    Rows rows;
    const int64_t* seeds;       // [B]
    const int64_t* num_free;    // [B]
    const uint8_t* eligible;    // [B, K]
    const uint8_t* present;     // [B, num_classes]
    const int64_t* source_idx;  // [B, L]
    const uint8_t* layer_valid;  // [B, L]
    const int64_t* limits;      // [4]
    uint8_t* classes;           // [B, L, num_classes], written, as all that follows
    uint8_t* carried;           // [B, L, K + 1]
    int64_t* tried;             // [B]
    int64_t* no_source;         // [B]
    int64_t* no_free_slot;      // [B]
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
    const float* target_camera;  // [B, 4], or null where depth is not metric
    const float* source_camera;  // [S, 4], or null
    const uint8_t* is_thing;    // [num_things], or null
    int64_t num_things;
    const uint8_t* is_stuff;    // [num_stuff], watched classes, or null
    int64_t num_stuff;
    const int16_t* rank;        // [num_ranks], priorities of classes, or null
    int64_t num_ranks;
    const uint8_t* mixed_classes;   // [B, L, num_mixed], with ClassMix, or null
    int64_t num_mixed;
    const uint8_t* mixed_eligible;  // [S, K]
    // Rules; see `PasteRules`.
    int64_t num_taps, min_area_px, residual_num, residual_den, residual_px, box_shift_px;
    int64_t stuff_num, stuff_den, stuff_px, reverts_stuff;
    int64_t hidden_num, hidden_den, ignore_index, perspective;
    int64_t covers_void, orders_by_value, tile_size;  // the last one is the reference's
    int64_t largest_id;    // ids in the target above this count as this
    int64_t exclusive;     // each pixel belongs to exactly one instance
    int64_t with_owner;    // some field depends on whose a pasted pixel is
    int64_t has_fragment;  // sources have a slot more than rows, which belongs to no instance and takes no row
    int64_t in_place;
    int64_t reads_itself;   // the source is the target, row by row
    int64_t shares_memory;  // the source lies in the target's memory, in whatever order
    // Written.
    uint8_t* carried;     // [B, L, K_s], pastes that are in the output
    int64_t* dropped;     // [B, 3]: hidden, reverted, too small
    int64_t* slot_layer;  // [B, K]
    int64_t* slot_source;  // [B, K]
    int64_t* slot_lost;   // [B, K], instances of the target: 1 hidden, 2 too small, else 0
    int16_t* layer;       // [B, H, W], or null
    // Shared between threads; zero at first, but for the number of threads.
    int64_t num_threads, check_state, next_row, num_read, error;
    int64_t* readers;   // [B], in place: by how many layers a row is still read
    int64_t* is_taken;  // [B], in place: whether a thread works on it
};

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
