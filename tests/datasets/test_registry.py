"""The registry of formats: names, the page that lists them, and behaviour without a format or with an unknown one."""

from __future__ import annotations

import json
from pathlib import Path

import health_files
import pytest
from coco_files import write_many

from segpaste.augmenting import augment_dataset, replay_dataset
from segpaste.augmenting.options import LAYOUTS
from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.formats.registry import FORMATS
from segpaste.datasets.writers.registry import WRITTEN
from yolo_files import write_yolo

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "formats.md"


def rows_of(part: int) -> list[str]:
    """Return the rows of the table of one part of the page: formats that are read, that are written."""
    text = PAGE.read_text().split("## Formats that are written")[part]
    return [line for line in text.splitlines() if line.startswith("| `")]


def test_names_are_unique() -> None:
    assert len({known.name for known in FORMATS}) == len(FORMATS)


def test_the_page_lists_every_format_in_the_order_of_recognition() -> None:
    assert rows_of(0) == [f"| `{known.name}`: {known.title} | {known.files} | {known.gives} |" for known in FORMATS]


def test_the_page_lists_every_written_format() -> None:
    assert rows_of(1) == [f"| `{known.name}`: {known.title} | {known.files} | {known.holds} |" for known in WRITTEN]
    assert tuple(known.name for known in WRITTEN) == LAYOUTS


def test_the_readme_says_what_is_read_and_what_is_written() -> None:
    written = {known.name for known in WRITTEN}
    assert written <= {known.name for known in FORMATS}
    text = (ROOT / "README.md").read_text().split("| format | name | read | written |")[1]
    assert [line for line in text.split("\n\n")[0].splitlines() if line.startswith("| ") and "---" not in line] == [
        f"| {known.title} | `{known.name}` | yes | {'yes' if known.name in written else 'no'} |" for known in FORMATS
    ]


def test_a_format_by_name(tmp_path: Path) -> None:
    """A folder with the files of two formats is of the first one, or of the one that is named."""
    write_yolo(tmp_path)
    (tmp_path / "coco").mkdir()
    images, path = write_many(tmp_path / "coco")
    path.rename(tmp_path / "annotations.json")
    for photo in images.iterdir():
        photo.rename(tmp_path / "images" / photo.name)
    assert find_dataset(tmp_path).format.name == "yolo"
    assert find_dataset(tmp_path, "coco").format.name == "coco"
    assert len(open_dataset(tmp_path, format="coco")) == 7


def test_formats_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"format \(--from\): expected one of maps, .*, got 'tfrecord'"):
        find_dataset(tmp_path, "tfrecord")
    path = write_yolo(tmp_path)
    with pytest.raises(DatasetError, match="a dataset of Roboflow's COCO exports, got a file without the files"):
        open_dataset(path, format="roboflow")


def test_a_folder_of_no_format(tmp_path: Path) -> None:
    """The error separates the names of the formats, and names a file to give instead."""
    with pytest.raises(DatasetError) as found:
        find_dataset(tmp_path)
    error, names = str(found.value), ", ".join(known.name for known in FORMATS)
    assert error.startswith(
        f"{tmp_path}: expected a dataset of one of the formats {names} (docs/guide/formats.md), got"
    )
    assert error.endswith(
        "; check the path, declare maps in segpaste.yaml (docs/guide/maps.md), write COCO JSON, or make samples in "
        "Python (docs/tasks/own-format.md)"
    )
    (tmp_path / "annotations").mkdir()
    for path in (tmp_path / "annotations" / "train.json", tmp_path / "a.json"):
        path.write_text('{"images": []}')
        with pytest.raises(DatasetError, match=rf"; check the path, give the file {path} with .*--images\), declare"):
            find_dataset(tmp_path)


def test_annotations_in_the_folders_of_coco(tmp_path: Path) -> None:
    for split in ("train2017", "val2017"):
        (tmp_path / split).mkdir()
        images, path = write_many(tmp_path / split)
        images.rename(tmp_path / "photos")
        (tmp_path / "annotations").mkdir(exist_ok=True)
        path.rename(tmp_path / "annotations" / f"instances_{split}.json")
        path.parent.rmdir()
        (tmp_path / "photos").rename(tmp_path / split)
    (tmp_path / "annotations" / "instances_test2017.json").write_text("{}")  # whose photos are not there
    found = find_dataset(tmp_path)
    assert (found.format.name, found.splits) == ("coco", ("train2017", "val2017"))
    assert len(open_dataset(tmp_path)) == len(open_dataset(tmp_path, "val2017")) == 7


@pytest.mark.parametrize("kind", ["instances", "lvis"])
def test_panoptic_segments_beside_instances_of_a_split_are_named(tmp_path: Path, kind: str) -> None:
    """COCO's own folder: instances stay the choice, as their objects may overlap."""
    health_files.write(tmp_path, "panoptic")
    file = next((tmp_path / "annotations").glob("panoptic_*.json"))
    split = file.stem.removeprefix("panoptic_")
    tables = json.loads(file.read_text())
    text = json.dumps({**tables, "annotations": []})
    (tmp_path / f"annotations/{kind}_{split}.json").write_text(text)
    with pytest.warns(
        UserWarning, match=rf"panoptic_{split}\.json: the panoptic segments .*'coco-panoptic' as format="
    ) as caught:
        assert open_dataset(tmp_path, split)[0].semantic_map is None
    assert len(caught) == 1
    assert open_dataset(tmp_path, split, format="coco-panoptic")[0].semantic_map is not None


@pytest.mark.filterwarnings("ignore:.*the panoptic segments of the images")
def test_other_files_of_the_same_images_are_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    health_files.write(tmp_path / "in", "panoptic")
    file = next((tmp_path / "in/annotations").glob("panoptic_*.json"))
    split = file.stem.removeprefix("panoptic_")
    tables = json.loads(file.read_text())
    rows = [
        {"id": number, "image_id": image["id"], "category_id": tables["categories"][0]["id"], "bbox": [1, 1, 4, 4]}
        | {"segmentation": [[1, 1, 5, 1, 5, 5, 1, 5]], "area": 16, "iscrowd": 0}
        for number, image in enumerate(tables["images"], start=1)
    ]
    text = json.dumps({**tables, "annotations": rows})
    for kind in ("instances", "captions"):
        (tmp_path / f"in/annotations/{kind}_{split}.json").write_text(text)
    (tmp_path / f"in/annotations/instances_other_{split}.json").write_text("{}")  # of another split

    def names(*kinds: str) -> dict[str, int]:
        return {f"file 'annotations/{kind}_{split}.json', which is not read": 1 for kind in kinds}

    given, out = str(tmp_path / "in"), tmp_path / "out"
    for form, lost in (("coco", names("panoptic", "captions")), ("coco-panoptic", names("instances", "captions"))):
        summary = convert_dataset(given, tmp_path / form, "coco", format=form)
        assert {what: num for what, num in summary.losses.items() if "not read" in what} == lost
    capsys.readouterr()
    assert main(["convert", given, "--from", "coco", "--to", "coco", "--out", str(tmp_path / "new"), "--strict"]) == 1
    assert f"panoptic_{split}.json" in capsys.readouterr().out
    augmented = augment_dataset(given, out, num=2, format="coco", gallery=0)
    assert augmented.left_out.items() >= names("panoptic", "captions").items()
    again = replay_dataset(out, given, tmp_path / "again", format="coco")
    assert again.left_out.items() >= names("panoptic", "captions").items()
