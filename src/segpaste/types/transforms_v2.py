"""Kernels of torchvision.transforms.v2 for the fields: resize, crop, pad and flips, one set for all tags.

Importing this module registers them. They differ from torchvision's own mask kernels in three ways: integer maps are
moved by integer indexing (float32 cannot hold all int64 ids), pixels outside the image get the pad value of the field
table, and labels are resampled about pixel centres like the image, so that they stay aligned with it.

Rotations, perspective and the like are supported for instance masks, boxes and keypoints only. Do not extend this to
maps without rotating normals and recomputing the camera: the kernels here reject the fields that would become wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.types import sampling
from segpaste.types.fields import BY_TRANSFORM_TAG, Field
from segpaste.types.keypoints import MovingKeypoints, moved_points, packed
from segpaste.types.tensors import (
    DepthMap,
    InstanceMask,
    IntrinsicsTensor,
    LooseBoxes,
    MovedPadding,
    MovingBoxes,
    NormalMap,
    PaddingMask,
)

FLIPS = ("horizontal_flip", "vertical_flip")
MOVED_BY = ("resize", "crop", "pad", "center_crop", "resized_crop", *FLIPS)
REFUSED = ("rotate", "affine", "perspective", "elastic")

CropBox = tuple[int, int, int, int]
"""Rectangle of pixels, (top, left, height, width)."""


def cut_and_size(name: str, canvas_size: tuple[int, int], arguments: dict[str, Any]) -> tuple[CropBox, tuple[int, int]]:
    """Return the rectangle of a canvas (H, W) that a transform keeps, and its new size.

    The rectangle may extend beyond the canvas.
    """
    height, width = canvas_size
    box = 0, 0, height, width
    if name in ("crop", "resized_crop"):
        box = arguments["top"], arguments["left"], arguments["height"], arguments["width"]
    elif name == "pad":
        if arguments.get("padding_mode", "constant") != "constant":
            raise ValueError(
                f"pad: expected padding_mode='constant' for label fields, got {arguments['padding_mode']!r}"
            )
        left, top, right, bottom = _ltrb(arguments["padding"])
        box = -top, -left, height + top + bottom, width + left + right
    elif name == "center_crop":
        size = arguments["output_size"]
        size = [size] if isinstance(size, int) else list(size)
        box = _centre(height, size[0]), _centre(width, size[-1]), size[0], size[-1]
    if name in ("resize", "resized_crop"):
        return box, resized_size(box[2:], arguments["size"], arguments.get("max_size"))
    return box, box[2:]


def _centre(size: int, out_size: int) -> int:
    return round((size - out_size) / 2.0) if out_size <= size else -((out_size - size) // 2)


def _ltrb(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom), given one number for all sides, one for each axis, or four."""
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = sides * (4 // len(sides))
    return left, top, right, bottom


def cut(value: Tensor, box: CropBox, pad_value: float | int | bool) -> Tensor:
    """Return a rectangle of [..., H, W]; pixels outside the canvas are ``pad_value``."""
    top, left, height, width = box
    y0, x0 = max(top, 0), max(left, 0)
    inside = value[..., y0 : max(top + height, 0), x0 : max(left + width, 0)]
    if inside.shape[-2:] == (height, width):
        return inside.clone()
    out = torch.full((*value.shape[:-2], height, width), pad_value, dtype=value.dtype, device=value.device)
    h, w = inside.shape[-2:]
    out[..., y0 - top : y0 - top + h, x0 - left : x0 - left + w] = inside
    return out


def resized_size(canvas_size: tuple[int, int], size: Any, max_size: int | None) -> tuple[int, int]:
    """Return the size of an image of ``canvas_size`` after torchvision's resize with these arguments."""
    corners = torch.zeros(1, 4, dtype=torch.float32, device="cpu")
    probe = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=canvas_size, device="cpu")
    height, width = F.resize(probe, size=size, max_size=max_size).canvas_size
    return int(height), int(width)


