"""The pixel convention: source positions of output pixels, in integer arithmetic, and boxes in whole pixels.

Pixel i has its centre at i + 0.5. An axis scaled by ``num / den`` and moved by ``offset`` pixels reads at

    x_src = (x + 0.5 - offset) * den / num - 0.5,

which is ``position / (2 num)`` with an integer ``position``. Positions and weights are computed in exact integer
arithmetic, so all devices and compilers agree. `segpaste.types.transforms_v2` resizes with these functions,
and `segpaste.engine.reference.geometry` builds its look-up tables from them.

A box touches a pixel if it covers any part of it, so it is rounded outwards: x1 and y1 down, x2 and y2 up. The native
and the Triton backend have this rule in their own languages, and `segpaste._pixels` has it for one box without torch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste._pixels import FARTHEST_EDGE as FARTHEST_EDGE
from segpaste._pixels import Size as Size

WEIGHT_BITS = 11
WEIGHT_ONE = 1 << WEIGHT_BITS
"""Sum of the weights of an output pixel along one axis; uint8 weighted along two axes fits int32."""

DEPTH_EDGE_FRAC = 0.05
"""Relative difference, of the larger depth, above which neighbouring depths belong to two surfaces: not mixed."""

VANISHING_NORM = 1e-3
"""Norm below which a mean of normals has no direction."""


def outward_boxes(boxes: Tensor) -> Tensor:
    """Round float xyxy boxes [..., 4] outwards to whole pixels, int64, and clamp edges to +-`FARTHEST_EDGE`.

    An edge that is NaN becomes the least value, since conversions of NaN to integers differ between machines.
    """
    whole = torch.cat([boxes[..., :2].floor(), boxes[..., 2:].ceil()], dim=-1)
    whole = whole.nan_to_num(-FARTHEST_EDGE)
    return whole.clamp(-FARTHEST_EDGE, FARTHEST_EDGE).to(torch.int64)


def common_boxes(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the common part of two boxes [..., 4]; edges of the first that lie within the second keep their bits."""
    low, high, other_low, other_high = boxes[..., :2], boxes[..., 2:], others[..., :2], others[..., 2:]
    low = torch.where(other_low > low, other_low, low)  # and not torch.maximum, which may return either of -0 and 0
    return torch.cat([low, torch.where(other_high < high, other_high, high)], -1)


def box_masks(boxes: Tensor, size: Size) -> Tensor:
    """Return the pixels [..., H, W] bool of an image of ``size`` (H, W) that xyxy boxes [..., 4] touch."""
    x1, y1, x2, y2 = outward_boxes(boxes).unsqueeze(-1).unbind(-2)
    rows, cols = (torch.arange(side, device=boxes.device) for side in size)
    return ((rows >= y1) & (rows < y2))[..., None] & ((cols >= x1) & (cols < x2))[..., None, :]


def source_position(x: Tensor, offset: Tensor | int, num: Tensor | int, den: Tensor | int) -> Tensor:
    """Return ``x_src * 2 num`` as int64, for output pixels ``x`` (shapes broadcast)."""
    return (2 * (x - offset) + 1) * den - num


def nearest_index(position: Tensor, num: Tensor | int) -> Tensor:
    """Return the index of the source pixel that contains ``x_src``: floor(x_src + 1/2)."""
    return torch.div(position + num, 2 * num, rounding_mode="floor")


def filter_taps(position: Tensor, num: Tensor, den: Tensor | int, num_taps: int) -> tuple[Tensor, Tensor]:
    """Return the taps of a triangle filter of radius max(1, den / num) source pixels around ``x_src``.

    Radius 1 is linear interpolation. A larger radius averages the source pixels that an output pixel covers, as the
    antialiased resize of PIL and torch does.

    Args:
        position: result of `source_position`, int64, any shape.
        num: numerator of the scale, broadcastable with ``position``.
        den: denominator of the scale; pass ``num`` for linear interpolation at any scale.
        num_taps: number of taps, at least ceil(2 * radius).

    Returns:
        The source index of the first tap (not clamped to the source) and the weights [..., num_taps], both int64. The
        weights sum to `WEIGHT_ONE` exactly.
    """
    den = torch.as_tensor(den, device=position.device)
    radius = 2 * torch.maximum(num, den)
    first = torch.div(position - radius, 2 * num, rounding_mode="floor") + 1
    steps = torch.arange(num_taps, device=position.device)
    distance = (2 * num * first - position).unsqueeze(-1) + (2 * num).unsqueeze(-1) * steps
    raw = (radius.unsqueeze(-1) - distance.abs()).clamp(min=0)
    upto = torch.div(raw.cumsum(-1) * WEIGHT_ONE, raw.sum(-1, keepdim=True), rounding_mode="floor")
    return first, torch.diff(upto, dim=-1, prepend=torch.zeros_like(upto[..., :1]))


