"""MMDetection's ``CocoDataset``, with the two steps that load a sample and the filter of its configurations."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from types import ModuleType

from judge import ReadImage, ReadObject

sys.modules["mmcv._ext"] = ModuleType("mmcv._ext")  # compiled operators, which no dataset calls
sys.modules["mmcv._ext"].__getattr__ = lambda name: None  # type: ignore[method-assign]

from mmdet.datasets import CocoDataset  # noqa: E402
from mmdet.utils import register_all_modules  # noqa: E402

PACKAGES = {"mmdetection": "mmdet"}


def read(folder: Path) -> list[ReadImage]:
    """Read a file of COCO's instances."""
    register_all_modules()
    classes = [row["name"] for row in json.loads((folder / "instances.json").read_text())["categories"]]
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = CocoDataset(
            ann_file=str(folder / "instances.json"),
            data_prefix={"img": str(folder / "images")},
            metainfo={"classes": tuple(classes)},
            filter_cfg={"filter_empty_gt": True, "min_size": 32},
            pipeline=[{"type": "LoadImageFromFile"}, {"type": "LoadAnnotations", "with_bbox": True, "with_mask": True}],
        )
    return [_read_one(dataset[i], classes, folder / "images") for i in range(len(dataset))]


def _read_one(sample: dict[str, object], classes: list[str], images: Path) -> ReadImage:
    masks, boxes = sample["gt_masks"].to_ndarray().astype(bool), sample["gt_bboxes"].tensor.tolist()
    fields = zip(sample["gt_bboxes_labels"], masks, boxes, sample["gt_ignore_flags"], strict=True)
    objects = [ReadObject(classes[label], mask, box, bool(is_crowd)) for label, mask, box, is_crowd in fields]
    file = Path(sample["img_path"]).relative_to(images).as_posix()
    return ReadImage(file, sample["img"][..., ::-1], objects)


READS = {"mmdetection": {"coco": read}}
