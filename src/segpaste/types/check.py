"""Validation of all containers, driven by the field table.

It checks presence, type, rank and shape and, for tensors on the CPU, cheap rules for values. Values on an accelerator
are not read, because that would wait for the device; `segpaste.invariants` checks them on request.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types.fields import Field

T = TypeVar("T")

MAX_INSTANCE_ID = (1 << 31) - (1 << 16)
"""Largest id in samples; the int32 ids above it are reserved for pasted instances."""

MAX_FED_BACK_ID = (1 << 31) - (1 << 15)
"""Largest id in padded batches; it is larger, because outputs with ids of pasted instances may be inputs again."""


def not_none(value: T | None) -> T:
    """Return an optional value that is known to be not None."""
    assert value is not None
    return value


def check_presence(container: str, fields: Iterable[Field], values: Mapping[str, object]) -> None:
    """Check that required fields are present, and that every field has the fields that it needs.

    Args:
        container: name of the container, for messages.
        fields: fields to check.
        values: value of each field, or None, by its name in a sample.

    Raises:
        ValueError: a field is missing; the message names it.
    """
    for field in fields:
        present = values.get(field.name) is not None
        if field.required and not present:
            raise ValueError(f"{container}.{field.name}: expected a value, got None; it is always present")
        for other in field.needs:
            if present and values.get(other) is None:
                raise ValueError(
                    f"{container}.{field.name}: expected {other!r} beside it, got None; give both or neither"
                )


def check_names(label: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Check the names of fields.

    Args:
        label: name of the function, for messages.
        given: names to check.
        known: accepted names.

    Raises:
        TypeError: a name is unknown; the message suggests the most similar field, or lists all.
    """
    names = list(known)
    for name in [name for name in given if name not in names]:
        near = [other for other in names if len(name) > 3 and other.startswith(name)]
        near = near or difflib.get_close_matches(name, names, 1, 0.7)
        advice = f"the nearest is {near[0]!r}" if near else f"the fields are {', '.join(names)}"
        raise TypeError(f"{label}: expected the name of a field, got {name!r}; {advice}")


def check_tensor(
    label: str, value: object, shape: tuple[str | int, ...], dtypes: tuple[torch.dtype, ...], sizes: dict[str, int]
) -> Tensor:
    """Check that a value is a tensor of an accepted dtype and the declared shape.

    Args:
        label: ``Container.field``, for messages.
        value: value to check.
        shape: declared shape; strings are symbols.
        dtypes: accepted dtypes.
        sizes: known sizes of symbols, which must agree; extended in place.

    Raises:
        TypeError: the value is not a tensor, or has another dtype.
        ValueError: the value has another shape.
    """
    if not isinstance(value, Tensor):
        instead = "; convert it with torch.from_numpy" if isinstance(value, np.ndarray) else ""
        raise TypeError(f"{label}: expected a torch.Tensor, got {type(value).__name__}{instead}")
    if value.dtype not in dtypes:
        wanted = " or ".join(str(d).removeprefix("torch.") for d in dtypes)
        raise TypeError(
            f"{label}: expected dtype {wanted}, got {str(value.dtype).removeprefix('torch.')}; convert it first"
        )
    declared = "[" + ", ".join(str(s) for s in shape) + "]"
    if value.ndim != len(shape):
        raise ValueError(f"{label}: expected {len(shape)} dimensions {declared}, got shape {list(value.shape)}")
    for dimension, (size, symbol) in enumerate(zip(value.shape, shape, strict=True)):
        if not isinstance(symbol, str) and size != symbol:
            raise ValueError(
                f"{label}: expected shape {declared}, {symbol} along dimension {dimension}, got {list(value.shape)}"
            )
        known = sizes.setdefault(symbol, size) if isinstance(symbol, str) else symbol
        if size != known:
            raise ValueError(
                f"{label}: expected shape {declared} with {symbol}={known}, got {list(value.shape)}; "
                "all fields of a sample share one canvas and one number of instances"
            )
    return value


