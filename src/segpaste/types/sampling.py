"""Where an output pixel reads its input: the pixel convention, in integers.

Pixel i has its centre at i + 0.5. An axis scaled by ``num / den`` and moved by ``offset`` pixels reads

    x_src = (x + 0.5 - offset) * den / num - 0.5,

which is ``position / (2 num)`` with an integer ``position``. Everything here is exact integer arithmetic, so every
device and every compiler agrees. `segpaste.types.transforms.transforms_v2` resizes with it and
`segpaste.engine.reference.geometry` builds its look-up tables from it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Size = tuple[int, int]

WEIGHT_BITS = 11
WEIGHT_ONE = 1 << WEIGHT_BITS
"""The taps of one output pixel along one axis sum to this; two axes of uint8 then fit int32."""

FARTHEST_EDGE = 1 << 30
"""Edges of boxes count as no farther than this, pixels, so that scaling them cannot overflow."""

DEPTH_EDGE_FRAC = 0.05
"""Neighbouring depths that differ by more than this fraction of the larger lie on two surfaces: never mixed."""

VANISHING_NORM = 1e-3
"""A mean of normals that is shorter than this has no direction."""


def source_position(x: Tensor, offset: Tensor | int, num: Tensor | int, den: Tensor | int) -> Tensor:
    """``x_src * 2 num`` as int64, for output pixels ``x`` (shapes broadcast)."""
    return (2 * (x - offset) + 1) * den - num


def nearest_index(position: Tensor, num: Tensor | int) -> Tensor:
    """The source pixel whose square holds ``x_src``: floor(x_src + 1/2)."""
    return torch.div(position + num, 2 * num, rounding_mode="floor")


def filter_taps(position: Tensor, num: Tensor, den: Tensor | int, num_taps: int) -> tuple[Tensor, Tensor]:
    """A triangle filter of radius max(1, den / num) source pixels about ``x_src``.

    With radius 1 this is linear interpolation; a larger radius averages what a shrunk pixel covers (the antialiased
    resize of PIL and torch).

    Args:
        position: from `source_position`, int64, any shape.
        num: the scale's numerator, broadcastable with ``position``.
        den: the scale's denominator; pass ``num`` to get plain linear taps at any scale.
        num_taps: at least ceil(2 * radius).

    Returns:
        The first tap's source index (may lie outside the source; not clamped) and the weights [..., num_taps],
        both int64; weights sum to `WEIGHT_ONE` exactly.
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
    """Where depth can be trusted: marked valid, finite and in front of the camera."""
    return valid & depth.isfinite() & (depth > 0)


def mix_depth(taps: Tensor, valid: Tensor, weights: Tensor, nearest: Tensor) -> tuple[Tensor, Tensor]:
    """Read depth between pixels without inventing a surface.

    Linear between taps that lie on one surface; the nearest pixel's depth across a depth edge; invalid when a tap
    of non-zero weight is invalid, not finite or not > 0.

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
    """Bring depth to another camera's scale.

    Args:
        depth: float32 depths.
        valid: bool, likewise.
        factor: float32, broadcastable; of a camera that is not checked it may be anything.

    Returns:
        Depth and validity; where the product is not finite or not > 0 the depth is 0 and invalid.
    """
    product = depth * factor
    valid = usable_depth(product, valid)
    return torch.where(valid, product, 0.0), valid


def mix_normals(taps: Tensor, weights: Tensor, nearest: Tensor) -> Tensor:
    """Read unit normals between pixels: linear, then renormalised.

    The nearest pixel's is taken as it is where the sum vanishes, and where the pixel is read at its centre.

    Args:
        taps: [3, ..., T] float32, zero vectors (or NaN) where invalid.
        weights: [..., T] float32.
        nearest: [3, ...] float32, the nearest source pixel's; where it is invalid the result is too.

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
    """The length of [3, ...] vectors, summed in a fixed order."""
    x, y, z = vectors.unbind(0)
    return torch.sqrt(x * x + y * y + z * z)


def weighted_sum(taps: Tensor, weights: Tensor) -> Tensor:
    """Sum over the last axis in a fixed order, so that the bits do not depend on vector width or tiling."""
    total = taps[..., 0] * weights[..., 0]
    for t in range(1, taps.shape[-1]):
        total = total + taps[..., t] * weights[..., t]
    return total


class Window(NamedTuple):
    """Which pixels of an image an output of fixed size shows: resized, perhaps flipped, cut, padded right and below.

    All sizes are (H, W), in pixels.

    Attributes:
        canvas_size: of the image as stored.
        resized: of the image before it is cut.
        flip: whether it is mirrored left to right after it is resized.
        corner: (top, left) of the cut in the resized and flipped picture.
        size: of the output.
    """

    canvas_size: Size
    resized: Size
    flip: bool
    corner: Size
    size: Size

    @property
    def inside(self) -> Size:
        """(H, W) of what the image fills, at the top left of the output; the rest is padding."""
        return min(self.resized[0], self.size[0]), min(self.resized[1], self.size[1])
