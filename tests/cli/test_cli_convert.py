"""`segpaste convert`: what it prints, its exit codes, and the layouts that `segpaste augment` shares with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import box_of, decode, one_error, read_json, write_instances, write_panoptic
from folder_runs import check
from PIL import Image

from on_disk import of_runs
from segpaste.cli import main
from segpaste.datasets import check_dataset, open_dataset
from yolo_files import write_yolo


def convert(dataset: Path, out: Path, to: str, *words: str) -> int:
    return main(["convert", str(dataset), "--out", str(out), "--to", to, *words])


class TestPrinted:
    def test_everything_is_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = write_yolo(tmp_path / "in")
        assert convert(data, tmp_path / "out", "coco", "--strict") == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[0] == f"dataset  {tmp_path / 'out'}, coco"
        assert "train                                     5 images          4 objects" in out
        assert out.splitlines()[-1] == "kept     everything"
        assert err == ""

    @pytest.mark.parametrize(("write", "to"), [(write_instances, "coco"), (write_panoptic, "coco-panoptic")])
    @pytest.mark.parametrize("kept", [True, False])
    def test_objects_are_counted_as_by_check(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Any, to: str, kept: bool
    ) -> None:
        """Crowds, and segments of stuff, are no objects; also in a format that has other entries."""
        path, images_dir, *maps_dir = write(tmp_path)
        options = {"images_dir": images_dir, **({"panoptic_dir": maps_dir[0]} if maps_dir else {})}
        words = ["--images", str(images_dir), *(["--panoptic-dir", str(maps_dir[0])] if maps_dir else [])]
        report = check_dataset(open_dataset(path, **options))
        assert report.num_objects > 0
        assert report.num_crowds == 1
        assert convert(path, tmp_path / "out", to if kept else "label-maps", *words) == 0
        assert f" {report.num_objects} objects      1 crowds\n" in capsys.readouterr().out

    def test_what_is_lost_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, images_dir = write_instances(tmp_path)
        words = ["--images", str(images_dir), "--split", "train", "--task", "detect"]
        assert convert(path, tmp_path / "out", "yolo", *words[:2], "--strict") == 1
        out, err = capsys.readouterr()
        lost = out.split("lost     the format yolo cannot hold:\n")[1].splitlines()
        assert [" ".join(line.split()) for line in lost] == [
            "boxes of objects and regions, not those of their masks 8",  # see annotation_row
            "crowd regions 1",
            "key 'supercategory' of categories 3",
        ]
        assert "data.yaml: expected a split to validate on, got none" in err
        assert convert(path, tmp_path / "again", "yolo", *words) == 2
        assert "expected no split (--split), since the dataset has none, got 'train'" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ["--to", "tfrecord"],
                "--to: expected one of coco, coco-panoptic, lvis, roboflow, yolo, voc, label-maps, got 'tfrecord'",
            ),
            (["--to", "coco", "--split", "nothing"], "expected one of the splits train, val, got 'nothing'"),
            (["--to", "yolo", "--task", "pose"], "expected keypoints for the task pose, got none; choose another"),
            (["--to", "coco", "--from", "roboflow"], "expected a dataset of Roboflow's COCO exports"),
        ],
    )
    def test_bad_input(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
    ) -> None:
        data = write_yolo(tmp_path / "in")
        assert main(["convert", str(data), "--out", str(tmp_path / "out"), *words]) == 2
        assert message in one_error(capsys)
        assert not (tmp_path / "out").exists()


class TestLayouts:
    @pytest.fixture(scope="class")
    @staticmethod
    def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        return write_instances(tmp_path_factory.mktemp("source"))

    @pytest.mark.parametrize("layout", ["lvis", "voc", "label-maps", "yolo"])
    def test_instances(self, source: tuple[Path, Path], tmp_path: Path, layout: str) -> None:
        path, images_dir = source
        out = tmp_path / "out"
        words = ["--images", str(images_dir), "--num", "3", "--seed", "1", "--gallery", "0", "--layout", layout]
        words += ["--task", "obb"] if layout == "yolo" else []
        assert main(["augment", str(path), "--out", str(out), *words]) == 0
        tables = read_json(out / "annotations.json")
        num = len([row for row in tables["annotations"] if not row["iscrowd"]])
        if layout == "lvis":
            written = read_json(out / "annotations" / "lvis_train.json")
            assert len(written["annotations"]) == num == sum(row["instance_count"] for row in written["categories"])
            assert written["info"] == tables["info"]
            assert len(open_dataset(out, format="lvis")) == 3
        elif layout == "yolo":
            lines = [line for file in (out / "labels/train").iterdir() for line in file.read_text().splitlines()]
            assert [len(line.split()) for line in lines] == [9] * num
        else:
            folder, more = ("SegmentationObject", 255) if layout == "voc" else ("instances/train", 0)
            for image in tables["images"]:
                with Image.open(out / folder / image["file_name"]) as picture:
                    objects = np.array(picture)
                rows = [r for r in tables["annotations"] if r["image_id"] == image["id"] and not r["iscrowd"]]
                union = np.any([decode(r["segmentation"]) for r in rows] or [np.zeros(objects.shape, bool)], 0)
                np.testing.assert_array_equal((objects > 0) & (objects != (more or 999)), union)
            assert (out / ("class_names.txt" if layout == "voc" else "classes.txt")).is_file()
        assert check(path, out, "--images", str(images_dir)) == 0

    def test_panoptic(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, images_dir, maps_dir = write_panoptic(tmp_path / "in")
        words = ["--images", str(images_dir), "--panoptic-dir", str(maps_dir), "--num", "2", "--gallery", "0"]
        assert main(["augment", str(path), "--out", str(tmp_path / "out"), *words, "--layout", "coco-panoptic"]) == 0
        assert open_dataset(tmp_path / "out", format="coco-panoptic")[0].panoptic_map is not None
        assert main(["augment", str(path), "--out", str(tmp_path / "maps"), *words, "--layout", "label-maps"]) == 0
        names = (tmp_path / "maps/classes.txt").read_text().split()
        assert names == [row["name"] for row in sorted(read_json(path)["categories"], key=lambda row: row["id"])]
        other, images_dir = write_instances(tmp_path / "other")
        words = ["--images", str(images_dir), "--num", "2", "--layout", "coco-panoptic"]
        assert main(["augment", str(other), "--out", str(tmp_path / "no"), *words]) == 2
        assert "--layout coco-panoptic: expected panoptic maps, got none" in capsys.readouterr().err


def test_splits_that_augment_cannot_copy_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_yolo(tmp_path / "in")
    assert convert(data, tmp_path / "coco", "coco") == 0
    words = ["--out", str(tmp_path / "out"), "--num", "2", "--gallery", "0"]
    assert main(["augment", str(tmp_path / "coco"), *words]) == 0
    assert "val: expected a format whose splits are copied, got COCO folders; they are" in capsys.readouterr().err


class TestBoxesOfCoco:
    """A file of boxes alone is pasted with ``source.mask_from`` only, and stays one of boxes."""

    def test_augment(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, images_dir = write_instances(tmp_path / "in")
        tables = read_json(path)
        tables["annotations"] = [row for row in tables["annotations"] if not row["iscrowd"]]
        for row in tables["annotations"]:
            row["bbox"] = box_of(of_runs(row.pop("segmentation")))
        path.write_text(json.dumps(tables))
        words = ["--images", str(images_dir), "--num", "4", "--seed", "1", "--gallery", "1"]
        assert main(["augment", str(path), "--out", str(tmp_path / "no"), *words]) == 2
        err = capsys.readouterr().err
        assert "expected masks, got boxes only, so nothing can be pasted; give source.mask_from=boxes" in err
        assert len(err.splitlines()) == 1
        assert main(["augment", str(path), "--out", str(tmp_path / "out"), *words, "source.mask_from=ellipse"]) == 0
        rows = read_json(tmp_path / "out/annotations.json")["annotations"]
        assert any(row["segpaste"]["pasted"] for row in rows)
        assert not any("segmentation" in row for row in rows)
        assert check(path, tmp_path / "out", "--images", str(images_dir)) == 0
        assert not open_dataset(tmp_path / "out").has_masks
