// What Python hands over to read pictures and masks through a window; `segpaste.engine.native.windows` fills it.
//
// As in `records.hpp` every number is an int64, and a null pointer stands for what is absent.

#pragma once

#include <stdint.h>

// A picture of height x width is resized, flipped left to right if asked to, and cut at (top, left). What is inside lies
// at the top left of the output; the rest of it is padding.
struct Window {
    int64_t height, width;
    int64_t resized_height, resized_width;
    int64_t top, left;
    int64_t inside_height, inside_width;
    int64_t out_height, out_width;
    int64_t flip;
};

struct ImageJob {
    Window window;
    const uint8_t* in;                      // [C, H, W] with these strides
    int64_t num_channels;                   // 1 to 4
    int64_t channel_stride, line_stride, column_stride;
    int64_t fill;
    uint8_t* out;  // [C, H, W], written
};

struct PlanesJob {
    Window window;
    const uint8_t* in;  // [N, H, W], dense
    int64_t num_planes;
    int64_t pixel_size;  // bytes: 1 or 8
    int64_t fill;
    uint8_t* out;        // [N, H, W], written
    int64_t* measures;   // [N, 5], written: area, x1, y1, x2, y2 of what is not 0; or null. Pixels of one byte only.
};

struct RunsJob {
    Window window;
    const void* counts;    // int64 run lengths down the columns, background first; or their compressed text
    int64_t num_counts;    // of numbers, or of characters
    int64_t is_text;
    uint8_t* out;          // [H, W] of zeros, written; or null to measure alone
    int64_t* measures;     // [6], written: area of the source, then area, x1, y1, x2, y2 of what the window shows
};

// One axis of a cut: ``start`` to ``end`` of ``length`` pixels are the content, which takes ``size`` pixels of the crop
// from ``before`` on, of ``room``.
struct CutSide {
    int64_t start, end, length;
    int64_t size, before, room;
};

struct CutJob {
    const uint8_t* in;  // [3, H, W] with these strides
    int64_t channel_stride, line_stride, column_stride;
    const uint8_t* mask;  // [H, W], dense
    CutSide rows, columns;
    int64_t num, den;  // pixels of the crop per pixel of the image, at most 1
    uint8_t* out;      // [3, h, w], written
    uint8_t* alpha;    // [h, w], written
};
