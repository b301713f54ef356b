"""A path is recognized and opened: YOLO and Roboflow folders, annotation files; which splits there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from coco_files import write_many

from samples import assert_same
from segpaste.datasets import CocoDetectionV2, CocoPanoptic, DatasetError, YoloDataset, find_dataset, open_dataset
from yolo_files import SQUARE, write_roboflow, write_split, write_yolo


class TestFinding:
    def test_yolo(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path)
        for given in (path, tmp_path, str(tmp_path)):
            found = find_dataset(given)
            assert (found.format.name, found.splits) == ("yolo", ("train", "val"))
            assert isinstance(open_dataset(given), YoloDataset)
        path.unlink()
        assert find_dataset(tmp_path).splits == ("train", "val")
        assert len(open_dataset(tmp_path, "val")) == 2

    def test_photos_of_all_splits_in_one_folder(self, tmp_path: Path) -> None:
        write_split(tmp_path, ".", {"a": SQUARE})
        assert find_dataset(tmp_path).splits == ("train",)

    def test_a_folder_for_each_split(self, tmp_path: Path) -> None:
        for split in ("train", "valid"):
            write_split(tmp_path / split, ".", {"a": SQUARE})
        assert find_dataset(tmp_path).splits == ("train", "valid")

    def test_roboflow(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path, (".backup",))
        found = find_dataset(write_roboflow(tmp_path))
        assert (found.format.name, found.splits) == ("roboflow", ("test", "train", "valid"))
        dataset = open_dataset(tmp_path)
        assert isinstance(dataset, CocoDetectionV2)
        assert [sample.num_instances for sample in dataset] == [0, 1, 2]
        assert dataset.file_name(0) == "p0_png.rf.00ab.png"
        assert open_dataset(tmp_path, "valid").file_name(0) == "p0_png.rf.10ab.png"

    def test_the_placeholder_of_roboflow_is_a_class_without_objects(self, tmp_path: Path) -> None:
        """Ids are the file's, so models and files keep meaning the same by a number."""
        dataset = open_dataset(write_roboflow(tmp_path))
        assert isinstance(dataset, CocoDetectionV2)
        assert dataset.class_names == ("things", "car", "cup", "zebra")
        assert dataset.category_ids == (0, 1, 2, 3)
        assert [dataset.instance_labels(i) for i in range(3)] == [(), (1,), (1, 2)]

    def test_exports_of_boxes_give_boxes(self, tmp_path: Path) -> None:
        path = write_roboflow(tmp_path, ("train",)) / "train/_annotations.coco.json"
        tables = json.loads(path.read_text())
        for row in tables["annotations"]:
            row["segmentation"] = []
        path.write_text(json.dumps(tables))
        dataset = open_dataset(tmp_path)
        assert not dataset.has_masks
        assert dataset[2].boxes.tolist() == [[0, 0, 1, 1]] * 2
        assert (dataset[2].instance_masks, dataset.annotation_ids(2)) == (None, (1, 2))
        tables["annotations"][0]["bbox"] = None
        path.write_text(json.dumps(tables))
        with pytest.raises(
            DatasetError, match=r"coco\.json: annotation 0: expected a 'bbox' of four numbers, since it"
        ):
            open_dataset(tmp_path)[1]
        path.write_text(json.dumps(tables | {"annotations": []}))
        assert [sample.num_instances for sample in open_dataset(tmp_path)] == [0, 0, 0]

    def test_one_split_of_roboflow(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path)
        assert len(open_dataset(tmp_path / "train")) == 3
        with pytest.raises(DatasetError, match="valid: expected a split to train on, got valid; name the split"):
            open_dataset(tmp_path / "valid")
        assert open_dataset(tmp_path / "valid", "valid").file_name(0) == "p0_png.rf.10ab.png"

    def test_annotation_files(self, tmp_path: Path) -> None:
        images, path = write_many(tmp_path)
        assert_same(open_dataset(path, images_dir=images)[1], CocoDetectionV2(images, path)[1])
        images.rename(tmp_path / "images")
        assert find_dataset(tmp_path).format.name == "coco"
        assert len(open_dataset(tmp_path)) == 7

    def test_panoptic_files(self, tmp_path: Path) -> None:
        (tmp_path / "maps").mkdir()
        (tmp_path / "maps.json").write_text(json.dumps({"images": [], "categories": [], "annotations": []}))
        with pytest.raises(DatasetError, match="expected panoptic segments with a folder of their PNG files, got inst"):
            open_dataset(tmp_path / "maps.json", images_dir=tmp_path, panoptic_dir=tmp_path)
        segments = {"image_id": 1, "file_name": "a.png", "segments_info": []}
        images = [{"id": 1, "file_name": "a.jpg", "width": 2, "height": 2}]
        tables = {"images": images, "categories": [], "annotations": [segments]}
        (tmp_path / "maps.json").write_text(json.dumps(tables))
        assert isinstance(open_dataset(tmp_path / "maps.json", images_dir=tmp_path), CocoPanoptic)


class TestSplits:
    @pytest.mark.parametrize(
        ("names", "chosen"),
        [
            (("train", "val"), "train"),
            (("train2017", "val2017"), "train2017"),
            (("all",), "all"),
            (("extra", "train"), "train"),
            (("val", "test"), None),
            (("valid",), None),
            (("one", "two"), None),
        ],
    )
    def test_what_is_held_out_is_never_the_default(
        self, tmp_path: Path, names: tuple[str, ...], chosen: str | None
    ) -> None:
        for name in names:
            write_split(tmp_path, name, {"a": SQUARE})
        found = find_dataset(tmp_path)
        if chosen is not None:
            assert found.chosen_split() == chosen
        else:
            message = f"expected a split to train on, got {', '.join(sorted(names))}; name the split"
            with pytest.raises(DatasetError, match=message):
                found.chosen_split()
        assert {found.chosen_split(name) for name in names} == {*names}

    def test_unknown_ones(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="expected one of the splits test, train, valid, got 'val'"):
            open_dataset(write_roboflow(tmp_path), "val")


class TestRefused:
    def test_folders_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        with pytest.raises(
            DatasetError, match=r"a dataset of one of the formats maps, .*, yolo, .*, got a folder without the files"
        ):
            find_dataset(tmp_path)
        with pytest.raises(
            DatasetError, match="gone: expected a dataset, found neither file nor folder; check the path"
        ):
            find_dataset(tmp_path / "gone")

    def test_arguments_that_do_not_belong_together(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path / "yolo")
        images, file = write_many(tmp_path)
        for given, options, message in (
            (path, {"images_dir": images}, "expected no images_dir (--images) with YOLO, got it; leave it out"),
            (
                file,
                {"images_dir": images, "split": "train"},
                "expected no split (--split), since the dataset has none, got 'train'; leave it out",
            ),
            (file, {}, "expected the folder of the images of an annotation file, got none; give it"),
            (
                write_roboflow(tmp_path / "r"),
                {"task": "detect"},
                "expected no task (--task) with Roboflow's COCO exports, got it; leave it out",
            ),
        ):
            with pytest.raises(DatasetError, match=re.escape(message)):
                open_dataset(given, **options)
