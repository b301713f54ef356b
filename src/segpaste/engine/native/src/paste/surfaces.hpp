// Depth and normals of a layer, read between pixels.
//
// WIDE pixels at once. The arithmetic and its order are those of `segpaste.types.sampling`, since depth decides visibility.

#pragma once

#include "base/fetch.hpp"
#include "paste/layers.hpp"
#include "scene/pictures.hpp"

namespace SEGPASTE_NAMESPACE {

constexpr f32 EDGE_FRAC = 0.05f;
constexpr f32 VANISHING_NORM = 1e-3f;
constexpr f32 WEIGHT_STEP = f32(1.0 / (f32(WEIGHT_ONE) * f32(WEIGHT_ONE)));

// What is known of a depth. All but NO_DEPTH are told apart from 0 only by an order of any value.
enum DepthState : u8 { NO_DEPTH = 0, VALID_DEPTH = 1, INVALID_DEPTH = 2 };

// Where WIDE columns of a layer from the i-th on lie between columns of the source.
struct Columns {
    alignas(64) u32 nearest[WIDE];  // 0 outside of the source
    Ints are_inside;
    Ints before, after;  // weights of the taps
    i32 start;           // of their stretch
    Places left, right;

    Columns(const Axis& axis, i64 i)
        : before(load(axis.linear.weight + i)), after(load(axis.linear.weight + axis.linear.size + i)),
          start(axis.linear.starts[i]), left(axis.linear.places(0, i)), right(axis.linear.places(1, i)) {
        Ints columns = load(axis.nearest + i);
        are_inside = columns >= 0;
        store(reinterpret_cast<i32*>(nearest), columns & are_inside);
    }

    // The nearest column is one of the two taps, so it lies in their stretch.
    Places centre() const { return {nearest, start}; }
};

// Weights of the taps above and below WIDE columns, of the left and the right one of each.
struct Corners {
    Floats weights[4];

    Corners(const Columns& columns, i32 over, i32 under) {
        Ints products[4] = {over * columns.before, over * columns.after, under * columns.before, under * columns.after};
        for (i64 i = 0; i < 4; ++i) weights[i] = as_floats(products[i]) * WEIGHT_STEP;
    }

    Floats sum(Floats a, Floats b, Floats c, Floats d) const {
        return a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3];
    }
};

// Depth of a layer on the target's scale, 0 without one, wherever ``wanted`` [h, w] of a box says; ``by_value`` also gives
// depth that is not valid. WIDE pixels are read and written at once, up to WIDE - 1 after the last one.
inline void read_depth(const Layer& layer, const Planes& source, const Box& box, const u8* wanted, bool by_value, f32* out,
                       u8* out_ok) {
    Picture<const f32> depth = picture<const f32>(source.depth, layer.source);
    Picture<const u8> valid = picture<const u8>(source.depth_valid, layer.source);
    const Taps& down = layer.y.linear;
    i64 width = box.width(), x_first = box.x1 - layer.x.first, low_column, high_column;
    layer.x.find_reach(x_first, x_first + width - 1, low_column, high_column);
    for (i64 y = box.y1; y < box.y2; ++y, wanted += width, out += width, out_ok += width) {
        i64 line = y - layer.y.first, above = down.row(0, line), below = down.row(1, line), near = layer.y.nearest[line];
        const f32 *d0 = depth.at(above), *d1 = depth.at(below);
        const u8 *m0 = valid.at(above), *m1 = valid.at(below);
        if (y + AHEAD < box.y2) {
            i64 next = down.row(1, line + AHEAD);
            fetch(depth.at(next) + low_column, high_column + 1 - low_column);
            fetch(valid.at(next) + low_column, high_column + 1 - low_column);
        }
        for (i64 i = 0; i < width; i += WIDE) {
            if (!any(load(wanted + i))) continue;
            Columns columns(layer.x, x_first + i);
            const Places &left = columns.left, &right = columns.right;
            Floats v00 = left.read(d0), v01 = right.read(d0), v10 = left.read(d1), v11 = right.read(d1);
            Ints marked = (left.read(m0) & right.read(m0) & left.read(m1) & right.read(m1)) != 0;
            // As min(min(a, b), min(c, d)) of numbers; where one is NaN nothing below is used.
            Floats low = smaller(smaller(v00, v01), smaller(v10, v11)), high = larger(larger(v00, v01), larger(v10, v11));
            Ints ok = by_value ? ~Ints{} : marked;
            ok &= (v00 < INFINITE) & (v01 < INFINITE) & (v10 < INFINITE) & (v11 < INFINITE);
            ok &= (v00 > 0.0f) & (v01 > 0.0f) & (v10 > 0.0f) & (v11 > 0.0f);
            Floats total = Corners(columns, down.share(0, line), down.share(1, line)).sum(v00, v01, v10, v11);
            Floats value = smaller(larger(total, low), high);
            Ints is_edge = (high - low > EDGE_FRAC * high) & columns.are_inside;
            if (near >= 0 && any(is_edge)) value = is_edge ? columns.centre().read(depth.at(near)) : value;
            value *= layer.depth_scale;  // unchecked cameras may give any value
            ok &= (value > 0.0f) & (value < INFINITE);
            store(out + i, ok ? value : Floats{});
            store(out_ok + i, narrowed(ok & (marked + i32(INVALID_DEPTH))));
        }
    }
}

