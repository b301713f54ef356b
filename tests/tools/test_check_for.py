"""What tools do to a dataset, by `segpaste check --for` and `check_dataset(tools=)`: counts, places, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from probes import COCO, YOLO, write
from split_files import write_splits

from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, find_dataset, open_dataset


@pytest.fixture
def oriented(tmp_path: Path) -> Path:
    """Two images, of which torchvision turns one."""
    write(COCO["oriented"], "coco", tmp_path)
    return tmp_path


def test_a_report_has_what_the_tool_does_and_where(oriented: Path) -> None:
    dataset = open_dataset(oriented / "instances.json", images_dir=oriented / "images")
    torchvision, coco = check_dataset(dataset, tools=["pycocotools", "torchvision"]).tools
    assert not torchvision.keeps_labels
    (found,) = torchvision.findings
    assert (found.trait, found.effect, found.num_images, found.places) == ("oriented", "shifted", 1, ("special.jpg",))
    assert coco.keeps_labels
    assert not coco.findings


def test_a_report_without_tools_has_none(oriented: Path) -> None:
    dataset = open_dataset(oriented / "instances.json", images_dir=oriented / "images")
    assert check_dataset(dataset).tools == ()
    with pytest.raises(DatasetError, match=r"expected tools of ultralytics.*or all, got 'pytorch'"):
        check_dataset(dataset, tools=["torchvision", "pytorch"])


@pytest.mark.parametrize(("tools", "code"), [("torchvision", 1), ("torchvision,pycocotools", 1), ("pycocotools", 0)])
def test_the_exit_code_says_whether_a_label_is_lost(
    oriented: Path, tools: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", str(oriented / "instances.json"), "--images", str(oriented / "images"), "--for", tools]
    assert main(arguments) == code
    out = capsys.readouterr().out
    assert ("the label is at another place" in out) == bool(code)
    assert "healthy: 0 errors" in out


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    """A split to train on that all tools keep, and one to validate on with an image that Ultralytics leaves out."""
    write(YOLO["ordinary"], "yolo", tmp_path)
    write(YOLO["mixed_rows"], "yolo", tmp_path / "val")
    data = tmp_path / "data.yaml"
    given = yaml.safe_load(data.read_text())
    data.write_text(yaml.safe_dump({**given, "path": str(tmp_path), "val": "val/images"}))
    return data


def test_tools_are_told_of_all_splits(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(splits), "--for", "ultralytics", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["split"] == "train"
    assert [(tool["split"], len(tool["findings"])) for tool in report["tools"]] == [("train", 0), ("val", 1)]
    assert main(["check", str(splits), "--for", "ultralytics"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{splits}, split train: ")
    assert "for Ultralytics segment 8.4.190, split train: loses nothing" in out
    assert (
        "for Ultralytics segment 8.4.190, split val: not tried with the error of the split\n  images with both" in out
    )
    assert "other splits: val; only what tools do to them was checked" in out


def test_a_named_split_is_the_only_one(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(splits), "--split", "train", "--for", "ultralytics"]) == 0
    out = capsys.readouterr().out
    assert "split val" not in out
    assert "other splits: val; not checked" in out
    assert main(["check", str(splits)]) == 0
    assert "other splits: val; not checked" in capsys.readouterr().out


def test_a_missing_split_is_told(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = yaml.safe_load(splits.read_text())
    splits.write_text(yaml.safe_dump({key: value for key, value in given.items() if key != "val"}))
    for tools, exit_code in (("ultralytics", 1), ("all", 0)):  # none of all tools keeps everything
        assert main(["check", str(splits), "--for", tools]) == exit_code
        assert "Ultralytics segment needs a split named val, to validate on" in capsys.readouterr().out
    assert main(["check", str(splits), "--for", "ultralytics", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["tools"][0]["lacks"].startswith("Ultralytics segment needs")


def test_splits_for_which_all_tools_do_the_same_share_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(write_splits(tmp_path)), "--for", "all"]) in (0, 1)
    out = capsys.readouterr().out
    assert out.count("torchvision") == 1
    assert "tools, splits train, val\n" in out


def test_all_tools_have_a_line_each(oriented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(oriented / "instances.json"), "--images", str(oriented / "images"), "--for", "all"])
    out = capsys.readouterr().out
    assert sum("torchvision" in line for line in out.splitlines()) == 1
    assert "the label is at another place" in out


def test_json_has_the_reports(oriented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "check",
            str(oriented / "instances.json"),
            "--images",
            str(oriented / "images"),
            "--for",
            "torchvision",
            "--json",
        ]
    )
    (tool,) = json.loads(capsys.readouterr().out)["tools"]
    assert tool["name"] == "torchvision"
    assert tool["findings"][0]["places"] == ["special.jpg"]


def test_a_dataset_that_segpaste_refuses_is_checked_for_tools_too(tmp_path: Path) -> None:
    write(YOLO["mixed_rows"], "yolo", tmp_path)
    assert main(["check", str(tmp_path / "data.yaml"), "--for", "ultralytics"]) == 1


def test_an_unknown_tool_is_one_line(oriented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", str(oriented / "instances.json"), "--images", str(oriented / "images"), "--for", "pytorch"]
    assert main(arguments) == 2
    assert "got 'pytorch'; choose among them" in capsys.readouterr().err


def test_a_dataset_is_augmented_for_a_tool(oriented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, images, out = (str(oriented / name) for name in ("instances.json", "images", "out"))
    assert (
        main(
            ["augment", path, "--images", images, "--num", "2", "--gallery", "0", "--out", out, "--for", "ultralytics"]
        )
        == 0
    )
    assert (oriented / "out" / "data.yaml").exists()
    assert "for Ultralytics segment 8.4.190, split train: loses nothing" in capsys.readouterr().out


def swap_classes(folder: Path) -> Path:
    """Let the two classes of the split ``val`` have each other's id."""
    path = folder / "annotations" / "instances_val.json"
    tables = json.loads(path.read_text())
    tables["categories"] = [{**row, "id": 3 - row["id"]} for row in tables["categories"]]
    path.write_text(json.dumps(tables))
    return folder


