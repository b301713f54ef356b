"""Marks on a picture: masks and boxes of instances, keypoints, class fills, and name plates.

The drawing functions of `segpaste.viz.overlay` use these functions, which change the picture, an [H, W, 3] array, in
place. Masks are processed in plain NumPy for small crops. Neighbours are the four beside a pixel, and the outside of
the picture is background. Use a library for general morphology with large radii.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from segpaste._pixels import outward_box
from segpaste.types import IGNORE_INDEX, DenseSample
from segpaste.types.keypoints import UNLABELLED, VISIBLE
from segpaste.viz._text import ClassNames, Plate, Rectangle, class_name
from segpaste.viz.palette import HIGHLIGHT, INK, PAPER, RGB, UInt8Image, class_color, instance_color

Mask = NDArray[np.bool_]

_HATCH_LIGHT, _HATCH_DARK = 168, 146

NO_CLASS = -1
"""Value in a class map for pixels that are not painted."""

FILL_OPACITY, MAP_OPACITY = 0.42, 0.62
_BOX_OPACITY = 0.8
_MIN_NAMED_FRAC = 0.01


def eroded(mask: Mask, px: int = 1) -> Mask:
    """Return the pixels of ``mask`` [H, W] that are more than ``px`` steps inside it."""
    for _ in range(px):
        p = np.pad(mask, 1)
        mask = p[1:-1, 1:-1] & p[:-2, 1:-1] & p[2:, 1:-1] & p[1:-1, :-2] & p[1:-1, 2:]
    return mask


def outline(mask: Mask, px: int = 1) -> Mask:
    """Return the outermost ``px`` layers of pixels of ``mask`` [H, W]."""
    return mask & ~eroded(mask, px)


def rim(mask: Mask, px: int = 1) -> Mask:
    """Return the ``px`` layers of pixels just outside ``mask`` [H, W]."""
    outside = np.pad(~mask, px, constant_values=True)
    return ~mask & ~eroded(outside, px)[px:-px, px:-px] if px else np.zeros_like(mask)


def segment_borders(segments: NDArray[np.int64], px: int = 1) -> Mask:
    """Return the pixels within ``px`` of another segment, [H, W]."""
    border = np.zeros(segments.shape, dtype=bool)
    for step in range(1, px + 1):
        border[:, step:] |= segments[:, step:] != segments[:, :-step]
        border[step:, :] |= segments[step:, :] != segments[:-step, :]
    return border


def window(mask: Mask, margin: int) -> tuple[slice, slice] | None:
    """Return the rows and columns that contain ``mask`` [H, W] and a margin, or None if it is empty."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return None
    top, left = max(0, int(rows[0]) - margin), max(0, int(cols[0]) - margin)
    return slice(top, int(rows[-1]) + 1 + margin), slice(left, int(cols[-1]) + 1 + margin)


