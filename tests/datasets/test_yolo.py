"""YOLO datasets as samples: polygons, boxes, keypoints; where photos and labels lie."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from on_disk import Mask, noise, rectangle
from segpaste.datasets import YoloDataset, create_coco_dataloader
from segpaste.datasets.formats.rle import decode_segmentation
from segpaste.datasets.formats.yolo.labels import polygon_px
from yolo_files import BOX, NAMES, SIZE, SQUARE, TRIANGLE, write_yaml, write_yolo

ORIENTATION = 0x0112


def plain(tensor: Any) -> Any:
    return tensor.as_subclass(torch.Tensor).numpy()


def single(folder: Path, text: str | None, task: Any = None, **facts: Any) -> YoloDataset:
    """A dataset of one photo."""
    return YoloDataset(write_yolo(folder, {"a": text}, val=None, **facts), task=task)


class TestSegment:
    def test_masks_boxes_labels_ids(self, tmp_path: Path) -> None:
        dataset = single(tmp_path, f"{SQUARE}\n\n  {TRIANGLE}  \n")
        sample = dataset[0]
        np.testing.assert_array_equal(plain(sample.instance_masks)[0], rectangle(SIZE, 4, 4, 12, 12))
        np.testing.assert_array_equal(plain(sample.boxes)[0], [4, 4, 12, 12])
        assert (dataset.task, dataset.class_names) == ("segment", tuple(NAMES))
        assert [dataset.class_names[i] for i in sample.labels] == ["cup", "zebra"]
        assert sample.instance_ids.tolist() == [1, 2]
        assert dataset.annotation_ids(0) == (1, 3)
        assert dataset.instance_labels(0) == (1, 2)
        np.testing.assert_array_equal(plain(sample.image), noise(SIZE, 0).transpose(2, 0, 1))
        assert (dataset.image_id(0), dataset.file_name(0)) == (1, "images/train/a.png")
        assert (dataset.crowds(0), dataset.federated(0), dataset.left_out(0)) == ([], None, {"empty": 0})

    def test_photos_without_labels_have_no_objects(self, tmp_path: Path) -> None:
        dataset = YoloDataset(write_yolo(tmp_path))
        assert [sample.num_instances for sample in dataset] == [2, 1, 0, 0, 1]
        assert all(sample.instance_masks is not None for sample in dataset)

    def test_a_polygon_that_touches_itself_along_a_bridge(self, tmp_path: Path) -> None:
        """Two squares and a thin line between them, there and back: the line encloses nothing."""
        text = "0 0.1 0.2 0.3 0.2 0.3 0.3 0.6 0.3 0.6 0.2 0.8 0.2 0.8 0.6 0.6 0.6 0.6 0.3 0.3 0.3 0.3 0.6 0.1 0.6"
        expected = rectangle(SIZE, 4, 4, 12, 12) | rectangle(SIZE, 4, 24, 12, 32)
        np.testing.assert_array_equal(plain(single(tmp_path, text)[0].instance_masks)[0], expected)

    def test_a_hole_behind_a_bridge(self, tmp_path: Path) -> None:
        text = "0 0 0 0.5 0 0.5 1 0 1 0 0 0.1 0.2 0.1 0.6 0.3 0.6 0.3 0.2 0.1 0.2"
        expected = rectangle(SIZE, 0, 0, 20, 20) & ~rectangle(SIZE, 4, 4, 12, 12)
        np.testing.assert_array_equal(plain(single(tmp_path, text)[0].instance_masks)[0], expected)

    def test_what_is_just_outside_is_cut_off(self, tmp_path: Path) -> None:
        sample = single(tmp_path, "0 -0.01 -0.005 1.01 -0.005 1.01 1.004 -0.01 1.004")[0]
        assert plain(sample.instance_masks).all()
        np.testing.assert_array_equal(plain(sample.boxes), [[0, 0, SIZE[1], SIZE[0]]])

    def test_polygons_that_leave_the_photo(self, tmp_path: Path) -> None:
        """The box of the polygon counts, as in Ultralytics: its centre and its size are fractions here."""
        sample = single(tmp_path, "0 0.5 0.2 1.2 0.2 1.2 0.6 0.5 0.6")[0]
        np.testing.assert_array_equal(plain(sample.instance_masks)[0], rectangle(SIZE, 4, 20, 12, 40))

    def test_rows_that_are_there_twice(self, tmp_path: Path) -> None:
        text = f"{SQUARE}\n{TRIANGLE}\n{SQUARE}\n0{SQUARE[1:]}\n{SQUARE.replace('0.1', '0.100000001')}\n"
        with pytest.warns(UserWarning, match=r"data\.yaml: left out 2 rows of 'train' that are in the same label"):
            dataset = single(tmp_path, text)
        assert (dataset.annotation_ids(0), dataset.num_duplicates) == ((1, 2, 4), 2)

    def test_polygons_as_long_as_poses(self, tmp_path: Path) -> None:
        polygon = "1 0.1 0.2 0.2 0.2 0.3 0.2 0.3 0.6 0.1 0.6"
        dataset = single(tmp_path, polygon, "segment", kpt_shape=[2, 3])
        np.testing.assert_array_equal(plain(dataset[0].instance_masks)[0], rectangle(SIZE, 4, 4, 12, 12))

    def test_polygons_without_a_pixel(self, tmp_path: Path) -> None:
        thin = "0 0.1 0.11 0.2 0.11 0.3 0.11"
        dataset = single(tmp_path, f"{thin}\n{SQUARE}\n{thin.replace('0 0.1', '1 0.1')}")
        with pytest.warns(UserWarning, match=r"labels/train/a\.txt: line 1 has no pixel and is left out"):
            sample = dataset[0]
        assert (sample.num_instances, dataset.left_out(0), dataset.annotation_ids(0)) == (1, {"empty": 2}, (2,))
        assert dataset.instance_labels(0) == (0, 1, 1)

    @given(st.data())
    def test_polygons_against_a_slow_even_odd_rule(self, data: st.DataObject) -> None:
        """Pixels whose centre is more than a quarter of a pixel away from the line are decided by crossings."""
        size = data.draw(st.integers(5, 17)), data.draw(st.integers(5, 23))
        num = data.draw(st.integers(3, 6))
        values = data.draw(st.lists(st.floats(-0.01, 1.01), min_size=2 * num, max_size=2 * num))
        points = np.array(values).reshape(-1, 2) * size[::-1]
        inside, is_near = even_odd(points, size)
        mask = decode_segmentation([polygon_px(values, size)], size)
        np.testing.assert_array_equal(mask[~is_near], inside[~is_near])


def even_odd(points: Any, size: tuple[int, int]) -> tuple[Mask, Mask]:
    """Which pixel centres a polygon encloses, by counting crossings, and which are near its line."""
    inside, is_near = np.zeros(size, bool), np.zeros(size, bool)
    for row in range(size[0]):
        for col in range(size[1]):
            x, y = col + 0.5, row + 0.5
            for (x1, y1), (x2, y2) in zip(points, np.roll(points, -1, 0), strict=True):
                if (y1 > y) != (y2 > y):
                    inside[row, col] ^= x < x1 + (y - y1) / (y2 - y1) * (x2 - x1)
                length = max((x2 - x1) ** 2 + (y2 - y1) ** 2, 1e-12)
                along = min(max(((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length, 0), 1)
                is_near[row, col] |= np.hypot(x1 + along * (x2 - x1) - x, y1 + along * (y2 - y1) - y) < 0.25
    return inside, is_near


class TestDetect:
    def test_boxes_without_masks(self, tmp_path: Path) -> None:
        dataset = single(tmp_path, f"{BOX}\n2 0.5 0.5 1 1\n")
        sample = dataset[0]
        np.testing.assert_allclose(plain(sample.boxes), [[4, 4, 12, 12], [0, 0, 40, 20]], atol=1e-5)
        assert dataset.task == "detect"
        assert sample.labels.tolist() == [1, 2]
        assert sample.instance_masks is sample.instance_ids is sample.keypoints is None

    def test_boxes_are_cut_at_the_border(self, tmp_path: Path) -> None:
        dataset = single(tmp_path, "0 0.0 0.5 0.4 1\n0 1.005 0.5 0 0.1\n")
        with pytest.warns(UserWarning, match="line 2 has no pixel"):
            np.testing.assert_allclose(plain(dataset[0].boxes), [[0, 0, 8, 20]], atol=1e-5)
        assert (dataset.annotation_ids(0), dataset.left_out(0)) == ((1,), {"empty": 1})

    def test_boxes_of_polygons_and_poses(self, tmp_path: Path) -> None:
        mixed = f"{SQUARE}\n{BOX}\n{BOX} 0.3 0.4 2"
        with pytest.warns(UserWarning, match="left out 1 row of 'train' that is in the same label file already"):
            dataset = single(tmp_path, mixed, "detect", kpt_shape=[1, 3])
        np.testing.assert_allclose(plain(dataset[0].boxes), [[4, 4, 12, 12]] * 2, atol=1e-5)

    def test_boxes_of_other_polygons_are_no_duplicates(self, tmp_path: Path) -> None:
        both = f"{SQUARE}\n1 0.1 0.2 0.3 0.2 0.3 0.6 0.2 0.4 0.1 0.6"
        assert single(tmp_path, both, "detect").instance_labels(0) == (1, 1)

    def test_without_any_label(self, tmp_path: Path) -> None:
        assert single(tmp_path, None).task == "detect"
        assert single(tmp_path / "pose", None, kpt_shape=[1, 2], flip_idx=[0])[0].keypoints.shape == (0, 1, 3)
        assert single(tmp_path / "masks", None, "segment")[0].instance_masks.shape == (0, *SIZE)


class TestPose:
    def test_points_of_three_numbers(self, tmp_path: Path) -> None:
        text = f"{BOX} 0.1 0.2 2 0.3 0.6 1 0.5 0.5 0"
        dataset = single(tmp_path, text, kpt_shape=[3, 3], flip_idx=[1, 0, 2], kpt_names={0: ["l", "r", "nose"]})
        sample = dataset[0]
        np.testing.assert_allclose(plain(sample.keypoints), [[[4, 4, 2], [12, 12, 1], [0, 0, 0]]], atol=1e-5)
        np.testing.assert_allclose(plain(sample.boxes), [[4, 4, 12, 12]], atol=1e-5)
        assert (dataset.task, sample.instance_masks) == ("pose", None)
        assert dataset.keypoint_schema == sample.keypoint_schema
        assert (sample.keypoint_schema.names, sample.keypoint_schema.flip_pairs) == (("l", "r", "nose"), ((0, 1),))

    def test_points_of_two_numbers(self, tmp_path: Path) -> None:
        dataset = single(tmp_path, f"{BOX} 0.1 0.2 -0.01 0.6", kpt_shape=[2, 2], flip_idx=[0, 1])
        np.testing.assert_allclose(plain(dataset[0].keypoints), [[[4, 4, 2], [0, 0, 0]]], atol=1e-5)
        assert dataset.keypoint_schema.names == ("point_0", "point_1")

    def test_points_outside_are_not_labelled(self, tmp_path: Path) -> None:
        dataset = single(tmp_path, f"{BOX} 1.005 0.2 2 1 0 2", kpt_shape=[2, 3], flip_idx=[0, 1])
        np.testing.assert_allclose(plain(dataset[0].keypoints), [[[0, 0, 0], [40, 0, 2]]])

    def test_a_mirror_without_pairs_is_warned_of(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match=r"expected 'flip_idx' with 'kpt_shape', got none: no points swap"):
            single(tmp_path, f"{BOX} 0.1 0.2 2", kpt_shape=[1, 3])


class TestInTheHouse:
    def test_the_digest_is_that_of_names_and_labels(self, tmp_path: Path) -> None:
        one, other = (YoloDataset(write_yolo(tmp_path / name)) for name in "ab")
        assert one.digest == other.digest
        (tmp_path / "b/labels/train/b.txt").write_text(TRIANGLE)
        changed = YoloDataset(tmp_path / "b")
        renamed = YoloDataset(write_yaml(tmp_path / "a", names=["x", "y", "z"]))
        assert len({one.digest, changed.digest, renamed.digest, YoloDataset(tmp_path / "b", "val").digest}) == 4
        assert YoloDataset(tmp_path / "b", task="detect").digest != changed.digest

    def test_transforms_and_the_loader(self, tmp_path: Path) -> None:
        dataset = YoloDataset(write_yolo(tmp_path), transforms=lambda sample: sample)
        batches = list(create_coco_dataloader(dataset=dataset, batch_size=5, size=16, max_instances=4))
        assert batches[0].instance_valid.sum() == 4

    def test_real_photos(self, test_data: Path) -> None:
        with pytest.warns(UserWarning, match=r"000000000656\.txt: expected an image of this name"):
            dataset = YoloDataset(test_data / "coco128_seg", "train2017")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples = [dataset[i] for i in range(0, 64, 7)]
        assert (len(dataset), dataset.task, len(dataset.stray_labels)) == (64, "segment", 1)
        files = os.listdir(test_data / "coco128_seg/labels/train2017")
        num_rows = sum(len((test_data / "coco128_seg/labels/train2017" / f).read_text().splitlines()) for f in files)
        strays = len(dataset.stray_labels[0].read_text().splitlines())
        assert sum(len(dataset.instance_labels(i)) for i in range(64)) == num_rows - strays - dataset.num_duplicates
        for i, sample in zip(range(0, 64, 7), samples, strict=True):
            assert sample.labels.tolist() == list(dataset.instance_labels(i))
