"""Map from target pixels to source pixels of a layer, and its depth, computed from definitions, only for the checks.

With x the output pixel, s the scale and t the translation, ``x_src = (x + 1/2 - t) / s - 1/2``, flipped about the valid
extent of the source if the layer is flipped. It is a row of the source if the layer swaps axes. The kernels have their
own tables; shared tables would hide errors.

Depth is computed in float64. If the exact value depends on the rounding of weights in a kernel, it is replaced by an
interval: the range of the mixed source pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.augmentation import Placement
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import DEPTH_EDGE_FRAC, root

WEIGHT_STEP = 2.0**-11
"""Step of the weights of taps in every kernel: a tap with a smaller weight may count as absent."""

RELATIVE_TOLERANCE = 1e-5
"""Relative tolerance of depths, for float32 sums and factors compared with float64."""

_GREATEST = torch.finfo(torch.float32).max

_LEAST = torch.finfo(torch.float32).smallest_normal * torch.finfo(torch.float32).eps
"""Smallest float32 above 0."""


class MappedAxis(NamedTuple):
    """One axis of the map; shapes broadcast to [B, H, W].

    Attributes:
        nearest: source pixel that contains x_src, clamped to the image, int64.
        inside: True if that pixel is in the image, bool.
        low: source pixel whose centre is at x_src or left of it, clamped to the image, int64.
        high: next source pixel, clamped too, int64.
        beyond: distance of x_src from the centre of ``low``, float64 in [0, 1).
    """

    nearest: Tensor
    inside: Tensor
    low: Tensor
    high: Tensor
    beyond: Tensor


class LayerMap(NamedTuple):
    """Source position of each target pixel; shapes broadcast to [B, H, W].

    Attributes:
        row: row of the source batch, int64.
        hflip: True if the layer is flipped horizontally, bool.
        vflip: True if it is flipped vertically, bool.
        swap_axes: True if ``y`` holds columns and ``x`` rows of the source, bool.
        scale: geometric mean of the scales of both axes, float64.
        y: axis of the rows.
        x: axis of the columns.
    """

    row: Tensor
    hflip: Tensor
    vflip: Tensor
    swap_axes: Tensor
    scale: Tensor
    y: MappedAxis
    x: MappedAxis

    def nearest(self, plane: Tensor) -> Tensor:
        """Return ``plane`` [S, H_s, W_s, ...] at the nearest source pixels, [B, H, W, ...]."""
        return self._read(plane, self.y.nearest, self.x.nearest)

    def _read(self, plane: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return plane[self.row, torch.where(self.swap_axes, x, y), torch.where(self.swap_axes, y, x)]

    def nearest_of_own(self, planes: Tensor) -> Tensor:
        """Return ``planes`` [B, H_s, W_s, ...], one for each row, at the nearest source pixels, [B, H, W, ...]."""
        return self._replace(row=torch.arange(len(planes), device=planes.device)[:, None, None]).nearest(planes)

    def taps(self, plane: Tensor) -> list[Tensor]:
        """Return ``plane`` [S, H_s, W_s, ...] at the four source pixels around each x_src, four of [B, H, W, ...]."""
        return [self._read(plane, y, x) for y in (self.y.low, self.y.high) for x in (self.x.low, self.x.high)]

    def weights(self) -> list[Tensor]:
        """Return the weights of these four pixels, [B, H, W] float64 each."""
        rows, cols = ((1 - axis.beyond, axis.beyond) for axis in (self.y, self.x))
        return [y * x for y in rows for x in cols]

    def faint(self) -> list[Tensor]:
        """Return which of the four weights are so small on an axis that a kernel may skip them, [B, H, W] bool each."""
        rows, cols = ((1 - axis.beyond < WEIGHT_STEP, axis.beyond < WEIGHT_STEP) for axis in (self.y, self.x))
        return [y | x for y in rows for x in cols]


def layer_maps(
    placement: Placement, source: PaddedBatchedDenseSample, canvas_size: tuple[int, int]
) -> tuple[LayerMap, ...]:
    """Return the map of every layer of a placement onto a canvas (H, W)."""
    height, width = canvas_size
    extent = valid_extent(source)
    maps = []
    for layer in range(placement.source_idx.shape[1]):
        row = placement.source_idx[:, layer]
        hflip, vflip, swap_axes = (flags[:, layer] for flags in placement.orientation)
        size = torch.where(swap_axes[:, None], extent[row].flip(1), extent[row])
        shift, num, den = (
            tensor[:, layer] for tensor in (placement.translate, placement.scale_num, placement.scale_den)
        )
        x = _axis(width, shift[:, 0], num[:, 0], den[:, 0], size[:, 0], hflip)
        y = _axis(height, shift[:, 1], num[:, 1], den[:, 1], size[:, 1], vflip)
        x, y = MappedAxis(*(t[:, None, :] for t in x)), MappedAxis(*(t[:, :, None] for t in y))
        scale = (num.double() / den).prod(1).sqrt()
        row, hflip, vflip, swap_axes, scale = (t[:, None, None] for t in (row, hflip, vflip, swap_axes, scale))
        maps.append(LayerMap(row, hflip, vflip, swap_axes, scale, y, x))
    return tuple(maps)


def seen_map(visible_layer: Tensor, maps: Sequence[LayerMap]) -> LayerMap:
    """Return the map of the visible layer of each pixel; undefined outside of pastes."""

    def of(values: Iterable[Tensor]) -> Tensor:
        return seen(visible_layer, list(values))

    y = MappedAxis(*(of(part) for part in zip(*(m.y for m in maps), strict=True)))
    x = MappedAxis(*(of(part) for part in zip(*(m.x for m in maps), strict=True)))
    names = ("row", "hflip", "vflip", "swap_axes", "scale")
    row, hflip, vflip, swap_axes, scale = (of(getattr(m, name) for m in maps) for name in names)
    return LayerMap(row, hflip, vflip, swap_axes, scale, y, x)


def seen(visible_layer: Tensor, values: Sequence[Tensor]) -> Tensor:
    """Return the value of the visible layer of each pixel, [B, H, W]; undefined outside of pastes.

    Args:
        visible_layer: index of the visible layer, [B, H, W].
        values: value of each layer, broadcastable to [B, H, W].
    """
    out = values[0].expand_as(visible_layer)
    for layer, value in enumerate(values[1:], start=1):
        out = torch.where(visible_layer == layer, value, out)
    return out


def valid_extent(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return (width, height) of each image without its padding, [S, 2] int64."""
    height, width = batch.canvas_size
    if batch.padding_mask is None:
        return torch.tensor([[width, height]], dtype=torch.int64, device=batch.device).repeat(batch.batch_size, 1)
    rows, cols = (~batch.padding_mask[:, 0]).any(2), (~batch.padding_mask[:, 0]).any(1)
    ends = [line.shape[1] - line.flip(1).to(torch.uint8).argmax(1) for line in (cols, rows)]
    return torch.stack(ends, 1) * rows.any(1, keepdim=True)