def usable_depth(depth: Tensor, valid: Tensor) -> Tensor:
    """Return a mask of usable depth: marked valid, finite and > 0."""
    return valid & depth.isfinite() & (depth > 0)


def mix_depth(taps: Tensor, valid: Tensor, weights: Tensor, nearest: Tensor) -> tuple[Tensor, Tensor]:
    """Interpolate depth, but not across a depth edge.

    The result is linear between taps on one surface, and the depth of the nearest pixel across a depth edge. It is
    invalid if a tap of non-zero weight is invalid, not finite or not > 0.

    Args:
        taps: [..., T] float32 depths.
        valid: [..., T] bool.
        weights: [..., T] float32, sums to 1.
        nearest: [...] float32, depth of the nearest source pixel.

    Returns:
        Depth [...] float32 (0 where invalid) and validity [...] bool.
    """
    used = weights > 0
    ok = (usable_depth(taps, valid) | ~used).all(-1)
    inf = float("inf")
    low = torch.where(used, taps, inf).amin(-1)
    high = torch.where(used, taps, -inf).amax(-1)
    is_edge = high - low > DEPTH_EDGE_FRAC * torch.maximum(low.abs(), high.abs())
    mixed = weighted_sum(torch.where(used, taps, 0.0), weights)
    mixed = torch.minimum(torch.maximum(mixed, low), high)
    return torch.where(ok, torch.where(is_edge, nearest, mixed), 0.0), ok


def rescaled_depth(depth: Tensor, valid: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """Rescale depth to another camera.

    Args:
        depth: float32 depths.
        valid: bool, of the same shape.
        factor: float32, broadcastable; any value, because cameras may not be validated.

    Returns:
        Depth and validity. If the product is not finite or not > 0, the depth is 0 and invalid.
    """
    product = depth * factor
    valid = usable_depth(product, valid)
    return torch.where(valid, product, 0.0), valid


def mix_normals(taps: Tensor, weights: Tensor, nearest: Tensor) -> Tensor:
    """Interpolate unit normals linearly, and normalise the result.

    The normal of the nearest pixel is returned unchanged if the mean vanishes, or if a pixel is read at its centre.

    Args:
        taps: [3, ..., T] float32, zero vectors (or NaN) where invalid.
        weights: [..., T] float32.
        nearest: [3, ...] float32, the normal of the nearest source pixel; if it is invalid, so is the result.

    Returns:
        [3, ...] float32, of unit norm or zero.
    """
    taps, nearest = (torch.where(v.isfinite().all(0), v, 0.0) for v in (taps, nearest))
    mixed = weighted_sum(taps, weights)
    norm = norm3(mixed)
    as_is = (norm < VANISHING_NORM) | (weights == 1).any(-1)
    unit = torch.where(as_is, nearest, mixed / torch.where(as_is, 1.0, norm))
    return torch.where((nearest == 0).all(0), 0.0, unit)


def norm3(vectors: Tensor) -> Tensor:
    """Return the norm of [3, ...] vectors, summed in a fixed order."""
    x, y, z = vectors.unbind(0)
    return root(x * x + y * y + z * z)


def root(values: Tensor) -> Tensor:
    """Return the correctly rounded square roots of float32 numbers, float32, on every device.

    `torch.sqrt` on a CPU is that of MKL, which is one unit in the last place off for some numbers, and for others on
    another brand of CPU. A root in float64 may be off by a unit of its own, which never changes its nearest float32.
    """
    return values.double().sqrt().float()


def weighted_sum(taps: Tensor, weights: Tensor) -> Tensor:
    """Sum over the last axis in a fixed order, so that the bits do not depend on vector width or tiling."""
    total = taps[..., 0] * weights[..., 0]
    for t in range(1, taps.shape[-1]):
        total = total + taps[..., t] * weights[..., t]
    return total


class Window(NamedTuple):
    """Mapping of an image to an output of fixed size: resize, optional flip, crop, and padding right and below.

    All sizes are (H, W), in pixels.

    Attributes:
        canvas_size: size of the image as stored.
        resized: size of the image after the resize.
        flip: True if the resized image is flipped horizontally.
        corner: (top, left) of the crop in the resized and flipped image.
        size: size of the output.
    """

    canvas_size: Size
    resized: Size
    flip: bool
    corner: Size
    size: Size

    @property
    def inside(self) -> Size:
        """Size of the part at the top left of the output that the image fills, (H, W); the rest is padding."""
        return min(self.resized[0], self.size[0]), min(self.resized[1], self.size[1])
