"""LightlyTrain's datasets for instance segmentation, with a transform that changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import yaml
from judge import ReadImage, ReadObject
from lightly_train._data.file_helpers import ImageMode
from lightly_train._data.instance_segmentation_dataset import (
    COCOInstanceSegmentationDataArgs,
    InstanceSegmentationDataset,
    YOLOInstanceSegmentationDataArgs,
)

PACKAGES = {"lightly-train": "lightly-train"}


def read_coco(folder: Path) -> list[ReadImage]:
    """Read a file of COCO's instances."""
    split = {"annotations": str(folder / "instances.json"), "images": "images"}
    return _read(COCOInstanceSegmentationDataArgs(train=split, val=split), folder / "images")


def read_yolo(folder: Path) -> list[ReadImage]:
    """Read a split of YOLO's labels."""
    return _read(
        YOLOInstanceSegmentationDataArgs(**yaml.safe_load((folder / "data.yaml").read_text())), folder / "images"
    )


def _read(data: COCOInstanceSegmentationDataArgs | YOLOInstanceSegmentationDataArgs, images: Path) -> list[ReadImage]:
    args = data.get_train_args()
    dataset = InstanceSegmentationDataset(args, list(args.list_image_info()))
    dataset._transform, dataset.image_mode = _unchanged, ImageMode.RGB
    names = list(data.included_classes.values())
    return [_read_one(dataset[i], names, images) for i in range(len(dataset))]


def _unchanged(sample: dict[str, np.ndarray]) -> dict[str, object]:
    return {**sample, "binary_masks": torch.from_numpy(sample["binary_masks"])}


def _read_one(sample: dict[str, object], names: list[str], images: Path) -> ReadImage:
    image = np.asarray(sample["image"])
    image = image if image.dtype == np.uint8 else (image * 255).round().astype(np.uint8)
    height, width = image.shape[:2]
    boxes = sample["bboxes"].numpy().astype(float) * [width, height, width, height]
    boxes = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
    fields = zip(sample["classes"].tolist(), sample["binary_masks"]["masks"].numpy(), boxes.tolist(), strict=True)
    objects = [ReadObject(names[label], mask, box) for label, mask, box in fields]
    return ReadImage(Path(sample["image_path"]).relative_to(images).as_posix(), image, objects)


READS = {"lightly-train": {"coco": read_coco, "yolo": read_yolo}}
