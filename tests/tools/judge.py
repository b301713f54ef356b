"""Judge of what a tool read of a probe: each label must lie on the pixels in the colour of its object.

Only NumPy is needed, for it runs in the environment of each tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
KEPT = "kept"
EFFECTS = (
    "stops",
    "image_lost",
    "object_lost",
    "object_split",
    "mask_changed",
    "box_changed",
    "class_changed",
    "points_lost",
    "shifted",
    "crowd_kept",
    "crowd_made",
    "never_matched",
    "ids_lost",
    "pixels_changed",
    "background_lost",
    KEPT,
)
"""What may become of a probe, the more serious first."""

_SAME_COLOUR = 40
_NEAR_PX = 2.0
_SAME_IOU = 0.98


@dataclass
class ReadObject:
    """Object as a tool gives it.

    Attributes:
        name: name of its class.
        mask: [H, W] bool of the image that the tool gives; None if the tool gives boxes only.
        box: (x1, y1, x2, y2) in pixels; None without one.
        is_crowd: True if the tool marks it as a crowd, or as to be ignored.
        points: keypoints (x, y, visibility) in pixels; None without them.
        has_id: False if the tool writes it without an id, or with 0, which evaluators take for none.
    """

    name: str
    mask: Mask | None = None
    box: Sequence[float] | None = None
    is_crowd: bool = False
    points: Sequence[Sequence[float]] | None = None
    has_id: bool = True


@dataclass
class ReadImage:
    """Image as a tool gives it: its name in the probe, its pixels [H, W, 3] uint8, and its objects."""

    name: str
    pixels: NDArray[np.uint8]
    objects: list[ReadObject] = field(default_factory=list)


def judge(truth: Sequence[dict[str, Any]], read: Sequence[ReadImage]) -> str:
    """Return the most serious of `EFFECTS` on the images of a probe."""
    by_name = {image.name: image for image in read}
    found = [KEPT]
    for image in truth:
        if image["name"] in by_name:
            found += _of_image(image["objects"], by_name[image["name"]])
        else:
            found.append("image_lost" if any(not of["is_crowd"] for of in image["objects"]) else "background_lost")
    return min(found, key=EFFECTS.index)


def survival(truth: Sequence[dict[str, Any]], read: Sequence[ReadImage]) -> tuple[float, float]:
    """Return the share of objects, crowds aside, that a label of their class lies on, and the mean overlap of masks.

    The overlap of an object is the intersection over union of its pixels and the label that covers them best; of boxes
    alone it is that of the boxes. It is 0 for an object without a label.
    """
    by_name = {image.name: image for image in read}
    overlaps: list[float] = []
    for image in truth:
        objects = [of for of in image["objects"] if not of["is_crowd"]]
        if image["name"] not in by_name:
            overlaps += [0.0] * len(objects)
            continue
        found = by_name[image["name"]]
        for of in objects:
            mask = _painted(found.pixels, of["colour"])
            labels = [other for other in found.objects if other.name == of["class"] and not other.is_crowd]
            overlaps.append(max((_overlap(other, mask) for other in labels), default=0.0))
    kept = sum(overlap >= 0.5 for overlap in overlaps)
    return (kept / len(overlaps), sum(overlaps) / len(overlaps)) if overlaps else (1.0, 1.0)


def _overlap(other: ReadObject, mask: Mask) -> float:
    if not mask.any():
        return 0.0
    if other.mask is not None and other.mask.shape != mask.shape:
        return 0.0
    if other.mask is None:
        label, mask = _filled(other.box, mask.shape), _filled(_box(mask), mask.shape)
    else:
        label = other.mask
    return float((label & mask).sum() / (label | mask).sum())


def _of_image(truth: Sequence[dict[str, Any]], image: ReadImage) -> list[str]:
    found: list[str] = []
    masks = [_painted(image.pixels, of["colour"]) for of in truth]
    if not all(mask.any() for mask in masks):
        return ["pixels_changed"]
    claimed: set[int] = set()
    for of, mask in zip(truth, masks, strict=True):
        on = [i for i, other in enumerate(image.objects) if _lies_on(other, mask)]
        claimed.update(on)
        found.append(_of_object(of, mask, [image.objects[i] for i in on]))
    strays = [other for i, other in enumerate(image.objects) if i not in claimed and not other.is_crowd]
    if strays:
        found.append("shifted")
    return ["shifted" if strays and effect == "object_lost" else effect for effect in found]


def _of_object(of: dict[str, Any], mask: Mask, on: list[ReadObject]) -> str:
    whole = [other for other in on if not other.is_crowd]
    if of["is_crowd"]:
        return "crowd_kept" if whole else KEPT
    if not whole:
        return "crowd_made" if on else "object_lost"
    if len(whole) > 1:
        return "object_split"
    if whole[0].name != of["class"]:
        return "class_changed"
    if whole[0].mask is not None and (not of["has_mask"] or not _is_same(whole[0].mask, mask)):
        return "mask_changed"  # also one that nobody drew: a filled box, or nothing at all
    if whole[0].points is not None and not _has_points(whole[0].points, of["num_points"], mask):
        return "points_lost"
    box = whole[0].box
    if box is not None and of["has_box"] and not _is_near(_inside(box, mask.shape), _box(mask)):
        return "box_changed"
    return KEPT if whole[0].has_id else "ids_lost"


def _has_points(points: Sequence[Sequence[float]], num: int, mask: Mask) -> bool:
    """Whether as many points as the object has are visible, and lie in its box."""
    x1, y1, x2, y2 = _box(mask)
    return sum(v > 0 and x1 <= x <= x2 and y1 <= y <= y2 for x, y, v in points) >= num


def _painted(pixels: NDArray[np.uint8], colour: Sequence[int]) -> Mask:
    """Return the pixels of a colour, but for what JPEG makes of it."""
    painted: Mask = (np.abs(pixels.astype(int) - np.asarray(colour)) < _SAME_COLOUR).all(2)
    return painted


def _lies_on(other: ReadObject, mask: Mask) -> bool:
    """Whether half of a label, or more, lies on the object, or covers half of it."""
    if other.mask is not None and other.mask.shape != mask.shape:
        return False  # drawn for an image of another size
    label = other.mask if other.mask is not None and other.mask.any() else _filled(other.box, mask.shape)
    common = (label & mask).sum()
    return bool(common * 2 >= max(1, min(label.sum(), mask.sum())))


def _filled(box: Sequence[float] | None, shape: tuple[int, ...]) -> Mask:
    filled = np.zeros(shape, bool)
    if box is not None:
        x1, y1, x2, y2 = (max(0, round(float(edge))) for edge in box)
        filled[y1 : max(y2, y1 + 1), x1 : max(x2, x1 + 1)] = True
    return filled


def _is_same(one: Mask, other: Mask) -> bool:
    """Whether two masks differ at most by pixels at outlines and bridges, which each library draws in its own way."""
    if (one & other).sum() >= _SAME_IOU * (one | other).sum():
        return True
    return not (one & ~_grown(other)).any() and not (other & ~_grown(one)).any()


def _grown(mask: Mask) -> Mask:
    padded = np.pad(mask, 1)
    height, width = mask.shape
    grown: Mask = np.any([padded[y : y + height, x : x + width] for y in range(3) for x in range(3)], axis=0)
    return grown


def _box(mask: Mask) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(mask)
    return int(columns.min()), int(rows.min()), int(columns.max() + 1), int(rows.max() + 1)


def _inside(box: Sequence[float], shape: tuple[int, ...]) -> list[float]:
    """Return the part of a box in the image, for a box that goes beyond it harms nobody."""
    height, width = shape
    return [min(max(float(edge), 0.0), limit) for edge, limit in zip(box, (width, height) * 2, strict=True)]


def _is_near(box: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(float(one) - two) <= _NEAR_PX for one, two in zip(box, other, strict=True))
