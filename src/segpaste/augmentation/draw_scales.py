"""How large a layer is drawn: relative to its source, in pixels, or in whole patches; exact fractions all of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.augmentation import draw_places, geometry
from segpaste.augmentation.placement_config import LARGEST_SCALE, PlacementConfig

if TYPE_CHECKING:
    from segpaste.augmentation.placement import LayerSources, PlacementRequest

SCALE_DEN = 1 << 16
"""The denominator of scales that no grid asks for another one."""

LARGEST_NUM = round(LARGEST_SCALE * SCALE_DEN)
"""The largest numerator over `SCALE_DEN`."""

GRID_TRIES = 8
"""Scales of a canvas' grid that are tried before the smallest one is taken."""

FEW_SCALES = 4
"""A canvas' grid with fewer scales than this in the range is warned of."""

SIZE_DEN = 16
"""Sizes in pixels are drawn in steps of one part in this many."""


def scale_limits(config: PlacementConfig) -> tuple[int, int]:
    """The smallest and the largest numerator of a scale over `SCALE_DEN`."""
    low, high = config.scale_range
    first = math.ceil(low * SCALE_DEN)
    return first, max(first, math.floor(high * SCALE_DEN))


def smallest_scale(config: PlacementConfig) -> float:
    """No axis is scaled by less: 2.5 patches may be drawn as 1 where there is no room for 2."""
    return config.scale_range[0] * (2 / 5 if config.align == "instance" else 1)


