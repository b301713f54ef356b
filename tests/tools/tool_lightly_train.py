"""LightlyTrain's datasets for instance segmentation, with a transform that changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from judge import ReadImage, ReadObject
from lightly_train._commands.train_task import InstanceSegmentationTrainTaskConfig
from lightly_train._data.data_helpers import resolve_data_paths
from lightly_train._data.file_helpers import ImageMode
from lightly_train._data.instance_segmentation_dataset import (
    COCOInstanceSegmentationDataArgs,
    InstanceSegmentationDataset,
    YOLOInstanceSegmentationDataArgs,
)
from yolo_layouts import data_file, name_in

PACKAGES = {"lightly-train": "lightly-train"}


def read_coco(folder: Path) -> list[ReadImage]:
    """Read a file of COCO's instances."""
    split = {"annotations": str(folder / "instances.json"), "images": "images"}
    return _read(COCOInstanceSegmentationDataArgs(train=split, val=split), folder)


def read_yolo(folder: Path) -> list[ReadImage]:
    """Read a split of YOLO's labels, from the file that the trainer is given."""
    config = InstanceSegmentationTrainTaskConfig(data=str(data_file(folder)), model="none", out=str(folder / "out"))
    resolve_data_paths(config.data)
    return _read(config.data, folder)


def _read(data: COCOInstanceSegmentationDataArgs | YOLOInstanceSegmentationDataArgs, folder: Path) -> list[ReadImage]:
    args = data.get_train_args()
    dataset = InstanceSegmentationDataset(args, list(args.list_image_info()))
    if not len(dataset):
        raise RuntimeError("Training dataset is empty.")  # as the trainer does
    dataset._transform, dataset.image_mode = _unchanged, ImageMode.RGB
    names = list(data.included_classes.values())
    return [_read_one(dataset[i], names, folder) for i in range(len(dataset))]


def _unchanged(sample: dict[str, np.ndarray]) -> dict[str, object]:
    return {**sample, "binary_masks": torch.from_numpy(sample["binary_masks"])}


def _read_one(sample: dict[str, object], names: list[str], folder: Path) -> ReadImage:
    image = np.asarray(sample["image"])
    image = image if image.dtype == np.uint8 else (image * 255).round().astype(np.uint8)
    height, width = image.shape[:2]
    boxes = sample["bboxes"].numpy().astype(float) * [width, height, width, height]
    boxes = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
    fields = zip(sample["classes"].tolist(), sample["binary_masks"]["masks"].numpy(), boxes.tolist(), strict=True)
    objects = [ReadObject(names[label], mask, box) for label, mask, box in fields]
    return ReadImage(name_in(folder, sample["image_path"]), image, objects)


READS = {"lightly-train": {"coco": read_coco, "yolo": read_yolo}}
