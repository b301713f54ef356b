"""Origin of a crop, for datasets that know more than their samples state. Both methods are optional.

- ``dataset_idx(index) -> int``: dataset that an image is from, if several are joined, as by
  `segpaste.datasets.JoinedPhotos`. Image ids then need to be unique only within each dataset.
- ``photo_frame(index, box) -> (size, scale) | None``: size (H, W) of the assumed image around a picture with an object
  of this box, and the number of its pixels per picture pixel, (num, den), as in `segpaste.datasets.CutOuts`; None if
  the picture is the image itself.
"""

from __future__ import annotations

from typing import Any

from segpaste.bank.build.cropping import PhotoFrame, PixelBox, groups_of
from segpaste.bank.build.views import by_index
from segpaste.types import DenseSample


def groups_for(dataset: Any, first: DenseSample) -> list[str]:
    """Return the optional columns that the first sample and the methods of the dataset can fill."""
    return groups_of(first) + ([] if by_index(dataset, "dataset_idx") is None else ["dataset"])


def dataset_idx_of(dataset: Any, index: int) -> int | None:
    """Return the dataset that sample ``index`` is from; None if datasets are not joined."""
    found = by_index(dataset, "dataset_idx")
    return None if found is None else int(found(index))


def frame_of(dataset: Any, index: int, box: PixelBox) -> PhotoFrame | None:
    """Return the assumed image around sample ``index`` with an object of this box; None for the sample itself."""
    photo_frame = by_index(dataset, "photo_frame")
    frame = None if photo_frame is None else photo_frame(index, box)
    return None if frame is None else PhotoFrame(*frame)
