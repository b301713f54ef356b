"""One annotated image as frameworks give it, the common form of all readers, and the samples that are made of it.

A reader of a framework returns `Annotated`: boxes in pixels, and class ids and masks as given. To paste, `checked` and
`sample_of` make a consistent sample; to draw what a model is trained on, `as_given` makes one that is right or wrong
like the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torchvision import tv_tensors

from segpaste.types import CrowdMask, DenseSample, InstanceMask, KeypointSchema, PaddingMask, tight_boxes
from segpaste.types.check import with_plain_bytes
from segpaste.types.keypoints import HIDDEN, UNLABELLED, VISIBLE
from segpaste.types.sampling import box_masks
from segpaste.types.tensors import tensor_of


class Annotated(NamedTuple):
    """Image and its N annotations.

    Attributes:
        image: uint8 or float [C, H, W].
        boxes: float32 [N, 4] xyxy, continuous pixel edges; of a target without boxes those of its masks, or zeros.
        labels: [N] integers, ids of the framework.
        masks: [N, H, W], 0 outside of the object; None if there are none.
        is_crowd: True for regions of several objects, bool [N].
        keypoints: pixels, (x, y) or (x, y, v) of each keypoint, [N, P, 2 or 3]; None if there are none.
        padding: pixels that do not belong to the image, bool [H, W]; None if there are none.
        set_value: value in the given masks where they are set, 1 or 255; None if no mask has a pixel, or before
            `checked`.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    is_crowd: Tensor
    keypoints: Tensor | None = None
    padding: Tensor | None = None
    set_value: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Facts about a batch that its reader needs and that are not in it.

    Attributes:
        mean: mean of each channel of images in 0..1, of a normalisation to undo; None where images are not normalised.
        std: standard deviation, likewise.
        bbox_format: format of the boxes of AlbumentationsX.
        owner: name for errors.
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    bbox_format: str | None = None
    owner: str = "read"


class Images(NamedTuple):
    """Images of a batch.

    Attributes:
        num_images: number of images, B.
        sample: function that returns an image by its index, one at a time, since masks of a batch may need gigabytes.
        has_boxes: True if the target has boxes; else those of the samples follow from masks.
    """

    num_images: int
    sample: Callable[[int], DenseSample]
    has_boxes: bool = True


def rows_of(
    place: str, target: Mapping[str, Any], name: str, num: int, default: Any = None, remedy: str | None = None
) -> Any:
    """Return an entry of a target with one value for each object.

    Args:
        place: name for the error.
        target: the target.
        name: name of the entry.
        num: number of objects.
        default: value of a missing entry.
        remedy: advice for the error, instead of the default one.

    Raises:
        ValueError: it is missing, or has another number of values.
    """
    value = target.get(name)
    value = default if value is None else value
    if value is not None and np.ndim(value) == 1 and len(value) == num:
        return value
    came = "none" if value is None else f"{value!r:.40}" if np.ndim(value) != 1 else f"{len(value)}"
    remedy = remedy or ("add them" if value is None else "filter all entries of a target by the same rows")
    raise ValueError(f"{place}: expected {name!r} with one value for each of {num} objects, got {came}; {remedy}")


def numbers_of(
    place: str, target: Mapping[str, Any], name: str, num: int, default: Any = None, *, floats: bool = False
) -> Tensor:
    """Return an entry of a target with one integer for each object, [N]; with ``floats`` of any dtype. See `rows_of`.

    Raises:
        TypeError, ValueError: values are not integers, or see `rows_of`.
    """
    values = rows_of(place, target, name, num, default)
    texts = [] if isinstance(values, Tensor) else [value for value in values if isinstance(value, str | bytes)]
    if texts:
        raise ValueError(f"{place}: expected numbers in {name!r}, got {texts[0]!r:.40}; number the classes")
    found = tensor_of(values)
    if found.is_floating_point() and len(found) and not floats:
        raise TypeError(f"{place}: expected {name!r} of integers, got {found.dtype}; call .long() if they are whole")
    return found


