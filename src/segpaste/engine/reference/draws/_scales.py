"""Draws of the scale of each layer: relative to its source, in pixels or in whole patches, as exact fractions."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.engine.reference import geometry
from segpaste.engine.reference.draws import _places
from segpaste.engine.reference.draws.slots import Draw
from segpaste.engine.schema import GRID_TRIES, LARGEST_NUM, SCALE_DEN, SIZE_DEN


def draw_scales(draw: Draw, chosen: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the scales of all layers.

    Args:
        draw: targets, sources and rules.
        chosen: [B, L, K_s] bool, slots to paste.
        boxes: [B, L, K_s, 4] int64, pixel boxes in the source, mirrored.

    Returns:
        Numerators and denominators [B, L, 2] int64, (x, y).
    """
    rules, seeds = draw.rules, draw.targets.seeds[:, None]
    if rules.on_grid:
        return _on_grid(draw, chosen, boxes)
    layers = torch.arange(rules.num_layers, device=seeds.device)
    largest = _largest_fitting(draw, chosen, boxes)
    shrunk = None if draw.sources.shrunk is None else draw.sources.shrunk.clamp(min=1)
    before = largest if shrunk is None else torch.div(largest * shrunk, SCALE_DEN, rounding_mode="floor")
    high = before.clamp(rules.low_scale, rules.high_scale)
    num = seeding.random_integers(seeds, "scale", torch.full_like(high, rules.low_scale), high, layers)
    if shrunk is not None:
        num = torch.div(num * SCALE_DEN, shrunk, rounding_mode="floor").clamp(max=LARGEST_NUM)
    if not rules.one_each or not chosen.shape[2]:
        return _both(num, SCALE_DEN)
    slot = chosen.to(torch.uint8).argmax(2, keepdim=True)
    box = boxes.gather(2, slot[..., None].expand(-1, -1, -1, 4))[:, :, 0]
    sides = (box[..., 2:] - box[..., :2]).clamp(min=1)
    highest = largest.clamp(rules.low_scale, rules.high_scale)
    num = _sized(draw, num, highest, sides.amax(-1), draw.sources.labels.gather(2, slot)[:, :, 0])
    if rules.whole_patches:
        return _whole_patches(draw, num, sides)
    return _both(num, SCALE_DEN)


def _on_grid(draw: Draw, chosen: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Draw scales of the canvas grid: the first of `GRID_TRIES` at which the chosen boxes fit, else the smallest."""
    rules, targets = draw.rules, draw.targets
    layers, tries = (torch.arange(n, device=boxes.device) for n in (rules.num_layers, GRID_TRIES))
    seeds = targets.seeds[:, None, None]
    steps = seeding.random_integers(seeds, "scale", rules.low_scale, rules.high_scale, layers[:, None], tries)
    steps = torch.cat([steps, torch.full_like(steps[..., :1], rules.low_scale)], -1) * rules.patch  # [B, L, M + 1]
    if not chosen.shape[2]:
        return _both(steps[..., 0], rules.scale_den)
    around = _places.surrounding(chosen, boxes).unsqueeze(2)
    pairs = steps.unsqueeze(-1).expand(*steps.shape, 2)
    scaled = geometry.scaled_boxes(around, pairs, torch.full_like(pairs, rules.scale_den))
    fits = _places.have_room(scaled, targets.extent[:, None, None], rules.patch) | ~chosen.any(2, keepdim=True)
    order = torch.arange(GRID_TRIES + 1, 0, -1, device=boxes.device)
    taken = torch.cat([fits[..., :-1], torch.ones_like(fits[..., :1])], -1) * order
    num = steps.gather(2, taken.argmax(2, keepdim=True))[..., 0]
    return _both(num, rules.scale_den)


def _largest_fitting(draw: Draw, chosen: Tensor, boxes: Tensor) -> Tensor:
    """Return the largest scale at which the chosen boxes of each layer fit into the image.

    A rectangle scaled by s covers at most ceil(side * s) pixels, so no smaller scale is needed.

    Args:
        draw: targets and rules.
        chosen: [B, L, K_s] bool.
        boxes: [B, L, K_s, 4] int64.

    Returns:
        [B, L] int64 over `SCALE_DEN`, at most `LARGEST_NUM`, which is also returned if nothing is chosen or scales need
        not fit.
    """
    nothing = torch.full_like(draw.rows.source_idx, LARGEST_NUM)
    if not draw.rules.fits_scale or not chosen.shape[2]:
        return nothing
    around = _places.surrounding(chosen, boxes)
    sides = (around[..., 2:] - around[..., :2]).clamp(min=1)
    fitting = torch.div(draw.targets.extent[:, None] * SCALE_DEN, sides, rounding_mode="floor").amin(-1)
    return torch.where(chosen.any(2), torch.minimum(fitting, nothing), nothing)


def _sized(draw: Draw, num: Tensor, highest: Tensor, side: Tensor, label: Tensor) -> Tensor:
    """Return the numerator that gives the longer side the size drawn for its class, within the range of scales."""
    table = draw.tables.size_table.to(num.device)
    others = table.shape[0] - 1
    low, high = table[torch.where((label < 0) | (label > others), others, label)].unbind(-1)
    layers = torch.arange(num.shape[1], device=num.device)
    size = seeding.random_integers(draw.targets.seeds[:, None], "size", low, high, layers)
    wanted = torch.div(size * SCALE_DEN, SIZE_DEN * side, rounding_mode="floor")
    return torch.where(low > 0, torch.minimum(wanted.clamp(min=draw.rules.low_scale), highest), num)


def _whole_patches(draw: Draw, num: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
    """Scale each axis so that the object covers whole patches: the nearest number, or one less if that does not fit."""
    patch, half = draw.rules.patch, SCALE_DEN * draw.rules.patch
    count = torch.div(2 * sides * num.unsqueeze(-1) + half, 2 * half, rounding_mode="floor").clamp(min=1)
    room = torch.div(draw.targets.extent[:, None], patch, rounding_mode="floor")
    count = torch.minimum(count, torch.maximum(room, count - 1)).clamp(min=1)
    return count * patch, sides


def _both(num: Tensor, den: int) -> tuple[Tensor, Tensor]:
    """Return numerators and denominators of scales that are the same for both axes, [B, L, 2] each."""
    pairs = num.unsqueeze(-1).repeat(1, 1, 2)
    return pairs, torch.full_like(pairs, den)
