// Planes of one row of a batch.

#pragma once

#include "base/numbers.hpp"
#include "records.hpp"

namespace SEGPASTE_NAMESPACE {

// A plane of one row, [H, W].
template <class T>
struct Picture {
    T* data;
    i64 line;  // from one line to the next

    T* at(i64 y) const { return data + y * line; }
};

template <class T>
Picture<T> picture(const Plane& plane, i64 row, i64 channel = 0) {
    auto data = static_cast<T*>(plane.data);
    if (!data) return {nullptr, 0};
    return {data + row * plane.stride[0] + channel * plane.stride[1], plane.stride[2]};
}

}  // namespace SEGPASTE_NAMESPACE
