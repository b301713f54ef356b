"""The recipe of the guide in MMDetection, on photos and with a small Mask R-CNN; run by `test_trainers`.

Operators that mmcv compiles are not in mmcv-lite: the three that are called here are torchvision's.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from differences import GUIDE, Differences
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import ops
from trainer_data import SIZE, data_folder, expect_flat_memory


class CompiledOperators(ModuleType):
    """Stand-in for the compiled module ``mmcv._ext``."""

    @staticmethod
    def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
        assert offset == 0
        return ops.nms(boxes, scores, iou_threshold)

    @staticmethod
    def roi_align_forward(images: Tensor, rois: Tensor, output: Tensor, *_: Tensor, **options: Any) -> None:
        assert options["pool_mode"] == 1  # the mean
        size = options["aligned_height"], options["aligned_width"]
        same = {name: options[name] for name in ("spatial_scale", "sampling_ratio", "aligned")}
        output.copy_(ops.roi_align(images, rois, size, **same))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(self.missing, name)

    @staticmethod
    def missing(name: str, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"mmcv's operator {name}")


sys.modules["mmcv._ext"] = CompiledOperators("mmcv._ext")

from mmdet.datasets import CocoDataset  # noqa: E402
from mmdet.registry import MODELS  # noqa: E402
from mmdet.utils import register_all_modules  # noqa: E402
from mmengine import Config  # noqa: E402
from mmengine.dataset import pseudo_collate  # noqa: E402

register_all_modules()
RECIPE: dict[str, Any] = {}
(CODE,) = re.findall(r"^```py\n(.*?)^```", (GUIDE / "mmdetection.md").read_text(), re.MULTILINE | re.DOTALL)
exec(CODE, RECIPE)

COLOURS: dict[str, Any] = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375], "bgr_to_rgb": True}


def photos_of(size: int = SIZE) -> CocoDataset:
    """Return tiny_coco as MMDetection reads it, with photos that have crowds, and two that have no objects."""
    pipeline = [
        {"type": "LoadImageFromFile"},
        {"type": "LoadAnnotations", "with_bbox": True, "with_mask": True},
        {"type": "Resize", "scale": (size, size), "keep_ratio": True},
        {"type": "PackDetInputs"},
    ]
    files = {"ann_file": "annotations/instances_val2017.json", "data_prefix": {"img": "val2017/"}}
    return CocoDataset(data_root=str(data_folder() / "tiny_coco"), pipeline=pipeline, **files)


def mask_rcnn() -> Any:
    torch.manual_seed(0)
    return MODELS.build(Config.fromfile(Path(__file__).with_name("tiny_mmdetection.py")).model)


def training_of(model: Any, batches: Iterator[Any]) -> Callable[[], float]:
    """Return a step of training; it returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        data = model.data_preprocessor(next(batches), True)
        loss, _ = model.parse_losses(model(**data, mode="loss"))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return float(loss.detach())

    return step


def losses_of(num_steps: int, num_workers: int) -> list[float]:
    model, losses = mask_rcnn(), []
    loader = DataLoader(photos_of(), 2, shuffle=True, collate_fn=pseudo_collate, num_workers=num_workers)
    step = training_of(model, chain.from_iterable(repeat(loader)))
    expect_flat_memory(lambda: losses.append(step()), num_steps)
    return losses


@pytest.mark.parametrize(("num_workers", "num_steps"), [(0, 20), (2, 6)])
def test_steps_with_the_same_losses_twice(num_workers: int, num_steps: int) -> None:
    first = losses_of(num_steps, num_workers)
    assert torch.tensor(first).isfinite().all()
    assert losses_of(num_steps, num_workers) == first
    assert len(set(first)) == num_steps


def test_photos_without_objects_and_with_crowds() -> None:
    photos = photos_of()
    samples = [photos[i] for i in range(len(photos))]
    empty = [sample for sample in samples if not len(sample["data_samples"].gt_instances)]
    crowds = [sample for sample in samples if len(sample["data_samples"].ignored_instances)]
    assert (len(empty), len(crowds)) == (2, 5)
    step = training_of(mask_rcnn(), map(pseudo_collate, [empty, crowds, [*crowds, *empty]]))
    assert all(math.isfinite(step()) for _ in range(3))


def test_objects_are_pasted_in_training_alone() -> None:
    photos, preprocessor = photos_of(), mask_rcnn().data_preprocessor

    def outputs(training: bool) -> dict[str, Any]:
        return preprocessor(pseudo_collate([photos[i] for i in range(4)]), training)

    plain = MODELS.build({"type": "DetDataPreprocessor", **COLOURS, "pad_mask": True, "pad_size_divisor": 32})
    own = plain(pseudo_collate([photos[i] for i in range(4)]), True)
    assert torch.equal(outputs(False)["inputs"], own["inputs"])
    assert not torch.equal(outputs(True)["inputs"], own["inputs"])


EXPLANATIONS = {
    "gt_instances.bboxes": "ours fit the pixels of the mask, as they do after a paste",
}


def test_the_table_of_differences() -> None:
    """The table is made without pastes."""
    photos = photos_of(640)
    plain = MODELS.build({"type": "DetDataPreprocessor", **COLOURS, "pad_mask": True, "pad_size_divisor": 32})
    ours = mask_rcnn().data_preprocessor
    ours.augment = torch.nn.Identity()
    table = Differences(EXPLANATIONS)
    for first in range(0, len(photos), 5):
        found = [pseudo_collate([photos[i] for i in range(first, first + 5)]) for _ in range(2)]
        table.compare(*(fields_of(one(data, True)) for one, data in zip((plain, ours), found, strict=True)))
    table.expect_in_guide("mmdetection.md")


def fields_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a preprocessor's output."""
    fields: dict[str, Any] = {"inputs": data["inputs"]}
    for name in ("gt_instances", "ignored_instances"):
        objects = [sample.get(name) for sample in data["data_samples"]]
        masks = [found.masks.to_tensor(torch.uint8, "cpu") for found in objects]
        fields[name] = [
            {"bboxes": found.bboxes, "labels": found.labels, "masks": mask}
            for found, mask in zip(objects, masks, strict=True)
        ]
    return fields
