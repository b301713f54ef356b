"""Files of YOLO datasets: what a check and a conversion for a tool tell of them, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from all_probes import PROBES, write
from probe_traits import list_probe, places_in
from yolo_layouts import data_file

from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset, find_dataset
from segpaste.datasets.checking.tools.layout_traits import OF_DATA_YAML, OF_LAYOUTS
from segpaste.datasets.checking.tools.registry import TOOLS, tool_reports

TRAINERS = ("ultralytics", "rfdetr", "libreyolo", "lightly-train")
AWAY = pytest.mark.filterwarnings("ignore:data.yaml. expected a split to validate on")


def probe(name: str, folder: Path) -> Path:
    return write(PROBES["yolo"][name], "yolo", folder)


def test_every_layout_is_read_whole(tmp_path: Path) -> None:
    for name in PROBES["yolo"].keys() & {*OF_LAYOUTS, "flat_box", "flat_boxes", "no_pixel"}:
        folder = probe(name, tmp_path / name)
        data = data_file(folder)
        found = find_dataset(data if data.exists() else folder).read("train")
        assert [len(found.rows(index)) for index in range(len(found))] == [2, 2], name


@pytest.mark.parametrize("tool", TRAINERS)
def test_a_test_split_without_files_is_told_and_left_out(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = probe("missing_test", tmp_path / "in")
    data = folder / "data.yaml"
    data.write_text(data.read_text().replace("val: images", "val: images/"))
    assert main(["check", str(data), "--for", tool]) == 0
    told = capsys.readouterr().out
    assert "no files: split test; no tool that trains was seen to mind" in told
    assert "split val: loses nothing" in told
    with pytest.warns(UserWarning, match="expected files of the split test, found none; it is left out"):
        summary = convert_dataset(data, tmp_path / "out", tool=tool)
    assert list(summary.num_photos.values()) == [2, 2]
    assert summary.is_without_loss


def test_without_a_tool_a_test_split_without_files_is_refused(tmp_path: Path) -> None:
    data = probe("missing_test", tmp_path / "in") / "data.yaml"
    for options in ({"to": "coco"}, {"tool": "ultralytics", "splits": ["train", "test"]}):
        with pytest.raises(DatasetError, match="gone: expected a folder or a list of images, found neither"):
            convert_dataset(data, tmp_path / "out", **options)


def test_a_split_to_validate_on_without_files_is_refused(tmp_path: Path) -> None:
    data = probe("missing_test", tmp_path / "in") / "data.yaml"
    data.write_text(data.read_text().replace("val: images", "val: gone").replace("test: gone\n", ""))
    assert main(["check", str(data), "--for", "ultralytics"]) == 1
    with pytest.raises(DatasetError, match="gone: expected a folder"):
        convert_dataset(data, tmp_path / "out", tool="ultralytics")


@AWAY
def test_the_file_that_a_tool_is_started_from_is_what_counts(tmp_path: Path) -> None:
    out = convert_dataset(
        probe("no_path", tmp_path / "in") / "data.yaml",
        tmp_path / "out",
        "yolo",
        tool="lightly-train",
        splits=["train"],
    ).out
    assert (out / "lightly-train.yaml").exists()
    assert "no_path" in places_in("yolo", out)
    assert tool_reports(list_probe("yolo", out), [TOOLS["lightly-train"]])[0].findings == ()
    (out / "lightly-train.yaml").unlink()
    (told,) = tool_reports(list_probe("yolo", out), [TOOLS["lightly-train"]])
    assert {found.trait for found in told.findings} == {"no_path"}


@pytest.mark.parametrize("before", ["./", "{folder}/"])
def test_lists_that_are_found_from_everywhere_are_not_told(before: str, tmp_path: Path) -> None:
    folder = probe("listed_bare", tmp_path)
    file = folder / "train.txt"
    file.write_text("".join(f"{before.format(folder=folder)}{line}\n" for line in file.read_text().split()))
    assert {"listed", "listed_bare"} & places_in("yolo", folder).keys() == {"listed"}


def test_a_path_that_leads_to_the_dataset_is_not_told(tmp_path: Path) -> None:
    folder = probe("ordinary", tmp_path / "animals")
    data = folder / "data.yaml"
    for path, found in ((str(folder), set()), ("", set()), ("../animals", {"relative_path"})):
        data.write_text(f"path: {path!r}\ntrain: images\nval: images\nnames: {{0: cat, 1: dog, 2: bird}}\n")
        assert OF_DATA_YAML & places_in("yolo", folder).keys() == found


@AWAY
@pytest.mark.parametrize("task", [None, "segment"])
def test_rows_that_repeat_others_are_written_once(task: str | None, tmp_path: Path) -> None:
    folder = probe("repeated", tmp_path / "in")
    given = (folder / "labels" / "special.txt").read_text().splitlines(keepends=True)
    with pytest.warns(UserWarning, match="left out 1 row"):
        summary = convert_dataset(folder / "data.yaml", tmp_path / "out", "yolo", task=task, splits=["train"])
    assert (summary.out / "labels" / "train" / "special.txt").read_text() == "".join([given[0], given[2]])
    assert summary.losses == {"rows equal to another of their label file": 1}
    assert summary.verified.objects == 4