def numbers_of(value: Tensor) -> NDArray[Any]:
    """Return the values of a tensor on the CPU as an array, in which small tables are checked in fewer steps."""
    found: NDArray[Any] = value.as_subclass(Tensor).detach().numpy()
    return found


def check_bools(label: str, value: Tensor) -> None:
    """Check that bool values on the CPU are stored as 0 or 1, as torch expects; see `has_other_bytes`.

    Raises:
        ValueError: a byte has another value.
    """
    if has_other_bytes(value):
        raise ValueError(
            f"{label}: expected bool values stored as 0 or 1, got another byte; NumPy arrays that are made without a "
            "copy may have them, such as those of Pillow's mode '1': convert them with array.view(np.uint8) > 0"
        )


def has_other_bytes(value: Tensor) -> bool:
    """Return whether a bool tensor on the CPU has bytes other than 0 and 1, with which torch computes wrong results."""
    if value.dtype != torch.bool or value.device.type != "cpu" or not value.numel():
        return False
    # NumPy, because torch waits forever in a forked process whose parent has started torch's threads.
    return int(numbers_of(value).view(np.uint8).max()) > 1


def with_plain_bytes(value: Tensor) -> Tensor:
    """Return the same bool values as bytes of 0 and 1; the tensor itself if it has no others, see `has_other_bytes`."""
    return value.view(torch.uint8) > 0 if has_other_bytes(value) else value


def check_class(label: str, value: object, kind: type) -> None:
    """Raise TypeError unless a value is an instance of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{label}: expected {kind.__name__}, got {type(value).__name__} {value!r:.80}")


def check_count(label: str, value: object, least: int = 0) -> None:
    """Check that a value is an integer >= ``least``; True and False do not count as integers.

    Raises:
        TypeError: the value is not an integer.
        ValueError: the value is smaller.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{label}: expected an integer, got {type(value).__name__} {value!r:.80}")
    if value < least:
        raise ValueError(f"{label}: expected at least {least}, got {value}")