def resize(value: Tensor, out_size: tuple[int, int], tag: type[Any]) -> Tensor:
    """Resample [..., H, W] to ``out_size``: depth and normals linearly, all else by nearest neighbour."""
    height, width = value.shape[-2:]
    rows, cols = (_axis(out, size, value.device) for out, size in zip(out_size, (height, width), strict=True))
    nearest = value[..., rows[0][:, None], cols[0]]
    if tag is DepthMap or tag is NormalMap:
        taps = value[..., rows[1][:, None, :, None], cols[1][None, :, None, :]].flatten(-2)
        weights = (rows[2][:, None, :, None] * cols[2][None, :, None, :]).flatten(-2)
        if tag is NormalMap:
            mixed = sampling.mix_normals(taps.movedim(-4, 0), weights, nearest.movedim(-3, 0))
            return mixed.movedim(0, -3)
        depth, valid = sampling.mix_depth(taps, taps.isfinite(), weights, nearest)
        return torch.where(valid, depth, torch.nan)
    return nearest


def _axis(out_size: int, size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return nearest index [out], linear tap indices [out, 2] and float weights [out, 2] along one axis."""
    num = torch.tensor(out_size, dtype=torch.int64, device=device)
    position = sampling.source_position(torch.arange(out_size, device=device), 0, num, size)
    nearest = sampling.nearest_index(position, num).clamp(0, max(size - 1, 0))
    first, weights = sampling.filter_taps(position, num, num, 2)
    taps = (first[:, None] + torch.arange(2, device=device)).clamp(0, max(size - 1, 0))
    return nearest, taps, weights / sampling.WEIGHT_ONE


def _binder(name: str) -> Callable[..., dict[str, Any]]:
    """Return a function that binds the arguments of a functional to their names."""
    signature = inspect.signature(getattr(F, name))

    def bind(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return bind


def _field_kernel(name: str, tag: type[Any], field: Field) -> Callable[..., Any]:
    bind = _binder(name)

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        value = inpt.as_subclass(Tensor)
        box, out_size = cut_and_size(name, tuple(value.shape[-2:]), bind(inpt, *args, **kwargs))
        if name in FLIPS:
            value = _flipped(value, horizontal=name == "horizontal_flip", is_normals=tag is NormalMap)
        elif name != "resize":
            value = cut(value, box, field.pad_value)
        if name in ("resize", "resized_crop"):
            value = resize(value, out_size, tag)
        return MovedPadding(value) if tag is PaddingMask else tv_tensors.wrap(value, like=inpt)

    return kernel


def _flipped(value: Tensor, *, horizontal: bool, is_normals: bool) -> Tensor:
    value = value.flip(-1 if horizontal else -2)
    if is_normals:
        sign = torch.ones(3, 1, 1, dtype=value.dtype, device=value.device)
        sign[0 if horizontal else 1] = -1
        value = value * sign
    return value


def _geometry_kernel(name: str, tag: type[Any], move: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return the kernel of values that hold their canvas; ``move`` takes them, crop, new size and axis of the flip."""
    bind = _binder(name)
    mirror = name.removesuffix("_flip") if name in FLIPS else None

    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        if not inpt.numel():
            return inpt
        box, out_size = cut_and_size(name, inpt.canvas_size, bind(inpt, *args, **kwargs))
        return move(inpt.as_subclass(Tensor), box, out_size, mirror).as_subclass(tag)

    return kernel


def _moved_cameras(cameras: Tensor, box: CropBox, out_size: tuple[int, int], mirror: str | None) -> Tensor:
    """Move cameras as `moved_points` moves points; see `IntrinsicsTensor`."""
    fx, fy, cx, cy, height, width = cameras.unbind(-1)
    cx, cy = cx - box[1], cy - box[0]
    if mirror == "horizontal":
        cx = width - cx
    elif mirror == "vertical":
        cy = height - cy
    by_y, by_x = out_size[0] / box[2], out_size[1] / box[3]
    height, width = (torch.full_like(fx, size) for size in out_size)
    return torch.stack([fx * by_x, fy * by_y, cx * by_x, cy * by_y, height, width], -1)


def _turned_keypoints(name: str) -> Callable[..., Any]:
    # torchvision's points have no left and right, and no visibility.
    bind = _binder(name)

    def kernel(inpt: MovingKeypoints, *args: Any, **kwargs: Any) -> MovingKeypoints:
        if not inpt.numel():
            return inpt
        plain, canvas = inpt.as_subclass(Tensor), inpt.canvas_size
        points = tv_tensors.KeyPoints(plain[..., :2], canvas_size=canvas, device=plain.device)
        arguments = bind(inpt, *args, **kwargs)
        if arguments.get("expand"):
            # torchvision's canvas for points may be smaller than its canvas for images.
            angle, center = arguments["angle"], arguments["center"]
            blank = tv_tensors.Mask(torch.zeros(canvas, dtype=torch.uint8, device="cpu"), device="cpu")
            height, width = F.rotate(blank, angle, expand=True, center=center).shape
            turned = F.rotate(points, angle, center=center).as_subclass(Tensor)
            shift = [(width - canvas[1]) / 2, (height - canvas[0]) / 2]
            x, y = (turned + torch.tensor(shift, dtype=turned.dtype, device=turned.device)).unbind(-1)
            return packed(x, y, plain[..., 2], plain[..., 3], (height, width)).as_subclass(MovingKeypoints)
        moved = getattr(F, name)(points, *args, **kwargs)
        x, y = (moved.as_subclass(Tensor) + (0.5 if name == "elastic" else 0)).unbind(-1)  # its points are indices
        return packed(x, y, plain[..., 2], plain[..., 3], moved.canvas_size).as_subclass(MovingKeypoints)

    return kernel


def _center_crop_boxes(inpt: MovingBoxes, output_size: int | Sequence[int]) -> MovingBoxes:
    # torchvision's own kernel is one pixel off its image kernel where it pads an odd number of pixels.
    box, _ = cut_and_size("center_crop", inpt.canvas_size, {"output_size": output_size})
    moved: MovingBoxes = F.crop(inpt, *box)
    return moved


def _loosely(name: str) -> Callable[..., Any]:
    # Corners are moved and rounded one by one, so an object may extend beyond its box.
    def kernel(inpt: MovingBoxes, *args: Any, **kwargs: Any) -> LooseBoxes:
        boxes = tv_tensors.BoundingBoxes(inpt, format=inpt.format, canvas_size=inpt.canvas_size, device=inpt.device)
        moved = getattr(F, name)(boxes, *args, **kwargs)
        return LooseBoxes(moved, format=moved.format, canvas_size=moved.canvas_size)

    return kernel


def _refusal(name: str, what: str) -> Callable[..., Any]:
    def kernel(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"transforms.v2 {name}: expected only resize, crop, pad or flip for {what}, got {name}; it would make the "
            f"field wrong. Drop the field before this transform"
        )

    return kernel


def register() -> None:
    """Register all kernels with torchvision; runs once, at import."""
    for tag, field in BY_TRANSFORM_TAG.items():
        if tag is tv_tensors.Image:
            continue
        for name in MOVED_BY:
            F.register_kernel(name, tag)(_field_kernel(name, tag, field))
        if tag is not InstanceMask:
            for name in REFUSED:
                F.register_kernel(name, tag)(_refusal(name, field.name))
    F.register_kernel("center_crop", MovingBoxes)(_center_crop_boxes)
    for name in REFUSED:  # of maps, not of boxes
        F.register_kernel(name, MovingBoxes)(_loosely(name))
    for name in MOVED_BY:
        F.register_kernel(name, IntrinsicsTensor)(_geometry_kernel(name, IntrinsicsTensor, _moved_cameras))
        F.register_kernel(name, MovingKeypoints)(_geometry_kernel(name, MovingKeypoints, moved_points))
    for name in REFUSED:
        F.register_kernel(name, MovingKeypoints)(_turned_keypoints(name))
        F.register_kernel(name, IntrinsicsTensor)(_refusal(name, "camera_intrinsics"))


register()