// WIDE normals.
struct Vectors {
    Floats x, y, z;

    Ints are_numbers() const { return are_finite(x) & are_finite(y) & are_finite(z); }
    Ints are_zero() const { return (x == 0.0f) & (y == 0.0f) & (z == 0.0f); }
    Vectors where(Ints flags, const Vectors& others) const {
        return {flags ? x : others.x, flags ? y : others.y, flags ? z : others.z};
    }
    // Zero where a number is NaN or infinite.
    Vectors numbers() const { return where(are_numbers(), {Floats{}, Floats{}, Floats{}}); }
};

inline Vectors weighted_sum(const Corners& at, const Vectors* taps) {
    return {at.sum(taps[0].x, taps[1].x, taps[2].x, taps[3].x), at.sum(taps[0].y, taps[1].y, taps[2].y, taps[3].y),
            at.sum(taps[0].z, taps[1].z, taps[2].z, taps[3].z)};
}

// Unit normals of a layer, turned and flipped with it, for pixels first to end - 1 of line y; [3, n], plane after plane of
// ``room`` pixels, of which up to WIDE - 1 after the last one are written.
inline void read_normals(const Layer& layer, const Planes& source, i64 y, i64 first, i64 end, i64 room, f32* out) {
    Picture<const f32> planes[3] = {picture<const f32>(source.normals, layer.source, 0),
                                    picture<const f32>(source.normals, layer.source, 1),
                                    picture<const f32>(source.normals, layer.source, 2)};
    const Taps& down = layer.y.linear;
    i64 line = y - layer.y.first, above = down.row(0, line), below = down.row(1, line);
    i32 over = down.share(0, line), under = down.share(1, line);
    auto read = [&](i64 row, const Places& places) {
        return Vectors{places.read(planes[0].at(row)), places.read(planes[1].at(row)), places.read(planes[2].at(row))};
    };
    for (i64 i = 0; i < end - first; i += WIDE) {
        Columns columns(layer.x, first - layer.x.first + i);
        Vectors normals = read(most(layer.y.nearest[line], 0), columns.centre()).numbers();
        Ints are_between = ~normals.are_zero();
        if (most(over, under) == WEIGHT_ONE) are_between &= (columns.before != WEIGHT_ONE) & (columns.after != WEIGHT_ONE);
        if (any(are_between)) {
            Corners corners(columns, over, under);
            Vectors taps[4] = {read(above, columns.left), read(above, columns.right), read(below, columns.left),
                               read(below, columns.right)};
            Vectors sum = weighted_sum(corners, taps);
            if (any(are_between & ~sum.are_numbers())) {
                for (Vectors& tap : taps) tap = tap.numbers();
                sum = sum.where(sum.are_numbers(), weighted_sum(corners, taps));
            }
            Floats norm = root(sum.x * sum.x + sum.y * sum.y + sum.z * sum.z);
            Vectors unit = {sum.x / norm, sum.y / norm, sum.z / norm};
            normals = unit.where(are_between & (norm >= VANISHING_NORM), normals);
        }
        if (layer.swap_axes) normals = {normals.y, normals.x, normals.z};
        store(out + i, layer.hflip ? -normals.x : normals.x);
        store(out + room + i, layer.vflip ? -normals.y : normals.y);
        store(out + 2 * room + i, normals.z);
    }
}

}  // namespace SEGPASTE_NAMESPACE
