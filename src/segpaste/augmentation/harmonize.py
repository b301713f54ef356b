"""Harmonisation: fit pasted colours to the image around them. Labels, depth and normals do not change.

It is one custom operator made of torch operations that round each value once: additions, products, quotients and roots
in a fixed order. It uses no sums or filters of a library, whose order depends on the device and the batch size. The
result therefore has the same bits in eager and compiled code, on any device and in any batch.

``reinhard`` transfers colours by mean and spread, channel by channel. After Reinhard, Ashikhmin, Gooch, Shirley, "Color
Transfer between Images", IEEE Computer Graphics and Applications 21(5), 2001. The paper works in the decorrelated space
l-alpha-beta. Here the image's own channels are used, because a batch may hold any number of channels in any range of
values. All pasted pixels of an image are fitted together, to the target's pixels around them. Pastes that hide the
whole image do not change.

``multiband`` blends in bands of detail: coarse colours over a wide strip, fine detail over a narrow one. After Burt and
Adelson, "A Multiresolution Spline with Application to Image Mosaics", ACM Transactions on Graphics 2(4), 1983. The
difference between paste and target is blended, in a Laplacian pyramid of the pasted pixels alone: the source beyond the
paste is not known, so each level is an average of pasted pixels only. The weight of a band is the smoothed mask,
stretched so that it falls to 0 at the edge of the paste and not beyond it, since nothing may change there.

``poisson`` is `segpaste.augmentation.poisson`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste import seeding
from segpaste.augmentation.config.paste import HarmonizeConfig
from segpaste.augmentation.poisson import poisson, total
from segpaste.augmentation.tables import holds_numbers, table
from segpaste.engine import empty_plane
from segpaste.types.sampling import root

HarmonizeMode = Callable[[Tensor, Tensor, Tensor, Tensor, HarmonizeConfig], Tensor]
"""Function that fits colours, image by image.

Args:
    composed: [B, C, H, W] float32.
    target: [B, C, H, W] float32.
    inside: [B, 1, H, W] bool, pasted pixels.
    outside: [B, 1, H, W] bool, the target's other pixels; padding is neither, and no edge.
    config: options.

Returns:
    [B, C, H, W] float32, meaningful inside only.
