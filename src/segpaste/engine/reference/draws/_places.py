"""Draws of the scale and the place of each layer.

Scales are relative to the source, in pixels or in whole patches, as exact fractions. Places are uniform where the
objects of the layer fit, optionally on patches, or the best of some tries.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste import seeding
from segpaste.engine.orientation import Orientation
from segpaste.engine.reference import geometry
from segpaste.engine.reference.draws.slots import Draw, largest, random_bits_62
from segpaste.engine.schema import GRID_TRIES, LARGEST_NUM, SCALE_DEN, SIZE_DEN, DrawRules, Targets

_FAR = 1 << 44
"""Greater than any coordinate or overlap."""

_LONGEST_SIDE = 1 << 20
"""Longest side of a box in pixels for comparisons of areas; longer sides count as this."""

_COVER_ONE = 1 << 22
"""Denominator of the fractions of boxes by which candidates are ranked."""


def draw_scales(draw: Draw, chosen: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the scales of all layers.

    Args:
        draw: targets, sources and rules.
        chosen: [B, L, K_s] bool, slots to paste.
        boxes: [B, L, K_s, 4] int64, pixel boxes in the source, turned and flipped.

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
    around = surrounding(chosen, boxes).unsqueeze(2)
    pairs = steps.unsqueeze(-1).expand(*steps.shape, 2)
    scaled = geometry.scaled_boxes(around, pairs, torch.full_like(pairs, rules.scale_den))
    fits = have_room(scaled, targets.extent[:, None, None], rules.patch) | ~chosen.any(2, keepdim=True)
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
    around = surrounding(chosen, boxes)
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


class Places(NamedTuple):
    """Places of all layers, and the objects that may be pasted there.

    Attributes:
        translate: [B, L, 2] int64.
        fits: [B, L, K_s] bool, chosen objects that fit.
        in_region: [B, L, K_s] bool, those of them that lie in their region.
        carried: [B, L, K_s] bool, those of them that do not cover too much.
        cover: [B, L, K_s] int64 over `_COVER_ONE`, the largest fraction of an instance's box that each covers; zeros
            if it is not used.
    """

    translate: Tensor
    fits: Tensor
    in_region: Tensor
    carried: Tensor
    cover: Tensor


class Objects(NamedTuple):
    """Objects of all layers.

    Attributes:
        chosen: [B, L, K_s] bool, objects to paste.
        boxes: [B, L, K_s, 4] int64, after turns and flips, before the scale.
        scaled: [B, L, K_s, 4] int64, after both.
        cut: [B, L, K_s, 4] bool, the sides that lie on the border of their image, after turns and flips.
        region: [B, L, K_s] int64, index of the region that each may be pasted on; beyond the last for anywhere.
    """

    chosen: Tensor
    boxes: Tensor
    scaled: Tensor
    cut: Tensor
    region: Tensor


def region_of(table: Tensor, labels: Tensor) -> Tensor:
    """Return the region of each label, int64; see `segpaste.engine.schema.DrawTables.region_table`."""
    others = len(table) - 1
    return table.to(labels.device)[torch.where((labels < 0) | (labels > others), others, labels)]


def draw_places(targets: Targets, rules: DrawRules, objects: Objects) -> Places:
    """Draw a place for every layer, and find the chosen slots that may be pasted there.

    Places are uniform over those at which the rectangle around all chosen boxes fits into the image, or covers it along
    an axis on which it is larger; with ``rules.clips`` it may extend beyond the image. Of ``rules.max_attempts`` places
    the one that keeps the most slots, then overlaps existing boxes least, is taken. With ``rules.keeps_place`` the
    centre of the rectangle does not move.

    Args:
        targets: B images.
        rules: number of places to try, and the condition for a fit.
        objects: boxes, and which of them to paste.
    """
    chosen, _, scaled, cut, region = objects
    candidates = _kept(objects) if rules.keeps_place else _candidates(targets, rules, chosen, scaled)  # [B, L, A, 2]
    placed = scaled[:, :, None] + candidates.repeat(1, 1, 1, 2)[:, :, :, None]  # [B, L, A, K_s, 4]
    extent = targets.extent[:, None, None, None]
    fits = chosen[:, :, None] & _fits(rules, placed, extent)
    if rules.hides_cuts:
        fits = fits & (geometry.cut_sides(placed, extent) | ~cut[:, :, None]).all(-1)
    inside = fits if targets.regions is None else fits & _in_region(targets, targets.regions, rules, placed, region)
    kept, cover = inside, inside.new_zeros(inside.shape, dtype=torch.int64)
    if rules.limits_cover or rules.takes_part:
        covers_little, cover = _cover(targets, rules, placed)
        kept = inside & covers_little
    tried = candidates, fits, inside, kept, cover
    if rules.max_attempts == 1:
        return Places(*(of_attempts[:, :, 0] for of_attempts in tried))
    overlap = geometry.box_overlap(placed, targets.occupied[:, None, None]).sum(-1)
    score = kept.sum(-1) * _FAR - (overlap * kept).sum(-1)
    attempts = torch.arange(rules.max_attempts, device=chosen.device)
    untied = score * rules.max_attempts - attempts  # argmax of equal maxima depends on the compiler
    best = untied.argmax(2, keepdim=True)[..., None]
    return Places(*(t.gather(2, best.expand(-1, -1, -1, t.shape[-1]))[:, :, 0] for t in tried))


def part_of(num: Tensor, rules: DrawRules) -> Tensor:
    """Return ``candidate_num / candidate_den`` of numbers, int64, rounded half to even."""
    product, den = num * rules.candidate_num, rules.candidate_den
    whole = torch.div(product, den, rounding_mode="floor")
    twice = 2 * (product - whole * den)
    return whole + ((twice > den) | ((twice == den) & (whole % 2 == 1)))


def least_covering(places: Places, num: Tensor) -> Tensor:
    """Return the ``num`` [B] of the carried objects that cover the least of an instance's box, [B, L, K_s] bool."""
    return largest(torch.where(places.carried, 2 * _COVER_ONE - places.cover, -1), num)


