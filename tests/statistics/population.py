"""Ten small pictures that the reference and the module both draw from, as plain NumPy arrays, and the rules they obey.

Made so that a wrong draw shows: large things of the common class stand in the first slots, three pictures in a row
have nothing to give, one has no free slot, one has small things in its corner only, one is padded, and classes have a
long tail. Masks may overlap, except in panoptic pictures, where the first thing has the pixel.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from painting import HEIGHT, WIDTH, Array, Box, drawn_shape, filled, tight_box

NUM_SLOTS = 6
NUM_CLASSES = 5
STUFF = (10, 11)
IGNORED = 255
UNKNOWN_CLASS = 3
"""No thing to the panoptic taxonomy, so never a source there."""


@dataclass(frozen=True)
class Rules:
    """Rules of one forward, named as in the configuration. ``tau_stuff_px`` is 0 where stuff is not watched."""

    layers: int = 1
    paste_prob: float = 1.0
    k_range: tuple[int, int] = (1, 256)
    scale_range: tuple[float, float] = (0.5, 2.0)
    hflip_probability: float = 0.5
    max_attempts: int = 1
    min_area_px: int = 1
    tau_stuff_frac: float = 0.1
    tau_stuff_px: int = 0


RULES = {
    "instance": Rules(layers=2, paste_prob=0.9, k_range=(1, 4), min_area_px=3),
    "panoptic": Rules(k_range=(1, 3), hflip_probability=0.3, min_area_px=5, tau_stuff_frac=0.25, tau_stuff_px=30),
    "semantic": Rules(paste_prob=0.7, k_range=(2, 3), scale_range=(0.6, 1.8), max_attempts=3),
    "depth": Rules(layers=2, k_range=(1, 3), scale_range=(0.5, 1.5), min_area_px=4),
}
MODALITIES = tuple(RULES)


@dataclass(frozen=True)
class Picture:
    """The arrays of one picture; those that its modality lacks are None.

    Attributes:
        size: (width, height) that is picture; the rest of the canvas is padding.
        masks: [N, H, W] bool.
        boxes: of the masks, tight.
        labels: of the masks.
        offers: positions of the instances that may be pasted elsewhere.
        classes: [H, W] int64, the semantic map.
        depth: [H, W] float32, 0 where ``depth_valid`` is False.
        depth_valid: [H, W] bool.
    """

    size: tuple[int, int]
    masks: Array
    boxes: tuple[Box, ...]
    labels: tuple[int, ...]
    offers: tuple[int, ...]
    classes: Array | None
    depth: Array | None
    depth_valid: Array | None


@dataclass(frozen=True)
class _Plan:
    """A picture in words: things are (shape, label, box, depth), nearest in depth is smallest."""

    things: tuple[tuple[str, int, Box, float], ...] = ()
    size: tuple[int, int] = (WIDTH, HEIGHT)
    horizon: int = 12
    far: float = 9.0
    ignored: Box = (0, 0, 0, 0)
    hole: Box = (0, 0, 0, 0)


_PLANS = (
    _Plan(
        (
            ("rectangle", 0, (1, 2, 17, 16), 4.0),
            ("ellipse", 0, (15, 1, 29, 13), 2.0),
            ("triangle", 1, (3, 14, 13, 23), 3.0),
            ("rectangle", 4, (27, 19, 30, 22), 1.0),
        ),
        ignored=(14, 0, 18, 24),
        hole=(20, 14, 26, 20),
    ),
    _Plan((("ell", 0, (2, 2, 12, 14), 5.0), ("ellipse", 2, (20, 10, 30, 20), 1.5)), horizon=3, hole=(5, 5, 10, 16)),
    _Plan(
        (
            ("triangle", 0, (8, 4, 24, 22), 3.0),
            ("rectangle", 1, (1, 1, 7, 6), 6.0),
            ("ell", 3, (25, 2, 31, 9), 2.0),
        ),
        horizon=19,
        ignored=(0, 18, 32, 21),
    ),
    _Plan(
        (
            ("rectangle", 0, (0, 0, 12, 10), 2.0),
            ("ellipse", 0, (12, 0, 22, 10), 4.0),
            ("rectangle", 1, (22, 0, 32, 8), 3.0),
            ("ell", 1, (0, 11, 8, 20), 5.0),
            ("triangle", 2, (10, 12, 18, 20), 1.5),
            ("rectangle", 3, (21, 14, 25, 18), 1.0),
        ),
    ),
    _Plan((("ellipse", 0, (3, 3, 20, 16), 3.0), ("rectangle", 1, (19, 13, 25, 19), 2.0)), size=(25, 19), horizon=4),
    _Plan((("rectangle", 3, (18, 5, 30, 17), 4.0), ("ell", 3, (4, 6, 12, 14), 2.0)), horizon=20),
    _Plan(
        (
            ("rectangle", 1, (26, 1, 31, 5), 2.0),
            ("ellipse", 2, (25, 8, 31, 14), 4.0),
            ("rectangle", 4, (28, 20, 31, 23), 1.5),
            ("rectangle", 0, (24, 16, 27, 20), 3.0),
            ("triangle", 1, (20, 2, 24, 7), 1.0),
        ),
        far=5.0,
    ),
    _Plan(horizon=20, ignored=(0, 0, 10, 24), hole=(12, 4, 28, 18)),
    _Plan(size=(20, 24)),
    _Plan(horizon=2, far=2.5),
)
NUM_PICTURES = len(_PLANS)


def pictures(modality: str) -> list[Picture]:
    """All pictures, with the fields of one of `MODALITIES`."""
    return [_painted(plan, modality) for plan in _PLANS]


def digest(modality: str) -> str:
    """A SHA-256 over every number that the draws of a modality depend on."""
    return digest_of([HEIGHT, WIDTH, NUM_SLOTS, asdict(RULES[modality])], pictures(modality))


def digest_of(rules: list[Any], world: list[Picture]) -> str:
    """A SHA-256 over rules, which JSON can hold, and pictures."""
    found = hashlib.sha256(json.dumps(rules).encode())
    for picture in world:
        for field in fields(picture):
            value = getattr(picture, field.name)
            found.update(field.name.encode())
            found.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return found.hexdigest()


def _painted(plan: _Plan, modality: str) -> Picture:
    inside = filled((0, 0, *plan.size))
    masks = np.zeros((len(plan.things), HEIGHT, WIDTH), bool)
    for mask, (shape, _, (x1, y1, x2, y2), _) in zip(masks, plan.things, strict=True):
        mask[y1:y2, x1:x2] = drawn_shape(shape, y2 - y1, x2 - x1)
    if modality == "panoptic":
        masks &= np.cumsum(masks, 0) == 1
    labels = tuple(label for _, label, _, _ in plan.things)
    has_classes, has_depth = modality in ("panoptic", "semantic"), modality == "depth"
    valid = inside & ~filled(plan.hole)
    return Picture(
        size=plan.size,
        masks=masks,
        boxes=tuple(tight_box(mask) for mask in masks),
        labels=labels,
        offers=tuple(k for k, label in enumerate(labels) if modality != "panoptic" or label != UNKNOWN_CLASS),
        classes=_class_map(plan, masks, modality) if has_classes else None,
        depth=np.where(valid, _depth_map(plan, masks), 0).astype(np.float32) if has_depth else None,
        depth_valid=valid if has_depth else None,
    )


def _class_map(plan: _Plan, masks: Array, modality: str) -> Array:
    """Stuff above and below a horizon, things over it, and what is ignored; in panoptic that is behind the things."""
    classes = np.where(np.arange(HEIGHT)[:, None] < plan.horizon, *STUFF) * np.ones((1, WIDTH), np.int64)
    for (_, label, _, _), mask in zip(reversed(plan.things), masks[::-1], strict=True):
        classes[mask] = label
    ignored = filled(plan.ignored)
    if modality == "panoptic":
        ignored &= ~masks.any(0)
    classes[ignored | ~filled((0, 0, *plan.size))] = IGNORED
    return classes


def _depth_map(plan: _Plan, masks: Array) -> Array:
    """One plane for each thing, the nearest seen, before a far one."""
    depth = np.full((HEIGHT, WIDTH), plan.far)
    for (_, _, _, near), mask in zip(plan.things, masks, strict=True):
        depth[mask] = np.minimum(depth[mask], near)
    return depth