"""

_OPTIONS: dict[str, type] = {name: type(value) for name, value in HarmonizeConfig() if name != "mode"}
"""Numbers of a config with their types."""
_SCHEMA = (
    "(Tensor composed, Tensor target, Tensor visible, Tensor seeds, Tensor? padding_mask, str mode, float[] numbers, "
    "Tensor? held) -> Tensor"
)

_ONE = 1 << 15
"""Sum of the taps of one axis; the products of two axes sum to 2**30, which int32 holds."""

_NUM_SIGMAS = 3
"""Reach of the filter in standard deviations."""

_FAR = 1 << 20
"""Greater than the distance between any two pixels of a canvas."""


class Harmonizer:
    """Fit the pasted colours of composed images to the target.

    Args:
        config: options. Compiled code reads their numbers as rules are read, see `ModuleRules`.

    Attributes:
        is_active: False if images would not change.
    """

    def __init__(self, config: HarmonizeConfig) -> None:
        self._config, self._mode, self.is_active = config, config.mode, config.is_active
        self._numbers = [float(getattr(config, name)) for name in _OPTIONS]
        self._held = table(self._numbers, np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        return Harmonizer, (self._config,)

    def __call__(
        self, composed: Tensor, target: Tensor, visible: Tensor, seeds: Tensor, padding_mask: Tensor | None = None
    ) -> Tensor:
        """Return the fitted images.

        Args:
            composed: [B, C, H, W] uint8, float16, bfloat16 or float32 of any range, the target with pastes.
            target: as ``composed``, before the paste.
            visible: [B, H, W] bool, M_eff: pixels where a paste is visible.
            seeds: [B] int64, seeds of the images, which decide the images to harmonise.
            padding_mask: [B, 1, H, W] bool, True for padding, which is treated like the outside of the canvas.

        Returns:
            A new tensor of the shape, dtype and memory format of ``composed``. Outside of ``visible``, and in images
            that are not drawn and whose edges stay hard, it is ``composed`` bit for bit. uint8 is rounded half to even;
            floats stay in the range of the values of ``composed`` and ``target`` of that image.
        """
        numbers, held = ([], self._held) if holds_numbers(composed.device) else (self._numbers, None)
        out: Tensor = _harmonize(composed, target, visible, seeds, padding_mask, self._mode, numbers, held)
        return out


@torch.library.custom_op("segpaste::harmonize", mutates_args=(), schema=_SCHEMA)
def _harmonize(
    composed: Tensor,
    target: Tensor,
    visible: Tensor,
    seeds: Tensor,
    padding_mask: Tensor | None,
    mode: str,
    numbers: list[float],
    held: Tensor | None,
) -> Tensor:
    numbers = numbers if held is None else held.tolist()
    options = {name: kind(number) for (name, kind), number in zip(_OPTIONS.items(), numbers, strict=True)}
    config = HarmonizeConfig.model_validate({"mode": mode, **options})
    drawn = seeding.random_bernoulli(seeds, "harmonize", config.prob)
    out = empty_plane("images", composed).copy_(composed)
    outside = ~visible if padding_mask is None else ~visible & ~padding_mask[:, 0]
    for rows in _parts(visible, drawn, config):
        planes = composed[rows], target[rows], visible[rows, None], outside[rows, None]
        out[rows] = fitted(*planes, drawn[rows], config)
    return out


@_harmonize.register_fake
def _(composed: Tensor, *others: object) -> Tensor:
    return empty_plane("images", composed)


def _parts(visible: Tensor, drawn: Tensor, config: HarmonizeConfig) -> list[slice]:
    """Return the rows to process together: all; on the CPU one by one, to fit its caches, and only rows that change."""
    if visible.device.type != "cpu":
        return [slice(None)]
    changes = visible.flatten(1).any(1)
    if not config.softens_edges:
        changes = changes & drawn
    return [slice(b, b + 1) for b in changes.nonzero().flatten().tolist()]


def fitted(
    composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, drawn: Tensor, config: HarmonizeConfig
) -> Tensor:
    """Harmonise the ``drawn`` images, [B] bool, then soften edges; the other arguments are those of `HarmonizeMode`.

    Images are of any dtype here, and returned in that of ``composed``.
    """
    before, colours = target.float(), composed.float()
    changed = inside & drawn[:, None, None, None]
    if config.prob > 0:
        colours = torch.where(changed, MODES[config.mode](colours, before, inside, outside, config), colours)
    if config.softens_edges:
        weight = edge_weight(inside, outside, config)
        fades = inside & (weight < 1)
        colours = torch.where(fades, before + (colours - before) * weight, colours)
        changed = changed | fades
    return torch.where(changed, _stored(colours, composed, target), composed)


def edge_weight(inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Return the weight of the paste at each of its pixels, [B, 1, H, W] float32 in (0, 1].

    With ``feather_px`` it grows in proportion to the distance from the edge, which lies half a pixel before the nearest
    centre outside.
    """
    if config.blur_px > 0:
        return blurred_weight(inside, outside, config.blur_px)
    feather_px = config.feather_px
    distance = root(squared_distance(outside, feather_px).float()) - 0.5
    return torch.where(inside, distance * (1 / feather_px), 1.0).clamp(max=1.0)


def _stored(colours: Tensor, composed: Tensor, target: Tensor) -> Tensor:
    """Convert colours to the dtype of the images, rounded and clamped to their range."""
    if not composed.is_floating_point():
        return colours.round().clamp(0, 255).to(composed.dtype)
    low = torch.minimum(*(image.amin((1, 2, 3), keepdim=True) for image in (composed, target)))
    high = torch.maximum(*(image.amax((1, 2, 3), keepdim=True) for image in (composed, target)))
    return colours.clamp(low.float(), high.float()).to(composed.dtype)


