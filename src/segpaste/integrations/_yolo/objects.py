"""Datasets of Ultralytics as datasets of samples, for crops of the whole dataset."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import numpy as np
import torch

from segpaste.integrations._yolo.batches import from_yolo
from segpaste.integrations._yolo.borders import Moves
from segpaste.types import DenseSample, KeypointSchema
from segpaste.types.sampling import box_masks


class YoloObjects:
    """Images of a dataset of Ultralytics at the size at which it loads them, before any augmentation.

    Args:
        dataset: dataset of Ultralytics, with polygons or boxes.
        class_names: the name of each class.
        schema: names of the keypoints, if the dataset has any.
        from_boxes: give objects without polygons rectangles as masks; if False, they have no masks.
    """

    def __init__(
        self, dataset: Any, class_names: tuple[str, ...], schema: KeypointSchema | None, *, from_boxes: bool
    ) -> None:
        self.dataset = copy.copy(dataset)
        self.dataset.augment = False  # so that reads are neither used for mosaics nor kept in memory
        self.class_names, self.schema, self.from_boxes = class_names, schema, from_boxes

    def __len__(self) -> int:
        return len(self.dataset.labels)

    @property
    def digest(self) -> str:
        """Digest of the image files."""
        return hashlib.sha256("\n".join(map(str, self.dataset.im_files)).encode()).hexdigest()

    def instance_labels(self, index: int) -> list[int]:
        """Return the class of each object."""
        labels: list[int] = self.dataset.labels[index]["cls"].reshape(-1).astype(np.int64).tolist()
        return labels

    def __getitem__(self, index: int) -> DenseSample:
        label = self.dataset.labels[index]
        image = self.dataset.load_image(index)[0]
        image = image[..., ::-1] if image.ndim == 3 else np.repeat(image[..., None], 3, 2)  # BGR, or grey
        num = len(label["cls"])
        batch = {
            "img": torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None],
            "batch_idx": torch.zeros(num, dtype=torch.float32, device="cpu"),
            "cls": torch.from_numpy(label["cls"].reshape(-1, 1)),
            "bboxes": torch.from_numpy(label["bboxes"].reshape(-1, 4)),
            "ori_shape": [image.shape[:2]],
            "ratio_pad": [(1.0, 1.0)],
        }
        if (masks := self._masks(label, image.shape[:2])) is not None:
            batch["masks"] = masks
        if label.get("keypoints") is not None:
            batch["keypoints"] = torch.from_numpy(label["keypoints"])
        whole = Moves(scale=1.0, translate=0.0)  # it has no border
        return from_yolo(batch, num, overlap=False, schema=self.schema, moves=whole).to_batched().to_samples()[0]

    def _masks(self, label: dict[str, Any], size: tuple[int, int]) -> torch.Tensor | None:
        """Return one mask per object, [N, H, W] uint8, of its polygon, drawn like the loader, or of its box."""
        num, (height, width) = len(label["cls"]), size
        if not num:
            return torch.zeros(0, height, width, dtype=torch.uint8, device="cpu")
        edges = np.array([width, height], np.float32)
        if len(label["segments"]) == num:
            from ultralytics.data.utils import polygons2masks

            return torch.from_numpy(polygons2masks(size, [polygon * edges for polygon in label["segments"]], color=1))
        if not self.from_boxes:
            return None
        centres, sides = label["bboxes"][:, :2] * edges, label["bboxes"][:, 2:] * edges
        boxes = torch.from_numpy(np.concatenate([centres - sides / 2, centres + sides / 2], 1))
        return box_masks(boxes, size).to(torch.uint8)