def masks_of(place: str, masks: Any, num: int | None, size: Sequence[int], like: Tensor) -> Tensor:
    """Return the masks of an image, [N, H, W]; N = 0 if the entry is None or empty.

    Args:
        place: name for the error.
        masks: a tensor, an array, or a list of either.
        num: number of objects; None if only the masks tell it.
        size: H and W.
        like: tensor on the device of empty masks.

    Raises:
        ValueError: masks have another shape.
    """
    if masks is None or not len(masks):
        masks = like.new_zeros(0, *size, dtype=torch.bool)
    num = len(masks) if num is None else num
    shape = [len(masks), *masks[0].shape] if isinstance(masks, list | tuple) else list(masks.shape)
    if isinstance(masks, list | tuple) and len({mask.shape for mask in masks}) == 1:
        masks = torch.stack([tensor_of(mask) for mask in masks])
    if shape != [num, *size] or isinstance(masks, list | tuple):
        raise ValueError(
            f"{place}: expected masks {[num, *size]}, one for each object in the size of the image, got {shape}; "
            "filter and resize masks along with boxes and labels"
        )
    return tensor_of(np.ascontiguousarray(masks) if isinstance(masks, np.ndarray) else masks)


def with_masks(place: str, given: Annotated, otherwise: str) -> Annotated:
    """Return an image that has masks, if only none for no objects.

    Raises:
        ValueError: it has objects without masks; the advice ends with ``otherwise``.
    """
    if given.masks is not None:
        return given
    if len(given.boxes):
        raise ValueError(
            f"{place}: expected masks for {len(given.boxes)} boxes, got none; give those of the dataset (target_keys "
            f"of wrap_dataset_for_transforms_v2 names them), {otherwise}"
        )
    return given._replace(masks=masks_of(place, None, 0, given.image.shape[-2:], given.image))


def checked(place: str, given: Annotated) -> Annotated:
    """Return an image whose masks are bool, of bytes 0 and 1; reading their values waits for their device.

    Raises:
        ValueError: masks have values other than 0 and 1, or 0 and 255.
    """
    if given.masks is None:
        return given
    masks, value = given.masks, set_value(f"{place}: masks", given.masks)
    if masks.dtype == torch.bool:
        masks = with_plain_bytes(masks)
    are_bools = masks.dtype == torch.uint8 and value != 255
    return given._replace(masks=masks.view(torch.bool) if are_bools else masks.bool(), set_value=value)


_VALUES_OF_BYTES = {(0, 0): None, (0, 1): 1, (1, 1): 1, (-1, 0): 255, (-1, -1): 255}
"""The value of valid masks where they are set, by their extremes as signed bytes, in which 255 is -1."""


def set_value(name: str, masks: Tensor) -> int | None:
    """Return the value of masks where they are set, 1 or 255; None if no pixel is set.

    Args:
        name: name for the error.
        masks: masks of any shape and dtype.

    Raises:
        ValueError: they have values other than 0 and one of these, such as probabilities or numbers of objects.
    """
    if not masks.numel():
        return None
    if masks.dtype in (torch.bool, torch.uint8):
        low, high = (int(extreme) for extreme in masks.view(torch.int8).aminmax())
        if masks.dtype == torch.bool:
            return 1 if low or high else None
        if (low, high) in _VALUES_OF_BYTES:
            return _VALUES_OF_BYTES[low, high]
    if masks.dtype in (torch.uint16, torch.uint32):  # torch has no maximum for them
        masks = masks.to(torch.int64)
    most = masks.amax()
    facts = torch.stack([most.double(), (masks != 0).sum().double(), (masks == most).sum().double()])
    value, num_set, num_most = facts.tolist()
    if not num_set:
        return None
    if value not in (1, 255) or num_set != num_most:
        others: Tensor = masks[(masks != 0) & (masks != 1) & (masks != 255)]
        came = ", ".join(f"{number:.4g}" for number in others[:3].tolist()) or "1 beside 255"
        raise ValueError(
            f"{name}: expected 0 and 1, or 0 and 255, got {came}; choose a threshold for soft masks (masks > 0.5), and "
            "make one mask for each object of a map of numbers (map == number)"
        )
    return int(value)


def crowd_regions(given: Annotated) -> Tensor:
    """Return the masks of the crowds, or their filled boxes, rounded outwards, [M, H, W] bool."""
    if given.masks is not None:
        return given.masks[given.is_crowd].bool()
    return box_masks(given.boxes[given.is_crowd], (given.image.shape[-2], given.image.shape[-1]))


