"""A part of `scripts/round_trip.py`, which reads written files with readers of its own."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conversion_world import write_instances
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import round_trip

TARGETS = [("yolo", "detect"), ("voc", None), ("label-maps", None), ("coco-panoptic", None)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["instances", "hostile"])
def test_nothing_differs(source: str, tmp_path: Path) -> None:
    images, file = write_instances(tmp_path / "in") if source == "instances" else (None, None)
    if file is None:
        file, images = round_trip.write_hostile(tmp_path / "in")
    steps = dict(round_trip.trip(file, {"images_dir": images}, tmp_path, TARGETS))
    assert len(steps) == 8
    assert not any(steps.values()), steps


def test_a_difference_is_found() -> None:
    mask = np.zeros((5, 7), bool)
    mask[1:3, 2:5] = True
    before = {"image": [round_trip.thing("cup", mask)]}
    for other in (round_trip.thing("mug", mask), round_trip.thing("cup", np.roll(mask, 1, 1))):
        assert round_trip.differences(before, {"image": [other]}, Counter())
    assert round_trip.differences(before, {}, Counter())
    assert round_trip.differences(before, {"image": []}, Counter())
    assert not round_trip.differences(before, {"image": []}, Counter({"objects wholly covered by others": 1}))
    assert not round_trip.differences(before, before, Counter())


@pytest.mark.parametrize("mode", ["L", "P", "RGB", "I;16", "1"])
def test_pictures_are_read_as_stored(mode: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2 if mode == "1" else 256, (9, 13, *([3] * (mode == "RGB"))))
    scaled = values.astype(np.uint16) * 257 if mode == "I;16" else values.astype(bool if mode == "1" else np.uint8)
    picture = Image.fromarray(scaled)
    if mode == "P":
        picture.putpalette(list(range(256)) * 3)
    picture.save(tmp_path / "a.png")
    assert (round_trip.read_png(tmp_path / "a.png") == scaled).all()
