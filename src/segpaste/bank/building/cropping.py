"""Crops of objects: an object is cut out of its image, shrunk if it is too large, and centred.

The content of a crop is the tight box of the object with a margin, up to the edge of the image. If it does not fit the
crop it is shrunk, both axes by one ratio of integers, ``scale = num / den``, so that the longer side, relative to the
crop, fits exactly. Crop pixel x reads the content at ``(x + 0.5) / scale - 0.5``. The crop has the pixels whose centre
then lies in the content, so the other side is rounded to the nearest pixel, a half downwards, and is at least one. The
image is averaged by the antialiasing triangle filter of `segpaste.types.sampling`, in integers; the mask is read at the
nearest pixel; depth and normals are read as in the resizing of a sample.

Every function is pure, and its result is the same to the bit on every machine; see `segpaste.datasets.cutting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.bank.schema.record import COLUMNS, GROUPS, BankError, Crop
from segpaste.datasets.cutting import CutSide, cut_out, cut_surfaces, moved_camera, moved_points
from segpaste.types import CameraIntrinsics, DenseSample, tight_boxes
from segpaste.types.depth_holes import filled_depth
from segpaste.types.tensors import pixel_counts

DEFAULT_MARGIN_FRAC = 1 / 16
"""Default margin, as a fraction of the longer side of the box. Some background is needed: the filters that paint a
crop read across the edge of its mask, and should find the image there."""

_PLANES = tuple(column.name for column in COLUMNS if column.shape[1:] == ("h", "w") and column.name != "alpha")
"""Planes that are padded with their own edge."""

PixelBox = tuple[int, int, int, int]


Pixels = Callable[[PixelBox], tuple[Tensor, Tensor]]
"""Function that returns the image [3, h, w] uint8 and the mask of one object [h, w] bool in a part of the image."""


@dataclass(frozen=True, slots=True)
class PhotoFrame:
    """Assumed image around a cut-out picture of an object; the object is in its middle.

    Attributes:
        size: size (H, W) of the image, pixels.
        scale: number of image pixels per picture pixel, as (num, den), both at least 1.
    """

    size: tuple[int, int]
    scale: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class ImageObject:
    """One object in its image, to be cut out.

    Attributes:
        size: size (H, W) of the image, pixels.
        box: tight box of the object, xyxy in pixel edges.
        label: class of the object.
        pixels: function that returns a part of the image, and of the object's mask.
        points: keypoints of the object, [P, 3].
        surface: sample with the depth, normals and camera of the image; None if it has none of them.
    """

    size: tuple[int, int]
    box: PixelBox
    label: int
    pixels: Pixels
    points: Tensor | None = None
    surface: DenseSample | None = None

    @classmethod
    def of(cls, sample: DenseSample, position: int, mask: Tensor | None = None) -> ImageObject:
        """Return an object of a sample; ``mask`` replaces its own.

        Raises:
            BankError: the sample has no masks or has padding, the mask is empty, or the image is not uint8 [3, H, W].
        """
        whole = _checked_mask(sample, position)
        mask, image = whole if mask is None else mask, sample.image.as_subclass(Tensor)

        def pixels(part: PixelBox) -> tuple[Tensor, Tensor]:
            left, top, right, bottom = part
            return image[:, top:bottom, left:right], mask[top:bottom, left:right]

        points = None if sample.keypoints is None else sample.keypoints[position]
        return cls(sample.canvas_size, box_of(mask), int(sample.labels[position]), pixels, points, sample)


def crop_object(sample: DenseSample, position: int, crop_size: tuple[int, int], **options: Any) -> Crop:
    """Cut out one object of a sample.

    Args:
        sample: sample with a uint8 image [3, H, W] and instance masks, without padding.
        position: index of the object among the instances of the sample.
        crop_size: size (h, w) of the crop, pixels.
        options: those of `cut_object`, and ``mask``: pixels of the object to cut out, [H, W] bool, not empty; by
            default all of them.

    Returns:
        The crop, with the depth, normals, camera and keypoints that the sample has, without embedding.

    Raises:
        BankError: see `ImageObject.of`.
    """
    return cut_object(ImageObject.of(sample, position, options.pop("mask", None)), crop_size, **options)


def cut_object(
    found: ImageObject,
    crop_size: tuple[int, int],
    *,
    margin_frac: float = DEFAULT_MARGIN_FRAC,
    frame: PhotoFrame | None = None,
    fit_into: tuple[int, int] | None = None,
    depth_fill: bool = False,
    image_id: int = 0,
    annotation_id: int = 0,
) -> Crop:
    """Cut out one object.

    Args:
        found: the object.
        crop_size: size (h, w) of the crop, pixels.
        margin_frac: margin around the box of the object on each side, as a fraction of the longer side of the box,
            rounded up to pixels; smaller at the edge of the image.
        frame: assumed image around the sample, by default the sample itself. The resolution of the crop is
            at most that of this image.
        fit_into: size (H, W) that the image is shrunk to fit into, if it is larger; the object shrinks with it, and
            ``source_size``, ``source_box`` and ``scale`` of the crop are those of the shrunk image.
        depth_fill: give holes in the depth of the object its nearest valid depth; they stay invalid.
        image_id: id of the image.
        annotation_id: id of the object.

    Returns:
        The crop. A mask that is much thinner than a pixel of the crop can become empty.
    """
    height, width = found.size
    left, top, right, bottom = content_of(found.box, found.size, margin_frac)
    num, den = ratio((bottom - top, right - left), crop_size)
    fitted = _fitted(frame or PhotoFrame(found.size, (1, 1)), fit_into)
    if fitted.scale[0] * den < num * fitted.scale[1]:
        num, den = fitted.scale
    rows = CutSide.of(top, bottom, height, crop_size[0], num, den)
    cols = CutSide.of(left, right, width, crop_size[1], num, den)
    (y1, y2), (x1, x2) = rows.reach(num, den), cols.reach(num, den)
    image, alpha = cut_out(*found.pixels((x1, y1, x2, y2)), rows.within(y1, y2), cols.within(x1, x2), (num, den))
    values: dict[str, Any] = {"image": image}
    x, y = cols.before, rows.before
    if (sample := found.surface) is not None:
        values |= cut_surfaces(sample, rows, cols, (num, den))
        if depth_fill and "depth" in values:
            values["depth"] = filled_depth(values["depth"], values["depth_valid"], alpha)
        if (camera := sample.camera_intrinsics) is not None:
            values["intrinsics"] = moved_camera(camera, (left, top), num / den, (x, y))
    if found.points is not None:
        values["keypoints"] = moved_points(found.points, (left, top), num / den, (x, y))
    return Crop(
        alpha=alpha.numpy(),
        class_id=found.label,
        content_box=np.array([x, y, x + cols.size, y + rows.size], np.int32),
        image_id=image_id,
        annotation_id=annotation_id,
        **_in_photo(found.box, num / den, fitted, is_own=frame is None),
        **_arrays(values),
    )


def _fitted(frame: PhotoFrame, fit_into: tuple[int, int] | None) -> PhotoFrame:
    """Return the image around a picture as it is after it was shrunk to fit."""
    if fit_into is None:
        return frame
    num, den = ratio(frame.size, fit_into)
    height, width = (max(1, (2 * side * num + den) // (2 * den)) for side in frame.size)
    scale = frame.scale[0] * num, frame.scale[1] * den
    common = math.gcd(*scale)
    return PhotoFrame((height, width), (scale[0] // common, scale[1] // common))


def _in_photo(box: PixelBox, scale: float, frame: PhotoFrame, *, is_own: bool) -> dict[str, Any]:
    """Return the size of the image, the box of the object in it, and the scale of a crop relative to it."""
    left, top, right, bottom = box
    height, width = frame.size
    photo_scale = frame.scale[0] / frame.scale[1]
    in_photo = np.array([edge * photo_scale for edge in box], np.float32)
    if not is_own:
        half = (right - left) * photo_scale / 2, (bottom - top) * photo_scale / 2
        x, y = width / 2, height / 2
        in_photo = np.array([x - half[0], y - half[1], x + half[0], y + half[1]], np.float32)
    found = min(float(np.float32(scale / photo_scale)), 1.0)
    return {"source_size": np.array([height, width], np.int32), "source_box": in_photo, "scale": found}


def _arrays(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True, eq=False)
class OwnSizeCut:
    """Crop without padding, except for a part of a pixel, and the values with which it can be padded later.

    Attributes:
        crop: crop of the object.
        corner: corner (x, y) of the content in the image.
        scale: number of crop pixels per image pixel.
        camera: camera of the image.
        points: keypoints of the object in the image, [P, 3].
    """

    crop: Crop
    corner: tuple[int, int] = (0, 0)
    scale: float = 1.0
    camera: CameraIntrinsics | None = None
    points: Tensor | None = None

    def window(self, crop_size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return the rectangle of the image that the grown crop covers, as x, y, width, height in image pixels.

        It may extend past the image.
        """
        left, top = self._pads(crop_size)
        x, y = self.corner[0] - left / self.scale, self.corner[1] - top / self.scale
        return x, y, crop_size[1] / self.scale, crop_size[0] / self.scale

    def _pads(self, crop_size: tuple[int, int]) -> tuple[int, int]:
        """Return where the content begins in a larger crop, (left, top)."""
        width, height = (int(edge) for edge in self.crop.content_box[2:])
        return (crop_size[1] - width) // 2, (crop_size[0] - height) // 2

    def grown(self, crop_size: tuple[int, int]) -> Crop:
        """Return this crop in the middle of a larger one, equal to that of `crop_object` in that size."""
        crop, (width, height) = self.crop, (int(edge) for edge in self.crop.content_box[2:])
        left, top = self._pads(crop_size)
        pads = ((0, 0), (top, crop_size[0] - height - top), (left, crop_size[1] - width - left))
        planes = {n: value[:, :height, :width] for n in _PLANES if (value := getattr(crop, n)) is not None}
        values: dict[str, Any] = {name: np.pad(plane, pads, "edge") for name, plane in planes.items()}
        where = self.corner, self.scale, (left, top)
        if self.camera is not None:
            values["intrinsics"] = moved_camera(self.camera, *where)
        if self.points is not None:
            values["keypoints"] = moved_points(self.points, *where).numpy()
        box = crop.content_box + np.array([left, top, left, top], np.int32)
        return replace(crop, **values, alpha=np.pad(crop.alpha[:, :height, :width], pads), content_box=box)