def centre_of(mask: Mask) -> tuple[float, float] | None:
    """Return the middle (x, y), in pixels, of the widest part of ``mask`` [H, W], a good place for its name.

    A coarse copy is eroded until nothing is left; the last pixels are the deepest inside. None if it is empty.
    """
    step = max(1, max(mask.shape) // 64)
    coarse = mask[step // 2 :: step, step // 2 :: step]
    if not coarse.any():
        return None
    while (smaller := eroded(coarse)).any():
        coarse = smaller
    y, x = np.argwhere(coarse)[int(coarse.sum()) // 2]
    return (float(x) + 0.5) * step, (float(y) + 0.5) * step


def blend(picture: UInt8Image, where: Mask, colors: RGB | UInt8Image, opacity: float) -> None:
    """Blend a colour, or an image [H, W, 3], in place where ``where`` [H, W] is true; opacity 1 replaces."""
    over = (colors[where] if isinstance(colors, np.ndarray) else np.array(colors)).astype(np.float32)
    under = picture[where].astype(np.float32)
    picture[where] = (under + (over - under) * opacity + 0.5).astype(np.uint8)


def hatch(height: int, width: int) -> UInt8Image:
    """Return diagonal grey stripes, [H, W, 3], for pixels without a value."""
    period = max(4, max(height, width) // 60)
    diagonal = np.add.outer(np.arange(height), np.arange(width)) % (2 * period)
    grey = np.where(diagonal < period, _HATCH_LIGHT, _HATCH_DARK).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


@dataclass(frozen=True, slots=True)
class Thing:
    """One instance to be drawn.

    Attributes:
        label: class id.
        color: colour of its instance id.
        box: (x1, y1, x2, y2), pixels.
        mask: [H, W], or None if the sample has no masks.
        pasted: True if the instance was pasted.
    """

    label: int
    color: RGB
    box: Rectangle
    mask: Mask | None
    pasted: bool

    @property
    def box_area(self) -> float:
        """Area of the box, pixels."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])


def as_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return the values of any tensor, without tag, gradient or device."""
    return tensor.detach().as_subclass(torch.Tensor).cpu().numpy()


def things_of(sample: DenseSample, pasted: Tensor | None) -> list[Thing]:
    """Return the instances from back to front: large ones first, pasted ones last.

    Raises:
        ValueError: ``pasted`` is not bool [N].
    """
    n = sample.num_instances
    if pasted is not None and (tuple(pasted.shape) != (n,) or pasted.dtype != torch.bool):
        raise ValueError(
            f"pasted: expected bool [{n}], one flag per instance of the sample, got "
            f"{str(pasted.dtype).removeprefix('torch.')} {list(pasted.shape)}"
        )
    flags = [False] * n if pasted is None else pasted.tolist()
    masks = [None] * n if sample.instance_masks is None else as_numpy(sample.instance_masks)
    boxes = as_numpy(sample.boxes).tolist()
    things = [
        Thing(label, color, tuple(box), mask, flag)
        for label, color, box, mask, flag in zip(
            sample.labels.tolist(), _instance_colors(sample), boxes, masks, flags, strict=True
        )
    ]
    return sorted(things, key=lambda t: (t.pasted, -t.box_area))


def _instance_colors(sample: DenseSample) -> list[RGB]:
    """Return the colours of the instance ids, which are 1..N if the sample has none."""
    ids = range(1, sample.num_instances + 1) if sample.instance_ids is None else sample.instance_ids.tolist()
    return [instance_color(i) for i in ids]


def line_px(picture: UInt8Image) -> int:
    """Return the width of a line on a picture of this size, pixels."""
    return max(1, round(int(max(picture.shape[:2])) / 400))


def letter_px(picture: UInt8Image) -> int:
    """Return the height of a letter on a picture of this size, pixels."""
    return max(10, round(int(max(picture.shape[:2])) / 38))


def draw_mask(picture: UInt8Image, thing: Thing, fill_opacity: float = FILL_OPACITY) -> None:
    """Fill and outline a thing; the outline of a pasted one is `HIGHLIGHT`, with a dark rim outside of its mask."""
    line = line_px(picture)
    width = line + 1 if thing.pasted else line
    where = None if thing.mask is None else window(thing.mask, margin=line)
    if thing.mask is None or where is None:
        return
    part, mask = picture[where], thing.mask[where]
    blend(part, mask, thing.color, fill_opacity)
    if thing.pasted:
        blend(part, rim(mask, line), INK, 0.9)
    blend(part, outline(mask, width), HIGHLIGHT if thing.pasted else thing.color, 1.0)


def draw_box(picture: UInt8Image, thing: Thing) -> None:
    """Draw the frame of the box of a thing: the outermost pixels that the box covers."""
    line = line_px(picture)
    left, top, right, bottom = outward_box(thing.box, picture.shape[:2])
    if right > left and bottom > top:
        frame = outline(np.ones((bottom - top, right - left), dtype=bool), line)
        blend(picture[top:bottom, left:right], frame, HIGHLIGHT if thing.pasted else thing.color, _BOX_OPACITY)


def draw_keypoints(picture: UInt8Image, sample: DenseSample) -> None:
    """Draw skeletons in the colours of their instances, a disc for a visible point and a ring for any other."""
    if sample.keypoints is None or sample.keypoint_schema is None:
        return
    line = line_px(picture)
    radius = 1.5 * line
    image = Image.fromarray(picture)
    pen = ImageDraw.Draw(image)
    for color, points in zip(_instance_colors(sample), as_numpy(sample.keypoints), strict=True):
        places = [(float(x), float(y)) for x, y in points[:, :2] - 0.5]  # in Pillow the centre of a pixel is an integer
        for one, other in sample.keypoint_schema.skeleton:
            if UNLABELLED not in (points[one, 2], points[other, 2]):
                pen.line([places[one], places[other]], fill=color, width=line)
        for (x, y), v in zip(places, points[:, 2], strict=True):
            if v != UNLABELLED:
                disc = x - radius, y - radius, x + radius, y + radius
                pen.ellipse(
                    disc, fill=PAPER if v == VISIBLE else None, outline=INK if v == VISIBLE else PAPER, width=line
                )
    picture[:] = np.asarray(image)


def paint_classes(picture: UInt8Image, classes: NDArray[np.int64]) -> None:
    """Fill every class of the map [H, W] with its colour; ignored pixels are hatched, `NO_CLASS` is skipped."""
    for label in np.unique(classes[(classes != IGNORE_INDEX) & (classes != NO_CLASS)]):
        blend(picture, classes == label, class_color(int(label)), MAP_OPACITY)
    blend(picture, classes == IGNORE_INDEX, hatch(*classes.shape), MAP_OPACITY)


def thing_plates(
    things: Sequence[Thing], class_names: ClassNames | None, min_side_px: float, inside_area_px: float = np.inf
) -> Iterator[Plate]:
    """Yield the name plates of things, the most important first: pasted things, then the largest.

    A thing whose box is smaller than ``min_side_px`` in both directions has no name, unless it was pasted. A thing with
    a mask and a box of at least ``inside_area_px`` has its name inside its mask, others have it at their box.
    """
    for thing in sorted(things, key=lambda t: (not t.pasted, -t.box_area)):
        x1, y1, x2, y2 = thing.box
        if not thing.pasted and max(x2 - x1, y2 - y1) < min_side_px:
            continue
        color = HIGHLIGHT if thing.pasted else thing.color
        middle = centre_of(thing.mask) if thing.mask is not None and thing.box_area >= inside_area_px else None
        box = thing.box if middle is None else (*middle, *middle)
        yield Plate(class_name(thing.label, class_names), color, box, centred=middle is not None)


def region_plates(classes: NDArray[np.int64], class_names: ClassNames | None) -> Iterator[Plate]:
    """Yield the name plates of the classes of the map [H, W], in the widest part of each, the largest class first."""
    labels, counts = np.unique(classes[(classes != IGNORE_INDEX) & (classes != NO_CLASS)], return_counts=True)
    for k in np.argsort(-counts, kind="stable"):
        middle = centre_of(classes == labels[k])
        if middle is not None and counts[k] >= _MIN_NAMED_FRAC * classes.size:
            label = int(labels[k])
            yield Plate(class_name(label, class_names), INK, (*middle, *middle), centred=True)
