// Boxes in whole pixels, and the picture of a row without its padding.

#pragma once

#include "base/numbers.hpp"
#include "records.hpp"

namespace SEGPASTE_NAMESPACE {

struct Box {
    i64 x1, y1, x2, y2;

    i64 width() const { return x2 - x1; }
    i64 height() const { return y2 - y1; }
    i64 size() const { return width() * height(); }
    bool is_empty() const { return x1 >= x2 || y1 >= y2; }
    void enclose(const Box& other) {
        x1 = least(x1, other.x1), y1 = least(y1, other.y1), x2 = most(x2, other.x2), y2 = most(y2, other.y2);
    }
};

inline Box common(const Box& a, const Box& b) {
    return {most(a.x1, b.x1), most(a.y1, b.y1), least(a.x2, b.x2), least(a.y2, b.y2)};
}

// The part of a float32 box on a canvas, in whole pixels, rounded outwards.
inline Box clipped_box(const f32* edges, i64 width, i64 height) {
    Box box = {clamp(floor_edge(edges[0]), i64(0), width), clamp(floor_edge(edges[1]), i64(0), height),
               clamp(ceil_edge(edges[2]), i64(0), width), clamp(ceil_edge(edges[3]), i64(0), height)};
    box.x2 = most(box.x1, box.x2);
    box.y2 = most(box.y1, box.y2);
    return box;
}

// The first output pixel whose centre lies behind a source edge: ceil(edge * num / den - 1 / 2).
inline i64 scaled_edge(i64 edge, i64 num, i64 den) { return -floor_div(den - 2 * num * edge, 2 * den); }

struct Extent {
    i64 width, height;
};

// The picture of a row: up to the last column and row that are not padding.
inline Extent picture_extent(const Plane& padding, i64 row, i64 height, i64 width) {
    if (!padding.data) return {width, height};
    Extent extent = {0, 0};
    for (i64 y = 0; y < height; ++y) {
        auto line = static_cast<const u8*>(padding.data) + row * padding.stride[0] + y * padding.stride[2];
        i64 x = width;
        while (x > extent.width && line[x - 1]) --x;
        bool any = x > extent.width;
        for (i64 i = 0; i < x && !any; ++i) any = !line[i];
        if (any) extent = {most(extent.width, x), y + 1};
    }
    return extent;
}

}  // namespace SEGPASTE_NAMESPACE
