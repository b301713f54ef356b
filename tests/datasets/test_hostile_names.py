"""Unusual but valid names of images and classes: each format gives them back, or says what it changed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from segpaste.datasets import convert_dataset, find_dataset, open_dataset
from segpaste.datasets.conversion.names import TakenNames, photo_names
from segpaste.datasets.conversion.summary import ConversionSummary
from segpaste.datasets.formats.text_files import class_list_text, class_names_of, image_name_of, lines_of
from segpaste.datasets.formats.voc.files import listed_classes
from segpaste.datasets.writers.registry import WRITTEN, written_format

SIZE = (20, 32)
FORMATS = tuple(form.name for form in WRITTEN)
IMAGES = (
    *("img.png", "img (1).png", "img  1.png", "img -1.png", " img.png", "img .png", "IMG.png", "1.png", "x/1.png"),
    *("../x/1.png", "a:b.png", "a_b.png", "x_1.png", "é.png", "e\u0301.png", ".hidden.png", ".h/a.png", "#a.png"),
    *('"q".png', "a.b.png", "a\u2028b.png", "a\nb.png", "日本.png", "c.jpeg", "c.JPG", "images/1.png", "a,b;c.png"),
)
CLASSES = {
    "twice": ("cup", "cup", "mug", "fork"),
    "empty": ("cup", "", "mug", "fork"),
    "blanks at the ends": ("cup", "cup ", " mug", "fork"),
    "background": ("background", "cup", "_background_", "fork"),
    "background first": ("_background_", "cup", "mug", "fork"),
    "numbers": ("0", "1", "2 3 4 x", "-1"),
    "a colour and a name each": ("1 2 3 a", "1 2 3 b", "1 2 3 c", "1 2 3 d"),
    "marks": ("#cup", "a,b", "a: b", '"q"'),
    "yaml": ("null", "- a", "[y]", "{x: 1}"),
    "ends of lines": ("a\u2028b", "a\x85b", "a\tb", "a\nb"),
    "returns": ("a\rb", "\ufeffcup", "\u200b", "🥄"),
    "strings": ('"', '""', '"a', "a\\nb"),
    "ignored": ("__ignore__", "cup", "ignore", "255"),
    "xml": ("<cup>", "&amp;", "]]>", "a'b"),
}


def square(number: int) -> tuple[int, int, int, int]:
    """The box of an object (x, y, w, h), another one for each number."""
    return 2 + 7 * (number % 4), 2 + 4 * (number // 8), 4 + number // 4 % 2, 3


def write_coco(folder: Path, names: Sequence[str], classes: Sequence[str], objects: Sequence[Sequence[int]]) -> Path:
    """Write images and their objects, which are squares of the given classes; each image has another colour."""
    images, rows = [], []
    for number, name in enumerate(names, start=1):
        path = folder / "photos/in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", SIZE[::-1], (number, 99, 7)).save(path, format="PNG")
        images.append({"id": number, "file_name": name, "height": SIZE[0], "width": SIZE[1]})
        for place, label in enumerate(objects[number - 1]):
            x, y, w, h = square(place)
            row = {"id": len(rows) + 1, "image_id": number, "category_id": label + 1, "iscrowd": 0, "area": w * h}
            rows.append({**row, "bbox": [x, y, w, h], "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]})
    tables = {"images": images, "annotations": rows}
    tables["categories"] = [{"id": i + 1, "name": name} for i, name in enumerate(classes)]
    (folder / "a.json").write_text(json.dumps(tables))
    return folder / "a.json"


def converted(path: Path, out: Path, to: str) -> ConversionSummary:
    with warnings.catch_warnings(action="ignore"):
        return convert_dataset(path, out, to, images_dir=path.parent / "photos/in")


def found(out: Path) -> dict[int, list[tuple[str, list[float]]]]:
    """The class and box of each object by the red channel of its image, as our reader gives them."""
    with warnings.catch_warnings(action="ignore"):
        photos = open_dataset(out, find_dataset(out).splits[0] or None)
        samples = [photos[i] for i in range(len(photos))]
    return {
        int(sample.image[0, 0, 0]): sorted(
            (photos.class_names[label], box)
            for label, box in zip(sample.labels.tolist(), sample.boxes.round().tolist(), strict=True)
        )
        for sample in samples
    }


@pytest.mark.parametrize("to", FORMATS)
def test_images(tmp_path: Path, to: str) -> None:
    """Every image comes back with its own objects; names that differ from the given ones are counted."""
    objects = [[0] * (1 + number % 3) for number in range(len(IMAGES))]
    path = write_coco(tmp_path, IMAGES, ["cup"], objects)
    summary = converted(path, tmp_path / "out", to)
    again = found(tmp_path / "out")
    assert {number: len(rows) for number, rows in again.items()} == {n: len(o) for n, o in enumerate(objects, start=1)}
    with warnings.catch_warnings(action="ignore"):
        photos = open_dataset(tmp_path / "out", find_dataset(tmp_path / "out").splits[0] or None)
    files = {int(photos[i].image[0, 0, 0]): photos.photo_file(i)[0].as_posix() for i in range(len(photos))}
    assert len({file.casefold() for file in files.values()}) == len(IMAGES)  # on any file system
    changed = [name for number, name in enumerate(IMAGES, start=1) if not files[number].endswith(f"/{name}")]
    assert summary.losses["file names of images"] == len(changed)
    assert not {"img (1).png", "img  1.png", "img.png", "日本.png", "a.b.png"} & {*changed}


@pytest.mark.parametrize("names", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("to", ["voc", "label-maps", "yolo"])
def test_classes(tmp_path: Path, to: str, names: tuple[str, ...]) -> None:
    """An object of each class comes back with its class: the same name at the same place of the list."""
    objects = [[3], [1, 2], [0]]
    path = write_coco(tmp_path, ["1.png", "2.png", "3.png"], names, objects)
    summary = converted(path, tmp_path / "out", to)
    wanted = {
        number: sorted(
            (names[label], [x, y, x + w, y + h])
            for label, (x, y, w, h) in zip(own, map(square, range(9)), strict=False)
        )
        for number, own in enumerate(objects, start=1)
    }
    assert found(tmp_path / "out") == wanted
    assert not summary.losses
    photos = open_dataset(tmp_path / "out", find_dataset(tmp_path / "out").splits[0] or None)
    assert photos.class_names[-4:] == names


@pytest.mark.parametrize("names", CLASSES.values(), ids=CLASSES)
def test_classes_of_boxes_in_xml(tmp_path: Path, names: tuple[str, ...]) -> None:
    """XML names classes, so the second class of one name cannot be told from the first, which is counted."""
    path = write_coco(tmp_path, ["1.png"], names, [[0, 1, 2, 3]])
    tables: Any = json.loads(path.read_text())
    for row in tables["annotations"]:
        del row["segmentation"]
    path.write_text(json.dumps(tables))
    summary = converted(path, tmp_path / "out", "voc")
    assert [name for name, _ in found(tmp_path / "out")[1]] == sorted(names)
    counted = {"numbers of classes whose name stands twice": 1} if len({*names}) < 4 else {}
    assert dict(summary.losses) == counted


def test_a_class_that_no_format_of_text_holds(tmp_path: Path) -> None:
    """XML has no control characters: one error says so; the list of label maps and YAML have them."""
    path = write_coco(tmp_path, ["1.png"], ["a\x01b", "cup"], [[0, 1]])
    with pytest.raises(
        ValueError, match=r"1\.png: expected class names of characters that XML can hold, got 'a\\x01b'"
    ):
        converted(path, tmp_path / "voc", "voc")
    for to in ("label-maps", "yolo"):
        converted(path, tmp_path / to, to)
        assert [name for name, _ in found(tmp_path / to)[1]] == ["a\x01b", "cup"]


class TestLists:
    @pytest.mark.parametrize("names", [*CLASSES.values(), ("\x00", "\ud800", "\xa0a", " "), ("",), ()])
    def test_what_is_written_is_read(self, names: tuple[str, ...]) -> None:
        text = class_list_text(names)
        text.encode()
        assert class_names_of(text) == list(names)
        assert class_names_of(text.replace("\n", "\r\n")) == list(names)

    def test_ordinary_names_are_lines(self) -> None:
        assert class_list_text(["traffic light", "café", "a:b"]) == "traffic light\ncafé\na:b\n"
        assert class_names_of("\n a \n\nb\n\n\n") == ["", "a", "", "b"]

    def test_only_line_feeds_end_lines(self) -> None:
        assert lines_of("a\x0cb\u2028c \r\nd\n") == ["a\x0cb\u2028c ", "d"]
        assert lines_of("") == []

    @pytest.mark.parametrize(
        ("line", "there", "name"),
        [
            *(("img (1)", (), "img (1)"), ("img  1", (), "img"), ("img 1", ("img 1", "img"), "img 1")),
            *((" a ", (" a ", "a"), " a "), (" a ", ("a",), "a"), ("img (1) 1", ("img (1)",), "img (1)")),
            *(("a -1", ("a",), "a"), ("  ", (), "")),
        ],
    )
    def test_images_of_voc(self, line: str, there: tuple[str, ...], name: str) -> None:
        assert image_name_of(line, there.__contains__, has_flags=True) == name

    def test_images_of_yolo(self, tmp_path: Path) -> None:
        """A list of paths keeps blanks, and has no flags."""
        for name in (" a .png", "b 1.png"):
            (tmp_path / "images").mkdir(exist_ok=True)
            Image.new("RGB", SIZE[::-1]).save(tmp_path / "images" / name)
        (tmp_path / "labels").mkdir()
        (tmp_path / "list.txt").write_text("images/ a .png\n  images/b 1.png  \n")
        (tmp_path / "data.yaml").write_text("train: list.txt\nnames: [cup]\n")
        photos = open_dataset(tmp_path)
        assert [photos.file_name(i) for i in range(2)] == ["images/ a .png", "images/b 1.png"]

    def test_lines_without_a_name_keep_the_places_of_others(self, tmp_path: Path) -> None:
        """LabelImg and labelme number the lines of their lists, empty ones too."""
        (tmp_path / "class_names.txt").write_text("_background_\ncup\n\nmug\ncup\n\n")
        assert listed_classes(tmp_path)[0] == ["_background_", "cup", "", "mug", "cup"]
        (tmp_path / "class_names.txt").unlink()
        (tmp_path / "labelmap.txt").write_text("# label\nbackground:0,0,0::\na: b:1,2,3::\nc:::\n")
        names, colors = listed_classes(tmp_path)
        assert (names, colors[1, 2, 3]) == (["background", "a: b", "c"], 1)

    def test_splits_named_like_lists_of_a_class(self, tmp_path: Path) -> None:
        path = write_coco(tmp_path, ["img 1.png"], ["cup"], [[0]])
        (tmp_path / "in/annotations").mkdir(parents=True)
        (tmp_path / "photos/in").rename(tmp_path / "in/my_train")
        path.rename(tmp_path / "in/annotations/instances_my_train.json")
        convert_dataset(tmp_path / "in", tmp_path / "out", "voc")
        assert find_dataset(tmp_path / "out").splits == ("my_train",)


SUFFIXES = {
    # suffix, format of Pillow: suffix in datasets whose readers search for images
    (".jfif", "JPEG"): ".jpg",
    (".jpe", "JPEG"): ".jpg",
    (".JPG", "JPEG"): ".JPG",
    (".gif", "GIF"): ".png",
    (".ppm", "PPM"): ".png",
    (".tga", "TGA"): ".png",
    ("", "PNG"): ".png",
    (".v2", "PNG"): ".v2.png",
    (".TIFF", "TIFF"): ".TIFF",
    (".avif", "AVIF"): ".avif",
    (".jp2", "JPEG2000"): ".jp2",
    (".mpo", "MPO"): ".mpo",
}


@pytest.mark.parametrize("to", ["yolo", "voc", "label-maps"])
def test_suffixes(tmp_path: Path, to: str) -> None:
    """Files are copied, or encoded again without a change of their pixels, which is counted."""
    path = write_coco(
        tmp_path, [f"{i}{suffix}" for i, (suffix, _) in enumerate(SUFFIXES)], ["cup"], [[0]] * len(SUFFIXES)
    )
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[..., 1] = 99
    for i, (suffix, kind) in enumerate(SUFFIXES):
        Image.fromarray(pixels).save(tmp_path / "photos/in" / f"{i}{suffix}", format=kind)
    before = open_dataset(path, images_dir=tmp_path / "photos/in")
    summary = converted(path, tmp_path / "out", to)
    after = open_dataset(tmp_path / "out")
    names = [Path(after.file_name(i)).name for i in range(len(after))]
    hard = {".avif", ".jp2", ".mpo"} if to == "voc" else set()
    wanted = [f"{i}{'.png' if new in hard else new}" for i, new in enumerate(SUFFIXES.values())]
    assert sorted(names) == sorted(wanted)
    for i, name in enumerate(wanted):
        assert after[names.index(name)].image.equal(before[i].image)
        assert after[names.index(name)].num_instances == 1
    redrawn = {key: num for key, num in summary.losses.items() if key.startswith("files of images")}
    assert sum(redrawn.values()) == sum(name.endswith(".png") for name in wanted)
    assert summary.losses["file names of images"] == 2  # .jfif and .jpe


def test_frames_after_the_first_are_counted(tmp_path: Path) -> None:
    path = write_coco(tmp_path, ["a.gif"], ["cup"], [[0]])
    frames = [Image.new("RGB", SIZE[::-1], (shade, 0, 0)) for shade in (10, 200, 90)]
    frames[0].save(tmp_path / "photos/in/a.gif", save_all=True, append_images=frames[1:])
    summary = converted(path, tmp_path / "out", "yolo")
    assert summary.losses["frames of images after the first"] == 2
    assert abs(int(open_dataset(tmp_path / "out")[0].image[0, 0, 0]) - 10) < 4


class _Named:
    """Dataset of names only."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def file_name(self, index: int) -> str:
        return self.names[index]


