"""Roboflow folders through the commands, other layouts than the input's, splits by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_world import check_instances, read_json, read_pixels, write_instances
from folder_runs import NUM, augment, augmented_yolo, check

from on_disk import tree
from segpaste.augmenting.options import LAYOUTS
from segpaste.bank import open_bank
from segpaste.cli import main
from segpaste.datasets import CocoDetectionV2, DatasetError, YoloDataset, find_dataset, open_dataset
from segpaste.datasets.formats.format import expect_outside
from segpaste.datasets.writers.layouts import LAYOUTS as WRITTEN
from yolo_files import write_roboflow, write_yolo

OF_BOXES = "source.mask_from=boxes"


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return augmented_yolo(tmp_path_factory.mktemp("yolo"))


@pytest.fixture(scope="module")
def roboflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roboflow")
    write_roboflow(folder / "in")
    assert augment(folder / "in", folder / "out") == 0
    return folder


class TestRoboflow:
    def test_a_complete_export(self, roboflow: Path) -> None:
        out = roboflow / "out"
        folders = {path.name for path in out.iterdir() if path.is_dir()}
        assert folders == {"train", "valid", "test"}
        for split in ("valid", "test"):
            assert tree(out / split) == tree(roboflow / "in" / split) != {}
        tables = read_json(out / "train/_annotations.coco.json")
        assert {f"{row['file_name']}" for row in tables["images"]} == {f"{i + 1:06d}.png" for i in range(NUM)}
        assert any(row["segpaste"]["pasted"] for row in tables["annotations"])

    def test_masks_boxes_and_ids_are_true(self, roboflow: Path, tmp_path: Path) -> None:
        """As of any dataset that is written; category 0 is there still, and no object is of it."""
        shutil.copytree(roboflow / "out/train", tmp_path / "images")
        (tmp_path / "images/_annotations.coco.json").rename(tmp_path / "annotations.json")
        assert {row["category_id"] for row in check_instances(tmp_path)} <= {1, 2, 3}
        categories = read_json(tmp_path / "annotations.json")["categories"]
        assert categories == read_json(roboflow / "in/train/_annotations.coco.json")["categories"]

    def test_replay(self, roboflow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert check(roboflow / "in", roboflow / "out") == 0
        shutil.copytree(roboflow / "out", tmp_path / "out")
        path = tmp_path / "out/train/_annotations.coco.json"
        tables = read_json(path)
        tables["images"][0]["width"] = 3
        info = json.dumps({"info": tables.pop("info")})
        path.write_text(f"{info[:-1]},\n{json.dumps(tables)[1:]}")
        capsys.readouterr()
        assert check(roboflow / "in", tmp_path / "out") == 1
        assert "000001.png: its row in train/_annotations.coco.json differs" in capsys.readouterr().out

    def test_replay_writes_the_layout_again(self, roboflow: Path, tmp_path: Path) -> None:
        again = tmp_path / "again"
        words = ["replay", str(roboflow / "out"), "--dataset", str(roboflow / "in"), "--out", str(again)]
        assert main([*words, "--index", "2"]) == 0
        assert set(tree(again / "train")) == {"000003.png", "_annotations.coco.json"}
        assert check(roboflow / "in", again) == 0

    def test_one_split_by_name(self, roboflow: Path, tmp_path: Path) -> None:
        assert augment(roboflow / "in", tmp_path / "out", "--split", "valid") == 0
        assert tree(tmp_path / "out/train") == tree(roboflow / "in/train")
        assert (tmp_path / "out/valid/000001.png").is_file()
        assert check(roboflow / "in", tmp_path / "out", "--split", "valid") == 0


class TestLayouts:
    def test_names(self) -> None:
        assert set(LAYOUTS) == set(WRITTEN)

    def test_coco_as_yolo(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, images = write_instances(tmp_path)
        words = ["--images", str(images), "--layout", "yolo"]
        assert augment(path, tmp_path / "out", *words) == 0
        assert "expected a split to validate on, got none" in capsys.readouterr().err
        dataset = YoloDataset(tmp_path / "out")
        assert dataset.class_names == ("car", "cup", "zebra")
        reread = CocoDetectionV2(tmp_path / "out/images/train", tmp_path / "out/annotations.json")
        for i in range(NUM):
            assert torch.equal(dataset[i].labels, reread[i].labels)
            assert torch.equal(dataset[i].boxes, reread[i].boxes)
        words = ["--images", str(images)]
        assert (
            main(["replay", str(tmp_path / "out"), "--dataset", str(path), "--check", str(tmp_path / "out"), *words])
            == 0
        )

    def test_yolo_as_coco(self, yolo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert augment(yolo / "in", tmp_path / "out", "--layout", "coco") == 0
        assert "expected the layout yolo to copy val, got coco; they are left out" in capsys.readouterr().err
        assert len(check_instances(tmp_path / "out")) > NUM
        assert {path.name for path in (tmp_path / "out").iterdir()} & {"labels", "data.yaml"} == set()
        for path in (yolo / "out/images/train").iterdir():
            np.testing.assert_array_equal(read_pixels(path), read_pixels(tmp_path / "out/images" / path.name))

    def test_boxes_of_a_dataset_with_masks(self, yolo: Path, tmp_path: Path) -> None:
        path, images = write_instances(tmp_path)
        words = ["--images", str(images), "--layout", "yolo", "--task", "detect"]
        assert augment(path, tmp_path / "out", *words) == 0
        assert YoloDataset(tmp_path / "out").task == "detect"

    def test_tasks_that_do_not_fit(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, images = write_instances(tmp_path)
        assert augment(path, tmp_path / "out", "--images", str(images), "--layout", "yolo", "--task", "pose") == 2
        assert "--task pose: expected keypoints in labels.json, got none; leave it out" in capsys.readouterr().err
        for words, message in (
            (["--split", "train"], "no split (--split)"),
            (["--task", "detect"], "no task (--task)"),
        ):
            assert augment(path, tmp_path / "out", "--images", str(images), *words) == 2
            assert f"labels.json: expected {message}" in capsys.readouterr().err

    def test_folders_have_their_photos(self, yolo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert augment(yolo / "in", tmp_path / "out", "--images", str(yolo)) == 2
        assert "in: expected no images_dir (--images) with YOLO, got it; leave it out" in capsys.readouterr().err


class TestOutputsInDatasets:
    """An output that the dataset would read as its own the next time is refused; beside its files it may lie."""

    @staticmethod
    def write(folder: Path, kind: str) -> Path:
        if kind == "yaml":
            return write_yolo(folder)
        if kind == "no yaml":
            write_yolo(folder).unlink()
            (folder / "classes.txt").write_text("a\nb\nc\n")
            return folder
        if kind == "label maps":
            labels, images = write_instances(folder)
            words = ["convert", str(labels), "--images", str(images), "--to", "label-maps"]
            assert main([*words, "--out", str(folder / "maps")]) == 0
            return folder / "maps"
        return write_roboflow(folder) or folder

    @pytest.mark.parametrize(
        ("kind", "inside", "beside"),
        [
            ("yaml", "images/train/new", "new"),
            ("yaml", "images/val/deep/new", "images/new"),
            ("no yaml", "images/new", "new"),
            ("label maps", "maps/images/new", "maps/new"),
            ("roboflow", None, "train/new"),
        ],
    )
    def test_places(self, tmp_path: Path, kind: str, inside: str | None, beside: str) -> None:
        photos = open_dataset(self.write(tmp_path, kind))
        expect_outside(photos, tmp_path / beside)
        if inside is not None:
            with pytest.raises(DatasetError, match=r"new: expected a folder outside of .*images.* choose another"):
                expect_outside(photos, tmp_path / inside)

    def test_a_written_dataset_is_no_split_of_its_folder(self, tmp_path: Path) -> None:
        """``FOLDER/new/images`` and ``labels`` beside a YAML of their own do not make YOLO of the dataset around."""
        labels, images = write_instances(tmp_path)
        words = ["convert", str(labels), "--images", str(images), "--to", "yolo", "--out", str(tmp_path / "new")]
        assert main(words) == 0
        with pytest.raises(DatasetError):
            find_dataset(tmp_path, "yolo")

    def test_commands(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The folder of backgrounds behind a link, and that of a split."""
        data = write_yolo(tmp_path / "in")
        (tmp_path / "link").symlink_to(tmp_path / "rooms", target_is_directory=True)
        shutil.copytree(tmp_path / "in/images/val", tmp_path / "rooms")
        before, rooms = tree(tmp_path), str(tmp_path / "rooms")
        for words in (
            ["augment", str(data), "--num", "1", "--backgrounds", rooms, "--out", str(tmp_path / "link/x")],
            ["convert", str(data), "--to", "coco", "--out", str(tmp_path / "in/images/train/x")],
        ):
            assert main(words) == 2
            assert "x: expected a folder outside of" in capsys.readouterr().err
        assert tree(tmp_path) == before


