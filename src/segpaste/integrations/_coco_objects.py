"""The objects of a dataset that trainers read by pycocotools as samples, for crops of the whole dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

from segpaste.types import DenseSample


class CocoObjects:
    """Images of a COCO dataset with the objects that have an outline, as large as the trainer shows them.

    Crowds are left out. Labels number the categories by ascending id, as readers of segpaste do.

    Args:
        dataset: a ``torchvision.datasets.CocoDetection``, or one of its kind: ``root``, ``coco`` and ``ids``.
        longest_side: of an image, in pixels; each is resized to it.
    """

    def __init__(self, dataset: Any, longest_side: int) -> None:
        self.root, self.coco, self.ids = Path(dataset.root), dataset.coco, list(dataset.ids)
        self.label_of = {category: label for label, category in enumerate(sorted(self.coco.cats))}
        self.class_names = tuple(str(self.coco.cats[category]["name"]) for category in self.label_of)
        self.resize = v2.Resize(None, max_size=longest_side)

    def __len__(self) -> int:
        return len(self.ids)

    def image_id(self, index: int) -> int:
        """Return the id of an image."""
        return int(self.ids[index])

    def instance_labels(self, index: int) -> list[int]:
        """Return the label of each object."""
        return [self.label_of[row["category_id"]] for row in self._rows(index)]

    def __getitem__(self, index: int) -> DenseSample:
        image_id = self.ids[index]
        with Image.open(self.root / self.coco.imgs[image_id]["file_name"]) as photo:
            image = torch.from_numpy(np.array(photo.convert("RGB"))).permute(2, 0, 1).contiguous()
        found = [self.coco.annToMask(row).astype(bool) for row in self._rows(index)]
        masks = torch.from_numpy(np.stack(found)) if found else image.new_zeros(0, *image.shape[1:], dtype=torch.bool)
        labels = torch.tensor(self.instance_labels(index), dtype=torch.int64)
        sample: DenseSample = self.resize(DenseSample.from_masks(image, masks, labels))
        return sample

    def _rows(self, index: int) -> list[dict[str, Any]]:
        rows = self.coco.imgToAnns[self.ids[index]]
        return [row for row in rows if row.get("segmentation") and not row.get("iscrowd")]