def canvas_grid(config: PlacementConfig, canvas_size: tuple[int, int]) -> tuple[int, int, int]:
    """The scales n * p / gcd(H, W) that keep the canvas' edges on patches: first n, last n, and the gcd.

    Raises:
        RuntimeError: none lies in the scale range.
    """
    patch, edge = config.pad_to_multiple, math.gcd(*canvas_size)
    assert patch is not None
    low, high = scale_limits(config)
    first, last = -(-low * edge // (SCALE_DEN * patch)), high * edge // (SCALE_DEN * patch)
    if first > last:
        height, width = canvas_size
        raise RuntimeError(
            f"BatchCopyPaste: expected a multiple of {patch}/{edge} in scale_range={config.scale_range}, got none: on "
            f"{height} x {width} pixels only such scales keep the edges of a canvas on patches of {patch}; widen "
            "placement.scale_range, make canvases whose sides share a larger divisor, or set align='instance'"
        )
    return first, last, edge


def few_scales_warning(config: PlacementConfig, canvas_size: tuple[int, int]) -> str | None:
    """Return what to tell a user whose canvas leaves fewer than `FEW_SCALES` scales in the range, else None."""
    if not config.patch_aligned_paste or config.align != "canvas":
        return None
    first, last, edge = canvas_grid(config, canvas_size)
    if last - first + 1 >= FEW_SCALES:
        return None
    assert config.pad_to_multiple is not None
    scales = ", ".join(str(Fraction(n * config.pad_to_multiple, edge)) for n in range(first, last + 1))
    height, width = canvas_size
    return (
        f"BatchCopyPaste: expected at least {FEW_SCALES} scales in placement.scale_range={config.scale_range}, got "
        f"{last - first + 1} ({scales}): on {height} x {width} pixels only multiples of "
        f"{config.pad_to_multiple}/{edge} keep the edges of a canvas on patches of {config.pad_to_multiple}; make or "
        "pad canvases whose sides share a larger divisor, set placement.align='instance', or widen "
        "placement.scale_range"
    )


def draw_scales(
    request: PlacementRequest, sources: LayerSources, chosen: Tensor, boxes: Tensor
) -> tuple[Tensor, Tensor]:
    """The scales of all layers.

    Args:
        request: the targets.
        sources: of the layers.
        chosen: [B, L, K_s] bool, slots that are to be pasted.
        boxes: [B, L, K_s, 4] int64, pixel boxes in the source, mirrored.

    Returns:
        Numerators and denominators [B, L, 2] int64, (x, y).
    """
    config = request.config
    seeds, layers = request.seeds[:, None], torch.arange(config.layers, device=request.seeds.device)
    if config.patch_aligned_paste and config.align == "canvas":
        return _on_grid(request, sources, chosen, boxes)
    num = seeding.random_integers(seeds, "scale", *scale_limits(config), layers)
    if sources.shrunk is not None:
        num = torch.div(num * SCALE_DEN, sources.shrunk, rounding_mode="floor").clamp(max=LARGEST_NUM)
    if config.grouping == "image":
        return _both(num), torch.full_like(_both(num), SCALE_DEN)
    slot = chosen.to(torch.uint8).argmax(2, keepdim=True) if chosen.shape[2] else None
    if slot is None:
        return _both(num), torch.full_like(_both(num), SCALE_DEN)
    box = boxes.gather(2, slot[..., None].expand(-1, -1, -1, 4))[:, :, 0]
    sides = (box[..., 2:] - box[..., :2]).clamp(min=1)
    if config.draws_sizes:
        num = _sized(request, num, sides.amax(-1), sources.labels.gather(2, slot)[:, :, 0])
    if config.align == "instance":
        return _whole_patches(request, num, sides)
    return _both(num), torch.full_like(_both(num), SCALE_DEN)


def _on_grid(request: PlacementRequest, sources: LayerSources, chosen: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Scales of the canvas' grid: the first of `GRID_TRIES` at which the chosen boxes have room, else the smallest."""
    config, patch = request.config, request.config.pad_to_multiple
    assert patch is not None
    first, last, edge = canvas_grid(config, sources.canvas_size or request.canvas_size)
    layers, tries = (torch.arange(n, device=boxes.device) for n in (config.layers, GRID_TRIES))
    steps = seeding.random_integers(request.seeds[:, None, None], "scale", first, last, layers[:, None], tries)
    steps = torch.cat([steps, torch.full_like(steps[..., :1], first)], -1) * patch  # [B, L, M + 1]
    if not chosen.shape[2]:
        return _both(steps[..., 0]), torch.full_like(_both(steps[..., 0]), edge)
    around = draw_places.surrounding(chosen, boxes).unsqueeze(2)
    pairs = steps.unsqueeze(-1).expand(*steps.shape, 2)
    scaled = geometry.scaled_boxes(around, pairs, torch.full_like(pairs, edge))
    fits = draw_places.have_room(scaled, request.extent[:, None, None], patch) | ~chosen.any(2, keepdim=True)
    order = torch.arange(GRID_TRIES + 1, 0, -1, device=boxes.device)
    taken = torch.cat([fits[..., :-1], torch.ones_like(fits[..., :1])], -1) * order
    num = steps.gather(2, taken.argmax(2, keepdim=True))[..., 0]
    return _both(num), torch.full_like(_both(num), edge)


def size_table(config: PlacementConfig) -> Tensor:
    """Ranges of sizes in 1 / `SIZE_DEN` pixels, [C + 1, 2] int64, the last for all other classes; 0 where relative."""
    others = (0, 0) if config.size_range is None else _steps(config.size_range.low, config.size_range.high)
    table = torch.tensor([others]).repeat(max(config.class_sizes, default=-1) + 2, 1)
    for label, size in config.class_sizes.items():
        table[label] = torch.tensor(_steps(size.low, size.high))
    return table


def _steps(low: float, high: float) -> tuple[int, int]:
    first = max(1, math.ceil(low * SIZE_DEN))
    return first, max(first, math.floor(high * SIZE_DEN))


def _sized(request: PlacementRequest, num: Tensor, side: Tensor, label: Tensor) -> Tensor:
    """The numerator that draws the longer side as long as its class asks for, within the range of scales."""
    table = request.schedule.size_table
    others = table.shape[0] - 1
    low, high = table[torch.where((label < 0) | (label > others), others, label)].unbind(-1)
    layers = torch.arange(num.shape[1], device=num.device)
    size = seeding.random_integers(request.seeds[:, None], "size", low, high, layers)
    wanted = torch.div(size * SCALE_DEN, SIZE_DEN * side, rounding_mode="floor").clamp(*scale_limits(request.config))
    return torch.where(low > 0, wanted, num)


def _whole_patches(request: PlacementRequest, num: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
    """Each axis scaled so that the object covers whole patches: as many as come next, one less if these do not fit."""
    patch = request.config.pad_to_multiple
    assert patch is not None
    half = SCALE_DEN * patch
    count = torch.div(2 * sides * num.unsqueeze(-1) + half, 2 * half, rounding_mode="floor").clamp(min=1)
    room = torch.div(request.extent[:, None], patch, rounding_mode="floor")
    count = torch.minimum(count, torch.maximum(room, count - 1)).clamp(min=1)
    return count * patch, sides


def _both(num: Tensor) -> Tensor:
    return num.unsqueeze(-1).repeat(1, 1, 2)