def _axis(size: int, shift: Tensor, num: Tensor, den: Tensor, extent: Tensor, flip: Tensor) -> MappedAxis:
    """Return one axis [B, size] of one layer, in exact integers: ``doubled / (2 num)`` is x_src + 1/2."""
    doubled = (2 * (torch.arange(size, device=num.device) - shift[:, None]) + 1) * den[:, None]
    num, extent = num[:, None], extent[:, None]
    nearest = torch.div(doubled, 2 * num, rounding_mode="floor")
    first = torch.div(doubled - num, 2 * num, rounding_mode="floor")
    beyond = (doubled - num - 2 * num * first).double() / (2 * num)
    inside = (nearest >= 0) & (nearest < extent)
    last = (extent - 1).clamp(min=0)
    clamped = (torch.minimum(index.clamp(min=0), last) for index in (nearest, first, first + 1))
    nearest, low, high = (torch.where(flip[:, None], last - index, index) for index in clamped)
    return MappedAxis(nearest, inside, low, high, beyond)


class Surface(NamedTuple):
    """Depth in the scale of the target, [B, H, W] float64, between ``low`` and ``high`` where it is valid.

    Attributes:
        low: smallest possible depth.
        high: largest possible depth.
        valid: True where every kernel must give a valid depth, bool.
        maybe_valid: True where a kernel may give a valid depth, bool.
    """

    low: Tensor
    high: Tensor
    valid: Tensor
    maybe_valid: Tensor


