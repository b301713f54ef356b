"""YOLO folders through the commands: what comes out is a YOLO folder again, complete and true."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from cli_world import decode, read_json
from folder_runs import NUM, augment, augmented_yolo, check

from on_disk import tree
from segpaste.augmenting import layouts
from segpaste.cli import main
from segpaste.datasets import YoloDataset, open_dataset
from segpaste.workspace import WholeFiles
from yolo_files import BOX, NAMES, SIZE, SQUARE, TRIANGLE, photo, write_split, write_yaml, write_yolo

OF_BOXES = "source.mask_from=boxes"
POSE = f"{BOX} 0.15 0.3 2 0.25 0.5 1"


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return augmented_yolo(tmp_path_factory.mktemp("yolo"))


class TestYolo:
    def test_a_complete_dataset(self, yolo: Path) -> None:
        facts = yaml.safe_load((yolo / "out/data.yaml").read_text())
        names = dict(enumerate(NAMES))
        assert facts == {"train": "images/train", "val": "images/val", "nc": 3, "names": names}
        stems = [f"{i + 1:06d}" for i in range(NUM)]
        assert sorted(path.stem for path in (yolo / "out/images/train").iterdir()) == stems
        assert sorted(path.stem for path in (yolo / "out/labels/train").iterdir()) == stems

    def test_labels_are_those_of_the_tables(self, yolo: Path) -> None:
        """Read as label files, every mask is the one of the tables, which say where each object comes from."""
        dataset = YoloDataset(yolo / "out")
        tables = read_json(yolo / "out/annotations.json")
        num_pasted = 0
        for i, image in enumerate(tables["images"]):
            rows = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
            sample = dataset[i]
            assert Path(dataset.file_name(i)).name == image["file_name"]
            assert [label + 1 for label in sample.labels.tolist()] == [row["category_id"] for row in rows]
            for mask, row in zip(sample.instance_masks, rows, strict=True):
                np.testing.assert_array_equal(mask.as_subclass(torch.Tensor).numpy(), decode(row["segmentation"], SIZE))
            num_pasted += sum(row["segpaste"]["pasted"] for row in rows)
        assert num_pasted > 2
        assert {row["segpaste"]["source_file_name"] for row in tables["images"]} == {
            f"images/train/{name}.png" for name in "abcde"
        }

    def test_what_is_held_out_is_copied_as_it_is(self, yolo: Path) -> None:
        for name in ("images/val", "labels/val"):
            assert tree(yolo / "out" / name) == tree(yolo / "in" / name) != {}

    def test_replay_finds_what_was_changed(
        self, yolo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data = yolo / "in" / "data.yaml"
        assert check(data, yolo / "out") == 0
        shutil.copytree(yolo / "out", tmp_path / "out")
        labels = tmp_path / "out/labels/train"
        (labels / "000002.txt").write_text(f"{SQUARE}\n")
        (labels / "000003.txt").unlink()
        (tmp_path / "out/images/train/000004.png").unlink()
        capsys.readouterr()
        assert check(data, tmp_path / "out") == 1
        assert capsys.readouterr().out.splitlines() == [
            "000002.png: labels/train/000002.txt differs",
            "000003.png: labels/train/000003.txt is missing",
            "000004.png: images/train/000004.png is missing",
            f"{NUM - 3} of {NUM} identical",
        ]

    def test_replay_writes_the_layout_again(self, yolo: Path, tmp_path: Path) -> None:
        again = tmp_path / "again"
        words = ["replay", str(yolo / "out"), "--dataset", str(yolo / "in"), "--out", str(again)]
        assert main(words) == 0
        for name in ("images/train", "labels/train"):
            assert tree(again / name) == tree(yolo / "out" / name)
        assert yaml.safe_load((again / "data.yaml").read_text())["train"] == "images/train"
        assert check(yolo / "in", again) == 0

    def test_the_folder_and_its_yaml_are_the_same(self, yolo: Path, tmp_path: Path) -> None:
        assert augment(yolo / "in", tmp_path / "out") == 0
        assert tree(tmp_path / "out" / "labels") == tree(yolo / "out" / "labels")
        assert tree(tmp_path / "out" / "images") == tree(yolo / "out" / "images")

    def test_an_interrupted_run_resumes(self, yolo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also where it was copying: what is there is not copied again."""
        copied: list[str] = []

        def write(files: WholeFiles, path: Path, content: Any) -> Path:
            if "val" in path.parts:
                copied.append(path.name)
                if len(copied) == 2:
                    raise OSError(28, "No space left on device")
            return original(files, path, content)

        original = WholeFiles.write
        monkeypatch.setattr(layouts, "_FILES_AT_ONCE", 1)
        monkeypatch.setattr(WholeFiles, "write", write)
        assert augment(yolo / "in" / "data.yaml", tmp_path / "out") == 2
        assert not (tmp_path / "out").exists()
        assert augment(yolo / "in" / "data.yaml", tmp_path / "out") == 0
        assert copied == ["a.png", "a.txt", "a.txt", "b.png", "b.txt"]
        assert tree(tmp_path / "out") == tree(yolo / "out")

    def test_splits_that_are_lists_or_gone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_yolo(tmp_path / "in")
        write_split(tmp_path / "in", "more", {"a": TRIANGLE, "x/b": None})
        (tmp_path / "in/some.txt").write_text("images/more/a.png\nimages/more/x/b.png\n")
        data = write_yaml(tmp_path / "in", val="some.txt", test="../test/images")
        assert augment(data, tmp_path / "out") == 0
        err = capsys.readouterr().err
        assert "expected a readable split to copy test: " in err
        assert "test/images: expected a folder or a list of images, found neither; correct the path; it is left" in err
        assert sorted(tree(tmp_path / "out/images/val")) == ["more/a.png", "more/x/b.png"]
        assert sorted(tree(tmp_path / "out/labels/val")) == ["more/a.txt"]
        facts = yaml.safe_load((tmp_path / "out/data.yaml").read_text())
        assert (facts["val"], "test" in facts) == ("images/val", False)
        dataset = YoloDataset(tmp_path / "out", "val")
        assert [dataset.instance_labels(i) for i in range(2)] == [(2,), ()]

    def test_folders_with_photos_of_one_name(self, tmp_path: Path) -> None:
        write_yolo(tmp_path / "in")
        photo(tmp_path / "in/images/more/a.png", seed=77)
        data = write_yaml(tmp_path / "in", val=["images/val", "images/more"])
        assert augment(data, tmp_path / "out") == 0
        assert sorted(tree(tmp_path / "out/images/val")) == ["0/a.png", "0/b.png", "1/a.png"]
        assert sorted(tree(tmp_path / "out/labels/val")) == ["0/a.txt", "0/b.txt"]
        assert [len(YoloDataset(tmp_path / "out", "val").instance_labels(i)) for i in range(3)] == [2, 1, 0]

    def test_a_folder_of_another_name_is_not_trained_on(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for split in ("train", "val", "extra"):
            write_split(tmp_path / "in", split, {"a": SQUARE, "b": SQUARE})
        assert augment(tmp_path / "in", tmp_path / "out") == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert "copied split 'extra', which data.yaml does not name 1" in lines
        facts = yaml.safe_load((tmp_path / "out/data.yaml").read_text())
        assert (facts["train"], facts["val"], "test" in facts) == ("images/train", "images/val", False)

    def test_without_a_yaml_and_without_a_split_to_validate_on(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_split(tmp_path / "in", "train2017", {"a": SQUARE, "b": SQUARE})
        write_split(tmp_path / "in", "train2014", {"a": SQUARE})
        assert augment(tmp_path / "in", tmp_path / "none") == 2
        assert "expected a split to train on, got train2014, train2017; name the split" in capsys.readouterr().err
        assert augment(tmp_path / "in", tmp_path / "out", "--split", "train2017") == 0
        assert "data.yaml: expected a split to validate on, got none; add the key val to it" in capsys.readouterr().err
        facts = yaml.safe_load((tmp_path / "out/data.yaml").read_text())
        assert facts["train"] == ["images/train2017", "images/train2014"]
        assert facts["names"] == {0: "class_0", 1: "class_1"}


class TestBoxes:
    def test_keypoints_are_not_copied_beside_boxes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = write_yolo(tmp_path / "in", {"a": POSE, "b": POSE}, kpt_shape=[2, 3], flip_idx=[1, 0])
        assert augment(data, tmp_path / "out", "--task", "detect", OF_BOXES) == 0
        assert "expected labels of the task detect to copy val, got pose (segpaste convert" in capsys.readouterr().err
        assert not (tmp_path / "out/images/val").exists()
        assert YoloDataset(tmp_path / "out", "train").task == "detect"

    @pytest.mark.parametrize(("text", "facts"), [(BOX, {}), (POSE, {"kpt_shape": [2, 3], "flip_idx": [1, 0]})])
    def test_filled_boxes_only_where_they_are_asked_for(
        self, tmp_path: Path, text: str, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        data = write_yolo(tmp_path / "in", {"a": text, "b": f"{text}\n2{text[1:]}", "c": None}, **facts)
        assert augment(data, tmp_path / "out") == 2
        message = "data.yaml/train: expected masks, got boxes only, so nothing can be pasted; give source.mask_from"
        assert message in capsys.readouterr().err
        assert augment(data, tmp_path / "out", OF_BOXES) == 0
        assert check(data, tmp_path / "out") == 0
        words = ["replay", str(tmp_path / "out"), "--dataset", str(data), "--out", str(tmp_path / "again")]
        assert main(words) == 0
        assert tree(tmp_path / "again/labels") == {
            name: digest for name, digest in tree(tmp_path / "out/labels").items() if name.startswith("train")
        }
        dataset = YoloDataset(tmp_path / "out")
        tables = read_json(tmp_path / "out/annotations.json")
        assert dataset.task == ("pose" if facts else "detect")
        assert any(row["segpaste"]["pasted"] for row in tables["annotations"])
        assert not any("segmentation" in row for row in tables["annotations"])
        for i, image in enumerate(tables["images"]):
            boxes = [row["bbox"] for row in tables["annotations"] if row["image_id"] == image["id"]]
            expected = [[x, y, x + w, y + h] for x, y, w, h in boxes]
            np.testing.assert_allclose(dataset[i].boxes.reshape(-1, 4), np.reshape(expected, (-1, 4)), atol=1e-4)

    def test_the_keypoints_keep_their_form(self, tmp_path: Path) -> None:
        """Points of two numbers stay so, for those of the copied splits are."""
        text = f"{BOX} 0.15 0.3 0.25 0.5"
        facts = {"kpt_shape": [2, 2], "flip_idx": [1, 0], "kpt_names": {0: ["left", "right"]}}
        data = write_yolo(tmp_path / "in", {"a": text, "b": text}, **facts)
        assert augment(data, tmp_path / "out", OF_BOXES) == 0
        written = yaml.safe_load((tmp_path / "out/data.yaml").read_text())
        assert (written["kpt_shape"], written["flip_idx"], written["kpt_names"][1]) == (
            [2, 2],
            [1, 0],
            ["left", "right"],
        )
        assert YoloDataset(tmp_path / "out")[0].keypoint_schema == YoloDataset(data)[0].keypoint_schema

    def test_what_needs_masks_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = write_yolo(tmp_path / "in", {"a": BOX, "b": BOX})
        assert main(["bank", "build", str(data), "--out", str(tmp_path / "bank")]) == 2
        assert "expected masks, got boxes only, from which no object can be cut" in capsys.readouterr().err
        assert augment(data, tmp_path / "out", OF_BOXES, "--layout", "label-maps") == 2
        assert "--layout label-maps: expected masks in data.yaml/train, got boxes only" in capsys.readouterr().err
        assert augment(data, tmp_path / "out", OF_BOXES, "--task", "obb") == 2
        assert "--task obb: expected masks in data.yaml/train, got boxes only" in capsys.readouterr().err

    def test_oriented_boxes_stay_oriented(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": SQUARE, "b": SQUARE})
        assert augment(data, tmp_path / "out") == 0
        rows = [line for path in (tmp_path / "out/labels/train").iterdir() for line in path.read_text().splitlines()]
        assert {len(row.split()) for row in rows} == {9}
        assert YoloDataset(tmp_path / "out").is_oriented

    def test_a_replay_takes_the_task_that_was_augmented(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": SQUARE, "b": SQUARE})
        assert augment(data, tmp_path / "out", "--task", "obb") == 0
        assert (
            main(
                [
                    "replay",
                    str(tmp_path / "out"),
                    "--dataset",
                    str(data),
                    "--check",
                    str(tmp_path / "out"),
                    "--task",
                    "obb",
                ]
            )
            == 0
        )

    def test_boxes_stay_boxes_in_other_layouts(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": BOX, "b": BOX})
        assert augment(data, tmp_path / "out", OF_BOXES, "--layout", "coco") == 0
        rows = read_json(tmp_path / "out/annotations.json")["annotations"]
        assert rows
        assert not any("segmentation" in row for row in rows)
        assert not open_dataset(tmp_path / "out").has_masks
        assert check(data, tmp_path / "out") == 0
