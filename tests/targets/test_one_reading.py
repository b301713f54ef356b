"""Adapters, the transform of one sample and `show` read the same target alike, and word its faults alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from coded_pastes import coded_bank, coded_config
from segpaste import viz
from segpaste.experimental import CopyPaste
from segpaste.integrations.torchvision import from_detection
from segpaste.integrations.ultralytics import from_yolo

IMAGE = (torch.arange(3 * 48 * 64).reshape(3, 48, 64) * 37 % 251).to(torch.uint8)
MASKS = torch.zeros(2, 48, 64, dtype=torch.uint8)
MASKS[0, 4:20, 6:30] = MASKS[1, 24:40, 30:60] = 1
BOXES = torch.tensor([[6.0, 4, 30, 20], [30, 24, 60, 40]])
TARGET = {"boxes": BOXES, "labels": torch.tensor([1, 2]), "masks": MASKS}
PIL = Image.fromarray(IMAGE.permute(1, 2, 0).numpy())


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[Any, Any], object]]:
    """What reads an image and its target, by the name in its errors."""
    bank = coded_bank(tmp_path_factory.mktemp("bank"))
    paste = CopyPaste(bank, coded_config(), label_map=1)
    return {
        "targets[0]": lambda image, target: from_detection([image], [target], label_map=0, max_instances=4),
        "CopyPaste": paste,
        "show: targets[0]": lambda image, target: viz.show((image, target)),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": torch.tensor([1])}, "expected 'labels' with one value for each of 2 objects, got 1; filter all"),
        ({"labels": None}, "expected 'labels' with one value for each of 2 objects, got none; add them"),
        ({"labels": torch.tensor([1.7, 2.0])}, "expected 'labels' of integers, got torch.float32; call .long()"),
        ({"labels": ["cat", "dog"]}, "expected numbers in 'labels', got 'cat'; number the classes"),
        ({"masks": MASKS[:1]}, "expected masks [2, 48, 64], one for each object in the size of the image, got [1, 48"),
        (
            {"masks": MASKS[:, :9]},
            "expected masks [2, 48, 64], one for each object in the size of the image, got [2,",
        ),
        ({"boxes": torch.zeros(2, 5)}, "expected boxes [N, 4], got the shape [2, 5]"),
        ({"iscrowd": [0]}, "expected 'iscrowd' with one value for each of 2 objects, got 1; filter all entries"),
        (
            {"boxes": tv_tensors.BoundingBoxes(torch.ones(2, 5), format="CXCYWHR", canvas_size=(48, 64))},
            "expected boxes of format XYXY, XYWH or CXCYWH, got CXCYWHR",
        ),
    ],
)
def test_a_fault_has_one_wording(readers: Any, changes: dict[str, Any], message: str) -> None:
    for place, read in readers.items():
        with pytest.raises((TypeError, ValueError), match="^" + re.escape(f"{place}: {message}")):
            read(IMAGE, {**TARGET, **changes})


@pytest.mark.parametrize("target", [{"image_id": 5}, {**TARGET}, {k: TARGET[k] for k in ("masks", "labels")}])
def test_items_of_torchvisions_datasets_are_read_by_all(readers: Any, target: dict[str, Any]) -> None:
    """An image without objects has its id only; ``target_keys`` of the wrapper may lack boxes; images are of PIL."""
    for place, read in readers.items():
        read(IMAGE, target)
        if place != "targets[0]":  # models take tensors
            read(PIL, target)


def test_boxes_of_masks_are_those_of_their_pixels() -> None:
    batch = from_detection([IMAGE], [{k: TARGET[k] for k in ("masks", "labels")}], label_map=0, max_instances=2)
    assert torch.equal(batch.boxes[0], BOXES)


def test_pictures_of_items_are_those_of_batches() -> None:
    expected = np.asarray(viz.show(([IMAGE], [TARGET])))
    items = {"pair": (PIL, TARGET), "dictionary": {"image": IMAGE, **TARGET}, "list": [{"image": PIL, **TARGET}]}
    assert [name for name, item in items.items() if not np.array_equal(np.asarray(viz.show(item)), expected)] == []


@pytest.mark.parametrize("entry", ["labels", "iscrowd", "area", "boxes"])
def test_an_entry_that_is_none_is_missing(readers: Any, entry: str) -> None:
    _, out = readers["CopyPaste"](IMAGE, {"image_id": 5, entry: None})
    assert len(out["boxes"]) == len(out["labels"])


@pytest.mark.parametrize("wrong", [-1.0, 2.0, float("nan")])
def test_objects_of_ultralytics_belong_to_an_image_of_the_batch(wrong: float) -> None:
    batch = {
        "img": torch.stack([IMAGE, IMAGE]),
        "batch_idx": torch.tensor([0.0, wrong]),
        "cls": torch.zeros(2, 1),
        "bboxes": torch.full((2, 4), 0.5),
    }
    message = f"expected batch_idx from 0 to 1, the index of an object's image in the batch of 2, got {wrong:g}"
    with pytest.raises(ValueError, match=message):
        viz.show(batch)
    with pytest.raises(ValueError, match=message):
        from_yolo(batch, 4, overlap=False)