class TestOtherCommands:
    @pytest.mark.parametrize("write", [write_yolo, write_roboflow])
    def test_banks_are_built_of_the_split_to_train_on(
        self, tmp_path: Path, write: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(tmp_path / "in")
        options = ["--crop-size", "16", "--min-area", "1"]
        assert main(["bank", "build", str(tmp_path / "in"), "--out", str(tmp_path / "bank"), *options]) == 0
        held_out = "val" if write is write_yolo else "valid"
        words = ["bank", "build", str(tmp_path / "in"), "--out", str(tmp_path / held_out), *options]
        assert main([*words, "--split", held_out]) == 0
        with open_bank(tmp_path / "bank") as bank, open_bank(tmp_path / held_out) as other:
            assert bank.class_names == other.class_names
            assert len(bank) == (4 if write is write_yolo else 3)
            assert bank.version != other.version

    def test_banks_of_held_out_photos_need_their_name(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_roboflow(tmp_path / "in", ("valid", "test"))
        for path in (tmp_path / "in", tmp_path / "in/valid"):
            assert main(["bank", "build", str(path), "--out", str(tmp_path / "bank")]) == 2
            err = capsys.readouterr().err
            assert "expected a split to train on, got " in err
            assert "name the split (split=..., --split)" in err
        assert not (tmp_path / "bank").exists()

    def test_pasting_from_a_bank(self, yolo: Path, tmp_path: Path) -> None:
        options = ["--crop-size", "16", "--min-area", "1"]
        assert main(["bank", "build", str(yolo / "in"), "--out", str(tmp_path / "bank"), *options]) == 0
        assert augment(yolo / "in", tmp_path / "out", "--bank", str(tmp_path / "bank")) == 0
        assert check(yolo / "in", tmp_path / "out", "--bank", str(tmp_path / "bank")) == 0
        rows = read_json(tmp_path / "out/annotations.json")["annotations"]
        sources = {(row["segpaste"]["source_image_id"], row["segpaste"]["source_annotation_id"]) for row in rows}
        assert sources <= {(1, 1), (1, 2), (2, 1), (5, 1)}  # photo and line

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["in"], {"car": 0, "cup": 2, "zebra": 2}),
            (["in/data.yaml"], {"car": 0, "cup": 2, "zebra": 2}),
            (["in", "--split", "val"], {"car": 0, "cup": 2, "zebra": 1}),
            (["out", "--split", "val"], {"car": 0, "cup": 2, "zebra": 1}),
        ],
    )
    def test_stats_of_yolo(
        self, yolo: Path, words: list[str], expected: dict[str, int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["stats", str(yolo / words[0]), *words[1:], "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {row["name"]: row["objects"] for row in found["classes"]} == expected
        assert found["kind"] == "dataset"

    def test_stats_of_what_was_written(self, yolo: Path, roboflow: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for folder in (yolo, roboflow):
            assert main(["stats", str(folder / "out"), "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert found["kind"] == "augmented dataset"
            assert sum(row["pasted"] for row in found["classes"]) > 0

    def test_stats_of_something_else(self, yolo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, _ = write_instances(tmp_path)
        assert main(["stats", str(path), "--split", "train"]) == 2
        assert "--split: expected this option with a dataset, got" in capsys.readouterr().err
        assert main(["stats", str(yolo / "in"), "--split", "valid"]) == 2
        assert "expected one of the splits train, val, got 'valid'" in capsys.readouterr().err
