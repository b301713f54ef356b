"""Folders `labels` beside `images` with files of other formats: read as theirs, or one clear error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segpaste.cli import main
from segpaste.datasets import DatasetError, YoloDataset, find_dataset, open_dataset
from segpaste.datasets.checking.listings.file_listings import list_yolo
from segpaste.datasets.formats.yolo.data import read_data
from stored_files import png

PLACES = {
    "plain": ("images", "labels"),
    "split": ("images/train", "labels/train"),
    "inside": ("train/images", "train/labels"),
}
XML = (
    "<annotation><filename>{name}</filename><size><width>32</width><height>24</height></size><object><name>cup</name>"
    "<bndbox><xmin>5</xmin><ymin>5</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object></annotation>"
)
DOTA = "imagesource:x\ngsd:0.1\n5 5 20 5 20 20 5 20 plane 0\n"


def labelme(name: str) -> str:
    shape = {"label": "cup", "points": [[4, 4], [20, 4], [20, 20]], "shape_type": "polygon"}
    return json.dumps({"shapes": [shape], "imagePath": name, "imageHeight": 24, "imageWidth": 32})


def write(root: Path, place: str, suffix: str, text: str | bytes, *, stem: str = "{i}") -> Path:
    """Two images, and a file of annotations for each, in the folders of a place of `PLACES`."""
    images, labels = (root / folder for folder in PLACES.get(place, ("images", place)))
    for folder in (images, labels):
        folder.mkdir(parents=True, exist_ok=True)
    for i in range(2):
        Image.new("RGB", (32, 24)).save(images / f"{i}.png")
        content = text.replace("{name}", f"{i}.png") if isinstance(text, str) else text
        file = labels / f"{stem.format(i=i)}{suffix}"
        file.write_text(content) if isinstance(content, str) else file.write_bytes(content)
    return root


@pytest.mark.parametrize("place", [*PLACES, "annotations", "json", "ann"])
@pytest.mark.parametrize("suffix", [".json", ".JSON"])
@pytest.mark.parametrize("name", ["{name}", "../images/{name}", "..\\\\images\\\\train\\\\{name}"])
def test_labelme(tmp_path: Path, place: str, suffix: str, name: str) -> None:
    photos = open_dataset(write(tmp_path, place, suffix, labelme("NAME").replace("NAME", name)))
    assert find_dataset(tmp_path).format.name == "labelme"
    assert [photos[i].labels.tolist() for i in range(2)] == [[0], [0]]
    assert [photos.file_name(i) for i in range(2)] == ["0.png", "1.png"]


@pytest.mark.parametrize("place", [*PLACES, "annotations", "xml"])
@pytest.mark.parametrize("suffix", [".xml", ".XML"])
def test_xml_of_voc(tmp_path: Path, place: str, suffix: str) -> None:
    photos = open_dataset(write(tmp_path, place, suffix, XML))
    assert find_dataset(tmp_path).format.name == "voc"
    assert [photos[i].boxes.tolist() for i in range(2)] == [[[4, 4, 20, 20]]] * 2


@pytest.mark.parametrize("place", PLACES)
def test_label_files_in_upper_case(tmp_path: Path, place: str) -> None:
    photos = open_dataset(write(tmp_path, place, ".TXT", "0 0.5 0.5 0.25 0.5\n"))
    assert [photos[i].boxes.tolist() for i in range(2)] == [[[12, 6, 20, 18]]] * 2
    assert len(list_yolo(read_data(tmp_path), "train").objects) == 2


@pytest.mark.parametrize("place", PLACES)
def test_maps_show_the_declaration_to_write(tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a command prints it, in one line."""
    write(tmp_path, place, ".png", png(np.zeros((24, 32), np.uint8), 8))
    assert main(["check", str(tmp_path)]) == 2
    told, _, declaration = capsys.readouterr().err.partition("for example:")
    assert "expected segpaste.yaml with folders of maps" in told
    (tmp_path / "segpaste.yaml").write_text(declaration)
    assert open_dataset(tmp_path)[1].semantic_map is not None


@pytest.mark.parametrize("place", [*PLACES, "annotations"])
def test_files_of_no_reader_are_named(tmp_path: Path, place: str) -> None:
    write(tmp_path, place, ".json", '{"some": "thing"}')
    where = {"inside": "train/labels", "annotations": "annotations"}.get(place, "labels")
    with pytest.raises(DatasetError, match=rf"expected a dataset of one of the formats .*2 \.json .*in {where}/"):
        open_dataset(tmp_path)


OTHERS = ("csv", "webp", "pgm", "pfm", "mat", "pkl", "geojson", "ndjson", "jsonl", "tsv", "rle", "ann", "yaml", "gz")


