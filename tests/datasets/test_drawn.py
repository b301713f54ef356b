"""The formats of labelling tools give the same samples for the same dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn_files import (
    BAR,
    BAR_BOX,
    ELL,
    ELL_POINTS,
    SIZE,
    SPOT,
    WRITERS,
    labelme_shape,
    write_labelme,
)

from on_disk import noise
from segpaste.datasets import DatasetError, find_dataset, make_large_scale_jittering, open_dataset
from segpaste.datasets.formats.rle import decode_segmentation
from segpaste.datasets.formats.tool_shapes import ellipse_mask
from segpaste.types import DenseSample

OUTLINED = [name for name in WRITERS if name != "voc"]


@pytest.fixture(params=WRITERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    (tmp_path / "dataset").mkdir()
    return WRITERS[name](tmp_path / "dataset")


def masks_by_class(names: tuple[str, ...], sample: DenseSample) -> dict[str, Any]:
    assert sample.instance_masks is not None
    return {names[label]: mask.numpy() for label, mask in zip(sample.labels, sample.instance_masks, strict=True)}


def test_found_and_read(name: str, folder: Path) -> None:
    found = find_dataset(folder)
    assert (found.format.name, found.splits) == (name, ("",))
    photos = open_dataset(folder)
    assert len(photos) == 3
    assert {"cup", "zebra"} <= {*photos.class_names}
    assert [row["name"] for row in photos.categories] == [*photos.class_names]
    for i, wanted in enumerate(({"cup": ELL, "zebra": BAR | SPOT}, {"cup": BAR}, {})):
        sample = photos[i]
        np.testing.assert_array_equal(sample.image.permute(1, 2, 0), noise(SIZE, i))
        masks = masks_by_class(photos.class_names, sample)
        assert {*masks} == {*wanted}
        for label, mask in wanted.items():
            np.testing.assert_array_equal(masks[label], mask)
        assert len(photos.annotation_ids(i)) == sample.num_instances == len(photos.instance_labels(i))


def test_entries_are_those_of_coco(name: str, folder: Path) -> None:
    """A writer needs nothing else: ids, references, boxes, areas and attributes."""
    photos = open_dataset(folder)
    ids = {row["id"]: row["name"] for row in photos.categories}
    seen = []
    for i in range(3):
        image = photos.image_row(i)
        assert (image["id"], image["file_name"]) == (photos.image_id(i), photos.file_name(i))
        assert (image["height"], image["width"]) == SIZE == photos.photo_file(i)[1]
        assert photos.photo_file(i)[0].is_file()
        rows = photos.annotation_rows(i)
        assert [row["id"] for row in rows] == [*photos.annotation_ids(i)]
        for row, mask in zip(rows, photos[i].instance_masks, strict=True):
            assert (row["image_id"], row["iscrowd"]) == (image["id"], 0)
            np.testing.assert_array_equal(decode_segmentation(row["segmentation"], SIZE), mask)
            assert row["area"] == mask.sum()
            ys, xs = np.nonzero(mask.numpy())
            x, y, width, height = row["bbox"]
            assert (x, y, x + width, y + height) == (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
            seen.append((row["id"], ids[row["category_id"]]))
    assert len({key for key, _ in seen}) == len(seen) == 3
    zebra = next(row for row in photos.annotation_rows(0) if ids[row["category_id"]] == "zebra")
    said = {
        "labelme": {"flags": {"striped": True}, "description": "left one", "group_id": 7, "parts": [{"group_id": 7}]},
        "cvat": {"striped": True, "occluded": True, "group_id": 7, "parts": [{"group_id": 7}]},
        "label-studio": {"striped": ["yes"]},
        "via": {"striped": "yes"},
        "voc": {"pose": "Left", "truncated": 1, "difficult": 0},
    }
    assert zebra["attributes"] == said[name]


def test_what_is_said_about_photos_and_the_dataset(name: str, folder: Path) -> None:
    photos = open_dataset(folder)
    attributes = photos.image_row(0)["attributes"]
    if name == "cvat":
        assert attributes == {"id": "0", "tags": [{"label": "outdoors"}]}
        assert photos.tables()["cvat"]["task"]["id"] == "5"
    elif name == "label-studio":
        assert (attributes["data"]["weather"], attributes["task"], attributes["annotation"]["completed_by"]) == (
            "dry",
            1,
            3,
        )
    elif name == "via":
        assert attributes == {"caption": "", "light": "dim"}
        assert photos.tables()["via"]["_via_settings"]["project"] == {"name": "five"}
    elif name == "voc":
        assert attributes == {"source": {"database": "hand"}, "segmented": "1"}
    else:
        assert attributes == {"version": "5.5.0"}


@pytest.mark.parametrize("name", OUTLINED)
def test_jitter_without_whole_masks(name: str, folder: Path) -> None:
    """The fast path gives what the jitter gives of the whole sample."""
    photos: Any = open_dataset(folder)
    jitter = make_large_scale_jittering(16, (0.5, 1.5))
    for i in range(3):
        for seed in range(4):
            fast, slow = photos.read_jittered(i, jitter, seed), jitter(photos[i], seed)
            assert torch.equal(fast.image, slow.image)
            assert torch.equal(fast.instance_masks, slow.instance_masks)
            assert torch.equal(fast.labels, slow.labels)


class TestKinds:
    def test_boxes_and_outlines_are_refused_without_a_task(self, tmp_path: Path) -> None:
        box = labelme_shape("zebra", [BAR_BOX[:2], BAR_BOX[2:]], "rectangle")
        write_labelme(tmp_path, {"a": [labelme_shape("cup", ELL_POINTS), box], "b": [box]})
        with pytest.raises(
            DatasetError, match=r"a\.json: shape 2 is a box, .*a\.json: shape 1 an outline: expected one"
        ):
            open_dataset(tmp_path)
        photos = open_dataset(tmp_path, task="segment")
        sample = photos[0]
        assert sample.instance_masks is not None
        assert sample.crowd_mask is not None
        np.testing.assert_array_equal(sample.instance_masks.numpy(), [ELL])
        np.testing.assert_array_equal(sample.crowd_mask.numpy(), [BAR])
        assert [(crowd.is_ignored, crowd.box) for crowd in photos.crowds(0)] == [(False, (20, 4, 38, 10))]
        assert photos.left_out(0) == {"crowd": 1, "empty": 0}
        sample = open_dataset(tmp_path, task="detect")[0]
        assert sample.instance_masks is None
        assert sample.boxes.tolist() == [[4, 2, 16, 12], [20, 4, 38, 10]]

    def test_boxes_alone(self, tmp_path: Path) -> None:
        outside, flat = [(-3.5, 4), (2, 25)], [(3, 3), (3, 9)]
        shapes = [labelme_shape(label, points, "rectangle") for label, points in (("cup", outside), ("cup", flat))]
        write_labelme(tmp_path, {"a": [*shapes, labelme_shape("zebra", [BAR_BOX[2:], BAR_BOX[:2]], "rectangle")]})
        photos = open_dataset(tmp_path)
        assert not photos.has_masks
        with pytest.warns(UserWarning, match="annotation 2 has no pixel"):
            sample = photos[0]
        assert sample.boxes.tolist() == [[0, 4, 2, 20], [*map(float, BAR_BOX)]]
        assert (sample.labels.tolist(), photos.annotation_ids(0)) == ([0, 1], (1, 3))
        with pytest.raises(DatasetError, match="expected outlines with the task"):
            open_dataset(tmp_path, task="segment")
        with pytest.raises(DatasetError, match="segment or detect, got pose"):
            open_dataset(tmp_path, task="pose")

    def test_options_of_other_formats(self, folder: Path) -> None:
        with pytest.raises(DatasetError, match="expected no panoptic_dir"):
            open_dataset(folder, panoptic_dir=folder)


def test_ellipses_by_their_equation() -> None:
    """Pixel centres against the equation, pixel by pixel, in a frame that is rotated back."""
    size = (17, 23)
    for centre, radii, degrees in (((8.0, 6.5), (5.0, 3.0), 0), ((11, 9), (9.5, 2.5), 30), ((2, 3), (6, 6), 0)):
        wanted = np.zeros(size, bool)
        turn = np.exp(-1j * np.deg2rad(degrees))
        for y in range(size[0]):
            for x in range(size[1]):
                back = complex(x + 0.5 - centre[0], y + 0.5 - centre[1]) * turn
                wanted[y, x] = (back.real / radii[0]) ** 2 + (back.imag / radii[1]) ** 2 <= 1
        np.testing.assert_array_equal(decode_segmentation(ellipse_mask(centre, radii, degrees, size)[0], size), wanted)
    assert not decode_segmentation(ellipse_mask((5, 5), (0, 4), 0, size)[0], size).any()
