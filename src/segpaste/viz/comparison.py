"""One sample before and after, modality by modality, drawn for a comparison.

Sheets and reports both use this. For a single picture call the drawing function itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor
from torchvision.transforms import v2

from segpaste.types import DenseSample, Modality
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.viz._marks import as_numpy
from segpaste.viz._shapes import hatch
from segpaste.viz._text import ClassNames
from segpaste.viz.overlay import VIEWS, Range, draw, valid_depth
from segpaste.viz.palette import UInt8Image


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pictures of one modality of a sample before and after, of one size.

    Attributes:
        title: name of the modality, such as ``instances``.
        before: uint8 [h, w, 3].
        after: uint8 [h, w, 3].
    """

    title: str
    before: UInt8Image
    after: UInt8Image


def compare(
    before: DenseSample,
    after: DenseSample,
    pasted: Tensor | None = None,
    class_names: ClassNames | None = None,
    *,
    value_range: Range = (0.0, 1.0),
    tile_px: int = 400,
) -> list[Comparison]:
    """Draw every modality that either sample has, before and after, in the order of `VIEWS`.

    Depths have a common scale. A smaller canvas is padded with hatching on the right and at the bottom; the whole
    picture is hatched for a sample without the modality.

    Args:
        before: target sample.
        after: augmented sample.
        pasted: True for pasted instances, bool [N of after].
        class_names: names for the labels.
        value_range: black and white of float images, see `segpaste.viz.draw_image`.
        tile_px: samples whose longer side is at most half of this are enlarged by a whole factor, so that lines and
            letters stay fine.

    Returns:
        One entry per modality.
    """
    options: dict[str, Any] = {
        "class_names": class_names,
        "value_range": value_range,
        "depth_range": _depth_range(before, after),
    }
    before, after = (enlarged(s, max(1, tile_px // max(1, *s.canvas_size))) for s in (before, after))
    height, width = (max(a, b) for a, b in zip(before.canvas_size, after.canvas_size, strict=True))

    def on_canvas(sample: DenseSample, modality: Modality, pasted: Tensor | None) -> UInt8Image:
        canvas = hatch(height, width)
        if modality in sample.modalities:
            picture = draw(sample, modality, {**options, "pasted": pasted})
            canvas[: picture.shape[0], : picture.shape[1]] = picture
        return canvas

    return [
        Comparison(view.title, on_canvas(before, modality, None), on_canvas(after, modality, pasted))
        for modality, view in VIEWS.items()
        if modality in before.modalities | after.modalities
    ]


def _depth_range(*samples: DenseSample) -> Range | None:
    depths = [as_numpy(s.depth)[0][valid_depth(s)] for s in samples if s.depth is not None]
    known = np.concatenate(depths) if depths else np.empty(0)
    return (float(known.min()), float(known.max())) if known.size else None


def reduced(sample: DenseSample, factor: int) -> DenseSample:
    """Return the sample at a ``factor``-th of its size: the image filtered, other fields at every ``factor``-th pixel.

    Resizing converts masks to floats, which takes 4 bytes for each pixel of each object of a large image.
    """
    if factor == 1:
        return sample
    height, width = (side // factor for side in sample.canvas_size)
    pixels = {f.name: f for f in SAMPLE_FIELDS if f.resample is not None and f.name != "image"}
    without: dict[str, Any] = dict.fromkeys(pixels)
    plain = replace(sample, **without, instance_ids=None, metric_depth=False)
    moved: DenseSample = v2.Resize((height, width))(plain)
    kept: dict[str, Any] = {"instance_ids": sample.instance_ids, "metric_depth": sample.metric_depth}
    for name, field in pixels.items():
        if (value := getattr(sample, name)) is not None:
            small = value.as_subclass(Tensor)[..., : height * factor : factor, : width * factor : factor].clone()
            kept[name] = field.tag(small) if field.tag else small
    return replace(moved, **kept)


def enlarged(sample: DenseSample, factor: int) -> DenseSample:
    """Return the sample with every pixel repeated ``factor`` times in both directions."""
    if factor == 1:
        return sample
    height, width = sample.canvas_size
    moved: DenseSample = v2.Resize((height * factor, width * factor))(sample)  # boxes, points and camera
    pixels: dict[str, Any] = {}
    for field in SAMPLE_FIELDS:
        value = getattr(sample, field.name)
        if field.resample is not None and value is not None:
            large = value.as_subclass(Tensor).repeat_interleave(factor, -1).repeat_interleave(factor, -2)
            pixels[field.name] = field.tag(large) if field.tag else large
    return replace(moved, **pixels)
