"""Read a dataset of RF-DETR as samples, so that crops can come from the whole dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from segpaste.types import DenseSample


class CocoObjects:
    """Images of a COCO dataset with the objects that have an outline, at the size that the trainer uses.

    Crowds are left out. Labels number the categories by ascending id, as in the readers of segpaste.

    Args:
        dataset: a ``torchvision.datasets.CocoDetection``, or a similar object with ``root``, ``coco`` and ``ids``.
        longest_side: longest side in pixels that each image is resized to.
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
        return _resized(self.resize, image, masks, self.instance_labels(index))

    def _rows(self, index: int) -> list[dict[str, Any]]:
        rows = self.coco.imgToAnns[self.ids[index]]
        return [row for row in rows if row.get("segmentation") and not row.get("iscrowd")]


class YoloFolderObjects:
    """Images of a YOLO folder with their objects; the counterpart of `CocoObjects`.

    Args:
        dataset: RF-DETR's dataset of a YOLO folder, built with masks: ``sv_dataset`` and ``classes``.
        longest_side: longest side in pixels that each image is resized to.
    """

    def __init__(self, dataset: Any, longest_side: int) -> None:
        self.images, self.class_names = dataset.sv_dataset, tuple(map(str, dataset.classes))
        self.resize = v2.Resize(None, max_size=longest_side)

    def __len__(self) -> int:
        return len(self.images)

    def instance_labels(self, index: int) -> list[int]:
        """Return the label of each object."""
        return [int(label) for label in self.images.get_image_info(index).class_id]

    def __getitem__(self, index: int) -> DenseSample:
        _, photo, found = self.images[index]
        image = torch.from_numpy(np.ascontiguousarray(photo)).permute(2, 0, 1).contiguous()
        drawn = np.asarray([] if found.mask is None else found.mask, bool)
        masks = torch.from_numpy(drawn.reshape(-1, *photo.shape[:2]))
        return _resized(self.resize, image, masks, self.instance_labels(index))


def _resized(resize: v2.Resize, image: Tensor, masks: Tensor, labels: list[int]) -> DenseSample:
    sample: DenseSample = resize(
        DenseSample.from_masks(image, masks, torch.tensor(labels, dtype=torch.int64, device="cpu"))
    )
    return sample