def cut_own_size(
    sample: DenseSample,
    position: int,
    limit: tuple[int, int],
    *,
    mask: Tensor,
    margin_frac: float = DEFAULT_MARGIN_FRAC,
    depth_fill: bool = False,
    image_id: int = 0,
    annotation_id: int = 0,
) -> OwnSizeCut:
    """Cut out one object in its size in the image, or shrunk to fit ``limit`` (h, w), pixels.

    The other arguments are those of `crop_object`. `OwnSizeCut.grown` then returns the same as `crop_object`, for any
    size up to the limit into which this crop fits.
    """
    left, top, right, bottom = content_of(box_of(mask), sample.canvas_size, margin_frac)
    num, den = ratio((bottom - top, right - left), limit)
    size = -(-(bottom - top) * num // den), -(-(right - left) * num // den)  # no less, or it would be shrunk further
    crop = crop_object(
        sample,
        position,
        size,
        mask=mask,
        margin_frac=margin_frac,
        depth_fill=depth_fill,
        image_id=image_id,
        annotation_id=annotation_id,
    )
    points = None if sample.keypoints is None else sample.keypoints[position]
    return OwnSizeCut(crop, (left, top), num / den, sample.camera_intrinsics, points)


def groups_of(sample: DenseSample) -> list[str]:
    """Return the optional columns that a sample can fill: provenance, and those of its fields."""
    names = {"intrinsics": "camera_intrinsics"}  # fields of the sample with another name than their column
    wanted = {c.group for c in COLUMNS if getattr(sample, names.get(c.name, c.name), None) is not None}
    return ["provenance", *(group for group in GROUPS if group in wanted - {"core"})]


def box_of(mask: Tensor) -> PixelBox:
    """Return the tight box, xyxy in pixel edges, of a mask [H, W] that is not empty."""
    left, top, right, bottom = (int(edge) for edge in tight_boxes(mask[None])[0].tolist())
    return left, top, right, bottom


def content_of(box: PixelBox, size: tuple[int, int], margin_frac: float) -> PixelBox:
    """Return the box with its margin, xyxy, cut at the edges of an image of ``size`` (H, W)."""
    left, top, right, bottom = box
    margin = math.ceil(margin_frac * max(right - left, bottom - top))
    return max(left - margin, 0), max(top - margin, 0), min(right + margin, size[1]), min(bottom + margin, size[0])


def ratio(content_size: tuple[int, int], crop_size: tuple[int, int]) -> tuple[int, int]:
    """Return the scale (num, den) at which the content (h, w) fits the crop (h, w); (1, 1) if it fits unscaled."""
    (height, width), (crop_h, crop_w) = content_size, crop_size
    if height <= crop_h and width <= crop_w:
        return 1, 1
    return (crop_h, height) if crop_h * width <= crop_w * height else (crop_w, width)


def _checked_mask(sample: DenseSample, position: int) -> Tensor:
    image = sample.image
    if image.dtype != torch.uint8 or image.shape[0] != 3:
        raise BankError(
            f"crop: expected an image of uint8 [3, H, W], got {image.dtype} {list(image.shape)}; convert it"
        )
    if sample.instance_masks is None:
        raise BankError("crop: expected a sample with instance_masks, got none; objects are cut out by their masks")
    if sample.padding_mask is not None and bool(sample.padding_mask.any()):
        raise BankError("crop: expected an image without padding, got some; build from the dataset without transforms")
    mask: Tensor = sample.instance_masks[position].as_subclass(Tensor)
    if not int(pixel_counts(mask[None])):
        raise BankError(f"crop: expected a mask with pixels for instance {position}, got an empty one")
    return mask