def reinhard(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Match mean and standard deviation of each channel to those of the target within ``surround_px`` of the paste.

    Each deviation is scaled by at most ``max_gain``, up or down.
    """
    around = outside & is_near(inside, config.surround_px)
    mean, spread = _moments(composed, inside)
    new_mean, new_spread = _moments(target, around)
    gain = torch.where(spread > 0, new_spread / spread, 1.0).clamp(1 / config.max_gain, config.max_gain)
    is_known = inside.any(-1, keepdim=True).any(-2, keepdim=True) & around.any(-1, keepdim=True).any(-2, keepdim=True)
    return torch.where(is_known, (composed - mean) * gain + new_mean, composed)


def _moments(image: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel over the pixels ``where``, [B, C, 1, 1] each; 0 without any.

    They are computed from the excess over the smallest value, so that a uniform colour has a spread of exactly 0.
    """
    count = where.sum((-2, -1), keepdim=True).clamp(min=1).float()
    lowest = torch.where(where, image, torch.inf).amin((-2, -1), keepdim=True)
    lowest = torch.where(lowest < torch.inf, lowest, 0.0)
    excess = torch.where(where, image - lowest, 0.0)
    mean = total(excess) / count
    variance = total(torch.where(where, excess - mean, 0.0).square()) / count
    return lowest + mean, root(variance)


def multiband(composed: Tensor, target: Tensor, inside: Tensor, outside: Tensor, config: HarmonizeConfig) -> Tensor:
    """Blend the paste into the target, in ``pyramid_levels`` bands."""
    total = torch.where(inside, composed - target, 0.0)
    covered, known = inside.float(), (inside | outside).float()
    means, weights = [total], [covered]
    for _ in range(config.pyramid_levels - 1):
        if max(total.shape[-2:]) == 1:
            break
        total, covered, known = (_reduced(x) for x in (total, covered, known))
        means.append(_ratio(total, covered))
        weights.append((2 * _ratio(covered, known) - 1).clamp(0, 1))
    blended = weights[-1] * means[-1]
    for level in range(len(means) - 2, -1, -1):
        size = means[level].shape[-2:]
        band = means[level] - _expanded(means[level + 1], size)
        blended = _expanded(blended, size) + weights[level] * band
    return target + blended


def _ratio(total: Tensor, weight: Tensor) -> Tensor:
    return torch.where(weight > 0, total / weight, 0.0)


def _reduced(image: Tensor) -> Tensor:
    """Halve the size, rounded up: keep every other pixel after a binomial filter of five taps, 0 beyond the canvas."""
    return _halved(_halved(image).transpose(-2, -1)).transpose(-2, -1)


def _halved(image: Tensor) -> Tensor:
    length = 2 * ((image.shape[-1] + 1) // 2) - 1
    padded = F.pad(image, (2, 2))
    a, b, c, d, e = (padded[..., tap : tap + length : 2] for tap in range(5))
    return ((a + e) + (b + d) * 4 + c * 6) * 0.0625


def _expanded(image: Tensor, size: torch.Size) -> Tensor:
    """Double the size, cropped to ``size``: apply the same filter to spread pixels, with the outermost repeated."""
    height, width = size
    return _doubled(_doubled(image, width).transpose(-2, -1), height).transpose(-2, -1)


def _doubled(image: Tensor, length: int) -> Tensor:
    before = torch.cat([image[..., :1], image[..., :-1]], -1)
    after = torch.cat([image[..., 1:], image[..., -1:]], -1)
    even = (before + after + image * 6) * 0.125
    odd = (image + after) * 0.5
    return torch.stack([even, odd], -1).flatten(-2)[..., :length]


def blurred_weight(inside: Tensor, outside: Tensor, sigma_px: float) -> Tensor:
    """Return the mask smoothed by a Gaussian, as the weight of the paste at each of its pixels.

    Padding and pixels beyond the canvas do not count: the sum over ``inside`` is divided by the sum over both masks.

    Args:
        inside: [B, 1, H, W] bool, pasted pixels.
        outside: [B, 1, H, W] bool, other pixels of the image.
        sigma_px: standard deviation of the Gaussian in pixels, above 0.

    Returns:
        [B, 1, H, W] float32 in (0, 1], 1 outside.
    """
    known = _smoothed(inside | outside, sigma_px).clamp(min=1)
    return torch.where(inside, _smoothed(inside, sigma_px).float() / known.float(), 1.0)


def _smoothed(pixels: Tensor, sigma_px: float) -> Tensor:
    """Return the sum of the weights of the ``pixels`` around each pixel, int32 of the same shape, from 0 to 2**30."""
    taps = gaussian_taps(sigma_px)
    reach = len(taps) // 2
    height, width = pixels.shape[-2:]
    padded = F.pad(pixels.to(torch.int32), [reach, reach, reach, reach])
    rows = sum(tap * padded[..., i : i + height, :] for i, tap in enumerate(taps))
    assert isinstance(rows, Tensor)
    out = sum(tap * rows[..., i : i + width] for i, tap in enumerate(taps))
    assert isinstance(out, Tensor)
    return out


@cache
def gaussian_taps(sigma_px: float) -> tuple[int, ...]:
    """Return the taps of a Gaussian at whole pixels up to three standard deviations, which sum to 2**15.

    They are rounded from decimal arithmetic, which is the same on every machine; the middle one takes the remainder.
    """
    sigma = Decimal(repr(sigma_px))
    reach = math.ceil(_NUM_SIGMAS * sigma)
    density = [(-((Decimal(i) / sigma) ** 2) / 2).exp() for i in range(-reach, reach + 1)]
    taps = [round(_ONE * value / sum(density)) for value in density]
    taps[reach] += _ONE - sum(taps)
    return tuple(taps)


def is_near(pixels: Tensor, radius: int) -> Tensor:
    """Return whether one of ``pixels`` lies at most ``radius`` rows and columns away, bool of the same shape."""
    rows = _steps(pixels, -2) <= radius
    return _steps(rows, -1) <= radius


def squared_distance(pixels: Tensor, limit: int) -> Tensor:
    """Return the squared Euclidean distance between pixel centres to the nearest of ``pixels``.

    Args:
        pixels: [B, 1, H, W] bool.
        limit: distances below ``limit + 1`` pixels are exact, others are returned as that or more.

    Returns:
        [B, 1, H, W] int32.
    """
    width = pixels.shape[-1]
    beyond = limit + 1
    along_column = _steps(pixels, -2).clamp(max=beyond).square()
    padded = F.pad(along_column, (limit, limit), value=beyond * beyond)
    nearest = along_column
    for step in range(1, limit + 1):
        for start in (limit - step, limit + step):
            nearest = torch.minimum(nearest, padded[..., start : start + width] + step * step)
    return nearest


def _steps(pixels: Tensor, dim: int) -> Tensor:
    """Return the steps along one dimension to the nearest of ``pixels``, int32; very many if that line has none."""
    shape = [1] * pixels.ndim
    shape[dim] = pixels.shape[dim]
    index = torch.arange(pixels.shape[dim], dtype=torch.int32, device=pixels.device).view(shape)
    last = torch.where(pixels, index, -_FAR).cummax(dim).values
    upcoming = torch.where(pixels, index, _FAR).flip(dim).cummin(dim).values.flip(dim)
    return torch.minimum(index - last, upcoming - index)


MODES: dict[str, HarmonizeMode] = {"reinhard": reinhard, "multiband": multiband, "poisson": poisson}
"""Functions by ``HarmonizeConfig.mode``."""
