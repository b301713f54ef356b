"""Visible pixels of the layers of the loop sampler: the second half of the reference of the statistics gate.

A pixel x of the output shows ``floor((x + 0.5 - t) / s)`` of the source, mirrored about the source's own width where it
is flipped. Depth here is a few planes that differ by more than 5 %, so between two of them it is the nearest pixel's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from population import HEIGHT, IGNORED, STUFF, WIDTH, Array, Picture, Rules

Paste = tuple[int, int]
"""Label and visible pixels."""


@dataclass
class Layer:
    """One source seen through one map, and the instances of it that are pasted."""

    source: Picture
    scale: float
    flip: bool
    carried: list[int] = field(default_factory=list)
    shift: tuple[int, int] = (0, 0)


@dataclass
class View:
    """A layer laid out on the target's canvas."""

    masks: dict[int, Array]
    may_show: Array
    depth: Array
    depth_valid: Array


def axis_pixels(layer: Layer, axis: int) -> tuple[Array, Array, Array]:
    """The nearest source pixel of each output pixel, whether there is one, and both neighbours of a smooth read."""
    size, num_out = layer.source.size[axis], (WIDTH, HEIGHT)[axis]
    position = (np.arange(num_out) + 0.5 - layer.shift[axis]) / layer.scale
    below = np.floor(position - 0.5)
    nearest = np.floor(position).astype(int)
    taps = np.stack([below, np.ceil(position - 0.5)]).astype(int)
    is_there = (nearest >= 0) & (nearest < size)
    nearest, taps = nearest.clip(0, size - 1), taps.clip(0, size - 1)
    if axis == 0 and layer.flip:
        nearest, taps = size - 1 - nearest, size - 1 - taps
    return nearest, is_there, taps


def laid_out(layer: Layer) -> View:
    source = layer.source
    columns, column_is_there, column_taps = axis_pixels(layer, 0)
    rows, row_is_there, row_taps = axis_pixels(layer, 1)
    at = np.ix_(rows, columns)
    may_show = row_is_there[:, None] & column_is_there
    masks = {k: source.masks[k][at] & may_show for k in layer.carried}
    if source.classes is not None:
        may_show &= source.classes[at] != IGNORED
    depth, valid = np.zeros(may_show.shape), np.ones(may_show.shape, bool)
    if source.depth is not None and source.depth_valid is not None:
        depth = source.depth[at]
        for y_tap in row_taps:
            for x_tap in column_taps:
                valid &= source.depth_valid[np.ix_(y_tap, x_tap)]
    return View(masks, may_show, depth, valid)


def resolve(target: Picture, views: list[View], protected: set[int]) -> Array:
    """[H, W], which layer is seen, -1 for the target."""
    seen = np.full((HEIGHT, WIDTH), -1)
    open_to_pastes = np.zeros((HEIGHT, WIDTH), bool)
    open_to_pastes[: target.size[1], : target.size[0]] = True
    if target.classes is not None:
        open_to_pastes &= ~np.isin(target.classes, [IGNORED, *protected])
    if target.depth is not None and target.depth_valid is not None:
        depth, valid = target.depth.copy(), target.depth_valid.copy()
    for j, view in enumerate(views):
        wins = view.may_show & open_to_pastes & sum(view.masks.values(), start=np.zeros((HEIGHT, WIDTH), bool))
        if target.depth is not None:
            wins &= ~valid | (view.depth_valid & (view.depth < depth))
            depth[wins], valid[wins] = view.depth[wins], view.depth_valid[wins]
        seen[wins] = j
    return seen


def visible_pixels(views: list[View], seen: Array) -> dict[tuple[int, int], int]:
    """Count the visible pixels of each paste, by layer and instance; panoptic masks of a layer are disjoint."""
    return {(j, k): int((mask & (seen == j)).sum()) for j, view in enumerate(views) for k, mask in view.masks.items()}


def driven_out(target: Picture, rules: Rules, seen: Array) -> set[int]:
    """Kinds of stuff that lost pixels and have too few left: they get theirs back."""
    found = set()
    for kind in STUFF:
        here = target.classes == kind
        before, after = int(here.sum()), int((here & (seen < 0)).sum())
        if after < before and (after < rules.tau_stuff_frac * before or after < rules.tau_stuff_px):
            found.add(kind)
    return found


def settle(target: Picture, layers: list[Layer], rules: Rules) -> list[Paste]:
    """The pastes that stay: stuff that is driven out returns, then what shows too little goes and shows what it hid."""
    views = [laid_out(layer) for layer in layers]
    seen = resolve(target, views, set())
    protected = driven_out(target, rules, seen) if rules.tau_stuff_px else set()
    seen = resolve(target, views, protected) if protected else seen
    area = visible_pixels(views, seen)
    for (j, k), pixels in area.items():
        if pixels < rules.min_area_px:
            del views[j].masks[k]
    if min(area.values(), default=rules.min_area_px) < rules.min_area_px:
        area = visible_pixels(views, resolve(target, views, protected))
    return [(layers[j].source.labels[k], pixels) for (j, k), pixels in area.items()]
