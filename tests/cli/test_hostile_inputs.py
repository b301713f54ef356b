"""Hostile datasets and places, each given to four commands: one clear line and exit code 2, or it works.

Whatever happens, no byte that was there changes, and nothing half-written lies under a final name.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from on_disk import noise, rectangle, runs, tree
from segpaste.cli import main

SIZE = (19, 23)
WORDS = ["labels.json", "--images", "photos"]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "augment": (["augment"], ["--out", "out", "--num", "1", "--gallery", "0"]),
    "bank build": (["bank", "build"], ["--out", "out", "--crop-size", "16", "--min-area", "1"]),
    "check": (["check"], ["--decode"]),
    "stats": (["stats"], []),
}
"""The words before and after those of the dataset."""
Tables = dict[str, Any]
Prepare = Callable[[Path, Tables], Any]
BUILT_TOO = {"nothing wrong", "BOM", "1 x 1", "CMYK", "two points", "spaces and unicode", "YOLO"}
"""Cases that work and that are built into a bank as well; the others would take as long again."""
NOT_JSON = ("a box of NaN",)  # other readers refuse the file, and the check says so
BOXES = {"boxes alone", "YOLO: boxes"}
"""Healthy datasets into which nothing can be pasted without more words."""


def good() -> Tables:
    """Two photos with two objects each."""
    masks = rectangle(SIZE, 2, 3, 9, 11), rectangle(SIZE, 10, 12, 17, 21)
    annotations = [
        {
            "id": 10 * i + j,
            "image_id": i,
            "category_id": 3 + j,
            "segmentation": runs(mask),
            "iscrowd": 0,
            "bbox": [[3, 2, 8, 7], [12, 10, 9, 7]][j],
        }
        for i in (1, 2)
        for j, mask in enumerate(masks)
    ]
    return {
        "images": [{"id": i, "file_name": f"{i}.png", "height": SIZE[0], "width": SIZE[1]} for i in (1, 2)],
        "annotations": annotations,
        "categories": [{"id": 3, "name": "cup"}, {"id": 4, "name": "car"}],
    }


def image(index: int, **values: Any) -> Prepare:
    return lambda folder, tables: tables["images"][index].update(values)


def row(**values: Any) -> Prepare:
    """A change of the last annotation."""
    return lambda folder, tables: tables["annotations"][-1].update(values)


def table(name: str, value: Any) -> Prepare:
    return lambda folder, tables: tables.update({name: value})


def without(name: str, key: str) -> Prepare:
    return lambda folder, tables: [entry.pop(key, None) for entry in tables[name]]


def text(content: str | bytes) -> Prepare:
    """Other content of the annotation file."""

    def write(folder: Path, tables: Tables) -> None:
        (folder / "labels.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def coded(encoding: str, start: bytes = b"") -> Prepare:
    """The good file in another encoding."""
    return lambda folder, tables: (folder / "labels.json").write_bytes(start + json.dumps(tables).encode(encoding))


def photo(save: Callable[[Path], Any]) -> Prepare:
    """Another file in place of the first photo."""
    return lambda folder, tables: save(folder / "photos" / "1.png")


def renamed(name: str) -> Prepare:
    """Another name of the first photo, in the table and on disk."""

    def rename(folder: Path, tables: Tables) -> None:
        tables["images"][0]["file_name"] = name
        (folder / "photos" / "1.png").rename(folder / "photos" / name)

    return rename


def mode(name: str, format: str) -> Prepare:
    """The first photo in another color mode and format."""
    return photo(lambda path: Image.fromarray(noise(SIZE)).convert(name).save(path, format))


def of_pixels(pixels: Any, format: str = "PNG") -> Prepare:
    return photo(lambda path: Image.fromarray(pixels).save(path, format))


def deep_bits(path: Path) -> None:
    """A PNG of 16 bits per color."""
    height, width = SIZE
    lines = b"".join(b"\0" + os.urandom(6 * width) for _ in range(height))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines))]
    data = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in [*chunks, (b"IEND", b"")]
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def vast(path: Path) -> None:
    """A PNG that claims 60,000 x 60,000 pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    start = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + start + struct.pack(">I", 9) + b"IDAT" + bytes(13))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:400])


