"""Origin of a crop: the dataset that its image is from, and the image that a cut-out stands for.

Datasets know more of this than their samples, see ``dataset_idx`` and ``photo_frame`` of
`segpaste.datasets.AnnotatedDataset`.
"""

from __future__ import annotations

from segpaste.bank.building.cropping import PhotoFrame, PixelBox, groups_of
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.types import DenseSample


def groups_for(dataset: AnnotatedDataset, first: DenseSample) -> list[str]:
    """Return the optional columns that the first sample, or the dataset, can fill."""
    return groups_of(first) + ([] if dataset.dataset_idx(0) is None else ["dataset"])


def frame_of(dataset: AnnotatedDataset, index: int, box: PixelBox) -> PhotoFrame | None:
    """Return the assumed image around sample ``index`` with an object of this box; None for the sample itself."""
    frame = dataset.photo_frame(index, box)
    return None if frame is None else PhotoFrame(*frame)