def layer_surface(
    layer: LayerMap,
    target: PaddedBatchedDenseSample,
    source: PaddedBatchedDenseSample,
    perspective: bool,
    by_value: bool = False,
) -> Surface:
    """Return the surface of a layer: invalid if a mixed pixel has no depth; at a depth edge that of the nearest pixel.

    With ``perspective`` depth is divided by the scale of the layer. Depth whose product with these factors is not
    finite or not > 0 is invalid. With ``by_value`` every other depth counts as valid.
    """
    depth, ok = not_none(source.depth)[:, 0].double(), finite_depth(source, by_value)
    inf = float("inf")
    low = firm_low = torch.full((), inf, dtype=torch.float64, device=depth.device)
    high = firm_high = -low
    valid = maybe_valid = torch.ones((), dtype=torch.bool, device=depth.device)
    taps = zip(layer.taps(depth), layer.taps(ok), layer.weights(), layer.faint(), strict=True)
    for value, tap_ok, weight, faint in taps:
        used = weight > 0
        low, high = torch.where(used, value, inf).minimum(low), torch.where(used, value, -inf).maximum(high)
        firm_low = torch.where(faint, inf, value).minimum(firm_low)
        firm_high = torch.where(faint, -inf, value).maximum(firm_high)
        valid, maybe_valid = valid & (tap_ok | ~used), maybe_valid & (tap_ok | faint)
    is_edge = _is_edge(low, high) & _is_edge(firm_low, firm_high)
    nearest, factor = layer.nearest(depth), _focal_ratio(layer, target, source)
    factor = factor / layer.scale if perspective else factor
    low, high, firm_low, firm_high = (
        torch.where(is_edge, nearest, bound) * factor for bound in (low, high, firm_low, firm_high)
    )
    is_exact = _is_normal(factor) & _is_normal(low) & _is_normal(high)
    possible = (factor > 0) & (factor < _GREATEST * (1 + RELATIVE_TOLERANCE))
    may_be = _may_be_depth(low, high) | _may_be_depth(firm_low, firm_high)  # a faint tap may be read or not
    low, high = torch.where(is_exact, low, 0.0), torch.where(is_exact, high, inf)
    return Surface(low, high, valid & is_exact, maybe_valid & possible & may_be)


def _may_be_depth(low: Tensor, high: Tensor) -> Tensor:
    """Return whether float32 may represent a value of this float64 range as finite and > 0."""
    return (high > _LEAST / 4) & (low < _GREATEST * (1 + RELATIVE_TOLERANCE))


def _is_normal(values: Tensor) -> Tensor:
    """Return whether float32 represents these values, float64 and > 0, with full precision."""
    return (values > torch.finfo(torch.float32).tiny * (1 + RELATIVE_TOLERANCE)) & (
        values < _GREATEST * (1 - RELATIVE_TOLERANCE)
    )


def finite_depth(batch: PaddedBatchedDenseSample, by_value: bool = False) -> Tensor:
    """Return where depth is valid, finite and > 0, [B, H, W] bool: NaN and 0 are never nearer and hide nothing.

    With ``by_value`` depth need not be valid.
    """
    depth = not_none(batch.depth)
    has_value = depth.isfinite() & (depth > 0)
    return (has_value if by_value else not_none(batch.depth_valid) & has_value)[:, 0]


def _is_edge(low: Tensor, high: Tensor) -> Tensor:
    """Return whether depths in this range certainly lie on two surfaces."""
    return high - low > (DEPTH_EDGE_FRAC + RELATIVE_TOLERANCE) * torch.maximum(low.abs(), high.abs())


def _focal_ratio(layer: LayerMap, target: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample) -> Tensor:
    """Return the factor on the depth of the layer, float64, broadcastable to [B, H, W]."""
    here, there = target.camera_intrinsics, source.camera_intrinsics
    if not target.metric_depth or here is None or there is None:
        return torch.ones((), dtype=torch.float64, device=target.device)
    focal_here, focal_there = (root(camera[:, :2]).double().prod(1) for camera in (here, there))
    return focal_here[:, None, None] / focal_there[layer.row]
