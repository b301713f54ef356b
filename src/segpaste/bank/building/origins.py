"""Origin of a crop, for datasets that know more than their samples state. Both methods are optional.

- ``dataset_idx(index) -> int``: dataset that an image is from, if several are joined, as by
  `segpaste.datasets.JoinedPhotos`. Image ids then need to be unique only within each dataset.
- ``photo_frame(index, box) -> (size, scale) | None``: size (H, W) of the assumed image around a picture with an object
  of this box, and the number of its pixels per picture pixel, (num, den), as in `segpaste.datasets.CutOuts`; None if
  the picture is the image itself.
"""

from __future__ import annotations

from segpaste.bank.building.cropping import PhotoFrame, PixelBox, groups_of
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.types import DenseSample


def groups_for(dataset: AnnotatedDataset, first: DenseSample) -> list[str]:
    """Return the optional columns that the first sample and the methods of the dataset can fill."""
    return groups_of(first) + ([] if dataset.dataset_idx(0) is None else ["dataset"])


def frame_of(dataset: AnnotatedDataset, index: int, box: PixelBox) -> PhotoFrame | None:
    """Return the assumed image around sample ``index`` with an object of this box; None for the sample itself."""
    frame = dataset.photo_frame(index, box)
    return None if frame is None else PhotoFrame(*frame)
