"""Wrapper that adds masks to the samples of a dataset without masks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig, SourceConfig
from segpaste.augmentation.inputs import prepare
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask
from segpaste.types.sampling import outward_box


class WithBoxMasks(DatasetWrapper):
    """A dataset of boxes whose samples have masks made from them; for a dataset without objects these are empty.

    Args:
        dataset: the dataset.
        mask_from: the masks, see ``source.mask_from``.
    """

    def __init__(self, dataset: AnnotatedDataset, mask_from: str = "boxes") -> None:
        super().__init__(dataset)
        self.mask_from, self.has_masks = mask_from, True

    def place_of(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return this dataset, since the samples of the other have no masks."""
        return self, index

    def __getitem__(self, index: int) -> DenseSample:
        return with_box_masks(self.dataset[index], self.mask_from)


def with_box_masks(sample: DenseSample, mask_from: str) -> DenseSample:
    """Return a sample with masks: its own, or those that ``source.mask_from`` makes of its boxes."""
    if sample.instance_masks is not None:
        return sample
    if mask_from != "boxes":
        batch = BatchedDenseSample.from_samples([sample]).to_padded(sample.num_instances)
        config = BatchCopyPasteConfig(source=SourceConfig(mask_from=mask_from))
        return prepare.with_masks(batch, config).to_batched().to_samples()[0]
    masks = torch.zeros(sample.num_instances, *sample.canvas_size, dtype=torch.bool, device="cpu")
    for mask, box in zip(masks, sample.boxes.as_subclass(Tensor).tolist(), strict=True):
        x1, y1, x2, y2 = outward_box(box, sample.canvas_size)
        mask[y1:y2, x1:x2] = True
    ids = torch.arange(1, sample.num_instances + 1, dtype=torch.int32, device="cpu")
    return replace(sample, instance_masks=InstanceMask(masks), instance_ids=ids)
