"""Samples as label files, and back: masks, boxes and keypoints are the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import health_files
import numpy as np
import pytest
import torch
import yaml
from drawn_files import write_voc
from hypothesis import given
from hypothesis import strategies as st
from torchvision import tv_tensors

from on_disk import noise
from segpaste.datasets import CocoDetectionV2, YoloDataset, convert_dataset, open_dataset
from segpaste.datasets.formats.format import TASKS, Task
from segpaste.datasets.writers.yolo import data_yaml, sample_labels, yaml_splits
from segpaste.types import DenseSample, KeypointSchema
from yolo_files import NAMES, SIZE, photo, write_yolo

SCHEMA = KeypointSchema(("left", "right", "tip"), flip_pairs=((0, 1),))


def sample_of(masks: np.ndarray, labels: list[int]) -> DenseSample:
    image = torch.from_numpy(noise(masks.shape[1:])).permute(2, 0, 1)
    return DenseSample.from_masks(image, torch.from_numpy(masks), torch.tensor(labels, dtype=torch.int64))


def read_back(folder: Path, sample: DenseSample, task: Task, point_size: int = 3) -> DenseSample:
    """The sample, written and read."""
    schema = SCHEMA if task == "pose" else None
    photo(folder / "images/train/a.png", sample.canvas_size)
    (folder / "labels/train").mkdir(parents=True, exist_ok=True)
    (folder / "labels/train/a.txt").write_text(sample_labels(sample, task, point_size))
    (folder / "data.yaml").write_text(data_yaml(NAMES, {"train": "images/train"}, schema, point_size))
    dataset = YoloDataset(folder, task=task)
    assert dataset.class_names == tuple(NAMES)
    return dataset[0]


class TestRoundTrip:
    @given(st.data())
    def test_masks_of_any_form(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, 11)), data.draw(st.integers(1, 19))
        num = data.draw(st.integers(0, 3))
        bits = data.draw(st.lists(st.booleans(), min_size=num * size[0] * size[1], max_size=num * size[0] * size[1]))
        masks = np.array(bits, bool).reshape(num, *size)
        masks = masks[masks.any((1, 2))]
        labels = data.draw(st.lists(st.integers(0, 2), min_size=len(masks), max_size=len(masks)))
        unique = {(label, mask.tobytes()): i for i, (label, mask) in enumerate(zip(labels, masks, strict=True))}
        kept = sorted(unique.values())  # equal rows are one object to a reader
        sample = sample_of(masks[kept], [labels[i] for i in kept])
        again = read_back(tmp_path_factory.mktemp("yolo"), sample, "segment")
        assert again.labels.tolist() == sample.labels.tolist()
        assert torch.equal(again.instance_masks, sample.instance_masks)
        assert torch.equal(again.boxes, sample.boxes)

    def test_boxes(self, tmp_path: Path) -> None:
        sample = sample_of(np.random.default_rng(0).random((3, 37, 53)) < 0.01, [2, 0, 1])
        again = read_back(tmp_path, replace(sample, instance_masks=None, instance_ids=None), "detect")
        assert again.labels.tolist() == [2, 0, 1]
        torch.testing.assert_close(again.boxes, sample.boxes, rtol=0, atol=1e-4)

    @pytest.mark.parametrize("point_size", [2, 3])
    def test_keypoints(self, tmp_path: Path, point_size: int) -> None:
        points = torch.tensor([[[3.5, 4.25, 2], [0, 0, 0], [39.75, 0.5, 1]], [[0, 0, 2], [0, 0, 0], [40, 20, 2]]])
        masks = np.ones((2, *SIZE), bool)
        masks[1, 5:] = False
        sample = replace(sample_of(masks, [0, 1]), keypoints=points, keypoint_schema=SCHEMA)
        again = read_back(tmp_path, sample, "pose", point_size)
        expected = points.clone()
        if point_size == 2:
            expected[0, 2, 2] = 2  # two numbers do not tell
        torch.testing.assert_close(again.keypoints, expected, rtol=0, atol=1e-4)
        assert again.keypoint_schema == SCHEMA
        torch.testing.assert_close(again.boxes, sample.boxes, rtol=0, atol=1e-4)

    def test_real_photos(self, test_data: Path, tmp_path: Path) -> None:
        """The first two dozen photos: every mask is the same pixel for pixel."""
        with pytest.warns(UserWarning, match="expected an image of this name"):
            dataset = YoloDataset(test_data / "coco128_seg", "train2017")
        for i in range(24):
            sample = dataset[i]
            path = write_yolo(tmp_path / str(i), {"a": sample_labels(sample, "segment")}, names=dataset.class_names)
            photo(tmp_path / str(i) / "images/train/a.png", sample.canvas_size)
            again = YoloDataset(path, task="segment")[0]
            assert torch.equal(again.instance_masks, sample.instance_masks)

    def test_masks_of_coco(self, test_data: Path, tmp_path: Path) -> None:
        """Several polygons an object, and run lengths."""
        coco = test_data / "tiny_coco"
        dataset = CocoDetectionV2(coco / "val2017", coco / "annotations" / "instances_val2017.json")
        for i in range(12):
            names = list(dataset.class_names)
            path = write_yolo(tmp_path / str(i), {"a": sample_labels(dataset[i], "segment")}, names=names)
            photo(tmp_path / str(i) / "images/train/a.png", dataset[i].canvas_size)
            again = YoloDataset(path, task="segment")[0]
            assert torch.equal(again.instance_masks, dataset[i].instance_masks)
            assert torch.equal(again.labels, dataset[i].labels)


class TestFiles:
    def test_samples_without_objects(self) -> None:
        empty = sample_of(np.zeros((0, *SIZE), bool), [])
        points = replace(empty, keypoints=torch.zeros(0, 3, 3), keypoint_schema=SCHEMA)
        assert [sample_labels(points, task) for task in TASKS] == ["", "", ""]

    def test_what_a_task_needs(self) -> None:
        sample = replace(sample_of(np.ones((1, *SIZE), bool), [0]), instance_masks=None, instance_ids=None)
        with pytest.raises(ValueError, match="expected instance masks for the task segment, got none; write boxes"):
            sample_labels(sample, "segment")
        with pytest.raises(ValueError, match="expected keypoints for the task pose, got none; write boxes instead"):
            sample_labels(sample, "pose")

    def test_boxes_end_at_the_border(self) -> None:
        sample = sample_of(np.ones((1, *SIZE), bool), [2])
        boxes = tv_tensors.wrap(torch.tensor([[-8.0, -4.0, 20.0, 30.0]]), like=sample.boxes)
        sample = replace(sample, boxes=boxes, instance_masks=None, instance_ids=None)
        assert sample_labels(sample, "detect") == "2 0.25 0.5 0.5 1\n"

    def test_numbers_are_short(self) -> None:
        sample = sample_of(np.ones((1, *SIZE), bool), [2])
        assert sample_labels(sample, "detect") == "2 0.5 0.5 1 1\n"

    def test_the_yaml(self) -> None:
        splits = {"train": "images/train", "val": "images/val"}
        facts = yaml.safe_load(data_yaml(["car", "cup: big", "Zähler"], splits))
        assert facts == {**splits, "nc": 3, "names": {0: "car", 1: "cup: big", 2: "Zähler"}}
        facts = yaml.safe_load(data_yaml(["car"], splits, SCHEMA, 2))
        assert (facts["kpt_shape"], facts["flip_idx"]) == ([3, 2], [1, 0, 2])
        assert facts["kpt_names"] == {0: ["left", "right", "tip"]}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("cam1",), {"train": "images/cam1"}),
        (("cam1", "cam2"), {"train": ["images/cam1", "images/cam2"]}),
        (("cam1", "val"), {"val": "images/val"}),
    ],
)
@pytest.mark.filterwarnings("ignore:data.yaml")
def test_splits_of_other_names(names: tuple[str, ...], expected: dict[str, Any], tmp_path: Path) -> None:
    """Without a key for any split the written YAML could not be opened; beside a known one, others may be held out."""
    source = tmp_path / "in"
    images = health_files.write(source, "coco")
    file = source / "annotations/instances_train.json"
    for name in names:
        shutil.copytree(images, source / name)
        shutil.copy(file, file.with_name(f"instances_{name}.json"))
    shutil.rmtree(images)
    file.unlink()
    summary = convert_dataset(source, tmp_path / "out", "yolo")
    assert yaml_splits(names) == expected
    (split,) = expected
    num = 4 * len(names) if split == "train" else 4
    assert len(open_dataset(tmp_path / "out", split)) == num
    told = {what: count for what, count in summary.losses.items() if what.startswith("images of the split")}
    words = "does not name" if split == "val" else "joins with others as train" if len(names) > 1 else "calls train"
    cameras = [name for name in names if name != "val"]
    assert told == {f"images of the split '{name}', which data.yaml {words}": 4 for name in cameras}


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"night": "abc"}, {"images of the split 'night', which data.yaml calls train": 3}),
        ({"train": "ab", "night": "c"}, {"images of the split 'night', which data.yaml does not name": 1}),
        (
            {"train": "ab", "train_night": "c"},
            {
                "images of the split 'train', which data.yaml joins with others as train": 2,
                "images of the split 'train_night', which data.yaml joins with others as train": 1,
            },
        ),
        ({"train2017": "ab", "val2017": "c"}, {}),
        ({"trainval": "abc"}, {}),
    ],
)
@pytest.mark.filterwarnings("ignore:data.yaml")
def test_names_of_lists_that_are_lost(lists: dict[str, str], expected: dict[str, int], tmp_path: Path) -> None:
    """The keys of a data YAML hold no lists of VOC of other names, and not two that begin alike."""
    (write_voc(tmp_path / "in") / "ImageSets/Segmentation").mkdir(parents=True)
    for name, stems in lists.items():
        (tmp_path / f"in/ImageSets/Segmentation/{name}.txt").write_text("\n".join(stems))
    losses = convert_dataset(tmp_path / "in", tmp_path / "out", "yolo").losses
    assert {what: num for what, num in losses.items() if "of the split" in what} == expected
