"""Depth of a layer, computed again in float64, only for the checks.

If the exact value depends on the rounding of weights in a kernel, it is replaced by an interval: the range of the mixed
source pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.invariants._layers import LayerMap
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.sampling import DEPTH_EDGE_FRAC, root

RELATIVE_TOLERANCE = 1e-5
"""Relative tolerance of depths, for float32 sums and factors compared with float64."""

_GREATEST = torch.finfo(torch.float32).max
_LEAST = torch.finfo(torch.float32).smallest_normal * torch.finfo(torch.float32).eps
"""Smallest float32 above 0."""


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
