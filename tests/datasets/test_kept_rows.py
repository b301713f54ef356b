"""Data of a file beside samples: entries with all their keys, tables, and what an augmented dataset has of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import conversion_world
import numpy as np
from coco_files import CATEGORIES, annotation_row, image_row, write_coco
from PIL import Image

from on_disk import rectangle, runs
from samples import make_sample
from segpaste.datasets import CocoDetectionV2, CocoPanoptic, YoloDataset, open_dataset
from segpaste.datasets.contract import Crowd
from segpaste.datasets.formats.carried import carried_annotations, carried_image
from segpaste.datasets.writers.counterparts import WrittenCounterparts
from segpaste.types import Modality
from written import write_image

SIZE = (17, 11)
OTHERS = {"info": {"year": 2017, "note": "ö"}, "licenses": [{"id": 4, "name": "CC"}], "extra": [1, None]}


def add_tables(path: Path, **tables: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **tables}, ensure_ascii=False))


class TestInstances:
    def dataset(self, folder: Path) -> tuple[CocoDetectionV2, list[Any], list[Any]]:
        images = [{**image_row(8, SIZE), "license": 4, "gps": [1.5, None]}, {**image_row(5, SIZE), "tags": {"a": "é"}}]
        annotations = [
            annotation_row(31, 5, runs(rectangle(SIZE, 2, 1, 9, 4)), 90, attributes={"occluded": True}),
            annotation_row(12, 8, runs(rectangle(SIZE, 2, 1, 9, 4)), 3, score=0.25),
            annotation_row(77, 5, runs(rectangle(SIZE, 0, 0, 4, 4)), 7, iscrowd=1, area=16.0),
            annotation_row(2, 5, runs(np.zeros(SIZE, bool)), 7, note="empty"),
        ]
        images_dir, path = write_coco(folder, images, annotations)
        add_tables(path, **OTHERS)
        return CocoDetectionV2(images_dir, path), images, annotations

    def test_entries_are_those_of_the_file(self, tmp_path: Path) -> None:
        dataset, images, annotations = self.dataset(tmp_path)
        for photos in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert [photos.image_row(i) for i in range(2)] == images
            assert [photos.annotation_rows(i) for i in (0, 1, -1)] == [
                [annotations[1]],
                [annotations[0], *annotations[2:]],
                [annotations[0], *annotations[2:]],
            ]
            assert photos.categories == CATEGORIES
            assert photos.tables() == OTHERS
            assert list(photos.tables()) == list(OTHERS)

    def test_ids_join_entries_with_instances_and_crowds(self, tmp_path: Path) -> None:
        dataset, *_ = self.dataset(tmp_path)
        dataset[1]
        by_id = {row["id"]: row for row in dataset.annotation_rows(1)}
        assert [by_id[i]["attributes"] for i in dataset.annotation_ids(1)] == [{"occluded": True}]
        crowds = {crowd.annotation_id: crowd.box for crowd in dataset.crowds(1)}
        assert [by_id[i]["area"] for i, box in crowds.items() if box is None] == [16.0]
        assert [by_id[i].get("area") for i, box in crowds.items() if box is not None] == [None]  # its mask is empty

    def test_changing_an_entry_changes_no_other_reader(self, tmp_path: Path) -> None:
        dataset, images, annotations = self.dataset(tmp_path)
        dataset.image_row(0).clear()
        dataset.annotation_rows(0)[0].clear()
        dataset.categories[0].clear()
        dataset.tables().clear()
        assert dataset.image_row(0) == images[0]
        assert dataset.annotation_rows(0) == [annotations[1]]
        assert (dataset.categories, dataset.tables()) == (CATEGORIES, OTHERS)


def test_panoptic(tmp_path: Path) -> None:
    Image.new("RGB", SIZE[::-1]).save(tmp_path / "5.png")
    Image.new("RGB", SIZE[::-1], (9, 0, 0)).save(tmp_path / "map.png")
    segment = {"id": 9, "category_id": 3, "iscrowd": 0, "area": 187, "attributes": {"a": 1}}
    annotation = {"image_id": 5, "file_name": "map.png", "segments_info": [segment], "source": "x"}
    images = [{**image_row(4, SIZE), "license": 1}, {**image_row(5, SIZE), "license": 4}]
    categories = [{"id": 3, "name": "car", "isthing": 1, "color": [1, 2, 3]}]
    path = tmp_path / "panoptic.json"
    path.write_text(json.dumps({"images": images, "annotations": [annotation], "categories": categories, **OTHERS}))
    dataset = CocoPanoptic(tmp_path, path, tmp_path)
    assert dataset.image_row(0) == images[1]
    assert dataset.annotation_rows(0) == [segment]
    assert dataset.map_row(0) == {key: value for key, value in annotation.items() if key != "segments_info"}
    assert (dataset.categories, dataset.tables()) == (categories, OTHERS)


def test_a_format_without_tables(tmp_path: Path) -> None:
    for name in ("images", "labels"):
        (tmp_path / name).mkdir()
    Image.new("RGB", SIZE[::-1]).save(tmp_path / "images" / "a.png")
    (tmp_path / "labels" / "a.txt").write_text("0 0.1 0.1 0.9 0.1 0.9 0.9\n")
    dataset = YoloDataset(tmp_path)
    assert (dataset.annotation_rows(0), dataset.tables()) == ([], {})
    assert dataset.image_row(0) == {"id": 1, "file_name": dataset.file_name(0)}
    assert [row["id"] for row in dataset.categories] == [1]


def test_keys_that_an_augmented_dataset_carries_along(tmp_path: Path) -> None:
    images_dir, path = conversion_world.write_instances(tmp_path)
    photos = open_dataset(path, images_dir=images_dir)
    assert [carried_image(photos, i) for i in range(2)] == [{"license": 4}, {}]
    found = carried_annotations(photos, 0)
    assert list(found) == [30, 31, 32, 40, 41]
    assert found[30] == {"attributes": {"occluded": True, "maker": "é <&>"}, "score": 0.25, "parts": [1, 2]}
    assert found[40] == found[41] == {}
    assert WrittenCounterparts(photos, [], list).tables() == (conversion_world.OTHERS, {})


def test_written_rows_have_the_carried_keys(tmp_path: Path) -> None:
    """Keys of regions are the writer's own, whatever keys are carried."""
    sample = make_sample(modalities=[Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC], crowd=True)
    categories = [{"id": i, "name": str(i), "isthing": 1} for i in range(20)]
    num = sample.num_instances
    assert sample.crowd_mask is not None
    crowd = Crowd(9, 1, False, np.asarray(sample.crowd_mask[0]))
    rows = write_image(
        tmp_path,
        1,
        sample,
        categories,
        rows=[{"score": i, "attributes": {"n": i}, "segpaste": {"source": i}, "bbox": [0] * 4} for i in range(num)],
        crowds=[(crowd, {"score": 0.5, "segpaste": {"source": 9}, "iscrowd": 0})],
        more={"license": 4},
    )
    assert rows.image["license"] == 4
    assert rows.segments is not None
    for written in (rows.annotations, rows.segments):
        for i, row in enumerate(written[:num]):
            assert (row["score"], row["attributes"], row["segpaste"]) == (i, {"n": i}, {"source": i})
        assert (written[-1]["score"], written[-1]["segpaste"], written[-1]["iscrowd"]) == (0.5, {"source": 9}, 1)
