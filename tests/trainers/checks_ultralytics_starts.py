"""Ultralytics' trainers start from what `segpaste convert --for` writes, and their loaders give every object."""

from __future__ import annotations

from pathlib import Path

import pytest
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer
from written_splits import NUM_IMAGES, NUM_OBJECTS, written_for

STILL = {"mosaic": 0.0, "scale": 0.0, "translate": 0.0, "fliplr": 0.0, "hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0}
QUIET = {"imgsz": 64, "batch": NUM_IMAGES, "workers": 0, "device": "cpu", "plots": False, "verbose": False}
TRAINERS = {
    "ultralytics": (SegmentationTrainer, "yolo11n-seg.yaml"),
    "ultralytics-detect": (DetectionTrainer, "yolo11n.yaml"),
}


@pytest.mark.parametrize("tool", TRAINERS)
def test_a_trainer_starts_and_its_loaders_give_every_object(tool: str, tmp_path: Path) -> None:
    trainer_class, model = TRAINERS[tool]
    data = written_for(tool, tmp_path) / "data.yaml"
    options = {"data": str(data), "model": model, "project": str(tmp_path / "run"), **QUIET, **STILL}
    trainer = trainer_class(overrides=options)
    trainer.setup_model()
    for split in ("train", "val"):
        (batch,) = trainer.get_dataloader(trainer.data[split], batch_size=NUM_IMAGES, rank=-1, mode=split)
        assert len(batch["im_file"]) == NUM_IMAGES
        assert batch["cls"].reshape(-1).tolist().count(0) == NUM_OBJECTS // 2
        assert len(batch["cls"]) == len(batch["bboxes"]) == NUM_OBJECTS
        if "masks" in batch:
            assert all(len(mask.unique()) == 3 for mask in batch["masks"])  # the background and two objects


@pytest.mark.filterwarnings("ignore:data.yaml. expected a split to validate on")
def test_a_trainer_stops_without_a_split_to_validate_on(tmp_path: Path) -> None:
    data = written_for("ultralytics", tmp_path, ("train",)) / "data.yaml"
    options = {"data": str(data), "model": "yolo11n-seg.yaml", "project": str(tmp_path / "run"), **QUIET}
    with pytest.raises(RuntimeError, match="'val:' key missing"):
        SegmentationTrainer(overrides=options)
    data.write_text(f"{data.read_text()}val: images/train\n")
    assert SegmentationTrainer(overrides=options).data["val"] == str(data.parent / "images" / "train")