def linked(folder: Path, tables: Tables) -> None:
    """Photos and annotations behind links."""
    (folder / "real").mkdir()
    shutil.move(folder / "photos", folder / "real" / "photos")
    (folder / "photos").symlink_to(folder / "real" / "photos")
    (folder / "real" / "tables.json").write_text(json.dumps(tables))
    (folder / "labels.json").symlink_to(folder / "real" / "tables.json")


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def as_folder(folder: Path, tables: Tables) -> None:
    (folder / "labels.json").mkdir()


def tiny(folder: Path, tables: Tables) -> None:
    """A photo of one pixel with an object of one pixel."""
    Image.new("RGB", (1, 1)).save(folder / "photos" / "1.png")
    tables["images"][0].update(height=1, width=1)
    tables["annotations"][:2] = [{**tables["annotations"][0], "segmentation": {"size": [1, 1], "counts": [0, 1]}}]


def boxes_alone(folder: Path, tables: Tables) -> None:
    for entry in tables["annotations"]:
        entry.pop("segmentation")


def panoptic_words(folder: Path, tables: Tables) -> None:
    (folder / "maps").mkdir()


def yolo(yaml: str = "", label: str | bytes = "0 0.1 0.1 0.5 0.1 0.5 0.5\n") -> Prepare:
    """A YOLO dataset in the folder ``yolo``."""

    def write(folder: Path, tables: Tables) -> None:
        for name in ("images", "labels"):
            (folder / "yolo" / name / "train").mkdir(parents=True)
        for name in ("a", "b"):
            Image.fromarray(noise(SIZE)).save(folder / "yolo" / "images" / "train" / f"{name}.png")
            content = label if isinstance(label, bytes) else label.encode()
            (folder / "yolo" / "labels" / "train" / f"{name}.txt").write_bytes(content)
        if yaml:
            (folder / "yolo" / "data.yaml").write_text(yaml)

    return write