def _cover(targets: Targets, rules: DrawRules, placed: Tensor) -> tuple[Tensor, Tensor]:
    """Compare boxes [B, L, A, K_s, 4] with those of the target's instances.

    Returns:
        Whether each covers less than ``cover_num / cover_den`` of every one, or that is above 1, [B, L, A, K_s] bool;
        and the largest fraction over `_COVER_ONE`, int64.
    """
    others = targets.occupied[:, None, None]
    low = torch.maximum(placed[..., :, None, :2], others[..., None, :, :2])
    high = torch.minimum(placed[..., :, None, 2:], others[..., None, :, 2:])
    shared = (high - low).clamp(0, _LONGEST_SIDE).prod(-1)  # [B, L, A, K_s, K_t]
    area = (others[..., 2:] - others[..., :2]).clamp(0, _LONGEST_SIDE).prod(-1).unsqueeze(-2)
    covers_little = ((shared * rules.cover_den < area * rules.cover_num) | (area == 0)).all(-1)
    fraction = torch.div(shared * _COVER_ONE, area.clamp(min=1), rounding_mode="floor")
    return covers_little, F.pad(fraction, [0, 1]).amax(-1)  # of no slot, too


def _kept(objects: Objects) -> Tensor:
    """Return the translations that keep the centres of the rectangles around the chosen boxes, [B, L, 1, 2] int64."""
    is_empty = ~objects.chosen.any(2, keepdim=True)
    before, after = (surrounding(objects.chosen, boxes) for boxes in (objects.boxes, objects.scaled))
    doubled = before[..., :2] + before[..., 2:] - after[..., :2] - after[..., 2:]
    return torch.where(is_empty, 0, torch.div(doubled, 2, rounding_mode="floor")).unsqueeze(2)


def oriented_sides(sides: Tensor, orientation: Orientation) -> Tensor:
    """Return the sides (x1, y1, x2, y2) of boxes, [B, L, K_s, 4], as their layers turn and flip them."""
    hflip, vflip, swap_axes = (flags[:, :, None, None] for flags in orientation)
    sides = torch.where(swap_axes, sides[..., [1, 0, 3, 2]], sides)
    sides = torch.where(hflip, sides[..., [2, 1, 0, 3]], sides)
    return torch.where(vflip, sides[..., [0, 3, 2, 1]], sides)


def _candidates(targets: Targets, rules: DrawRules, chosen: Tensor, scaled: Tensor) -> Tensor:
    """Draw the translations to try, [B, L, A, 2] int64."""
    is_empty = ~chosen.any(2, keepdim=True)
    around = surrounding(chosen, scaled)
    picture = torch.cat([torch.zeros_like(targets.extent), targets.extent], -1)
    around = torch.where(is_empty, picture[:, None], around)
    low, high = _range_of(rules, around, targets.extent[:, None], is_empty)
    layers = torch.arange(chosen.shape[1], device=chosen.device)[:, None, None]
    attempts = torch.arange(rules.max_attempts, device=chosen.device)[:, None]
    axes = torch.arange(2, device=chosen.device)
    indices = targets.seeds[:, None, None, None], "translate"
    if not rules.is_aligned:
        return seeding.random_integers(*indices, low.unsqueeze(2), high.unsqueeze(2), layers, attempts, axes)
    phase = around[..., :2] if rules.whole_patches else torch.zeros_like(low)
    first, last = _whole_steps(low + phase, high + phase, rules.patch)
    fractions = _apart(targets.seeds, seeding.random_u32(*indices, layers, attempts, axes), layers, attempts, axes)
    steps = seeding.within(fractions, first.unsqueeze(2), last.unsqueeze(2))
    return steps * rules.patch - phase.unsqueeze(2)


