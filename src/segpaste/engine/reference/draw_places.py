"""Where a layer lies: uniform over where its objects fit, on whole patches if asked, the best of some tries."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.engine.records import DrawRules, Targets
from segpaste.engine.reference import geometry

_FAR = 1 << 44
"""More than any coordinate or overlap."""

_LONGEST_SIDE = 1 << 20
"""Sides of boxes count as no longer than this where areas are compared, pixels."""


def draw_places(targets: Targets, rules: DrawRules, chosen: Tensor, scaled: Tensor) -> tuple[Tensor, Tensor]:
    """Places for every layer, and the chosen slots that may be pasted there.

    The rectangle around all chosen boxes is uniform over where it fits; where it is larger than the picture it is
    uniform over where it covers it.

    Args:
        targets: B of them.
        rules: how many places are tried, and what fits.
        chosen: [B, L, K_s] bool.
        scaled: [B, L, K_s, 4] int64, boxes after scale and flip.

    Returns:
        translate [B, L, 2] int64 and carried [B, L, K_s] bool.
    """
    candidates = _candidates(targets, rules, chosen, scaled)  # [B, L, A, 2]
    placed = scaled[:, :, None] + candidates.repeat(1, 1, 1, 2)[:, :, :, None]  # [B, L, A, K_s, 4]
    fits = chosen[:, :, None] & _fits(rules, placed, targets.extent[:, None, None, None])
    if rules.max_attempts == 1:
        return candidates[:, :, 0], fits[:, :, 0]
    overlap = geometry.box_overlap(placed, targets.occupied[:, None, None]).sum(-1)
    score = fits.sum(-1) * _FAR - (overlap * fits).sum(-1)
    attempts = torch.arange(rules.max_attempts, device=chosen.device)
    untied = score * rules.max_attempts - attempts  # which of equal maxima argmax takes is up to the compiler
    best = untied.argmax(2, keepdim=True)
    translate = candidates.gather(2, best[..., None].expand(-1, -1, -1, 2))[:, :, 0]
    carried = fits.gather(2, best[..., None].expand(-1, -1, -1, fits.shape[-1]))[:, :, 0]
    return translate, carried


def _candidates(targets: Targets, rules: DrawRules, chosen: Tensor, scaled: Tensor) -> Tensor:
    """Translations to try, [B, L, A, 2] int64."""
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

    On a coarse grid of patches layers would often lie in the same cells and hide one another. Each layer alone stays
    uniform. A Latin hypercube: McKay, Beckman, Conover, Technometrics 21(2), 1979.

    Args:
        seeds: [B] int64.
        fractions: [B, L, A, 2] int64 in [0, 2**32).
        indices: of layers, attempts and axes.
    """
    keys = (seeding.random_bits(seeds[:, None, None, None], "stratum", *indices) >> 2) & ((1 << 62) - 1)
    turns = keys.argsort(dim=1, stable=True).argsort(dim=1)
    return torch.div((turns << 32) + fractions, fractions.shape[1], rounding_mode="floor")


def surrounding(chosen: Tensor, boxes: Tensor) -> Tensor:
    """Return the rectangle around the chosen boxes, [B, L, 4] int64 of [B, L, K_s] and [B, L, K_s, 4]."""
    corner = torch.where(chosen[..., None], boxes[..., :2], _FAR).amin(2)
    opposite = torch.where(chosen[..., None], boxes[..., 2:], -_FAR).amax(2)
    return torch.cat([corner, opposite], -1)


def have_room(around: Tensor, extent: Tensor, patch: int) -> Tensor:
    """Return whether some translation by whole patches keeps rectangles inside the target's picture.

    Args:
        around: [..., 4] int64, scaled and not yet moved.
        extent: [..., 2] int64, (width, height) of the picture.
        patch: the side of a patch, pixels.

    Returns:
        [...] bool.
    """
    first, last = _whole_steps(-around[..., :2], extent - around[..., 2:], patch)
    return (first <= last).all(-1)


def _range_of(rules: DrawRules, around: Tensor, extent: Tensor, is_empty: Tensor) -> tuple[Tensor, Tensor]:
    """The least and largest translation of rectangles [..., 4], each [..., 2]."""
    first, last = -around[..., :2], extent - around[..., 2:]
    low, high = torch.minimum(first, last), torch.maximum(first, last)
    if not rules.clips:
        return low, high
    side = (around[..., 2:] - around[..., :2]).clamp(0, _LONGEST_SIDE) * ~is_empty
    hidden = torch.div(side * (rules.seen_den - rules.seen_num), rules.seen_den, rounding_mode="floor")
    return low - hidden, high + hidden


def _whole_steps(low: Tensor, high: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """The first and the last multiple of ``patch`` from ``low`` to ``high``, over it."""
    return -torch.div(-low, patch, rounding_mode="floor"), torch.div(high, patch, rounding_mode="floor")


def _fits(rules: DrawRules, placed: Tensor, extent: Tensor) -> Tensor:
    """Whether boxes [..., 4] may be pasted into pictures of (width, height) [..., 2]."""
    inside = geometry.inside_extent(placed, extent)
    if not rules.clips:
        return inside
    sides = (placed[..., 2:] - placed[..., :2]).clamp(0, _LONGEST_SIDE)
    seen = torch.minimum(placed[..., 2:], extent) - placed[..., :2].clamp(min=0)
    area = seen.clamp(0, _LONGEST_SIDE).prod(-1)
    return inside | ((area > 0) & (area * rules.seen_den >= sides.prod(-1) * rules.seen_num))