def check_number(label: str, value: object) -> None:
    """Raise TypeError unless a value is a real number; True and False do not count as numbers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{label}: expected a number, got {type(value).__name__} {value!r:.80}")


def check_list(label: str, value: object, length: int) -> None:
    """Check that a value is a list or tuple with an entry for each image.

    Raises:
        TypeError: the value is of another class, such as one tensor for all images.
        ValueError: the number of entries is wrong.
    """
    if not isinstance(value, list | tuple):
        raise TypeError(f"{label}: expected a list of {length} entries, one per image, got {type(value).__name__}")
    if len(value) != length:
        raise ValueError(f"{label}: expected a list of {length} entries, one per image, got {len(value)}")


def check_cameras(label: str, cameras: Tensor) -> None:
    """Check that cameras (fx, fy, cx, cy), [B, 4], are finite and have focal lengths > 0.

    Raises:
        ValueError: a camera is not; the message names the first such image.
    """
    if cameras.device.type != "cpu":
        return
    wrong = ~(cameras.isfinite().all(1) & (cameras[:, :2] > 0).all(1))
    if bool(wrong.any()):
        b = int(wrong.to(torch.int8).argmax())
        raise ValueError(
            f"{label}[{b}]: expected finite numbers (fx, fy, cx, cy) with focal lengths > 0 px, got "
            f"{cameras[b].tolist()}; leave the cameras out, with metric_depth=False, where they are not known"
        )


def check_boxes(label: str, boxes: Tensor, canvas_size: tuple[int, int]) -> None:
    """Check the format and canvas of tagged boxes, and that all boxes are finite with x1 <= x2 and y1 <= y2.

    Raises:
        ValueError: a tagged box has another format or canvas, or a box is not finite or has x2 < x1 or y2 < y1.
    """
    if isinstance(boxes, tv_tensors.BoundingBoxes):
        if boxes.format != tv_tensors.BoundingBoxFormat.XYXY:
            raise ValueError(
                f"{label}: expected format XYXY, got {boxes.format.name}; convert them with "
                "torchvision.transforms.v2.ConvertBoundingBoxFormat('XYXY')"
            )
        if tuple(boxes.canvas_size) != canvas_size:
            raise ValueError(
                f"{label}: expected canvas_size {canvas_size}, the image's, got {tuple(boxes.canvas_size)}"
            )
    if boxes.device.type != "cpu":
        return
    corners = numbers_of(boxes)
    if not np.isfinite(corners).all():
        raise ValueError(f"{label}: expected finite coordinates, got NaN or infinity; remove those instances")
    if (corners[..., 2:] < corners[..., :2]).any():
        raise ValueError(
            f"{label}: expected x1 <= x2 and y1 <= y2, got a box that is inside out; "
            "are these (x, y, width, height)? Convert them to (x1, y1, x2, y2)"
        )


def check_instance_ids(label: str, ids: Tensor, most: int = MAX_INSTANCE_ID) -> None:
    """Raise ValueError unless the ids of one sample are unique, > 0 and at most ``most``."""
    if ids.device.type != "cpu" or ids.numel() == 0:
        return
    listed = ids.tolist()
    if min(listed) <= 0:
        raise ValueError(f"{label}: expected ids > 0, got {min(listed)}; 0 means stuff in panoptic maps")
    if max(listed) > most:
        raise ValueError(f"{label}: expected ids <= {most}, which leaves room for fresh ones, got {max(listed)}")
    if len(set(listed)) != len(listed):
        raise ValueError(f"{label}: expected ids that are unique in the sample, got {listed}")


def check_padded_ids(label: str, ids: Tensor, valid: Tensor) -> None:
    """Check that the ids [B, K] in the valid rows of each image are unique, > 0 and at most `MAX_FED_BACK_ID`.

    Raises:
        ValueError: ids of an image are not; the message names the first such image.
    """
    if ids.device.type != "cpu" or ids.numel() == 0:
        return
    given, is_valid = numbers_of(ids), numbers_of(valid)
    in_order = np.sort(np.where(is_valid, given, -np.arange(1, given.shape[1] + 1, dtype=given.dtype)), 1)
    wrong = (is_valid & ((given <= 0) | (given > MAX_FED_BACK_ID))).any(1)
    wrong |= (in_order[:, 1:] == in_order[:, :-1]).any(1)
    if wrong.any():
        b = int(wrong.argmax())
        check_instance_ids(f"{label}[{b}]", ids[b][valid[b]], MAX_FED_BACK_ID)


def check_panoptic_map(label: str, ids: Tensor) -> None:
    """Raise ValueError unless a panoptic map holds instance ids from 0 to `MAX_FED_BACK_ID`."""
    if ids.device.type != "cpu" or ids.numel() == 0:
        return
    low, high = (int(value) for value in ids.as_subclass(Tensor).aminmax())
    if low < 0 or high > MAX_FED_BACK_ID:
        raise ValueError(
            f"{label}: expected instance ids from 0, which is stuff, to {MAX_FED_BACK_ID}, got "
            f"{low if low < 0 else high}; number the segments of each image from 1"
        )


def check_padding(label: str, padding_mask: Tensor) -> None:
    """Check that padding [..., H, W] is only to the right of the image content and below it.

    Raises:
        ValueError: the first row or column of an image with content is all padding.
    """
    if padding_mask.device.type != "cpu" or padding_mask.numel() == 0:
        return
    begins_late = padding_mask[..., 0].all(-1) | padding_mask[..., 0, :].all(-1)
    if not bool(padding_mask[begins_late].all()):  # those images have content
        raise ValueError(
            f"{label}: expected padding to the right and below only, got a first row or column that is all padding; "
            "pad with zero left and top, as FixedSizeCrop does, and flip before padding"
        )


def check_metric(container: str, metric_depth: bool, depth: object, intrinsics: object) -> None:
    """Raise ValueError if there is metric depth without camera intrinsics."""
    if metric_depth and depth is not None and intrinsics is None:
        raise ValueError(
            f"{container}.camera_intrinsics: expected intrinsics because metric_depth=True, got None; "
            "give CameraIntrinsics(fx, fy, cx, cy), or metric_depth=False for depth of unknown scale"
        )
