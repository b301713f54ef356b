"""Conversion of fields to the classes that torchvision.transforms.v2 transforms, and back.

The functions do not depend on batch dimensions: they serve a sample and both batches. `check_transform` rejects
transforms that would make the labels of a container wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from segpaste.types import sampling
from segpaste.types.fields import FIELDS, FLAGS, Field
from segpaste.types.keypoints import MOVING_COLUMNS, KeypointSchema, MovingKeypoints
from segpaste.types.sampling import outward_boxes
from segpaste.types.tensors import (
    CameraIntrinsics,
    DepthMap,
    IntrinsicsTensor,
    LooseBoxes,
    MovedPadding,
    MovingBoxes,
    tight_boxes,
)

ROWS: Mapping[str, Field] = {name: field for field in FIELDS for name in (field.name, field.batched_name)}
"""Rows of the field table by the names of the fields in a sample and in a batch."""

_GEOMETRY = (
    "it moves pixels of images only; use v2.ColorJitter or v2.RandomPhotometricDistort, and geometry that moves labels"
)

_MIXES = "paste with segpaste.BatchCopyPaste, or give it images and one-hot labels"
_SEVERAL = "it returns several images; use v2.RandomCrop or v2.CenterCrop"
_CLASSES = "a container keeps the classes of its tensors; give it the tensors themselves, such as sample.to_dict()"
_SANITIZE = "it does not know instance ids and maps; use segpaste.datasets.SanitizeInstances on samples"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"), _GEOMETRY),
    "ConvertImageDtype": "it converts masks too; use v2.ToDtype(dtype, scale=True)",
    **dict.fromkeys(("CutMix", "MixUp"), _MIXES),
    **dict.fromkeys(("FiveCrop", "TenCrop"), _SEVERAL),
    **dict.fromkeys(("ToPILImage", "ToPureTensor"), _CLASSES),
    **dict.fromkeys(("SanitizeBoundingBoxes", "SanitizeKeyPoints"), _SANITIZE),
}
"""Transforms that all containers reject, with advice."""

REFUSED_BY_BATCHES: Mapping[str, str] = {
    "RandomIoUCrop": "it chooses a crop by the boxes of one image; use batch.map_samples(transform) on a "
    "BatchedDenseSample (PaddedBatchedDenseSample.to_batched returns one)",
}
"""Transforms that batches reject, but not samples, with advice."""


def tagged(values: Mapping[str, Any], canvas_size: tuple[int, int], schema: KeypointSchema | None) -> dict[str, Any]:
    """Tag fields so that transforms move them; invalid depth becomes NaN.

    Args:
        values: fields by name, each a tensor, a `CameraIntrinsics` or a list of them. None is left out.
        canvas_size: (H, W).
        schema: schema that says which keypoints swap in a flip.
    """
    tag = partial(_tag, schema=schema)
    out = {name: _each(tag, ROWS[name], value, canvas_size) for name, value in values.items() if value is not None}
    if out.get("depth") is not None and out.get("depth_valid") is not None:
        depth = values["depth"].as_subclass(Tensor)
        valid = sampling.usable_depth(depth, values["depth_valid"].as_subclass(Tensor))
        out["depth"] = torch.where(valid, depth, torch.nan).as_subclass(DepthMap)
    return out


def untagged(container: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields without the tags of `tagged`, before or after transforms. Invalid depth becomes 0.

    Plain tensors get the classes that the fields have in a sample. Boxes that a transform emptied, or moved only
    approximately, are fitted to their masks.

    Args:
        container: name of the container, for messages.
        values: fields by name, with the image or images.

    Raises:
        TypeError: a transform replaced a tensor by something else, such as a PIL image or several crops.
    """
    for name, value in values.items():
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, (Tensor, CameraIntrinsics)):
                raise TypeError(
                    f"{container}.{name}: expected a torch.Tensor, got {type(entry).__name__}; apply a transform that "
                    "returns several images, or no tensor, to the image alone"
                )
    image = values.get("image", values.get("images"))
    canvas_size = (0, 0) if image is None else (image.shape[-2], image.shape[-1])
    out = {name: _each(_untag, ROWS[name], value, canvas_size) for name, value in values.items()}
    if (boxes := out.get("boxes")) is not None and (masks := out.get("instance_masks")) is not None:
        if isinstance(boxes, list):
            out["boxes"] = [_refitted(*parts) for parts in zip(boxes, values["boxes"], masks, strict=True)]
        else:
            out["boxes"] = _refitted(boxes, values["boxes"], masks)
    depth, valid = out.get("depth"), out.get("depth_valid")
    if depth is not None and valid is not None and valid.dtype == torch.bool:
        valid = valid & depth.isfinite()
        out["depth"], out["depth_valid"] = torch.where(valid, depth, 0.0), valid
    return out


