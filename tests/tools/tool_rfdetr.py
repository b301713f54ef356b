"""RF-DETR's datasets of COCO and YOLO, with and without masks, as they are before its transforms."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from judge import ReadImage, ReadObject
from rfdetr.datasets import build_roboflow
from rfdetr.datasets.coco import CocoDetection
from yolo_layouts import name_in

_SIZE = 128
_OPTIONS = {"square_resize_div_64": True, "multi_scale": False, "expanded_scales": False}
_OPTIONS |= {"patch_size": 16, "num_windows": 1}
PACKAGES = dict.fromkeys(("rfdetr", "rfdetr-detect"), "rfdetr")


def read_coco(folder: Path, masks: bool) -> list[ReadImage]:
    """Read a file of COCO's instances."""
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = CocoDetection(
            folder / "images", folder / "instances.json", None, include_masks=masks, remap_category_ids=True
        )
    names = {label: dataset.coco.cats[number]["name"] for label, number in dataset.label2cat.items()}
    files = [dataset.coco.imgs[number]["file_name"] for number in dataset.ids]
    return [_read_one(*dataset[i], names, file) for i, file in enumerate(files)]


def read_yolo(folder: Path, masks: bool) -> list[ReadImage]:
    """Read a split of YOLO's labels, as the trainer finds it in the folder of the dataset."""
    options = SimpleNamespace(dataset_dir=str(folder), segmentation_head=masks, **_OPTIONS)
    dataset = build_roboflow("train", options, _SIZE)
    dataset._transforms = None
    files = [dataset.sv_dataset.get_image_info(i).image_path for i in range(len(dataset))]
    names = dict(enumerate(dataset.classes))
    return [_read_one(*dataset[i], names, name_in(folder, file)) for i, file in enumerate(files)]


def _read_one(image: object, target: dict[str, object], names: dict[int, str], file: str) -> ReadImage:
    masks = target.get("masks", [None] * len(target["labels"]))
    objects = [
        ReadObject(names[int(label)], None if mask is None else mask.numpy(), box.tolist())
        for label, mask, box in zip(target["labels"], masks, target["boxes"], strict=True)
    ]
    return ReadImage(file, np.asarray(image), objects)


READS = {
    name: {"coco": partial(read_coco, masks=masks), "yolo": partial(read_yolo, masks=masks)}
    for name, masks in (("rfdetr", True), ("rfdetr-detect", False))
}
