"""Batches of Ultralytics' loader beside what ours makes of them, field by field; run by `test_trainers`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checks_ultralytics import STILL, loaded, photos, written
from differences import Differences, Objects
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.pose import PoseTrainer

from segpaste.integrations.ultralytics import from_yolo, to_yolo, with_copy_paste

OBJECTS = Objects(same=("batch_idx", "cls"), near="bboxes")
FLOATS = "theirs are floats because an image of the batch has no object"
ORDER = "objects are in order of the area that is seen"
EXPLANATIONS = {
    False: {"masks": FLOATS},
    True: {
        **dict.fromkeys(["bboxes", "cls"], ORDER),
        "masks": f"numbers are in order of the area that is seen; {FLOATS}",
        "sem_masks": "where there is no object, theirs have the class of the image's last one, ours 0",
    },
}


@pytest.mark.parametrize(("overlap", "mask_ratio"), [(False, 4), (True, 1)])
def test_the_tables_of_differences(overlap: bool, mask_ratio: int, tmp_path: Path) -> None:
    data = photos(tmp_path)
    options: dict[str, Any] = {"overlap_mask": overlap, "imgsz": 160}
    own = loaded(data, "segment", 64, mask_ratio=mask_ratio, **options)
    whole = loaded(data, "segment", 64, mask_ratio=1, **options)
    again = to_yolo(from_yolo(whole, 64, overlap=overlap), like=whole, mask_ratio=mask_ratio, overlap=overlap)
    table = Differences(EXPLANATIONS[overlap], OBJECTS)
    table.compare({name: value for name, value in own.items() if isinstance(value, torch.Tensor)}, again)
    table.expect_in_guide("ultralytics.md")


Made = tuple[type[Any], str, Callable[[Path], Path], int]
"""A trainer, its model, what makes the data, and the number of images."""

OTHER_TASKS: dict[str, Made] = {
    "detect on polygons": (DetectionTrainer, "yolo11n.yaml", photos, 64),
    "detect": (DetectionTrainer, "yolo11n.yaml", lambda folder: written("tiny_coco", "detect", folder / "data"), 16),
    "pose": (PoseTrainer, "yolo11n-pose.yaml", lambda folder: written("scenes", "pose", folder / "data"), 16),
}
LOADED = "loaded to paste by; the loss of detection does not read it"
OF_TASKS: dict[str, dict[str, str]] = {
    "detect on polygons": {"masks": LOADED, "sem_masks": LOADED},
    "detect": {},
    "pose": {},
}


def trained_on(name: str, folder: Path, paste: bool) -> dict[str, torch.Tensor]:
    """Return what a trainer gives its model: as it is, or with an augmentation that pastes nothing."""
    trainer_cls, model, make, num = OTHER_TASKS[name]
    data = folder / "data.yaml" if (folder / "data.yaml").exists() else folder / "data" / "data.yaml"
    data = data if data.exists() else make(folder)
    made = with_copy_paste(trainer_cls, lambda batch: batch, 64) if paste else trainer_cls
    options = {"model": model, "data": str(data), "project": str(folder), "device": "cpu", "imgsz": 160, **STILL}
    trainer = made(overrides={**options, "plots": False})
    trainer.model = trainer.get_model(model, verbose=False)
    dataset = trainer.build_dataset(trainer.data["train"], "train", 8)
    batch = trainer.preprocess_batch(dataset.collate_fn([dataset[i] for i in range(num)]))
    return {field: value for field, value in batch.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_the_tables_of_other_tasks(name: str, tmp_path: Path) -> None:
    table = Differences(OF_TASKS[name], OBJECTS)
    table.compare(*(trained_on(name, tmp_path, paste) for paste in (False, True)))
    table.expect_in_guide("ultralytics.md")


def test_overlap_maps_of_photos_show_the_same_classes(tmp_path: Path) -> None:
    whole = loaded(photos(tmp_path), "segment", 64, overlap_mask=True, mask_ratio=1, imgsz=160)
    again = to_yolo(from_yolo(whole, 64, overlap=True), like=whole, mask_ratio=1, overlap=True)
    there = whole["masks"] > 0
    assert torch.equal(again["masks"] > 0, there)
    assert torch.equal(again["sem_masks"][there], whole["sem_masks"][there])
    assert not again["sem_masks"][~there].any()