def at_top_left(values: Mapping[str, Any]) -> dict[str, Any]:
    """Move the content of each image in a padded batch to the top left, if a transform has moved its padding.

    A padded batch has padding to the right and below only, but a flip, for example, moves it to the other side. All
    fields are cropped, by the kernels of a crop; only padding is cut off.

    Args:
        values: fields by name, as a transform returns them.
    """
    padding, out = values.get("padding_mask"), dict(values)
    if not isinstance(padding, MovedPadding):
        return out
    picture, size = ~padding.as_subclass(Tensor)[:, 0], padding.shape[-2:]
    corners = torch.stack([picture.any(axis).to(torch.uint8).argmax(1) for axis in (2, 1)], 1).tolist()
    if not any(top or left for top, left in corners):
        return out
    for name, value in values.items():
        field = ROWS[name]
        if field.transform_tag is None and field.name != "camera_intrinsics":
            continue
        moved = torch.empty_like(value.as_subclass(Tensor))
        rows, of_images = (t.unflatten(0, (len(corners), -1)) for t in (value.as_subclass(Tensor), moved))
        for row, of_image, corner in zip(rows, of_images, corners, strict=True):
            cropped = F.crop(tv_tensors.wrap(row, like=value), *corner, *size)
            of_image.copy_(cropped.as_subclass(Tensor))
        out[name] = tv_tensors.wrap(moved, like=value)
    return out


def are_tensors(values: Mapping[str, Any]) -> bool:
    """Return whether the fields hold tensors and not the placeholders of pytree functions."""
    fields = (value for name, value in values.items() if name not in FLAGS)
    leaves = [v for value in fields for v in (value if isinstance(value, list) else [value])]
    return all(value is None or isinstance(value, (Tensor, bool)) for value in leaves)


def _refitted(boxes: Tensor, moved: Tensor, masks: Tensor) -> Tensor:
    """Return the boxes, made tight where a transform has left them wrong although their masks have pixels.

    `RandomIoUCrop`, which batches reject, empties the boxes of objects whose centre it cuts off, so that they can be
    removed. Boxes that were moved approximately may not enclose their masks.
    """
    plain, pixels, is_loose = boxes.as_subclass(Tensor), masks.as_subclass(Tensor), isinstance(moved, LooseBoxes)
    wrong = (plain[:, 2:] <= plain[:, :2]).any(1)
    if not is_loose and (pixels.ndim == 4 or not bool(wrong.any())):
        return boxes
    pixels = pixels.flatten(0, -3)
    tight = tight_boxes(pixels)
    if is_loose:
        whole = outward_boxes(plain)
        wrong |= (whole[:, :2] > tight[:, :2]).any(1) | (whole[:, 2:] < tight[:, 2:]).any(1)
    wrong &= pixels.flatten(1).any(1)
    fitted: Tensor = tv_tensors.wrap(torch.where(wrong[:, None], tight, plain), like=boxes)
    return fitted


def _each(function: Any, field: Field, value: Any, canvas_size: tuple[int, int]) -> Any:
    if isinstance(value, list):
        return [function(field, entry, canvas_size) for entry in value]
    return function(field, value, canvas_size)


def _tag(field: Field, value: Any, canvas_size: tuple[int, int], schema: KeypointSchema | None) -> Any:
    if field.name == "camera_intrinsics":
        return IntrinsicsTensor.tag(value, canvas_size)
    plain = value.as_subclass(Tensor)
    if field.transform_tag is MovingKeypoints:
        return MovingKeypoints.tag(plain, schema, canvas_size)
    if field.tag is tv_tensors.BoundingBoxes:
        return MovingBoxes(plain.reshape(-1, 4), format="XYXY", canvas_size=canvas_size)
    tag = field.transform_tag
    return plain.as_subclass(tag) if tag else plain


def _untag(field: Field, value: Any, canvas_size: tuple[int, int]) -> Any:
    if isinstance(value, CameraIntrinsics):
        return value
    plain, tag = value.as_subclass(Tensor), field.tag
    if field.name == "camera_intrinsics":
        return CameraIntrinsics.from_tensor(plain) if plain.ndim == 1 else plain[..., :4].float()
    if field.transform_tag is MovingKeypoints:  # even if the tensor has lost its class
        return plain[..., :3].float() if plain.shape[-1] == MOVING_COLUMNS else plain
    if tag is None:
        return plain
    if tag is tv_tensors.BoundingBoxes:
        # If a rotation expands the canvas, that of the boxes may differ from that of the image by a pixel.
        is_known = isinstance(value, tv_tensors.BoundingBoxes) and not isinstance(value, LooseBoxes)
        form, canvas = getattr(value, "format", "XYXY"), value.canvas_size if is_known else canvas_size
        return tv_tensors.BoundingBoxes(plain, format=form, canvas_size=canvas, device=plain.device)
    return plain.as_subclass(tag)


def check_transform(transform: v2.Transform, container: str, *, batched: bool) -> None:
    """Reject a transform that would make the labels of a container wrong.

    Raises:
        TypeError: the transform is rejected; the message says what to use instead.
    """
    for kind in type(transform).__mro__:
        advice = REFUSED.get(kind.__name__) or (REFUSED_BY_BATCHES.get(kind.__name__) if batched else None)
        if advice is not None and kind.__module__.startswith("torchvision.transforms.v2"):
            raise TypeError(f"transforms.v2 {kind.__name__}: cannot be applied to a {container}: {advice}")
