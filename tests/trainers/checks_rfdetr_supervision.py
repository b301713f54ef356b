"""Datasets of supervision, which RF-DETR brings: there and back, and what its own operations do to them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import supervision as sv
from PIL import Image
from there_and_back import LOST, SETS, assert_goes_everywhere, assert_same, everything, opened

from segpaste.datasets import DatasetError, SceneConfig, SceneDataset, from_supervision, to_supervision

pytestmark = pytest.mark.filterwarnings("ignore:to_supervision", "ignore:.*no pixel", "ignore::UserWarning:segpaste")


@pytest.mark.parametrize("name", SETS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    before = opened(name, tmp_path)
    assert_same(before, from_supervision(to_supervision(before)))


@pytest.mark.parametrize("name", LOST)
def test_what_supervision_does_not_hold_is_named(name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=f"^to_supervision: supervision does not hold {LOST[name]}"):
        to_supervision(opened(name, tmp_path))


@pytest.mark.parametrize("name", ["scenes", "tiny_coco"])
def test_it_goes_everywhere(name: str, tmp_path: Path) -> None:
    assert_goes_everywhere(from_supervision(to_supervision(opened(name, tmp_path))), tmp_path)


def test_images_and_detections_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    read = []

    class Counting(SceneDataset):
        def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
            read.append(index)
            return super().__getitem__(index)

    made = to_supervision(Counting(5, SceneConfig(height=48, width=64), seed=2))
    del read[:]
    _, image, detections = made[3]
    assert set(read) == {3}
    assert image.shape == (48, 64, 3)
    assert detections.mask.shape[1:] == (48, 64)


def test_its_own_operations_keep_what_we_need(tmp_path: Path) -> None:
    """Split, merge and selected detections have images, ids, regions and points still."""
    whole = to_supervision(everything(tmp_path))
    parts = whole.split(0.5, random_state=1, shuffle=True)
    again = sv.DetectionDataset.merge([*parts])
    back, original = from_supervision(again), from_supervision(whole)
    order = [again.image_paths.index(path) for path in whole.image_paths]
    for index, place in enumerate(order):
        assert back.annotation_ids(place) == original.annotation_ids(index)
        assert back.image_row(place)["id"] == original.image_row(index)["id"]
        assert np.array_equal(back[place].image, original[index].image)
    name = whole.image_paths[0]
    whole.annotations[name] = whole.annotations[name][[0, 3]]
    chosen = from_supervision(whole)
    assert (chosen.annotation_ids(0), [c.box for c in chosen.crowds(0)]) == ((20,), [(40.5, 20.25, 50.5, 32.25)])
    assert chosen[0].keypoints[0, :2].tolist() == [[6.5, 7.5, 2], [9.5, 7.5, 1]]


def test_what_supervision_read_itself(tmp_path: Path) -> None:
    everything(tmp_path)
    read = sv.DetectionDataset.from_coco(str(tmp_path), str(tmp_path / "a.json"), force_masks=True)
    back = from_supervision(read)
    (_, image, detections), sample = read[0], back[0]
    assert np.array_equal(sample.image.permute(1, 2, 0).numpy()[..., ::-1], image)
    objects = (detections.data["iscrowd"] == 0) & detections.mask.any((1, 2))
    assert np.array_equal(sample.instance_masks.numpy(), detections.mask[objects])
    assert np.array_equal(sample.crowd_mask[0].numpy()[:, :38], detections.mask[~objects].any(0)[:, :38])


def test_values_of_detections_become_attributes(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    Image.new("RGB", (30, 20)).save(path)
    box = np.array([[2.0, 3.0, 12.5, 9.0]])
    found = sv.Detections(box, None, np.array([0.5]), np.array([1]), np.array([7]), {"speed": np.array([3])})
    back = from_supervision(sv.DetectionDataset(["cat", "dog"], [path], {path: found}))
    assert not back.has_masks
    assert (back[0].boxes.tolist(), back[0].labels.tolist()) == ([[2, 3, 12.5, 9]], [1])
    assert back.annotation_rows(0)[0]["attributes"] == {"speed": 3, "confidence": 0.5, "tracker_id": 7}


def test_workers_get_the_annotations(tmp_path: Path) -> None:
    back = from_supervision(to_supervision(opened("scenes", tmp_path)))
    assert_same(back, pickle.loads(pickle.dumps(back)))


def test_wrong_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a DetectionDataset, got list"):
        from_supervision([])
    path = str(tmp_path / "a.png")
    Image.new("RGB", (30, 20)).save(path)
    one = sv.Detections(np.array([[0.0, 0, 5, 5]]), np.ones((1, 9, 9), bool), class_id=np.array([0]))
    with pytest.raises(DatasetError, match=re.escape("detection 0: expected a mask of 20 x 30 pixels, got [9, 9]")):
        from_supervision(sv.DetectionDataset(["cat"], [path], {path: one}))
    with pytest.raises(DatasetError, match="expected a name for each class, each once, got 'cat' twice"):
        from_supervision(sv.DetectionDataset(["cat", "cat"], [path], {path: sv.Detections.empty()}))
    with pytest.raises(DatasetError, match="supervision: expected a name for each class, each once"):
        to_supervision([opened("scenes", tmp_path)[0]])