@pytest.mark.parametrize("suffix", [*(f".{end}" for end in OTHERS), ".xlsx", ".svg", ".html", ".txt~", ".any", ""])
def test_files_that_are_no_text_are_no_empty_labels(tmp_path: Path, suffix: str) -> None:
    for place in PLACES:
        root = write(tmp_path / place, place, suffix, "x,1,2,3\n")
        there = rf"2 {re.escape(suffix)} files" if suffix else "2 files without a suffix"
        with pytest.raises(DatasetError, match=rf"expected a dataset .*, but {there}.* in "):
            open_dataset(root)
        (root / "data.yaml").write_text(f"train: {PLACES[place][0]}\nnames: [cup]\n")
        with pytest.raises(DatasetError, match=rf"expected label files of YOLO such as 0\.txt, got {there}"):
            open_dataset(root)


@pytest.mark.parametrize("place", ["plain", "split"])
def test_one_table_of_all_labels(tmp_path: Path, place: str) -> None:
    """In the folder `labels`, also if images and labels have folders for their splits."""
    root = write(tmp_path, place, ".txt", "")
    for file in (root / PLACES[place][1]).iterdir():
        file.unlink()
    assert len(open_dataset(root)) == 2
    (root / "labels/labels.csv").write_text("image,x,y,w,h,c\n0.png,1,2,3,4,cup\n")
    with pytest.raises(DatasetError, match=r"but 1 \.csv files in labels/"):
        open_dataset(root)
    (root / "data.yaml").write_text(f"train: {PLACES[place][0]}\nnames: [cup]\n")
    with pytest.raises(DatasetError, match=r"got 1 \.csv files"):
        open_dataset(root)


def test_other_labels_in_the_folder_of_the_images(tmp_path: Path) -> None:
    for i in range(2):
        Image.new("RGB", (32, 24)).save(tmp_path / f"{i}.png")
    (tmp_path / "data.yaml").write_text("train: .\nnames: [cup]\n")
    (tmp_path / "0.npy").touch()  # an image that a trainer has decoded
    assert len(open_dataset(tmp_path)) == 2
    (tmp_path / "1.csv").touch()
    with pytest.raises(DatasetError, match=r"expected label files of YOLO such as 0\.txt, got 1 \.csv files"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "train.cache",
        "labels.cache.npy",
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
        "README.md",
        "readme.txt",
        "LICENSE",
        "classes.txt",
        ".ipynb_checkpoints/0-checkpoint.json",
        "__MACOSX/0.xml",
    ],
)
def test_files_that_are_no_labels(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, "plain", ".txt", "") / "labels" / name
    for labels in (tmp_path / "labels").iterdir():
        labels.unlink()
    file.parent.mkdir(exist_ok=True)
    file.write_text("cup\n")
    assert [open_dataset(tmp_path)[i].num_instances for i in range(2)] == [0, 0]


def test_label_files_in_a_folder_of_another_name(tmp_path: Path) -> None:
    write(tmp_path, "annotations", ".txt", "0 0.5 0.5 0.25 0.5\n")
    with pytest.raises(DatasetError, match=r"text files in annotations/ \(those of YOLO are in labels/"):
        open_dataset(tmp_path)
    (tmp_path / "annotations").rename(tmp_path / "labels")
    assert open_dataset(tmp_path)[1].boxes.tolist() == [[12, 6, 20, 18]]


def test_a_data_yaml_beside_other_labels(tmp_path: Path) -> None:
    """The YAML declares YOLO, so other files are an error, whose advice is followed here."""
    write(tmp_path, "split", ".json", labelme("{name}"))
    (tmp_path / "data.yaml").write_text("train: images/train\nnames: [cup]\n")
    message = (
        r"labels/train: expected label files of YOLO such as 0\.txt, got 2 \.json files \(JSON\); convert them, or name"
    )
    with pytest.raises(DatasetError, match=message):
        YoloDataset(tmp_path)
    with pytest.raises(DatasetError, match=message):
        list_yolo(read_data(tmp_path), "train")
    assert open_dataset(tmp_path, format="labelme")[0].num_instances == 1


def test_label_files_of_other_names(tmp_path: Path) -> None:
    """Label Studio's export of YOLO puts a hash before the names of uploaded images."""
    write(tmp_path, "plain", ".txt", "0 0.5 0.5 0.2 0.2\n", stem="abcd1234-{i}")
    with pytest.raises(DatasetError, match=r"0\.txt, found none of them, but 2 others, such as abcd1234-0\.txt"):
        open_dataset(tmp_path)


def test_images_without_objects_stay_a_dataset(tmp_path: Path) -> None:
    write(tmp_path, "plain", ".txt", "")
    for name in ("0.txt", "1.txt"):
        assert [open_dataset(tmp_path)[i].num_instances for i in range(2)] == [0, 0]
        (tmp_path / "labels" / name).unlink()
    assert [open_dataset(tmp_path)[i].num_instances for i in range(2)] == [0, 0]


def test_text_of_dota(tmp_path: Path) -> None:
    write(tmp_path, "plain", ".txt", DOTA)
    with pytest.raises(DatasetError, match=r"line 1: expected numbers, got 'imagesource:x', a row of DOTA; write"):
        open_dataset(tmp_path)
    findings = list_yolo(read_data(tmp_path), "train").findings
    assert sum("a row of DOTA" in finding.message for finding in findings) == 6