def test_names_that_are_encoded_again_meet_no_other() -> None:
    names: Any = photo_names(
        _Named("a.jpg", "a.jpeg", "b/a.png", "a.gif", "A.PNG"), written_format("coco"), TakenNames()
    )
    assert list(names.copied) == ["a.jpg", "a.jpeg", "b/a.png", "a.gif", "A.PNG"]
    assert list(names.drawn) == ["a_2.png", "a_3.png", "b/a.png", "a_4.png", "A.PNG"]


def test_a_file_and_a_folder_of_one_name() -> None:
    names: Any = photo_names(_Named("x.png", "../x.png/1.png", "y/1.png", "../y"), written_format("coco"), TakenNames())
    assert list(names.copied) == ["x.png", "x.png_1.png", "y/1.png", "y_2"]


@pytest.mark.parametrize("to", FORMATS)
def test_long_names(tmp_path: Path, to: str) -> None:
    """Names of folders are joined by some formats; what is too long then is shortened, and counted as renamed."""
    names = [
        "x" * 251 + ".png",
        "é" * 119 + ".png",
        *("/".join([*"ab", end * 200, "z" * 200 + ".png"]) for end in "yz"),
    ]
    source = write_coco(tmp_path / "in", names, ["cup"], [[0]] * len(names))
    summary = convert_dataset(source, tmp_path / "out", to, images_dir=tmp_path / "in/photos/in")
    photos = open_dataset(tmp_path / "out")
    found = {photos.file_name(index).split("/")[-1] for index in range(len(photos))}
    assert len(photos) == len(names)
    assert {names[0], names[1]} <= found
    num = sum(len(name) > 251 and name != names[0] for name in found)
    assert summary.losses.get("file names of images", 0) == num == (2 if written_format(to).flat else 0)