def _apart(seeds: Tensor, fractions: Tensor, *indices: Tensor) -> Tensor:
    """Spread the layers of an image over L equal parts of each axis, in random order.

    Otherwise layers would often fall into the same cells of a coarse grid of patches and hide one another. The place of
    each single layer stays uniform. This is a Latin hypercube: McKay, Beckman, Conover, Technometrics 21(2), 1979.

    Args:
        seeds: [B] int64.
        fractions: [B, L, A, 2] int64 in [0, 2**32).
        indices: indices of layers, attempts and axes.
    """
    keys = random_bits_62(seeds[:, None, None, None], "stratum", *indices)
    turns = keys.argsort(dim=1, stable=True).argsort(dim=1)
    return torch.div((turns << 32) + fractions, fractions.shape[1], rounding_mode="floor")


def surrounding(chosen: Tensor, boxes: Tensor) -> Tensor:
    """Return the rectangle around the chosen boxes, [B, L, 4] int64, from [B, L, K_s] bool and [B, L, K_s, 4]."""
    corner = torch.where(chosen[..., None], boxes[..., :2], _FAR).amin(2)
    opposite = torch.where(chosen[..., None], boxes[..., 2:], -_FAR).amax(2)
    return torch.cat([corner, opposite], -1)


def have_room(around: Tensor, extent: Tensor, patch: int) -> Tensor:
    """Return whether some translation by whole patches keeps rectangles inside the target image.

    Args:
        around: [..., 4] int64, rectangles after scaling and before translation.
        extent: [..., 2] int64, (width, height) of the image without padding.
        patch: side of a patch in pixels.

    Returns:
        [...] bool.
    """
    first, last = _whole_steps(-around[..., :2], extent - around[..., 2:], patch)
    return (first <= last).all(-1)


def _range_of(rules: DrawRules, around: Tensor, extent: Tensor, is_empty: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest translation of rectangles [..., 4], each [..., 2]."""
    first, last = -around[..., :2], extent - around[..., 2:]
    low, high = torch.minimum(first, last), torch.maximum(first, last)
    if not rules.clips:
        return low, high
    side = (around[..., 2:] - around[..., :2]).clamp(0, _LONGEST_SIDE) * ~is_empty
    hidden = torch.div(side * (rules.seen_den - rules.seen_num), rules.seen_den, rounding_mode="floor")
    return low - hidden, high + hidden


def _in_region(targets: Targets, regions: Tensor, rules: DrawRules, placed: Tensor, region: Tensor) -> Tensor:
    """Return whether enough of boxes [B, L, A, K_s, 4], clipped to the image, lies in their regions."""
    num_regions, height, width = regions.shape[1:]
    region = region[:, :, None].expand(placed.shape[:-1])
    x1, y1 = (torch.minimum(placed[..., a].clamp(min=0), targets.extent[:, a, None, None, None]) for a in (0, 1))
    x2, y2 = (torch.minimum(placed[..., a + 2].clamp(min=0), targets.extent[:, a, None, None, None]) for a in (0, 1))
    first = region.clamp(max=num_regions - 1) * height
    sums = [
        regions.flatten(1).gather(1, ((first + y) * width + x).flatten(1)).view(placed.shape[:-1]).to(torch.int64)
        for y, x in ((y1, x1), (y1, x2), (y2, x1), (y2, x2))
    ]
    num_inside, area = sums[3] - sums[1] - sums[2] + sums[0], (x2 - x1) * (y2 - y1)
    return (num_inside * rules.region_den >= area * rules.region_num) | (region >= num_regions)


def _whole_steps(low: Tensor, high: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """Return the first and the last multiple of ``patch`` from ``low`` to ``high``, divided by ``patch``."""
    return -torch.div(-low, patch, rounding_mode="floor"), torch.div(high, patch, rounding_mode="floor")


def _fits(rules: DrawRules, placed: Tensor, extent: Tensor) -> Tensor:
    """Return whether boxes [..., 4] may be pasted into images of (width, height) [..., 2]."""
    inside = geometry.inside_extent(placed, extent)
    if not rules.clips:
        return inside
    sides = (placed[..., 2:] - placed[..., :2]).clamp(0, _LONGEST_SIDE)
    seen = torch.minimum(placed[..., 2:], extent) - placed[..., :2].clamp(min=0)
    area = seen.clamp(0, _LONGEST_SIDE).prod(-1)
    return inside | ((area > 0) & (area * rules.seen_den >= sides.prod(-1) * rules.seen_num))
