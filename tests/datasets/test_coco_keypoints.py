"""Keypoints and crowds of COCO files: read, jittered, written, and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coco_files import annotation_row, image_row, write_coco

from on_disk import rectangle, runs
from samples import assert_same
from segpaste.datasets import CocoDetectionV2, DatasetError, convert_dataset, make_large_scale_jittering
from written import write_image, write_rest

SIZE = (40, 60)
NAMES = ["nose", "left_eye", "right_eye"]
PERSON = {"id": 1, "name": "person", "keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]}
CATEGORIES = [PERSON, {"id": 5, "name": "cup"}]
POINTS = [12, 7, 2, 14, 9, 1, 0, 0, 0]
OTHERS = [33, 20, 2, 0, 0, 0, 59, 39, 2]


def write(folder: Path, *, categories: Any = CATEGORIES, points: Any = POINTS) -> CocoDetectionV2:
    masks = [rectangle(SIZE, 4, 8, 30, 20), rectangle(SIZE, 10, 30, 40, 60), rectangle(SIZE, 0, 40, 10, 60)]
    annotations = [
        annotation_row(11, 1, runs(masks[0]), 1, keypoints=points),
        annotation_row(12, 1, runs(masks[1]), 1, keypoints=OTHERS),
        annotation_row(13, 1, runs(masks[2]), 5),
        annotation_row(14, 1, runs(rectangle(SIZE, 30, 0, 40, 30)), 1, iscrowd=1),
        annotation_row(15, 1, runs(rectangle(SIZE, 35, 20, 38, 33)), 5, ignore=1),
        annotation_row(16, 2, runs(masks[0]), 1, keypoints=OTHERS),
    ]
    return CocoDetectionV2(*write_coco(folder, [image_row(1, SIZE), image_row(2, SIZE)], annotations, list(categories)))


class TestRead:
    def test_points_are_centres_of_pixels(self, tmp_path: Path) -> None:
        photos = write(tmp_path)
        sample = photos[0]
        assert sample.keypoint_schema == photos.keypoint_schema
        assert sample.keypoint_schema is not None
        assert sample.keypoint_schema.names == tuple(NAMES)
        assert sample.keypoint_schema.skeleton == ((0, 1), (0, 2))
        assert sample.keypoint_schema.flip_pairs == ((1, 2),)
        expected = [
            [[12.5, 7.5, 2], [14.5, 9.5, 1], [0, 0, 0]],
            [[33.5, 20.5, 2], [0, 0, 0], [59.5, 39.5, 2]],
            [[0, 0, 0]] * 3,
        ]
        assert sample.keypoints is not None
        assert sample.keypoints.tolist() == expected

    def test_crowds(self, tmp_path: Path) -> None:
        photos = write(tmp_path)
        assert photos.has_crowds
        first, second = photos.crowds(0)
        assert (first.annotation_id, first.label, first.is_ignored) == (14, 0, False)
        assert (second.annotation_id, second.label, second.is_ignored) == (15, 1, True)
        crowd = photos[0].crowd_mask
        assert crowd is not None
        assert np.array_equal(crowd[0].numpy(), first.mask | second.mask)
        assert torch.equal(photos.crowd_mask(0), crowd[0])
        other = photos[1].crowd_mask
        assert other is not None
        assert not other.any()

    def test_a_file_without_them(self, tmp_path: Path) -> None:
        rows = [annotation_row(1, 1, runs(rectangle(SIZE, 4, 8, 30, 20)))]
        photos = CocoDetectionV2(*write_coco(tmp_path, [image_row(1, SIZE)], rows))
        assert photos.keypoint_schema is None
        assert photos[0].keypoints is None
        assert photos[0].crowd_mask is None

    @pytest.mark.parametrize(
        "points", [[1, 2, 2], [1, 2, 3] * 3, "nose", [1, 2, None] * 3], ids=["few", "v of 3", "a word", "a null"]
    )
    def test_wrong_points_are_refused(self, tmp_path: Path, points: Any) -> None:
        with pytest.raises(DatasetError, match=r"expected 3 keypoints \(x, y, v\) of annotation 11, each v 0, 1"):
            write(tmp_path, points=points)[0]

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39, True])
    def test_numbers_that_are_none_are_refused(self, tmp_path: Path, number: Any) -> None:
        with pytest.raises(DatasetError, match=r"keypoints .* of annotation 11"):
            write(tmp_path, points=[number, 7, 2, 14, 9, 1, 0, 0, 0])

    def test_points_of_others_are_not_looked_at(self, tmp_path: Path) -> None:
        """The points belong to a category that names none, and to a crowd."""
        rows = [
            annotation_row(1, 1, runs(rectangle(SIZE, 4, 8, 30, 20)), 5, keypoints=[1, 1, 2]),
            annotation_row(2, 1, runs(rectangle(SIZE, 4, 8, 30, 20)), 1, iscrowd=1, keypoints=[0] * 6),
        ]
        photos = CocoDetectionV2(*write_coco(tmp_path, [image_row(1, SIZE)], rows, CATEGORIES))
        assert photos[0].keypoints is not None
        assert not photos[0].keypoints.any()

    @pytest.mark.parametrize("skeleton", [[[0, 1]], [[1, 4]], [[2, 2]], ["ab"], 7])
    def test_a_skeleton_that_is_none_is_not_drawn(self, tmp_path: Path, skeleton: Any) -> None:
        with pytest.warns(UserWarning, match="expected a skeleton of pairs of points, counted from 1 to 3"):
            photos = write(tmp_path, categories=[{**PERSON, "skeleton": skeleton}, CATEGORIES[1]])
        assert photos.keypoint_schema is not None
        assert photos.keypoint_schema.skeleton == ()
        assert photos[0].keypoints is not None

    def test_one_skeleton_is_enough(self, tmp_path: Path) -> None:
        other = {"id": 5, "name": "cup", "keypoints": NAMES}
        photos = write(tmp_path, categories=[other, PERSON])
        assert photos.keypoint_schema is not None
        assert photos.keypoint_schema.skeleton == ((0, 1), (0, 2))

    @pytest.mark.parametrize("segmentation", [None, [], [[1, 2]], "none"])
    def test_a_crowd_without_a_mask_counts_with_its_box(self, tmp_path: Path, segmentation: Any) -> None:
        rows = [
            annotation_row(1, 1, runs(rectangle(SIZE, 4, 8, 30, 20))),
            {**annotation_row(2, 1, segmentation, ignore=1), "bbox": [25.5, 2, 10, 7.5]},
        ]
        photos = CocoDetectionV2(*write_coco(tmp_path, [image_row(1, SIZE)], rows))
        crowd = photos[0].crowd_mask
        assert crowd is not None
        assert np.array_equal(crowd[0].numpy(), rectangle(SIZE, 2, 25, 10, 36))
        jitter = make_large_scale_jittering((48, 36), (0.5, 1.5))
        assert_same(photos.read_jittered(0, jitter, 3), jitter(photos[0], 3))

    def test_wrong_names_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"category 'person': KeypointSchema.names: expected .* each once"):
            write(tmp_path, categories=[{**PERSON, "keypoints": ["a", "a", "b"]}, CATEGORIES[1]])
        with pytest.raises(DatasetError, match="expected a list of names as keypoints, got 'abc'"):
            write(tmp_path, categories=[{**PERSON, "keypoints": "abc"}, CATEGORIES[1]])

    def test_different_lists_are_not_read(self, tmp_path: Path) -> None:
        other = {"id": 5, "name": "cup", "keypoints": ["handle"]}
        with pytest.warns(UserWarning, match="different ones of 'person', 'cup'; keypoints are not read"):
            photos = write(tmp_path, categories=[PERSON, other])
        assert photos[0].keypoints is None


def test_jittered_as_its_parts(tmp_path: Path) -> None:
    """A read through a window equals the parts of the jitter applied in turn, including crowds and points."""
    photos = write(tmp_path)
    num_labelled = 0
    for seed in range(40):
        jitter = make_large_scale_jittering((48, 36), (0.3, 2.5))
        read = photos.read_jittered(0, jitter, seed)
        assert_same(read, jitter(photos[0], seed))
        sample = photos[0]
        for part in jitter.parts:
            sample = part(sample, seed)
        assert_same(read, sample)
        assert read.keypoints is not None
        num_labelled += int((read.keypoints[..., 2] > 0).sum())
    assert num_labelled > 40


def test_there_and_back(tmp_path: Path) -> None:
    """Written and read again, a photo has the same points, visibilities and crowds."""
    photos = write(tmp_path)
    out = tmp_path / "out"
    categories = sorted(CATEGORIES, key=lambda row: row["id"])
    rows = [
        write_image(out, i + 1, photos[i], categories, crowds=[(crowd, {}) for crowd in photos.crowds(i)])
        for i in range(2)
    ]
    write_rest(out, rows, categories)
    table = json.loads((out / "annotations.json").read_text())
    by_image = [row for row in table["annotations"] if row["image_id"] == 1]
    assert [row.get("keypoints") for row in by_image] == [POINTS, OTHERS, None, [0] * 9, None]
    assert [row.get("num_keypoints") for row in by_image] == [2, 2, None, 0, None]
    assert [(row["iscrowd"], row.get("ignore", 0)) for row in by_image] == [(0, 0)] * 3 + [(1, 0), (1, 1)]
    again = CocoDetectionV2(out / "images", out / "annotations.json")
    for i in range(2):
        assert_same(again[i], photos[i])
    for one, other in zip(again.crowds(0), photos.crowds(0), strict=True):
        assert one.label == other.label
        assert np.array_equal(one.mask, other.mask)


def test_points_outside_of_the_photo_are_unlabelled(tmp_path: Path) -> None:
    photos = write(tmp_path, points=[-50, 7, 2, 14, 9, 1, 500, 3, 2])
    assert photos[0].keypoints is not None
    assert photos[0].keypoints[0].tolist() == [[0, 0, 0], [14.5, 9.5, 1], [0, 0, 0]]


def test_fractions_come_back(tmp_path: Path) -> None:
    photos = write(tmp_path, points=[12.37, 7.125, 2, 14.999, 9.001, 1, 0, 0, 0])
    rows = write_image(tmp_path / "out", 1, photos[0], CATEGORIES)
    assert rows.annotations[0]["keypoints"] == [12.37, 7.125, 2, 14.999, 9.001, 1, 0, 0, 0]


def test_segments_keep_the_keypoints_of_their_entries(tmp_path: Path) -> None:
    """They come back, and are not named as lost."""
    (tmp_path / "in").mkdir()
    own = write(tmp_path / "in")
    losses = convert_dataset(own.annotations_file, tmp_path / "out", "coco-panoptic", images_dir=own.images_dir).losses
    assert "keypoints of objects" not in losses
    convert_dataset(tmp_path / "out", tmp_path / "back", "coco")
    back = json.loads(next((tmp_path / "back").rglob("*.json")).read_text())["annotations"]
    assert sorted(row["keypoints"] for row in back if any(row.get("keypoints", ()))) == sorted([POINTS, OTHERS, OTHERS])
