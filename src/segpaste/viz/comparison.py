"""One sample before and after, modality by modality, drawn for a comparison.

Sheets and reports both use this. For a single picture call the drawing function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste.types import DenseSample, Modality
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.viz._marks import as_numpy, hatch
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
    before, after = _enlarged(before, after, tile_px)
    options = _options(before, after, pasted, class_names, value_range)
    return [
        _compared(before, after, modality, options)
        for modality in VIEWS
        if modality in before.modalities | after.modalities
    ]


def compare_view(
    before: DenseSample,
    after: DenseSample,
    modality: Modality,
    pasted: Tensor | None = None,
    class_names: ClassNames | None = None,
    *,
    value_range: Range = (0.0, 1.0),
    tile_px: int = 400,
    show_labels: bool = True,
) -> Comparison:
    """Draw one modality before and after, as `compare` draws it; without ``show_labels`` no name is written."""
    before, after = _enlarged(before, after, tile_px)
    options = _options(before, after, pasted, class_names, value_range)
    return _compared(before, after, modality, {**options, "show_labels": show_labels})


def _enlarged(before: DenseSample, after: DenseSample, tile_px: int) -> tuple[DenseSample, DenseSample]:
    one, other = (enlarged(s, max(1, tile_px // max(1, *s.canvas_size))) for s in (before, after))
    return one, other


def _options(
    before: DenseSample, after: DenseSample, pasted: Tensor | None, class_names: ClassNames | None, value_range: Range
) -> dict[str, Any]:
    """Return the keyword arguments of all drawing functions; those of the picture before have no ``pasted``."""
    depth_range = _depth_range(before, after)
    return {"class_names": class_names, "value_range": value_range, "depth_range": depth_range, "pasted": pasted}


def _compared(before: DenseSample, after: DenseSample, modality: Modality, options: dict[str, Any]) -> Comparison:
    height, width = (max(a, b) for a, b in zip(before.canvas_size, after.canvas_size, strict=True))

    def on_canvas(sample: DenseSample, own: dict[str, Any]) -> UInt8Image:
        canvas = hatch(height, width)
        if modality in sample.modalities | {Modality.INSTANCE}:  # boxes are drawn without masks, too
            picture = draw(sample, modality, own)
            canvas[: picture.shape[0], : picture.shape[1]] = picture
        return canvas

    pictures = on_canvas(before, {**options, "pasted": None}), on_canvas(after, options)
    return Comparison(VIEWS[modality].title, *pictures)


def _depth_range(*samples: DenseSample) -> Range | None:
    depths = [as_numpy(s.depth)[0][valid_depth(s)] for s in samples if s.depth is not None]
    known = np.concatenate(depths) if depths else np.empty(0)
    return (float(known.min()), float(known.max())) if known.size else None


def reduced(sample: DenseSample, factor: int) -> DenseSample:
    """Return the sample with height and width divided by ``factor``.

    The image is filtered, other fields have every ``factor``-th pixel: to resize a mask means to convert it to floats,
    which takes 4 bytes for each pixel of each object of a large image.
    """
    if factor == 1:
        return sample
    height, width = (side // factor for side in sample.canvas_size)

    def small(pixels: Tensor) -> Tensor:
        return pixels[..., : height * factor : factor, : width * factor : factor].clone()

    image = v2.functional.resize(sample.image, [height, width])
    return _with_pixels(sample, (height, width), small, image)


def enlarged(sample: DenseSample, factor: int) -> DenseSample:
    """Return the sample with every pixel repeated ``factor`` times in both directions."""
    if factor == 1:
        return sample
    height, width = sample.canvas_size

    def large(pixels: Tensor) -> Tensor:
        return pixels.repeat_interleave(factor, -1).repeat_interleave(factor, -2)

    image = tv_tensors.Image(large(sample.image.as_subclass(Tensor)), device=sample.image.device)
    return _with_pixels(sample, (height * factor, width * factor), large, image)


def _with_pixels(
    sample: DenseSample, size: tuple[int, int], moved: Callable[[Tensor], Tensor], image: tv_tensors.Image
) -> DenseSample:
    """Return the sample in another size (H, W): ``image``, all other maps ``moved``; boxes, points and camera fit."""
    pixels = {f.name: f for f in SAMPLE_FIELDS if f.resample is not None}
    without: dict[str, Any] = dict.fromkeys(pixels)
    blank = torch.zeros(1, *sample.canvas_size, dtype=torch.uint8, device="cpu")  # for its size
    without["image"] = tv_tensors.Image(blank, device=blank.device)
    plain = replace(sample, **without, instance_ids=None, metric_depth=False)
    resized: DenseSample = v2.Resize(size)(plain)
    kept: dict[str, Any] = {"instance_ids": sample.instance_ids, "metric_depth": sample.metric_depth}
    for name, field in pixels.items():
        if (value := getattr(sample, name)) is not None and name != "image":
            shown = moved(value.as_subclass(Tensor))
            kept[name] = field.tag(shown) if field.tag else shown
    return replace(resized, **kept, image=image)