NAN, HUGE = float("nan"), 10**30
RUNS = runs(rectangle(SIZE, 2, 3, 9, 11))
YOLO = ["yolo"]
NAMES = "train: images/train\nnames: [cup]\n"
CASES: dict[str, tuple[Prepare, list[str], str | None]] = {
    "nothing wrong": (lambda folder, tables: None, WORDS, None),
    # the annotation file
    "no such file": (
        lambda folder, tables: None,
        ["none.json", "--images", "photos"],
        "expected a dataset, found neither file nor folder",
    ),
    "a folder for the file": (as_folder, WORDS, "got a folder without the files of one"),
    "an empty folder": (
        lambda folder, tables: (folder / "empty").mkdir(),
        ["empty"],
        "got a folder without the files of one",
    ),
    "a photo for the file": (
        lambda folder, tables: None,
        ["photos/1.png", "--images", "photos"],
        "got a file without the files of one",
    ),
    "a file for the folder": (
        lambda folder, tables: None,
        ["labels.json", "--images", "labels.json"],
        "expected a folder of images",
    ),
    "empty file": (text(""), WORDS, "expected JSON"),
    "blank file": (text(" \n"), WORDS, "expected JSON"),
    "null": (text("null"), WORDS, "expected a JSON object"),
    "a list": (text("[]"), WORDS, "expected a JSON object"),
    "a number": (text("1e999"), WORDS, "expected a JSON object"),
    "truncated": (lambda folder, tables: text(json.dumps(tables)[:-60])(folder, tables), WORDS, "expected JSON"),
    "two documents": (lambda folder, tables: text(json.dumps(tables) * 2)(folder, tables), WORDS, "expected JSON"),
    "BOM": (coded("utf-8", b"\xef\xbb\xbf"), WORDS, None),
    "UTF-16": (coded("utf-16"), WORDS, None),
    "Latin-1": (text('{"images": "\xe9'.encode("latin-1")), WORDS, "expected text in UTF-8"),
    "null bytes": (text(b"\0" * 100), WORDS, "got null bytes; download or write the file again"),
    "very deep": (text('{"images": ' + "[" * 100_000), WORDS, "expected JSON"),
    "deep and closed": (
        text('{"images": ' + "[" * 900 + "]" * 900 + "}"),
        WORDS,
        "expected a list under the key 'annotations'",
    ),
    "zipped": (text(b"PK\x03\x04" + bytes(50)), WORDS, "expected JSON"),
    "YAML called JSON": (text("images:\n- 1\n"), WORDS, "expected JSON"),
    # tables
    "no images": (table("images", []), WORDS, "expected every id that annotation 10 refers to in 'images'"),
    "no categories": (table("categories", []), WORDS, "expected every id that annotation 10 refers to in 'categories'"),
    "no annotations": (table("annotations", []), WORDS, None),
    "annotations null": (table("annotations", None), WORDS, "expected a list under the key 'annotations'"),
    "images a mapping": (table("images", {"1": {}}), WORDS, "expected a list under the key 'images'"),
    "entry null": (table("annotations", [None]), WORDS, "annotations[0]: expected an object"),
    "category missing": (
        lambda folder, tables: tables["categories"].pop(),
        WORDS,
        "expected every id that annotation 11 refers to in 'categories', got 4",
    ),
    "ids as text": (row(id="12"), WORDS, "expected 'id' of type int"),
    "photo ids as text": (row(image_id="2"), WORDS, "expected 'image_id' of type int"),
    "ids as floats": (row(id=12.0), WORDS, "expected 'id' of type int"),
    "ids as truth": (row(id=True), WORDS, "expected 'id' of type int"),
    "an id beyond 64 bits": (row(id=HUGE), WORDS, None),
    "a negative id": (row(id=-5), WORDS, None),
    "a category of text": (row(category_id="car"), WORDS, "expected 'category_id' of type int"),
    "a list as id": (row(image_id=[2]), WORDS, "expected 'image_id' of type int"),
    "duplicate ids": (row(id=10), WORDS, "expected unique ids in 'annotations'"),
    "duplicate photos": (image(1, id=1), WORDS, "expected unique ids in 'images'"),
    "duplicate categories": (
        table("categories", [{"id": 3, "name": "cup"}] * 2),
        WORDS,
        "expected unique ids in 'categories'",
    ),
    "names alike": (table("categories", [{"id": 3, "name": "cup"}, {"id": 4, "name": "cup"}]), WORDS, None),
    "names of lists": (
        table("categories", [{"id": 3, "name": ["cup"]}, {"id": 4, "name": "car"}]),
        WORDS,
        "expected 'name' of type str",
    ),
    "a name of controls": (table("categories", [{"id": 3, "name": "\x1b[2J"}, {"id": 4, "name": "\n"}]), WORDS, None),
    "an empty name": (table("categories", [{"id": 3, "name": ""}, {"id": 4, "name": " "}]), WORDS, None),
    "category ids at the limits": (
        lambda folder, tables: (
            tables["categories"].__setitem__(1, {"id": 2**63, "name": "far"}),
            [entry.update(category_id=2**63) for entry in tables["annotations"] if entry["category_id"] == 4],
        ),
        WORDS,
        None,
    ),
    "no file name": (without("images", "file_name"), WORDS, "expected a 'file_name' of image 1"),
    "a file name of a number": (image(0, file_name=5), WORDS, "expected a 'file_name' of image 1"),
    "an empty file name": (image(0, file_name=""), WORDS, "expected an image"),
    # sizes
    "a negative size": (image(0, height=-19), WORDS, "expected a size of image 1 > 0"),
    "a size of zero": (image(0, width=0), WORDS, "expected a size of image 1 > 0"),
    "a size as float": (image(0, width=23.0), WORDS, "expected 'width' of type int"),
    "a vast size": (image(0, width=HUGE, height=HUGE), WORDS, "pixels as in the annotation file"),
    "a large size": (
        image(0, width=70_000, height=70_000),
        WORDS,
        "expected 70000 x 70000 pixels as in the annotation file",
    ),
    "sizes swapped": (
        image(0, height=SIZE[1], width=SIZE[0]),
        WORDS,
        "expected 19 x 23 pixels as in the annotation file",
    ),
    # masks
    "NaN in a polygon": (row(segmentation=[[1, 1, NAN, 5, 6, 7]]), WORDS, "expected polygon coordinates in pixels"),
    "infinity in a polygon": (
        row(segmentation=[[1, 1, float("inf"), 5, 6, 7]]),
        WORDS,
        "expected polygon coordinates in pixels",
    ),
    "a huge number in a polygon": (
        row(segmentation=[[1, 1, HUGE, 5, 6, 7]]),
        WORDS,
        "expected polygon coordinates in pixels",
    ),
    "text in a polygon": (
        row(segmentation=[["1", "1", "5", "5", "1", "5"]]),
        WORDS,
        "expected polygon coordinates in pixels",
    ),
    "truth in a polygon": (row(segmentation=[[True, False, 5, 5, 1, 5]]), WORDS, None),
    "half a point": (row(segmentation=[[1, 1, 5, 5, 1]]), WORDS, "expected each polygon as a list [x1"),
    "a flat polygon": (row(segmentation=[1, 1, 5, 5, 1, 5]), WORDS, "expected each polygon as a list [x1"),
    "two points": (row(segmentation=[[1, 1, 5, 5]]), WORDS, None),
    "no polygon": (row(segmentation=[]), WORDS, None),
    "a polygon far outside": (row(segmentation=[[900, 900, 950, 900, 950, 950]]), WORDS, None),
    "a deep segmentation": (row(segmentation=[[[[1]]]]), WORDS, "expected each polygon as a list [x1"),
    "no mask": (row(segmentation=None), WORDS, None),
    "a mask of text": (row(segmentation="mask.png"), WORDS, "expected a segmentation"),
    "runs of another size": (
        row(segmentation={"size": [5, 5], "counts": [25]}),
        WORDS,
        "expected the image's 'size' [19",
    ),
    "runs that do not fill": (
        row(segmentation={**RUNS, "counts": [5]}),
        WORDS,
        "expected run lengths that fill 19 x 23 pixels",
    ),
    "negative runs": (
        row(segmentation={**RUNS, "counts": [-5, 442]}),
        WORDS,
        "expected run lengths that fill 19 x 23 pixels",
    ),
    "runs beyond 64 bits": (
        row(segmentation={**RUNS, "counts": [HUGE, 1]}),
        WORDS,
        "expected run lengths that fill 19 x 23 pixels",
    ),
    "runs of floats": (
        row(segmentation={**RUNS, "counts": [437.0]}),
        WORDS,
        "expected 'counts' as text or as a list of integers",
    ),
    "runs that break off": (row(segmentation={**RUNS, "counts": "ooo"}), WORDS, "expected compressed run lengths"),
    "runs of other letters": (
        row(segmentation={**RUNS, "counts": "\u00e9\u20ac"}),
        WORDS,
        "expected compressed run lengths",
    ),
    "runs without a size": (row(segmentation={"counts": [437]}), WORDS, "expected the image's 'size' [19"),
    "boxes alone": (boxes_alone, WORDS, "mask"),
    "a box of text": (row(bbox="3 2 8 7"), WORDS, None),
    "a box of NaN": (row(bbox=[NAN, 2, 8, 7]), WORDS, None),
    "a crowd without a region": (row(iscrowd=1, segmentation=None, bbox=None), WORDS, None),
    "a crowd of text": (row(iscrowd="0"), WORDS, "expected 'iscrowd' of annotation 21 as 0 or 1, got '0'"),
    # photos
    "photo missing": (photo(Path.unlink), WORDS, "expected an image, found no such file"),
    "photo empty": (photo(lambda path: path.write_bytes(b"")), WORDS, "expected an image, got another file"),
    "photo truncated": (photo(cut), WORDS, "expected an image, could not"),
    "photo of text": (
        photo(lambda path: path.write_text("<html>not found</html>")),
        WORDS,
        "expected an image, got another file",
    ),
    "photo of another size": (of_pixels(noise((5, 5))), WORDS, "expected 23 x 19 pixels as in the annotation file"),
    "photo is a folder": (
        photo(lambda path: (path.unlink(), path.mkdir())),
        WORDS,
        "expected an image, got a folder",
    ),
    "photo is a link to itself": (photo(loop), WORDS, "expected an image, could not"),
    "16 bits of grey": (of_pixels(np.zeros(SIZE, np.uint16)), WORDS, "expected an image of 8 bits per channel"),
    "16 bits per color": (photo(deep_bits), WORDS, "expected an image of 8 bits per channel, got 16"),
    "floats": (of_pixels(np.zeros(SIZE, np.float32), "TIFF"), WORDS, "expected an image of 8 bits per channel"),
    "CMYK": (mode("CMYK", "JPEG"), WORDS, None),
    "palette": (mode("P", "PNG"), WORDS, None),
    "one bit": (mode("1", "PNG"), WORDS, None),
    "transparent": (mode("RGBA", "PNG"), WORDS, None),
    "Lab": (mode("LAB", "TIFF"), WORDS, "expected an image of 8 bits per channel"),
    "a GIF called PNG": (mode("P", "GIF"), WORDS, None),
    "60,000 x 60,000": (photo(vast), WORDS, "expected an image"),
    "1 x 1": (tiny, WORDS, None),
    "folders behind links": (linked, WORDS, None),
    # names
    "spaces and unicode": (renamed("\u732b caf\u00e9 \U0001f600.png"), WORDS, None),
    "a name with ..": (image(0, file_name="../photos/1.png"), WORDS, None),
    "an absolute name": (
        lambda folder, tables: image(0, file_name=str(folder / "photos" / "1.png"))(folder, tables),
        WORDS,
        None,
    ),
    "a Windows path": (image(0, file_name="photos\\1.png"), WORDS, "expected an image, found no such file"),
    "a null in a name": (image(0, file_name="1\0.png"), WORDS, "expected an image, could not"),
    "a name of 1000 letters": (image(0, file_name="a" * 1000), WORDS, "expected an image"),
    "half a surrogate": (image(0, file_name="\ud83d.png"), WORDS, "expected an image, could not"),
    # formats mixed up
    "instances with maps": (
        panoptic_words,
        [*WORDS, "--panoptic-dir", "maps"],
        "expected panoptic segments with a folder of their PNG files",
    ),
    "panoptic without maps": (
        row(segments_info=[], file_name="1.png"),
        WORDS,
        "give it (panoptic_dir=, --panoptic-dir)",
    ),
    "segments of null": (
        lambda folder, tables: (
            panoptic_words(folder, tables),
            row(segments_info=None, file_name="1.png")(folder, tables),
        ),
        [*WORDS, "--panoptic-dir", "maps"],
        "expected the keys id, name, isthing",
    ),
    "a file with --split": (
        lambda folder, tables: None,
        [*WORDS, "--split", "train"],
        "expected no split (--split)",
    ),
    "YOLO": (yolo(NAMES), YOLO, None),
    "YOLO with --images": (yolo(NAMES), ["yolo", "--images", "photos"], "expected no images_dir (--images) with YOLO"),
    "YOLO: no such split": (yolo(NAMES), ["yolo", "--split", "nowhere"], "expected one of the splits train"),
    "YOLO: only val": (yolo("val: images/train\nnames: [cup]\n"), YOLO, "expected a split to train on"),
    "YOLO: YAML of a list": (yolo("- 1\n"), ["yolo/data.yaml"], "expected keys such as train"),
    "YOLO: YAML that is none": (yolo("a: [1"), ["yolo/data.yaml"], "expected YAML, got text that does not parse"),
    "YOLO: YAML with a tag": (
        yolo("train: !!python/object/apply:os.system ['true']\n"),
        ["yolo/data.yaml"],
        "expected YAML, got text that does not parse",
    ),
    "YOLO: YAML of bombs": (
        yolo("a: &a [x, x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(9)) + NAMES),
        ["yolo"],
        None,
    ),
    "YOLO: classes beyond": (yolo(NAMES, "7 0.1 0.1 0.5 0.1 0.5 0.5\n"), YOLO, "expected a class from 0 to 0"),
    "YOLO: pixels": (yolo(NAMES, "0 10 10 50 10 50 50\n"), YOLO, "expected coordinates from 0 to 1"),
    "YOLO: NaN": (yolo(NAMES, "0 nan 0.1 0.5 0.1 0.5 0.5\n"), YOLO, "expected coordinates from 0 to 1"),
    "YOLO: text": (yolo(NAMES, "cup 0.1\n"), YOLO, "expected numbers, got 'cup 0.1'"),
    "YOLO: UTF-16": (
        yolo(NAMES, "0 0.1 0.1 0.5 0.1 0.5 0.5\n".encode("utf-16")),
        YOLO,
        "expected text in UTF-8",
    ),
    "YOLO: boxes": (yolo(NAMES, "0 0.5 0.5 0.2 0.2\n"), YOLO, "expected masks, got boxes only"),
    "YOLO: boxes and polygons": (
        yolo(NAMES, "0 0.5 0.5 0.2 0.2\n0 0.1 0.1 0.5 0.1 0.5 0.5\n"),
        YOLO,
        "expected one of them in all rows",
    ),
    "YOLO: a class beyond 64 bits": (
        yolo("", f"{HUGE} 0.1 0.1 0.5 0.1 0.5 0.5\n"),
        YOLO,
        "expected a class from 0 to 65535",
    ),
}
"""Name to what is prepared, the words of the dataset, and what the line says; None where it works."""


OUT: dict[str, tuple[Callable[[Path], Any], str, str | None]] = {
    "new folders": (lambda folder: None, "a/b/out", None),
    "an empty folder": (lambda folder: (folder / "out").mkdir(), "out", None),
    "spaces and unicode": (lambda folder: None, "my out \u732b", None),
    "a link to an empty folder": (lambda folder: link(folder, "real"), "out", None),
    "a link to a new folder": (lambda folder: (folder / "out").symlink_to(folder / "nowhere"), "out", None),
    "a folder behind a link": (lambda folder: link(folder, "real"), "out/inner", None),
    "a full folder": (
        lambda folder: plant(folder / "out" / "mine.txt"),
        "out",
        "a new or an empty folder|to be new or",
    ),
    "a file": (lambda folder: plant(folder / "out"), "out", "a new or an empty folder|to be new or"),
    "the photos": (lambda folder: None, "photos", "a new or an empty folder|to be new or"),
    "the annotations": (lambda folder: None, "labels.json", "a new or an empty folder|to be new or"),
    "below a file": (lambda folder: None, "labels.json/out", "labels.json is a file"),
    "here": (lambda folder: None, ".", "a new or an empty folder|to be new or"),
    "the root": (lambda folder: None, "/", "got the root|a new or an empty folder|to be new or"),
    "a link to the photos": (
        lambda folder: (folder / "out").symlink_to(folder / "photos"),
        "out",
        "a new or an empty folder|to be new or",
    ),
    "a link to a file": (lambda folder: (folder / "out").symlink_to(folder / "labels.json"), "out", "empty folder"),
    "a link to itself": (lambda folder: (folder / "out").symlink_to(folder / "out"), "out", "Too many levels"),
    "a long name": (lambda folder: None, "x" * 300, "File name too long"),
    "no file system to write": (lambda folder: None, "/proc/out", "No such file|ermission"),
    "a foreign folder for unfinished files": (
        lambda folder: plant(folder / "out.partial" / "mine.txt"),
        "out",
        "out.partial: expected no folder, or one of an unfinished",
    ),
    "a link for unfinished files": (
        lambda folder: (plant(folder / "real" / "mine.txt"), (folder / "out.partial").symlink_to(folder / "real")),
        "out",
        "out.partial: expected no folder, or one of an unfinished",
    ),
}
"""Name to what is prepared, ``--out``, and what the line says; None where it works."""


def plant(path: Path) -> None:
    """Write a file of the user."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")


def link(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / "out").symlink_to(folder / name)


NOTHING = {"no annotations", "1 x 1"}
"""Cases of which `segpaste augment` says that nothing is pasted, with exit code 1."""


def state(folder: Path) -> dict[str, str]:
    """The bytes of all files but for logs, and the targets of all links."""
    links = {str(path.relative_to(folder)): os.readlink(path) for path in folder.rglob("*") if path.is_symlink()}
    return {name: digest for name, digest in tree(folder).items() if not name.endswith(".log")} | links


def write(folder: Path, prepare: Prepare = lambda folder, tables: None) -> None:
    (folder / "photos").mkdir()
    tables = good()
    for i in (1, 2):
        Image.fromarray(noise(SIZE, i)).save(folder / "photos" / f"{i}.png")
    prepare(folder, tables)
    if not os.path.lexists(folder / "labels.json"):
        (folder / "labels.json").write_text(json.dumps(tables))


def run(command: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and what stands on stderr, which is whole lines of ours."""
    start, options = COMMANDS[command]
    code = main([*start, *words, *options])
    said = capsys.readouterr().err
    assert all(line.startswith(("segpaste: error: ", "segpaste: warning: ")) for line in said.splitlines())
    assert said.count("segpaste: error: ") == (code == 2 or (code == 1 and command == "augment")), said
    assert "\x1b" not in said
    return code, said


def without_folders(words: list[str]) -> list[str]:
    """The words of a dataset without the options that `segpaste stats` does not have."""
    pairs = zip(words, ["", *words], strict=False)
    return [word for word, before in pairs if not {word, before} & {"--images", "--panoptic-dir"}]


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    prepare, words, says = CASES[name]
    write(tmp_path, prepare)
    before = state(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        if says is None and command == "bank build" and name not in BUILT_TOO:
            continue
        code, said = run(command, without_folders(words) if command == "stats" else words, capsys)
        if command == "stats":  # which looks at neither photos nor masks
            assert code in (0, 2)
        elif command == "check":
            assert (code == 0) == ((says is None or name in BOXES) and name not in NOT_JSON)
            assert said == "" or (says is not None and says in said)
        else:
            assert code == (0 if says is None else 2) or (code == 1 and "nothing" in said and name in NOTHING), said
            assert says is None or says in said
        if code in (0, 1) and command in ("augment", "bank build"):
            shutil.rmtree(tmp_path / "out", ignore_errors=code == 1)
        shutil.rmtree(tmp_path / "out.parts", ignore_errors=True)  # finished parts, for the same command again
        assert state(tmp_path) == before
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("command", ["augment", "bank build"])
@pytest.mark.parametrize("name", OUT)
def test_a_hostile_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    prepare, out, says = OUT[name]
    write(tmp_path)
    prepare(tmp_path)
    before = state(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, command, (COMMANDS[command][0], ["--out", out, *COMMANDS[command][1][2:]]))
    code, said = run(command, WORDS, capsys)
    assert code == (0 if says is None else 2), said
    if says is not None:
        assert any(part in said for part in says.split("|")), said
        assert state(tmp_path) == before
    else:
        assert (tmp_path / out / ("annotations.json" if command == "augment" else "meta.json")).is_file()
        assert {key: value for key, value in state(tmp_path).items() if key in before} == before
    left = {path.name for path in tmp_path.iterdir() if path.name.endswith((".partial", ".parts"))}
    assert left <= {"out.partial"} & {name.split("/")[0] for name in before}
