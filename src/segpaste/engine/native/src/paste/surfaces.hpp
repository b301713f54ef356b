// Depth and normals of a layer, read between pixels.
//
// The arithmetic and its order are those of `segpaste.types.sampling`, since depth decides visibility.

#pragma once

#include "paste/layers.hpp"
#include "scene/pictures.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr f32 EDGE_FRAC = 0.05f;
constexpr f32 VANISHING_NORM = 1e-3f;
constexpr f32 WEIGHT_STEP = f32(1.0 / (f32(WEIGHT_ONE) * f32(WEIGHT_ONE)));

// What is known of a depth. All but NO_DEPTH are told apart from 0 only by an order of any value.
enum DepthState : u8 { NO_DEPTH = 0, VALID_DEPTH = 1, INVALID_DEPTH = 2 };

// Depth of a layer on the target's scale, 0 without one, wherever ``wanted`` [h, w] of a box says; ``by_value`` also gives
// depth that is not valid.
inline void read_depth(const Layer& layer, const Planes& source, const Box& box, const u8* wanted, bool by_value, f32* out,
                       u8* out_ok) {
    Picture<const f32> depth = picture<const f32>(source.depth, layer.source);
    Picture<const u8> valid = picture<const u8>(source.depth_valid, layer.source);
    const Axis &x_axis = layer.x, &y_axis = layer.y;
    i64 width = box.width(), x_size = x_axis.size(), y_size = y_axis.size(), x_first = box.x1 - x_axis.first;
    for (i64 y = box.y1; y < box.y2; ++y, wanted += width, out += width, out_ok += width) {
        i64 line = y - y_axis.first;
        i64 above = y_axis.linear.idx[line], below = y_axis.linear.idx[y_size + line];
        i32 over = y_axis.linear.weight[line], under = y_axis.linear.weight[y_size + line];
        const f32 *d0 = depth.at(above), *d1 = depth.at(below);
        const u8 *m0 = valid.at(above), *m1 = valid.at(below);
        for (i64 i = 0; i < width; ++i) {
            if (!wanted[i]) continue;
            i64 column = x_first + i;
            i64 left = x_axis.linear.idx[column], right = x_axis.linear.idx[x_size + column];
            i32 before = x_axis.linear.weight[column], after = x_axis.linear.weight[x_size + column];
            f32 v00 = d0[left], v01 = d0[right], v10 = d1[left], v11 = d1[right];
            bool marked = m0[left] & m0[right] & m1[left] & m1[right];
            // As min(min(a, b), min(c, d)) of numbers; where one is NaN nothing below is used.
            f32 low = least(least(v00, v01), least(v10, v11)), high = most(most(v00, v01), most(v10, v11));
            bool is_number = v00 < INFINITE && v01 < INFINITE && v10 < INFINITE && v11 < INFINITE;
            bool ok = (marked || by_value) && is_number && v00 > 0 && v01 > 0 && v10 > 0 && v11 > 0;
            f32 total = v00 * (f32(over * before) * WEIGHT_STEP);
            total += v01 * (f32(over * after) * WEIGHT_STEP);
            total += v10 * (f32(under * before) * WEIGHT_STEP);
            total += v11 * (f32(under * after) * WEIGHT_STEP);
            f32 value = least(most(total, low), high);
            if (high - low > EDGE_FRAC * high && y_axis.nearest[line] >= 0 && x_axis.nearest[column] >= 0) {
                value = depth.at(y_axis.nearest[line])[x_axis.nearest[column]];
            }
            value *= layer.depth_scale;  // unchecked cameras may give any value
            ok = ok && value > 0 && value < INFINITE;
            out[i] = ok ? value : 0.0f;
            out_ok[i] = !ok ? NO_DEPTH : marked ? VALID_DEPTH : INVALID_DEPTH;
        }
    }
}

struct Vector {
    f32 x, y, z;
};

// A normal, zero if one of its numbers is NaN or infinite.
inline Vector number(Vector v) { return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) ? v : Vector{0, 0, 0}; }

inline Vector weighted_sum(const Vector* taps, const f32* weights) {
    return {taps[0].x * weights[0] + taps[1].x * weights[1] + taps[2].x * weights[2] + taps[3].x * weights[3],
            taps[0].y * weights[0] + taps[1].y * weights[1] + taps[2].y * weights[2] + taps[3].y * weights[3],
            taps[0].z * weights[0] + taps[1].z * weights[1] + taps[2].z * weights[2] + taps[3].z * weights[3]};
}

// Unit normals of a layer, mirrored with it, for pixels first to end - 1 of line y where they are shown; [3, n].
inline void read_normals(const Layer& layer, const Planes& source, i64 y, i64 first, i64 end, const u8* shown, f32* out) {
    Picture<const f32> planes[3] = {picture<const f32>(source.normals, layer.source, 0),
                                    picture<const f32>(source.normals, layer.source, 1),
                                    picture<const f32>(source.normals, layer.source, 2)};
    const Axis &x_axis = layer.x, &y_axis = layer.y;
    i64 line = y - y_axis.first, size = end - first, x_size = x_axis.size(), y_size = y_axis.size();
    i64 above = y_axis.linear.idx[line], below = y_axis.linear.idx[y_size + line];
    i64 near = most(y_axis.nearest[line], 0);
    i32 over = y_axis.linear.weight[line], under = y_axis.linear.weight[y_size + line];
    f32 sign = layer.flip ? -1.0f : 1.0f;
    auto read = [&](i64 row, i64 column) {
        return Vector{planes[0].at(row)[column], planes[1].at(row)[column], planes[2].at(row)[column]};
    };
    for (i64 i = 0; i < size; ++i) {
        if (!shown[i]) continue;
        i64 column = first + i - x_axis.first;
        i64 left = x_axis.linear.idx[column], right = x_axis.linear.idx[x_size + column];
        i32 before = x_axis.linear.weight[column], after = x_axis.linear.weight[x_size + column];
        Vector normal = number(read(near, most(x_axis.nearest[column], 0)));
        bool is_centre = most(over, under) == WEIGHT_ONE && most(before, after) == WEIGHT_ONE;
        if (!is_centre && (normal.x != 0 || normal.y != 0 || normal.z != 0)) {
            f32 weights[4] = {f32(over * before) * WEIGHT_STEP, f32(over * after) * WEIGHT_STEP,
                              f32(under * before) * WEIGHT_STEP, f32(under * after) * WEIGHT_STEP};
            Vector taps[4] = {read(above, left), read(above, right), read(below, left), read(below, right)};
            Vector sum = weighted_sum(taps, weights);
            if (!(is_finite(sum.x) && is_finite(sum.y) && is_finite(sum.z))) {
                for (Vector& tap : taps) tap = number(tap);
                sum = weighted_sum(taps, weights);
            }
            f32 norm = __builtin_sqrtf(sum.x * sum.x + sum.y * sum.y + sum.z * sum.z);
            if (norm >= VANISHING_NORM) normal = {sum.x / norm, sum.y / norm, sum.z / norm};
        }
        out[i] = sign * normal.x;
        out[size + i] = normal.y;
        out[2 * size + i] = normal.z;
    }
}

}  // namespace SEGPASTE_NAMESPACE
