"""`StagedCrops`: the crops of one training step, which a loader passes to `BatchCopyPaste`.

The crops are uint8, as stored in their bank, until they are painted. If all tensors are views of one buffer, as with
`segpaste.stage_bank_batch`, that buffer is sent between processes, pinned and copied as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from segpaste.types import check
from segpaste.types.fields import flags_of
from segpaste.types.keypoints import KeypointSchema, check_keypoints
from segpaste.types.movable import Movable, register_pytree
from segpaste.types.tracing import is_traced

_ALIGN = 64
_Shape = tuple[int | str, ...]

SHAPES: Mapping[str, tuple[_Shape, torch.dtype]] = {
    "images": (("B", "K", 3, "h", "w"), torch.uint8),
    "alphas": (("B", "K", 1, "h", "w"), torch.bool),
    "class_ids": (("B", "K"), torch.int64),
    "boxes": (("B", "K", 4), torch.int64),
    "crop_idx": (("B", "K"), torch.int64),
    "scales": (("B", "K"), torch.float32),
    "depth": (("B", "K", 1, "h", "w"), torch.float32),
    "depth_valid": (("B", "K", 1, "h", "w"), torch.bool),
    "normals": (("B", "K", 3, "h", "w"), torch.float32),
    "camera_intrinsics": (("B", "K", 4), torch.float32),
    "keypoints": (("B", "K", "P", 3), torch.float32),
}
"""Shapes and dtypes of the tensors of `StagedCrops`."""

_REQUIRED = ("images", "alphas", "class_ids", "boxes", "crop_idx")


class Place(NamedTuple):
    """Place of a tensor in a buffer.

    Attributes:
        start: first byte.
        dtype: dtype of the tensor.
        shape: shape of the tensor, in row-major order.
    """

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def view(self, buffer: Tensor) -> Tensor:
        """Return the tensor as a view of a buffer of bytes."""
        end = self.start + math.prod(self.shape) * self.dtype.itemsize
        return buffer[self.start : end].view(self.dtype).view(self.shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StagedCrops(Movable):
    """K crops for each of B target images; fields that the bank does not store are None.

    Attributes:
        images: [B, K, 3, h, w] uint8, RGB.
        alphas: [B, K, 1, h, w] bool, the masks of the objects.
        class_ids: [B, K] int64.
        boxes: [B, K, 4] int64, xyxy, the box of the object in pixels of the crop; zero if alpha is empty.
        crop_idx: [B, K] int64, indices of the crops in the bank.
        scales: [B, K] float32, pixels of the crop per pixel of its source image.
        depth: [B, K, 1, h, w] float32.
        depth_valid: [B, K, 1, h, w] bool.
        normals: [B, K, 3, h, w] float32.
        camera_intrinsics: [B, K, 4] float32, fx, fy, cx, cy in pixels of the crop.
        keypoints: [B, K, P, 3] float32, x, y, v in pixel edges of the crop.
        metric_depth: True if depth is in metres.
        keypoint_schema: names of the keypoints; required with ``keypoints``.
        version: version of the bank.

    Raises:
        TypeError: a field is not a tensor.
        ValueError: a tensor has another shape or dtype, or depth is given without its validity.
    """

    images: Tensor
    alphas: Tensor
    class_ids: Tensor
    boxes: Tensor
    crop_idx: Tensor
    scales: Tensor | None = None
    depth: Tensor | None = None
    depth_valid: Tensor | None = None
    normals: Tensor | None = None
    camera_intrinsics: Tensor | None = None
    keypoints: Tensor | None = None
    metric_depth: bool = False
    keypoint_schema: KeypointSchema | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if is_traced():
            return
        check.check_class("StagedCrops.metric_depth", self.metric_depth, bool)
        for name in _REQUIRED:
            if getattr(self, name) is None:
                raise ValueError(f"StagedCrops.{name}: expected a value, got None; it is always present")
        check.check_class("StagedCrops.images", self.images, Tensor)
        if self.images.ndim != 5:
            raise ValueError(f"StagedCrops.images: expected [B, K, 3, h, w], got {list(self.images.shape)}")
        check_keypoints("StagedCrops", self.keypoints, self.keypoint_schema)  # points may be outside of their crop
        sizes = dict(zip(("B", "K", "", "h", "w"), self.images.shape, strict=True))
        sizes["P"] = 0 if self.keypoint_schema is None else self.keypoint_schema.num_points
        for name, (shape, dtype) in SHAPES.items():
            value: Tensor | None = getattr(self, name)
            if value is not None:
                check.check_class(f"StagedCrops.{name}", value, Tensor)
            expected = [sizes[n] if isinstance(n, str) else n for n in shape]
            if value is not None and (list(value.shape) != expected or value.dtype != dtype):
                raise ValueError(
                    f"StagedCrops.{name}: expected {dtype} {expected}, got {value.dtype} {list(value.shape)}"
                )
        if (self.depth is None) != (self.depth_valid is None):
            raise ValueError("StagedCrops: expected both depth and depth_valid or neither, got one of them")

    @property
    def batch_size(self) -> int:
        """Number of target images, B."""
        return self.images.shape[0]

    @property
    def num_crops(self) -> int:
        """Number of crops for each target image, K."""
        return self.images.shape[1]

    @property
    def crop_size(self) -> tuple[int, int]:
        """Height and width of the crops, (h, w)."""
        return self.images.shape[3], self.images.shape[4]

    @property
    def device(self) -> torch.device:
        """Device of the crops."""
        return self.images.device

    def packed(self) -> Tensor:
        """Return image, alpha and class in one tensor, [B, K, 3 + 2, h, w] float32; classes below 2 ** 24 are exact."""
        classes = self.class_ids[..., None, None, None].expand_as(self.alphas)
        return torch.cat([self.images.float(), self.alphas.float(), classes.float()], dim=2)

    def first(self, num_targets: int) -> Self:
        """Return the crops of the first target images.

        Raises:
            ValueError: there are fewer target images.
        """
        if not 0 <= num_targets <= self.batch_size:
            raise ValueError(f"StagedCrops.first: expected 0 to {self.batch_size} targets, got {num_targets}")
        firsts: dict[str, Any] = {name: tensor[:num_targets] for name, tensor in self._tensors().items()}
        return replace(self, **firsts)

    def __repr__(self) -> str:
        return f"StagedCrops({self.batch_size} x {self.num_crops} crops of {self.crop_size}, bank {self.version[:12]})"

    def __reduce__(self) -> Any:
        buffer = self._buffer()
        if buffer is None:
            return _of_tensors, ({name: _own(tensor) for name, tensor in self._tensors().items()}, self._said())
        return of_buffer, (buffer, self._places(), self._said())

    def _said(self) -> dict[str, Any]:
        """Return the fields that are not tensors."""
        return {**flags_of(self), "version": self.version}

    def _tensors(self) -> dict[str, Tensor]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def _places(self) -> dict[str, Place]:
        return {
            name: Place(int(tensor.storage_offset()) * tensor.element_size(), tensor.dtype, tuple(tensor.shape))
            for name, tensor in self._tensors().items()
        }

    def _buffer(self) -> Tensor | None:
        """Return the buffer that the tensors fill, or None if they do not fill one buffer in row-major order.

        The tensors of `first` do not fill it, so they are sent and copied one by one.
        """
        tensors = self._tensors().values()
        storages = [tensor.untyped_storage() for tensor in tensors]
        if any(storage.data_ptr() != storages[0].data_ptr() for storage in storages):
            return None
        if not all(tensor.is_contiguous() for tensor in tensors):
            return None
        if storages[0].nbytes() > sum(_aligned(tensor.nbytes) for tensor in tensors):
            return None
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(storages[0])

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        found: dict[str, Any]
        if (buffer := self._buffer()) is None:
            found = {name: move(tensor) for name, tensor in self._tensors().items()}
        else:
            moved = move(buffer)
            found = {name: place.view(moved) for name, place in self._places().items()}
        return replace(self, **found)


register_pytree(StagedCrops)


def places_of(shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> tuple[dict[str, Place], int]:
    """Return the places of tensors in one buffer, and its size in bytes."""
    places: dict[str, Place] = {}
    end = 0
    for name, (dtype, shape) in shapes.items():
        places[name] = Place(end, dtype, shape)
        end += _aligned(math.prod(shape) * dtype.itemsize)
    return places, end


def of_buffer(buffer: Tensor, places: Mapping[str, Place], said: Mapping[str, Any]) -> StagedCrops:
    """Return crops whose tensors are views of a buffer of bytes; ``said`` holds the other fields."""
    return _of_tensors({name: place.view(buffer) for name, place in places.items()}, said)


def _of_tensors(tensors: Mapping[str, Tensor], said: Mapping[str, Any]) -> StagedCrops:
    values: dict[str, Any] = {**tensors, **said}
    return StagedCrops(**values)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGN) * _ALIGN


def _own(tensor: Tensor) -> Tensor:
    """Return the tensor with a storage of its own, because pickle writes the whole storage of a view."""
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
