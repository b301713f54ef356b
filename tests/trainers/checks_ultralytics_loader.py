"""Batches of Ultralytics' loader beside what ours makes of them, field by field; run by `test_trainers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from checks_ultralytics import loaded, photos
from differences import Differences

from segpaste.integrations.ultralytics import from_yolo, to_yolo

BOXES = "ours fit the pixels of the mask; in fractions of the image"
FLOATS = "theirs are floats because an image of the batch has no object"
HIDDEN = "an object that smaller ones hide in the map is left out"
EXPLANATIONS = {
    False: {"bboxes": BOXES, "masks": FLOATS},
    True: {
        "batch_idx": HIDDEN,
        "bboxes": f"{HIDDEN}; {BOXES}",
        "cls": HIDDEN,
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
    again = to_yolo(from_yolo(whole, 64, overlap=overlap), like=own, mask_ratio=mask_ratio, overlap=overlap)
    table = Differences(EXPLANATIONS[overlap])
    table.compare({name: value for name, value in own.items() if isinstance(value, torch.Tensor)}, again)
    table.expect_in_guide("ultralytics.md")


def test_overlap_maps_of_photos_show_the_same_classes(tmp_path: Path) -> None:
    whole = loaded(photos(tmp_path), "segment", 64, overlap_mask=True, mask_ratio=1, imgsz=160)
    again = to_yolo(from_yolo(whole, 64, overlap=True), like=whole, mask_ratio=1, overlap=True)
    there = whole["masks"] > 0
    assert torch.equal(again["masks"] > 0, there)
    assert torch.equal(again["sem_masks"][there], whole["sem_masks"][there])
    assert not again["sem_masks"][~there].any()
