"""Source coordinates of each output pixel and the values found there, in plain loops, fractions and single array reads.

The geometry half of `brute_force`: it shares no code with `segpaste.augmentation` or `segpaste.engine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor
from typing import Any

import numpy as np

from segpaste.augmentation import BatchCopyPasteConfig, Placement

Array = np.ndarray[Any, Any]
Fields = Mapping[str, Array]  # of one image, by their batched names; absent ones are not in it
Taps = list[tuple[int, int]]  # source index, weight in 1/2048

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Axis:
    """Source positions of the pixels of one output axis: None, or [], where the layer does not reach."""

    nearest: list[int | None]
    linear: list[Taps]
    filtered: list[Taps]


@dataclass(frozen=True)
class Layer:
    """One source image and its map."""

    source: Fields
    columns: Axis
    rows: Axis
    hflip: bool
    vflip: bool
    swap_axes: bool
    depth_scale: np.float32


# Geometry: one axis at a time, exactly.


def source_position(x: int, translate: int, scale: Fraction) -> Fraction:
    return (x + HALF - translate) / scale - HALF


def nearest(x: int, translate: int, scale: Fraction, size: int, flip: bool) -> int | None:
    index = floor(source_position(x, translate, scale) + HALF)
    if not 0 <= index < size:
        return None
    return size - 1 - index if flip else index


def taps(x: int, translate: int, scale: Fraction, size: int, flip: bool, radius: Fraction) -> Taps:
    """A triangle of this radius, in integers that sum to 2048; taps beyond the picture read its edge."""
    centre = source_position(x, translate, scale)
    indices = range(ceil(centre - radius), floor(centre + radius) + 1)
    running = list(accumulate(max(Fraction(0), radius - abs(i - centre)) for i in indices))
    rounded = [floor(2048 * part / running[-1]) for part in running]
    found = []
    for i, low, high in zip(indices, [0, *rounded], rounded, strict=False):
        inside = min(max(i, 0), size - 1)
        if high > low:
            found.append((size - 1 - inside if flip else inside, high - low))
    return found


def axis(length: int, translate: int, scale: Fraction, size: int, flip: bool, antialias: bool) -> Axis:
    where = [nearest(x, translate, scale, size, flip) for x in range(length)]
    wide = max(Fraction(1), 1 / scale) if antialias else Fraction(1)
    linear, filtered = (
        [[] if near is None else taps(x, translate, scale, size, flip, r) for x, near in enumerate(where)]
        for r in (Fraction(1), wide)
    )
    return Axis(where, linear, filtered)


def extent(image: Fields) -> tuple[int, int]:
    """(width, height) of the picture: up to behind the last column and row that is not all padding."""
    height, width = image["images"].shape[-2:]
    if "padding_mask" not in image:
        return width, height
    rows, columns = np.nonzero(~image["padding_mask"][0])
    return int(columns.max(initial=-1)) + 1, int(rows.max(initial=-1)) + 1


def layer_over(
    target: Fields,
    source: Fields,
    placement: Placement,
    which: tuple[int, int],
    config: BatchCopyPasteConfig,
    metric: bool,
) -> Layer | None:
    """The layer ``which`` (row, layer) of a placement, None if it is not valid."""
    if not placement.layer_valid[which]:
        return None
    height, width = target["images"].shape[-2:]
    source_width, source_height = extent(source)
    x_scale, y_scale = scales_of(placement.scale_num[which].tolist(), placement.scale_den[which].tolist())
    tx, ty = placement.translate[which].tolist()
    hflip, vflip, swap_axes = (bool(flags[which]) for flags in placement.orientation)
    if swap_axes:
        source_width, source_height = source_height, source_width
    columns = axis(width, tx, x_scale, source_width, hflip, config.antialias)
    rows = axis(height, ty, y_scale, source_height, vflip, config.antialias)
    depth_scale = np.float32(focal_length(target) / focal_length(source) if metric and "depth" in source else 1)
    if config.perspective_depth:
        depth_scale *= np.sqrt(np.float32(1 / (x_scale * y_scale)))
    return Layer(source, columns, rows, hflip, vflip, swap_axes, depth_scale)


def scales_of(num: list[int], den: list[int]) -> tuple[Fraction, Fraction]:
    """Return the scales of x and y."""
    return Fraction(num[0], den[0]), Fraction(num[1], den[1])


def focal_length(image: Fields) -> np.float64:
    """The geometric mean of fx and fy, each root rounded to float32."""
    fx, fy = image["camera_intrinsics"][:2]
    return np.float64(np.sqrt(fx)) * np.float64(np.sqrt(fy))


# What a layer holds at a pixel of the output.


def source_pixel(layer: Layer, y: int, x: int) -> tuple[int, int] | None:
    """(row, column) of the nearest source pixel, where the layer reaches."""
    row, column = layer.rows.nearest[y], layer.columns.nearest[x]
    return None if row is None or column is None else in_source(layer, row, column)


def in_source(layer: Layer, row: int, column: int) -> tuple[int, int]:
    """(row, column) of the source, for what the axes of the layer say."""
    return (column, row) if layer.swap_axes else (row, column)


def covering(layer: Layer, slots: list[int], y: int, x: int) -> list[int]:
    """Those of these source slots whose mask covers the pixel."""
    at = source_pixel(layer, y, x)
    return [] if at is None else [k for k in slots if layer.source["instance_masks"][(k, *at)]]


def four_taps(layer: Layer, y: int, x: int) -> list[tuple[int, int, np.float32]]:
    """(row, column, weight) of the linear taps, row by row."""
    return [
        (*in_source(layer, row, column), np.float32(wy * wx) / np.float32(2048 * 2048))
        for row, wy in layer.rows.linear[y]
        for column, wx in layer.columns.linear[x]
    ]


def depth_at(layer: Layer, y: int, x: int, by_value: bool = False) -> tuple[np.float32, bool]:
    """Depth and whether it is valid (0 where it is not); ``by_value`` ignores the mask of the source."""
    depth, valid = layer.source["depth"][0], layer.source["depth_valid"][0] | by_value
    found = four_taps(layer, y, x)
    if not all(
        valid[row, column] and np.isfinite(depth[row, column]) and depth[row, column] > 0 for row, column, _ in found
    ):
        return np.float32(0), False
    values = [depth[row, column] for row, column, _ in found]
    low, high = min(values), max(values)
    value = np.float32(0)
    for row, column, weight in found:
        value += weight * depth[row, column]
    value = min(max(value, low), high)
    if high - low > np.float32(0.05) * max(abs(low), abs(high)):  # an edge: between its sides there is nothing
        value = depth[source_pixel(layer, y, x)]
    with np.errstate(all="ignore"):
        product = np.float32(value * layer.depth_scale)
    is_depth = bool(np.isfinite(product) and product > 0)
    return product if is_depth else np.float32(0), is_depth


def normal_at(layer: Layer, y: int, x: int) -> Array:
    normals = layer.source["normals"]
    normals = np.where(np.isfinite(normals).all(0), normals, np.float32(0))
    near = normals[(slice(None), *source_pixel(layer, y, x))].copy()
    found = four_taps(layer, y, x)
    total = np.zeros(3, np.float32)
    for row, column, weight in found:
        total += weight * normals[:, row, column]
    norm = np.sqrt(total[0] * total[0] + total[1] * total[1] + total[2] * total[2])
    at_centre = any(weight == 1 for _, _, weight in found)
    if near.any() and norm >= np.float32(1e-3) and not at_centre:
        near = total / norm
    if layer.swap_axes:
        near = near[[1, 0, 2]]
    if layer.hflip:
        near[0] = -near[0]
    if layer.vflip:
        near[1] = -near[1]
    return near


def colour_at(layer: Layer, y: int, x: int) -> Array:
    image = layer.source["images"]
    total = np.zeros(len(image), np.int64 if image.dtype == np.uint8 else np.float64)
    for row, wy in layer.rows.filtered[y]:
        for column, wx in layer.columns.filtered[x]:
            total += wy * wx * image[(slice(None), *in_source(layer, row, column))].astype(total.dtype)
    return (total + (1 << 21)) >> 22 if image.dtype == np.uint8 else total / (1 << 22)


def is_padding(image: Fields, y: int, x: int) -> bool:
    return "padding_mask" in image and bool(image["padding_mask"][0, y, x])


def class_at(image: Fields, y: int, x: int) -> int | None:
    return int(image["semantic_maps"][y, x]) if "semantic_maps" in image else None