def sample_of(
    given: Annotated,
    schema: KeypointSchema | None = None,
    *,
    canvas: Sequence[int] | None = None,
    with_crowds: bool = False,
    **fields: Any,
) -> DenseSample:
    """Return a consistent sample: crowds become its crowd mask, the others its instances, boxes those of the masks.

    Args:
        given: image after `checked`.
        schema: names of its keypoints, if it has any.
        canvas: (H, W) to which it is padded to the right and below; the sample then has a padding mask.
        with_crowds: give it a crowd mask even without crowds.
        fields: other fields of the sample.

    Raises:
        TypeError, ValueError: see `DenseSample`.
    """
    height, width = given.image.shape[-2:]
    ends = (0, 0) if canvas is None else (0, canvas[1] - width, 0, canvas[0] - height)
    image, masks, any_crowds = given.image, given.masks, bool(given.is_crowd.any())
    objects = ~given.is_crowd if any_crowds else slice(None)  # a slice copies no masks
    if with_crowds or any_crowds:
        fields["crowd_mask"] = CrowdMask(pad(crowd_regions(given).any(0, keepdim=True), ends))
    if canvas is not None:
        inside = torch.ones(1, height, width, dtype=torch.bool, device=image.device)
        fields["padding_mask"] = PaddingMask(~pad(inside, ends))
        image, masks = pad(image, ends), None if masks is None else pad(masks, ends)
    if given.keypoints is not None:
        fields |= {"keypoints": given.keypoints[objects], "keypoint_schema": schema}
    if masks is not None:
        return DenseSample._of_plain_masks(image, masks[objects], given.labels[objects].long(), **fields)
    size = image.shape[-2], image.shape[-1]
    boxes = tv_tensors.BoundingBoxes(given.boxes[objects], format="XYXY", canvas_size=size, device=given.boxes.device)
    return DenseSample(tv_tensors.Image(image, device=image.device), boxes, given.labels[objects].long(), **fields)


def as_given(given: Annotated) -> DenseSample:
    """Return the sample of an image with its annotations as they are, on the CPU: boxes and masks may disagree.

    Crowds are rows like others, since the models that are trained on these targets do not read ``iscrowd``.

    Raises:
        TypeError, ValueError: see `DenseSample`.
    """
    own: dict[str, Any] = {name: t.detach().cpu() for name, t in given._asdict().items() if isinstance(t, Tensor)}
    given = given._replace(**own)
    size, fields = (given.image.shape[-2], given.image.shape[-1]), dict[str, Any]()
    if given.masks is not None:
        fields["instance_masks"] = InstanceMask(given.masks.bool())
        fields["instance_ids"] = torch.arange(1, len(given.labels) + 1, dtype=torch.int32, device="cpu")
    if given.keypoints is not None and given.keypoints.shape[1]:
        names = tuple(f"point {i}" for i in range(given.keypoints.shape[1]))
        fields |= {"keypoints": labelled_points(given.keypoints, size), "keypoint_schema": KeypointSchema(names)}
    if given.padding is not None:
        fields["padding_mask"] = PaddingMask(given.padding[None])
    boxes = tv_tensors.BoundingBoxes(given.boxes, format="XYXY", canvas_size=size, device="cpu")
    return DenseSample(tv_tensors.Image(given.image, device="cpu"), boxes, given.labels.long(), **fields)


def boxes_of_masks(masks: Tensor) -> Tensor:
    """Return the boxes of masks [N, H, W] of any dtype, xyxy, [N, 4] float32."""
    return tight_boxes(masks.bool())


def labelled_points(points: Tensor, size: Sequence[int]) -> Tensor:
    """Return keypoints [N, P, 3] float32; those outside of the image (H, W) are unlabelled.

    Points [N, P, 2] have no visibility: all but those at (0, 0) are visible.
    """
    points = points.float().nan_to_num(-1.0)
    places = points[..., :2]
    known = points[..., 2:] if points.shape[-1] > 2 else (places != 0).any(-1, keepdim=True) * float(VISIBLE)
    ends = places.new_tensor([size[1], size[0]])
    inside = ((places >= 0) & (places <= ends)).all(-1, keepdim=True) & (known > UNLABELLED)
    visibility = torch.where(known == HIDDEN, float(HIDDEN), float(VISIBLE))
    return torch.where(inside, torch.cat([places, visibility], -1), 0.0)


def has_keys(value: object, *names: str) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a dictionary with these keys."""
    return isinstance(value, Mapping) and all(name in value for name in names)


def is_list(value: object, kind: type | tuple[type, ...]) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list or tuple of objects of a class, at least one."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(entry, kind) for entry in value)


def are_targets(value: object, *names: str) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Return whether a value is a list of dictionaries with these keys, at least one."""
    return is_list(value, Mapping) and all(has_keys(entry, *names) for entry in value)