@pytest.mark.parametrize(("tool", "mixes"), [("rfdetr", True), ("lightly-train", True), ("libreyolo", False)])
def test_classes_that_a_tool_would_mix_up_are_told_and_refused(
    tool: str, mixes: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = swap_classes(write_splits(tmp_path / "given")), tmp_path / "out"
    assert main(["check", str(folder), "--for", tool]) == mixes
    told = "takes the classes of the first split for all: 'cat' has the id 2, which is 'dog' in the first split"
    assert (told in capsys.readouterr().out) == mixes
    assert main(["convert", str(folder), "--for", tool, "--out", str(out)]) == 2 * mixes
    error = capsys.readouterr().err
    assert ("write --to yolo, which joins classes by name" in error) == mixes
    if mixes:
        assert main(["convert", str(folder), "--for", tool, "--to", "yolo", "--out", str(out)]) == 0
        written = find_dataset(out)
        labels = {split: written.open(split).instance_labels(0) for split in written.splits}
        assert labels == {"train": (0, 1), "val": (1, 0)}  # the first square of val is a dog


def test_errors_of_another_split_are_told_for_each_tool(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (splits.parent / "val" / "labels").glob("*.txt"):
        file.write_text("0 0.5 0.5 0.2\n")
    assert main(["check", str(splits), "--for", "ultralytics"]) == 1
    out = capsys.readouterr().out
    assert "split val: loses nothing" not in out
    assert "split val: not tried with the " in out
    assert "correct the errors first" in out


def test_a_split_whose_folder_is_missing_is_told(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = yaml.safe_load(splits.read_text())
    splits.write_text(yaml.safe_dump({**given, "val": "gone"}))
    assert main(["check", str(splits), "--for", "ultralytics"]) == 1
    out = capsys.readouterr().out
    assert "split train: loses nothing" in out
    assert "split val cannot be read: " in out


def test_a_dataset_is_augmented_with_run_lengths_that_the_tool_reads(tmp_path: Path) -> None:
    write(COCO["compressed"], "coco", tmp_path)
    path, images, out = (str(tmp_path / name) for name in ("instances.json", "images", "out"))
    arguments = ["augment", path, "--images", images, "--num", "2", "--gallery", "0", "--out", out]
    assert main([*arguments, "--for", "transformers-detr-masks"]) == 0
    rows = json.loads((tmp_path / "out" / "annotations.json").read_text())["annotations"]
    coded = [row["segmentation"] for row in rows if isinstance(row["segmentation"], dict)]
    assert coded
    assert all(isinstance(of["counts"], list) for of in coded)
    assert main(["replay", out, "--dataset", path, "--images", images, "--check", out]) == 0
