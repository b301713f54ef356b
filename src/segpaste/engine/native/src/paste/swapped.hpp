// Planes of a source whose axes a layer swaps.
//
// What the layer reads is copied with its lines as columns, so that all reads go along lines. Masks are not copied: each is
// read once.

#pragma once

#include "paste/layers.hpp"

namespace SEGPASTE_NAMESPACE {

// Rectangle of the source that a layer reads, and the length of its lines, the canvas' columns.
struct Swap {
    i64 row, first_column, last_column, first_line, last_line, size;
};

template <class T>
inline Plane swapped(const Plane& plane, const Swap& swap, i64 num_channels, Arena& arena) {
    if (!plane.data) return plane;
    i64 num_lines = swap.last_column + 1 - swap.first_column, channel = num_lines * swap.size;
    T* copy = take<T>(arena, num_channels * channel);
    if (arena.failed) return plane;
    for (i64 c = 0; c < num_channels; ++c) {
        auto from = static_cast<const T*>(plane.data) + swap.row * plane.stride[0] + c * plane.stride[1];
        for (i64 x = swap.first_column; x <= swap.last_column; ++x) {
            T* line = copy + c * channel + (x - swap.first_column) * swap.size;
            for (i64 y = swap.first_line; y <= swap.last_line; ++y) line[y] = from[y * plane.stride[2] + x * plane.stride[3]];
        }
    }
    return {copy - swap.first_column * swap.size, {0, channel, swap.size, 1}};
}

inline Plane swapped_image(const ComposeJob& job, const Swap& swap, Arena& arena) {
    switch (job.pixel_kind) {
        case UINT8: return swapped<u8>(job.source.images, swap, job.num_channels, arena);
        case FLOAT32: return swapped<f32>(job.source.images, swap, job.num_channels, arena);
        default: return swapped<u16>(job.source.images, swap, job.num_channels, arena);
    }
}

// The planes that a layer reads, with lines of its columns. Its axes, which are made, say what of them.
inline const Planes* with_axes_swapped(const ComposeJob& job, const Layer& layer, Arena& arena) {
    Swap swap = {layer.source, 0, 0, 0, 0, job.source_height};
    layer.y.find_reach(0, layer.y.size() - 1, swap.first_column, swap.last_column);
    layer.x.find_reach(0, layer.x.size() - 1, swap.first_line, swap.last_line);
    const Planes& source = job.source;
    Planes* planes = take<Planes>(arena, 1);
    if (arena.failed) return &source;
    *planes = source;
    planes->images = swapped_image(job, swap, arena);
    planes->semantic = swapped<i64>(source.semantic, swap, 1, arena);
    planes->depth = swapped<f32>(source.depth, swap, 1, arena);
    planes->depth_valid = swapped<u8>(source.depth_valid, swap, 1, arena);
    planes->normals = swapped<f32>(source.normals, swap, 3, arena);
    planes->padding = swapped<u8>(source.padding, swap, 1, arena);
    return planes;
}

}  // namespace SEGPASTE_NAMESPACE
