"""What a tool is started from: splits that it needs, the call, its own file; the suites of trainers run these calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from probes import YOLO, write
from split_files import HEIGHT, NUM_OBJECTS, WIDTH, write_splits

from segpaste import augment_dataset
from segpaste.cli import main
from segpaste.datasets import AnnotatedDataset, DatasetError, convert_dataset, find_dataset
from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.conversion.for_tool import expect_instances
from segpaste.datasets.conversion.summary import ConversionSummary
from segpaste.types import DenseSample

TRAINERS = ("ultralytics", "rfdetr", "libreyolo", "lightly-train")
NEEDS_VAL = {"ultralytics": "val", "rfdetr": "valid", "lightly-train": "val"}
AWAY = pytest.mark.filterwarnings("ignore:data.yaml. expected a split to validate on")
NO_OTHERS = pytest.mark.filterwarnings("ignore:.*they are left out")


def converted(folder: Path, tool: str, *splits: str, **options: Any) -> ConversionSummary:
    return convert_dataset(write_splits(folder / "in", splits), folder / "out", tool=tool, **options)


@pytest.mark.parametrize("tool", TRAINERS)
def test_two_splits_start(tool: str, tmp_path: Path) -> None:
    summary = converted(tmp_path, tool, "train", "val")
    assert summary.start is not None
    assert str(summary.out) in summary.start.call
    assert summary.start.lacks == ""
    assert summary.is_without_loss
    assert {report.split for report in summary.for_tool} == {"train", "valid" if tool == "rfdetr" else "val"}


@AWAY
@pytest.mark.parametrize("tool", TRAINERS)
def test_one_split_says_what_is_missing(tool: str, tmp_path: Path) -> None:
    summary = converted(tmp_path, tool, "train")
    assert summary.start is not None
    assert not summary.losses
    if tool not in NEEDS_VAL:
        assert summary.start.lacks == ""
        return
    assert f"a split named {NEEDS_VAL[tool]}, to validate on" in summary.start.lacks
    assert "got train" in summary.start.lacks
    assert f"segpaste convert OTHER --for {tool} --out DIR" in summary.start.lacks
    assert not summary.is_without_loss


@AWAY
def test_splits_of_other_names_are_told(tmp_path: Path) -> None:
    summary = converted(tmp_path, "rfdetr", "a", "b")
    assert summary.start is not None
    assert "splits named train and valid, to train on and validate on" in summary.start.lacks
    assert "got a, b" in summary.start.lacks


def test_a_tool_without_a_call_of_its_own_has_no_start(tmp_path: Path) -> None:
    assert converted(tmp_path, "torchvision", "train").start is None


def test_a_folder_that_the_tool_does_not_start_from_is_told(tmp_path: Path) -> None:
    start = converted(tmp_path, "rfdetr", "train", "val", to="coco").start
    assert start is not None
    assert start.call == ""
    assert start.lacks == "RF-DETR segment does not start from folders of the format coco; leave --to out"


def test_the_files_of_tools_name_the_written_ones(tmp_path: Path) -> None:
    for tool, to in (("libreyolo", None), ("lightly-train", None), ("lightly-train", "yolo")):
        summary = converted(tmp_path / f"{tool} {to}", tool, "train", "val", to=to)
        document = yaml.safe_load((summary.out / f"{tool}.yaml").read_text())
        if tool == "libreyolo":
            places = [document["train"], document["annotations"]["train"]]
            assert document["names"] == {0: "cat", 1: "dog"}
        elif to is None:
            tables = document["train"]["annotations"]
            places = [tables, Path(tables).parent / document["train"]["images"]]
        else:
            places = [Path(document["path"]) / document["train"]]
            assert "nc" not in document
        assert all((summary.out / place).exists() for place in places)
        assert {"train", "val"} <= document.keys()


def test_the_file_of_a_tool_does_not_change_the_format_of_the_folder(tmp_path: Path) -> None:
    for tool in ("libreyolo", "lightly-train"):
        out = converted(tmp_path / tool, tool, "train", "val").out
        assert find_dataset(out).format.name == "coco"
        assert len(find_dataset(out).open("val")) == 3
        again = convert_dataset(out, tmp_path / tool / "again", "coco")
        assert not again.losses


@AWAY
def test_the_command_prints_it_and_strict_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_splits(tmp_path / "in", ["train"])
    words = ["convert", str(data), "--for", "ultralytics", "--strict", "--out"]
    assert main([*words, str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"start    yolo segment train model=yolo11n-seg.pt data={tmp_path / 'out' / 'data.yaml'}" in lines
    assert lines[-1].startswith("lacks    Ultralytics segment needs a split named val")
    assert main([*words, str(tmp_path / "json"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["start"]["lacks"].startswith("Ultralytics segment needs a split named val")
    assert told["for_tool"][0]["split"] == "train"
    assert told["num_objects"] == {"train": NUM_OBJECTS}
    assert told["is_without_loss"] is False


@AWAY
@NO_OTHERS
@pytest.mark.parametrize("tool", TRAINERS)
def test_an_augmented_dataset_tells_it_too(tool: str, tmp_path: Path) -> None:
    data = write_splits(tmp_path / "in")
    summary = augment_dataset(data, tmp_path / "out", num=2, tool=tool, gallery=0)
    assert summary.start is not None
    assert bool(summary.start.lacks) == (tool in NEEDS_VAL)
    file = tmp_path / "out" / f"{tool}.yaml"
    assert file.exists() == (tool in ("libreyolo", "lightly-train"))
    if tool == "libreyolo":
        document = yaml.safe_load(file.read_text())
        assert (tmp_path / "out" / document["train"]).is_dir()
        assert (tmp_path / "out" / document["annotations"]["train"]).is_file()


def test_splits_that_are_copied_count(tmp_path: Path) -> None:
    data = converted(tmp_path / "yolo", "ultralytics", "train", "val").out
    summary = augment_dataset(data, tmp_path / "out", num=2, tool="ultralytics", gallery=0)
    assert summary.start is not None
    assert summary.start.lacks == ""
    assert [report.split for report in summary.for_tool] == ["train", "val"]


@AWAY
@NO_OTHERS
@pytest.mark.parametrize(("tool", "num"), [("lightly-train", 0), ("libreyolo", 1)])
def test_crowds_that_a_tool_trains_on_are_left_out_of_an_augmented_dataset(tool: str, num: int, tmp_path: Path) -> None:
    """Without pastes the region of the first image stays; it is written or counted."""
    data = write_splits(tmp_path / "in", crowd=True)
    options: dict[str, Any] = {"num": 3, "gallery": 0, "overrides": {"placement.paste_prob": 0.0}}
    summary = augment_dataset(data, tmp_path / "out", tool=tool, **options)
    tables = json.loads((tmp_path / "out" / "annotations.json").read_text())
    left_out = {what: count for what, count in summary.left_out.items() if "crowd" in what}
    assert sum(row["iscrowd"] for row in tables["annotations"]) == num
    assert left_out == ({} if num else {"crowd and ignored regions, left out for LightlyTrain": 1})
    assert tables["info"]["segpaste"].get("left_out", {}).items() >= left_out.items()
    assert all(report.keeps_labels for report in summary.for_tool)


@pytest.mark.parametrize(("tool", "to"), [("ultralytics", "coco"), ("torchvision", "yolo"), ("rfdetr", "voc")])
def test_a_format_that_the_tool_does_not_read_is_refused(tool: str, to: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=rf"{tool} \(--for\): expected a format that it was seen to read.*got {to}"):
        converted(tmp_path, tool, "train", to=to)
    with pytest.raises(DatasetError, match=rf"got {to}"):
        augment_dataset(tmp_path / "in", tmp_path / "out", num=1, tool=tool, layout=to)
    assert not (tmp_path / "out").exists()


@AWAY
def test_boxes_among_outlines_become_boxes_for_the_task_detect(tmp_path: Path) -> None:
    write(YOLO["mixed_rows"], "yolo", tmp_path / "in")
    data = tmp_path / "in" / "data.yaml"
    with pytest.raises(DatasetError, match=r"has a box, .* a polygon.*--task detect.*--masks-from MODEL"):
        convert_dataset(data, tmp_path / "out", tool="ultralytics", splits=["train"])
    summary = convert_dataset(data, tmp_path / "out", tool="ultralytics", task="detect", splits=["train"])
    assert [(report.name, report.keeps_labels) for report in summary.for_tool] == [("ultralytics-detect", True)]
    assert all(len(line.split()) == 5 for file in (summary.out / "labels").rglob("*.txt") for line in file.open())


def write_maps(folder: Path) -> Path:
    """Write three images with semantic maps alone."""
    for name in ("images", "semantic"):
        (folder / name / "train").mkdir(parents=True)
    for number in range(3):
        values = np.full((HEIGHT, WIDTH), number % 2, np.uint8)
        Image.fromarray(np.full((HEIGHT, WIDTH, 3), number, np.uint8)).save(folder / f"images/train/{number}.png")
        Image.fromarray(values).save(folder / f"semantic/train/{number}.png")
    (folder / "classes.txt").write_text("sky\nroad\n")
    return folder


def test_semantic_maps_alone_are_refused(tmp_path: Path) -> None:
    maps = write_maps(tmp_path / "maps")
    told = "expected instances for .* a mask or box of each object, got semantic maps, .*; annotate the objects"
    for tool in ("ultralytics", "lightly-train"):
        with pytest.raises(DatasetError, match=told):
            convert_dataset(maps, tmp_path / "out", tool=tool)
        with pytest.raises(ValueError, match=told):
            augment_dataset(maps, tmp_path / "out", tool=tool, num=1)
    assert not (tmp_path / "out").exists()


def test_boxes_beside_semantic_maps_are_instances() -> None:
    class Boxes(AnnotatedDataset):
        has_masks, has_semantic_maps, boxes = False, True, 1

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> DenseSample:
            raise AssertionError("labels are listed without images")

        def instance_labels(self, index: int) -> list[int]:
            return [0] * (self.boxes if index else 0)

    given = Boxes()
    expect_instances("boxes", [given], TOOLS["ultralytics-detect"])
    given.boxes = 0
    with pytest.raises(DatasetError, match="boxes: expected instances for Ultralytics detect"):
        expect_instances("boxes", [given], TOOLS["ultralytics-detect"])


def test_each_call_is_of_a_format_that_the_tool_reads() -> None:
    for tool in TOOLS.values():
        assert {*tool.needs} <= {"train", "val"}
        assert all("{out}" in call for call in tool.starts.values())
        assert not tool.starts or (tool.reads_best is not None and tool.reads_best[0] in tool.starts)
