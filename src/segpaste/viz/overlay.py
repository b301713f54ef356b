"""Pictures of a sample: one drawing function per modality, and the table of all drawing functions.

Everything is drawn with NumPy and Pillow at the size of the sample; lines and letters grow with the picture, so that a
sheet of shrunk pictures stays readable. The colours are not for measuring: the numbers are in the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.types import IGNORE_INDEX, DenseSample, Modality
from segpaste.viz import _marks
from segpaste.viz._marks import NO_CLASS, Mask, as_numpy, blend, hatch, letter_px, line_px, segment_borders
from segpaste.viz._text import ClassNames, draw_plates, draw_scale
from segpaste.viz.palette import PAPER, UInt8Image, depth_colors, instance_color

Range = tuple[float, float]

_BORDER_OPACITY = 0.75
_INSIDE_FRAC = 0.04


def draw_image(sample: DenseSample, *, value_range: Range = (0.0, 1.0)) -> UInt8Image:
    """Draw the image itself.

    Args:
        sample: one image, C = 1 or C >= 3 (the first three channels are red, green, blue).
        value_range: values of black and white in a float image. An image in 0..255 needs ``(0, 255)``: the range is
            never guessed from the values. Not used for uint8.

    Returns:
        uint8 [H, W, 3]; NaN is black.

    Raises:
        ValueError: the image has two channels, the range is empty, or values are far outside of the range.
    """
    pixels = as_numpy(sample.image)
    if pixels.shape[0] in (0, 2):
        raise ValueError(f"draw_image: expected 1 channel (grey) or at least 3 (RGB), got {pixels.shape[0]}")
    if pixels.dtype != np.uint8:
        pixels = _to_uint8(pixels, value_range)
    return np.array(np.broadcast_to(pixels[:3], (3, *pixels.shape[1:])).transpose(1, 2, 0), order="C")


def draw_instances(
    sample: DenseSample,
    *,
    class_names: ClassNames | None = None,
    pasted: Tensor | None = None,
    value_range: Range = (0.0, 1.0),
    show_boxes: bool = True,
    show_labels: bool = True,
) -> UInt8Image:
    """Draw masks, boxes, keypoints and class labels over the image; a paste has a bright outline with a dark rim.

    Crowd regions are hatched.

    Args:
        sample: one image. Without masks, only boxes and labels are drawn.
        class_names: names for the labels.
        pasted: True for pasted instances, bool [N].
        value_range: see `draw_image`.
        show_boxes: draw the boxes; without them large things have their names inside.
        show_labels: draw the labels. A label without room beside more important ones (pasted first, then by size) is
            skipped.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: ``pasted`` is not bool [N].
    """
    picture = draw_image(sample, value_range=value_range)
    things = _marks.things_of(sample, pasted)
    if sample.crowd_mask is not None:
        blend(picture, as_numpy(sample.crowd_mask)[0], hatch(*sample.canvas_size), _marks.MAP_OPACITY)
    for thing in things:
        _marks.draw_mask(picture, thing)
    for thing in things if show_boxes else ():
        _marks.draw_box(picture, thing)
    _marks.draw_keypoints(picture, sample)
    if not show_labels:
        return picture
    letters = letter_px(picture)
    inside_px = np.inf if show_boxes else _INSIDE_FRAC * picture[..., 0].size
    return draw_plates(picture, _marks.thing_plates(things, class_names, 2.5 * letters, inside_px), letters)


def draw_semantic(
    sample: DenseSample,
    *,
    class_names: ClassNames | None = None,
    value_range: Range = (0.0, 1.0),
    show_labels: bool = True,
) -> UInt8Image:
    """Draw the class of every pixel over the image, with names where there is room; ignored pixels are hatched.

    Args:
        sample: one image with a semantic map.
        class_names: names for the classes.
        value_range: see `draw_image`.
        show_labels: write the names.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: the sample has no semantic map.
    """
    semantic = as_numpy(_present(sample.semantic_map, "semantic_map", "draw_semantic"))
    picture = draw_image(sample, value_range=value_range)
    _marks.paint_classes(picture, semantic)
    blend(picture, segment_borders(semantic, line_px(picture)), PAPER, _BORDER_OPACITY)
    if not show_labels:
        return picture
    return draw_plates(picture, _marks.region_plates(semantic, class_names), letter_px(picture))


def draw_panoptic(
    sample: DenseSample,
    *,
    class_names: ClassNames | None = None,
    pasted: Tensor | None = None,
    value_range: Range = (0.0, 1.0),
    show_labels: bool = True,
) -> UInt8Image:
    """Draw things in the vivid colours of instances, stuff in the soft colours of classes, ignored pixels hatched.

    Args:
        sample: one image with panoptic and semantic maps.
        class_names: names for the classes.
        pasted: True for pasted instances, bool [N]; they have a bright outline.
        value_range: see `draw_image`.
        show_labels: write the names.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: the sample has no panoptic map, or ``pasted`` is not bool [N].
    """
    ids = as_numpy(_present(sample.panoptic_map, "panoptic_map", "draw_panoptic"))
    semantic = as_numpy(_present(sample.semantic_map, "semantic_map", "draw_panoptic"))
    picture = draw_image(sample, value_range=value_range)
    stuff = ids == 0
    _marks.paint_classes(picture, np.where(stuff, semantic, NO_CLASS))
    for i in np.unique(ids[~stuff]):
        blend(picture, ids == i, instance_color(int(i)), _marks.MAP_OPACITY)
    borders = segment_borders(np.where(stuff, -1 - semantic, ids), line_px(picture))
    blend(picture, borders, PAPER, _BORDER_OPACITY)
    things = _marks.things_of(sample, pasted)
    for thing in things:
        if thing.pasted:
            _marks.draw_mask(picture, thing, fill_opacity=0.0)
    if not show_labels:
        return picture
    letters = letter_px(picture)
    plates = [
        *_marks.thing_plates(things, class_names, 2.5 * letters, inside_area_px=_INSIDE_FRAC * ids.size),
        *_marks.region_plates(np.where(stuff, semantic, IGNORE_INDEX), class_names),
    ]
    return draw_plates(picture, plates, letters)


def draw_depth(sample: DenseSample, *, depth_range: Range | None = None) -> UInt8Image:
    """Draw depth from pale yellow (near) to deep indigo (far), with its scale; invalid pixels are hatched.

    Args:
        sample: one image with depth.
        depth_range: depths at the two ends of the scale; by default the smallest and largest valid depth. Give the same
            range for pictures that are to be compared.

    Returns:
        uint8 [H, W, 3]. The scale is in metres for metric depth, else without a unit; a picture that is too small has
        no scale.

    Raises:
        ValueError: the sample has no depth.
    """
    depth = as_numpy(_present(sample.depth, "depth", "draw_depth"))[0]
    valid = valid_depth(sample)
    picture = hatch(*depth.shape)
    if not valid.any():
        return picture
    near, far = (float(v) for v in depth_range or (depth[valid].min(), depth[valid].max()))
    picture[valid] = depth_colors((depth[valid] - near) / max(far - near, 1e-12))
    ends = [f"{v:.3g} m" if sample.metric_depth else f"{v:.3g}" for v in (near, far)]
    return draw_scale(picture, depth_colors(np.linspace(0, 1, 256)), ends, letter_px(picture))


def draw_normals(sample: DenseSample) -> UInt8Image:
    """Draw surface normals as colours, (n + 1) / 2 per component; invalid pixels (zero vectors) are hatched.

    Args:
        sample: one image with normals: x right is red, y down is green, z forward is blue.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: the sample has no normals.
    """
    normals = as_numpy(_present(sample.normals, "normals", "draw_normals")).transpose(1, 2, 0)
    valid = np.isfinite(normals).all(-1) & (normals != 0).any(-1)
    picture = hatch(*valid.shape)
    picture[valid] = np.clip((normals[valid] + 1) * 127.5 + 0.5, 0, 255).astype(np.uint8)
    return picture


def valid_depth(sample: DenseSample) -> Mask:
    """Return the pixels with a depth, [H, W]; none if the sample has no depth."""
    if sample.depth is None or sample.depth_valid is None:
        return np.zeros(sample.canvas_size, dtype=bool)
    return np.asarray(as_numpy(sample.depth_valid)[0] & np.isfinite(as_numpy(sample.depth)[0]))


@dataclass(frozen=True, slots=True)
class View:
    """View of one modality.

    Attributes:
        title: heading of its column.
        draw: drawing function.
        options: names of the keyword arguments that it takes from the options of a sheet.
    """

    title: str
    draw: Callable[..., UInt8Image]
    options: tuple[str, ...] = ()


VIEWS: Mapping[Modality, View] = MappingProxyType(
    {
        Modality.IMAGE: View("image", draw_image, ("value_range",)),
        Modality.INSTANCE: View("instances", draw_instances, ("class_names", "pasted", "value_range", "show_labels")),
        Modality.PANOPTIC: View("panoptic", draw_panoptic, ("class_names", "pasted", "value_range", "show_labels")),
        Modality.SEMANTIC: View("semantic", draw_semantic, ("class_names", "value_range", "show_labels")),
        Modality.DEPTH: View("depth", draw_depth, ("depth_range",)),
        Modality.NORMALS: View("normals", draw_normals),
    }
)
"""Drawing function of every modality, in the order of the columns of a sheet."""


def draw(sample: DenseSample, modality: Modality, options: Mapping[str, Any]) -> UInt8Image:
    """Draw one modality of a sample, through `VIEWS`.

    Args:
        sample: sample with the modality.
        modality: modality to draw.
        options: keyword arguments for all drawing functions; each takes its own.

    Returns:
        uint8 [H, W, 3].
    """
    view = VIEWS[modality]
    return view.draw(sample, **{name: options[name] for name in view.options if name in options})


def _present(value: Tensor | None, name: str, function: str) -> Tensor:
    if value is None:
        raise ValueError(f"{function}: expected a sample with {name}, got None; look at sample.modalities first")
    return value


def _to_uint8(values: NDArray[Any], value_range: Range) -> NDArray[np.uint8]:
    low, high = value_range
    if not low < high:
        raise ValueError(f"value_range: expected (low, high) with low < high, got {value_range}")
    known = values[np.isfinite(values)]
    if known.size and (known.min() < 2 * low - high or known.max() > 2 * high - low):
        raise ValueError(
            f"draw_image: expected float values in value_range {value_range}, got {known.min():.4g} to "
            f"{known.max():.4g}; pass the range of this image, such as value_range=(0, 255)"
        )
    unit = np.clip((np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / (high - low), 0, 1)
    return np.asarray(unit * 255 + 0.5, dtype=np.uint8)
