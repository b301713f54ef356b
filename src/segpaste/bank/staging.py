"""The crops of one training step, read from a bank and packed in one buffer: what a loader hands to `BatchCopyPaste`.

Crops stay uint8, as they lie on disk, until they are painted. All tensors are views of one buffer, so that a worker
hands over, pins and copies one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import get_worker_info

from segpaste.bank.stored import InstanceBank
from segpaste.types import tight_boxes

_ALIGN = 64
_NAMES = {
    "images": "image",
    "alphas": "alpha",
    "class_ids": "class_id",
    "scales": "scale",
    "depth": "depth",
    "depth_valid": "depth_valid",
    "normals": "normals",
    "camera_intrinsics": "intrinsics",
}
"""Fields that are columns of the bank, by the column's name."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StagedCrops:
    """K crops for each of B targets; what the bank does not keep is None.

    Attributes:
        images: [B, K, 3, h, w] uint8, RGB.
        alphas: [B, K, 1, h, w] bool, the objects.
        class_ids: [B, K] int64.
        boxes: [B, K, 4] int64, xyxy, the pixels of the crop that its object spans; zero where alpha is empty.
        crop_idx: [B, K] int64, where the crops lie in the bank.
        scales: [B, K] float32, pixels of the crop for one of its photo.
        depth: [B, K, 1, h, w] float32.
        depth_valid: [B, K, 1, h, w] bool.
        normals: [B, K, 3, h, w] float32.
        camera_intrinsics: [B, K, 4] float32, fx, fy, cx, cy in pixels of the crop.
        metric_depth: depth is in metres.
        version: of the bank.
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
    metric_depth: bool = False
    version: str = ""

    @property
    def batch_size(self) -> int:
        """B."""
        return self.images.shape[0]

    @property
    def num_crops(self) -> int:
        """K, for each target."""
        return self.images.shape[1]

    @property
    def crop_size(self) -> tuple[int, int]:
        """(h, w)."""
        return self.images.shape[3], self.images.shape[4]

    def packed(self) -> Tensor:
        """Image, alpha and class in one tensor [B, K, 3 + 2, h, w] float32, new; classes below 2 ** 24 are exact."""
        classes = self.class_ids[..., None, None, None].expand_as(self.alphas)
        return torch.cat([self.images.float(), self.alphas.float(), classes.float()], dim=2)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same crops on another device."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same crops in pinned memory, from which a copy to a GPU need not wait."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def __repr__(self) -> str:
        return f"StagedCrops({self.batch_size} x {self.num_crops} crops of {self.crop_size}, bank {self.version[:12]})"

    def __reduce__(self) -> Any:
        buffer = self._buffer()
        if buffer is None:
            return _of_fields, ({field.name: getattr(self, field.name) for field in fields(self)},)
        places = {name: (_start(t), t.dtype, tuple(t.shape)) for name, t in self._tensors().items()}
        return _of_buffer, (buffer, places, self.metric_depth, self.version)

    def _tensors(self) -> dict[str, Tensor]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def _buffer(self) -> Tensor | None:
        """The memory that all tensors lie in, if it is one."""
        storages = [tensor.untyped_storage() for tensor in self._tensors().values()]
        if any(storage.data_ptr() != storages[0].data_ptr() for storage in storages):
            return None
        return torch.empty(0, dtype=torch.uint8, device=self.images.device).set_(storages[0])

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        buffer = self._buffer()
        if buffer is None:
            found: dict[str, Any] = {name: move(tensor) for name, tensor in self._tensors().items()}
        else:
            moved = move(buffer)
            found = {name: _view(moved, _start(t), t.dtype, tuple(t.shape)) for name, t in self._tensors().items()}
        return replace(self, **found)


torch.export.register_dataclass(StagedCrops)


def stage_bank_batch(bank: InstanceBank, crop_idx: ArrayLike, class_map: ArrayLike | None = None) -> StagedCrops:
    """Read the crops of one step into one new buffer.

    Args:
        bank: where they lie.
        crop_idx: [B, K] integers, their indices.
        class_map: [classes of the bank], the class that each has in the dataset that is pasted into; by default the
            same.

    Returns:
        The crops; in a loader's worker in shared memory.

    Raises:
        ValueError: ``crop_idx`` has another shape, or ``class_map`` another length.
        IndexError: there is no such crop.
        BankError: a crop cannot be read.
    """
    wanted = np.asarray(crop_idx, np.int64)
    if wanted.ndim != 2:
        raise ValueError(f"stage_bank_batch: expected crop_idx [B, K], got shape {list(wanted.shape)}")
    labels = None if class_map is None else np.asarray(class_map, np.int64)
    if labels is not None and labels.shape != (len(bank.class_names),):
        raise ValueError(
            f"stage_bank_batch: expected class_map [{len(bank.class_names)}], a class for each of the bank, got shape "
            f"{list(labels.shape)}"
        )
    kept = {column.name: column for column in bank.layout.columns}
    columns = {name: kept[column] for name, column in _NAMES.items() if column in kept}
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "boxes": (torch.int64, (*wanted.shape, 4)),
        "crop_idx": (torch.int64, wanted.shape),
    }
    for name, column in columns.items():
        dtype = torch.from_numpy(np.empty(0, column.dtype)).dtype
        shapes[name] = dtype, (*wanted.shape, *bank.layout.shape(column))
    tensors = _allocated(shapes)
    out = {column.name: tensors[name].flatten(0, 1).numpy() for name, column in columns.items()}
    bank.read(wanted.reshape(-1), out=out)
    tensors["crop_idx"].copy_(torch.from_numpy(wanted))
    tensors["boxes"].flatten(0, 1).copy_(tight_boxes(tensors["alphas"].flatten(0, 1)[:, 0]))
    if labels is not None:
        tensors["class_ids"].copy_(torch.from_numpy(labels[tensors["class_ids"].numpy()]))
    return StagedCrops(**tensors, metric_depth=bank.metric_depth, version=bank.version)


def _allocated(shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]]) -> dict[str, Tensor]:
    """Views of one new buffer."""
    places: dict[str, tuple[int, torch.dtype, tuple[int, ...]]] = {}
    end = 0
    for name, (dtype, shape) in shapes.items():
        places[name] = end, dtype, shape
        end += -(-int(np.prod(shape)) * dtype.itemsize // _ALIGN) * _ALIGN
    buffer = torch.empty(end, dtype=torch.uint8)
    if get_worker_info() is not None:
        buffer.share_memory_()  # type: ignore[no-untyped-call]
    return {name: _view(buffer, *place) for name, place in places.items()}


def _start(tensor: Tensor) -> int:
    """Where it begins in its memory, bytes."""
    return int(tensor.storage_offset()) * tensor.element_size()


def _view(buffer: Tensor, start: int, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    size = int(np.prod(shape)) * dtype.itemsize
    return buffer[start : start + size].view(dtype).view(shape)


def _of_buffer(
    buffer: Tensor,
    places: dict[str, tuple[int, torch.dtype, tuple[int, ...]]],
    metric_depth: bool,
    version: str,
) -> StagedCrops:
    tensors = {name: _view(buffer, *place) for name, place in places.items()}
    return StagedCrops(**tensors, metric_depth=metric_depth, version=version)


def _of_fields(values: dict[str, Any]) -> StagedCrops:
    return StagedCrops(**values)
