"""Origin of a crop, where a dataset knows more than its samples say. Both methods are optional.

- ``dataset_idx(index) -> int``: the dataset that a photo is of, where several are joined, as by
  `segpaste.datasets.JoinedPhotos`. Image ids then need to be unique in each of them only.
- ``photo_frame(index, box) -> (size, scale) | None``: size (H, W) of the photo that a picture with an object of this
  box stands for, and the pixels of that photo for one of the picture's, (num, den), as `segpaste.datasets.CutOuts` has
  them; None where it is the photo itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Subset

from segpaste.bank.build.cropping import PhotoFrame, PixelBox, groups_of
from segpaste.types import DenseSample


def by_index(dataset: Any, name: str) -> Callable[..., Any] | None:
    """Return a method whose first argument is the index of a sample, also of the dataset that this one is a part of."""
    found: Callable[..., Any] | None = getattr(dataset, name, None)
    if found is not None or not isinstance(dataset, Subset):
        return found
    inner, indices = by_index(dataset.dataset, name), dataset.indices
    return None if inner is None else lambda index, *more: inner(int(indices[index]), *more)


def groups_for(dataset: Any, first: DenseSample) -> list[str]:
    """Return the optional columns that can be filled: from the first sample, and from what the dataset knows."""
    return groups_of(first) + ([] if by_index(dataset, "dataset_idx") is None else ["dataset"])


def dataset_idx_of(dataset: Any, index: int) -> int | None:
    """Return which dataset sample ``index`` is of; None where datasets are not joined."""
    found = by_index(dataset, "dataset_idx")
    return None if found is None else int(found(index))


def frame_of(dataset: Any, index: int, box: PixelBox) -> PhotoFrame | None:
    """Return the photo that sample ``index``, with an object of this box, stands for; None where it is itself."""
    photo_frame = by_index(dataset, "photo_frame")
    frame = None if photo_frame is None else photo_frame(index, box)
    return None if frame is None else PhotoFrame(*frame)
