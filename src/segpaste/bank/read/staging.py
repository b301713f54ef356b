"""Staging of the crops of one training step: they are read from a bank into one buffer."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from segpaste.bank.format.protocol import InstanceBank, check_bank
from segpaste.types import StagedCrops, tight_boxes
from segpaste.types.staged import SHAPES, places_of

_COLUMNS = {
    "images": "image",
    "alphas": "alpha",
    "class_ids": "class_id",
    "scales": "scale",
    "camera_intrinsics": "intrinsics",
}
"""Column of each field that has another name."""
_STORED = SHAPES.keys() - {"boxes", "crop_idx"}
"""Fields that are read from a bank."""


def stage_bank_batch(bank: InstanceBank, crop_idx: ArrayLike, class_map: ArrayLike | None = None) -> StagedCrops:
    """Read the crops of one step into one new buffer.

    Args:
        bank: bank of the crops.
        crop_idx: indices of the crops, integers [B, K].
        class_map: class in the target dataset for each class of the bank, integers; below 0 for a class that is never
            pasted; by default the same.

    Returns:
        The crops; in a worker of a loader in shared memory.

    Raises:
        TypeError: ``bank`` is not a bank but, for example, a path.
        ValueError: ``crop_idx`` has the wrong shape, ``class_map`` has the wrong length, or one of them has no
            integers.
        IndexError: an index is out of range.
        BankError: a crop cannot be read.
    """
    check_bank("stage_bank_batch", bank)
    wanted = _integers("crop_idx", crop_idx)
    if wanted.ndim != 2:
        raise ValueError(f"stage_bank_batch: expected crop_idx [B, K], got shape {list(wanted.shape)}")
    labels = None if class_map is None else _integers("class_map", class_map)
    if labels is not None and labels.shape != (len(bank.class_names),):
        raise ValueError(
            f"stage_bank_batch: expected class_map [{len(bank.class_names)}], a class for each class of the bank, got "
            f"shape {list(labels.shape)}"
        )
    places, size = places_of(_shapes(bank, wanted))
    buffer = torch.empty(size, dtype=torch.uint8, device="cpu")
    if get_worker_info() is not None:
        buffer.share_memory_()  # type: ignore[no-untyped-call]
    return _filled(bank, wanted, {name: place.view(buffer) for name, place in places.items()}, labels)


def read_crops(bank: InstanceBank, crop_idx: NDArray[np.int64]) -> StagedCrops:
    """Read crops [B, K] that this process pastes at once, into memory of its own; see `stage_bank_batch`."""
    shapes = _shapes(bank, crop_idx)
    tensors = {name: torch.empty(shape, dtype=dtype, device="cpu") for name, (dtype, shape) in shapes.items()}
    return _filled(bank, crop_idx, tensors)


def _shapes(bank: InstanceBank, crop_idx: NDArray[np.int64]) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Return dtype and shape of each tensor of the crops."""
    shapes = bank.layout.shapes
    names = {name: column for name in SHAPES if (column := _COLUMNS.get(name, name)) in shapes}
    found = {name: (SHAPES[name][1], (*crop_idx.shape, *shapes[column])) for name, column in names.items()}
    return {**found, "boxes": (torch.int64, (*crop_idx.shape, 4)), "crop_idx": (torch.int64, crop_idx.shape)}


def _filled(
    bank: InstanceBank, crop_idx: NDArray[np.int64], tensors: dict[str, Tensor], labels: NDArray[np.int64] | None = None
) -> StagedCrops:
    """Read crops into tensors of `_shapes`; not validated, because the layout of the bank tells their shapes."""
    rows = {name: tensor.flatten(0, 1) for name, tensor in tensors.items()}
    columns = {_COLUMNS.get(name, name): row.numpy() for name, row in rows.items() if name in _STORED}
    bank.read(crop_idx.reshape(-1), out=columns)
    tensors["crop_idx"].copy_(torch.from_numpy(crop_idx % max(len(bank), 1)))
    rows["boxes"].copy_(tight_boxes(rows["alphas"][:, 0]))
    if labels is not None:
        tensors["class_ids"].copy_(torch.from_numpy(labels[tensors["class_ids"].numpy()]))
    flags = {"metric_depth": bank.metric_depth, "keypoint_schema": bank.layout.keypoint_schema}
    return StagedCrops._unchecked({**tensors, **flags, "version": bank.version})


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return the values as int64; reject floats, whose fractions numpy would cut off, except in an empty array."""
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"stage_bank_batch: expected integers in {name}, got {array.dtype}")
    return array.astype(np.int64, copy=False)
