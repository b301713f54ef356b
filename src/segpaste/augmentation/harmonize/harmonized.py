"""Harmonisation: fit pasted colours to the image around them. Labels, depth and normals do not change.

It is one custom operator made of torch operations that round each value once: additions, products, quotients and roots
in a fixed order. It uses no sums or filters of a library, whose order depends on the device and the batch size. The
result therefore has the same bits in eager and compiled code, on any device and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.augmentation.config.harmonize import HarmonizeConfig
from segpaste.augmentation.harmonize._blur import blurred_weight
from segpaste.augmentation.harmonize._distance import squared_distance
from segpaste.augmentation.harmonize._multiband import multiband
from segpaste.augmentation.harmonize._poisson import poisson
from segpaste.augmentation.harmonize._reinhard import reinhard
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

MODES: dict[str, HarmonizeMode] = {"reinhard": reinhard, "multiband": multiband, "poisson": poisson}


def harmonized(
    composed: Tensor,
    target: Tensor,
    visible: Tensor,
    seeds: Tensor,
    config: HarmonizeConfig,
    padding_mask: Tensor | None = None,
) -> Tensor:
    """Fit the pasted colours of composed images to the target.

    Args:
        composed: [B, C, H, W] uint8, float16, bfloat16 or float32 of any range, the target with pastes.
        target: as ``composed``, before the paste.
        visible: [B, H, W] bool, M_eff: pixels where a paste is visible.
        seeds: [B] int64, seeds of the images, which decide the images to harmonise.
        config: options.
        padding_mask: [B, 1, H, W] bool, True for padding, which is treated like the outside of the canvas.

    Returns:
        A new tensor of the shape, dtype and memory format of ``composed``. Outside of ``visible``, and in images that
        are not drawn and whose edges stay hard, it is ``composed`` bit for bit. uint8 is rounded half to even; floats
        stay in the range of the values of ``composed`` and ``target`` of that image.
    """
    options = [getattr(config, name) for name in _OPTIONS]
    out: Tensor = _harmonize(composed, target, visible, seeds, padding_mask, *options)
    return out


_OPTIONS = tuple(HarmonizeConfig.model_fields)
_SCHEMA = (
    "(Tensor composed, Tensor target, Tensor visible, Tensor seeds, Tensor? padding_mask, str mode, float prob, "
    "SymInt pyramid_levels, SymInt surround_px, float max_gain, SymInt poisson_cycles, SymInt feather_px, "
    "float blur_px) -> Tensor"
)


@torch.library.custom_op("segpaste::harmonize", mutates_args=(), schema=_SCHEMA)
def _harmonize(
    composed: Tensor, target: Tensor, visible: Tensor, seeds: Tensor, padding_mask: Tensor | None, *options: object
) -> Tensor:
    config = HarmonizeConfig.model_validate(dict(zip(_OPTIONS, options, strict=True)))
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
