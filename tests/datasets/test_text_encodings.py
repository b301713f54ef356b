"""Text files of every reader in other encodings than UTF-8, read if they declare theirs, else named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.datasets import DatasetError, open_dataset
from segpaste.datasets.checking.listings.file_listings import list_yolo
from segpaste.datasets.formats.yolo.data import read_data

WORD = {"utf-16": "杯", "utf-16-le": "cup", "gbk": "杯", "latin-1": "é"}
POINTS = [[4, 4], [20, 4], [20, 20]]
FLAT = [edge for point in POINTS for edge in point]


def photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 24), (9, 90, 200)).save(path)


def coco(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "images" / "a.png")
    image = {"id": 1, "file_name": "a.png", "width": 32, "height": 24}
    row = {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [FLAT], "bbox": [4, 4, 16, 16], "iscrowd": 0}
    tables = {"images": [image], "annotations": [row], "categories": [{"id": 1, "name": word}]}
    return root / "annotations.json", json.dumps(tables, ensure_ascii=False)


def labelme(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "a.png")
    shape = {"label": word, "points": POINTS, "shape_type": "polygon", "group_id": None, "flags": {}}
    size = {"imageHeight": 24, "imageWidth": 32}
    return root / "a.json", json.dumps(
        {"shapes": [shape], "imagePath": "a.png", "imageData": None, **size}, ensure_ascii=False
    )


def labelme_list(root: Path, word: str) -> tuple[Path, str]:
    path, text = labelme(root, "cup")
    path.write_text(text)
    return root / "labels.txt", f"cup\n{word}\n"


def label_studio(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "a.png")
    value = {"points": [[10, 10], [50, 10], [50, 50]], "polygonlabels": [word]}
    size = {"original_width": 32, "original_height": 24}
    region = {"id": "r", "type": "polygonlabels", "value": value, "to_name": "image", "from_name": "label", **size}
    return root / "project.json", json.dumps(
        [{"id": 1, "data": {"image": "a.png"}, "annotations": [{"result": [region]}]}], ensure_ascii=False
    )


def via(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "a.png")
    shape = {"name": "polygon", "all_points_x": [4, 20, 20], "all_points_y": [4, 4, 20]}
    region = {"shape_attributes": shape, "region_attributes": {"kind": word}}
    entry = {"filename": "a.png", "size": 7, "regions": [region], "file_attributes": {}}
    return root / "via.json", json.dumps({"a.png7": entry}, ensure_ascii=False)


def ndjson(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "a.png")
    head = {"type": "dataset", "task": "segment", "class_names": {"0": word}}
    record = {"type": "image", "file": "a.png", "annotations": {"segments": [[0, 0.1, 0.1, 0.6, 0.1, 0.6, 0.6]]}}
    return root / "a.ndjson", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, record))


def xml(word: str) -> str:
    box = "<bndbox><xmin>5</xmin><ymin>5</ymin><xmax>20</xmax><ymax>20</ymax></bndbox>"
    size = "<size><width>32</width><height>24</height><depth>3</depth></size>"
    return f"<annotation><filename>a.png</filename>{size}<object><name>{word}</name>{box}</object></annotation>"


def voc_xml(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "JPEGImages" / "a.png")
    return root / "Annotations" / "a.xml", xml(word)


def voc_list(root: Path, word: str) -> tuple[Path, str]:
    path, text = voc_xml(root, "cup")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return root / "ImageSets" / "Main" / "train.txt", f"a\n{word}\n"


def voc_maps(root: Path, name: str, text: str) -> tuple[Path, str]:
    photo(root / "JPEGImages" / "a.png")
    for folder in ("SegmentationClass", "SegmentationObject"):
        photo(root / folder / "a.png")
        Image.fromarray(np.pad(np.ones((4, 4), np.uint8), ((9, 11), (9, 19)))).save(root / folder / "a.png")
    return root / name, text


def yolo(root: Path, name: str, text: str, **others: str) -> tuple[Path, str]:
    photo(root / "images" / "train" / "a.png")
    (root / "labels" / "train").mkdir(parents=True)
    (root / "labels" / "train" / "a.txt").write_text("0 0.1 0.1 0.4 0.1 0.4 0.4\n")
    for other, content in others.items():
        (root / f"{other}.yaml").write_text(content)
    return root / name, text


def maps(root: Path, name: str, text: str, **keys: str) -> tuple[Path, str]:
    photo(root / "a.png")
    Image.fromarray(np.zeros((24, 32), np.uint8)).save(root / "m.png")
    declared = {"photos": "a.png", "classes": ["cup"], "semantic": {"files": "m.png"}, **keys}
    (root / "segpaste.yaml").write_text(json.dumps(declared))
    return root / name, text


def cvat(root: Path, word: str) -> tuple[Path, str]:
    photo(root / "images" / "a.png")
    polygon = f'<polygon label="{word}" points="4,4;20,4;20,20"/>'
    image = f'<image id="0" name="a.png" width="32" height="24">{polygon}</image>'
    return root / "annotations.xml", f"<annotations><version>1.1</version>{image}</annotations>"


FILES: dict[str, Callable[[Path, str], tuple[Path, str]]] = {
    "coco": coco,
    "labelme": labelme,
    "labelme list": labelme_list,
    "label studio": label_studio,
    "via": via,
    "ndjson": ndjson,
    "voc xml": voc_xml,
    "voc list": voc_list,
    "voc names": lambda root, word: voc_maps(root, "class_names.txt", f"_background_\n{word}\n"),
    "voc labelmap": lambda root, word: voc_maps(root, "labelmap.txt", f"background:0,0,0::\n{word}:128,0,0::\n"),
    "yolo classes": lambda root, word: yolo(root, "classes.txt", f"{word}\n"),
    "yolo yaml": lambda root, word: yolo(root, "data.yaml", f"train: images/train\nnames: [{word}]\n"),
    "yolo list": lambda root, word: yolo(
        root, "train.txt", f"images/train/a.png\n# {word}", data="train: train.txt\nnames: [cup]\n"
    ),
    "yolo labels": lambda root, word: yolo(root, "labels/train/a.txt", f"0 {word}", data="train: images\nnames: [a]\n"),
    "map classes": lambda root, word: maps(root, "names.txt", f"{word}\n", classes="names.txt"),
    "map declaration": lambda root, word: maps(root, "segpaste.yaml", f"photos: a.png # {word}\n"),
    "cvat": cvat,
}
JSON = ("coco", "labelme", "label studio", "via")
XML = ("voc xml", "cvat")


def written(root: Path, case: str, encoding: str, word: str, declaration: str = "") -> Path:
    path, text = FILES[case](root, word)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((declaration + text).encode(encoding))
    return path


@pytest.mark.parametrize("case", FILES)
def test_one_error_names_the_file_and_the_remedy(tmp_path: Path, case: str) -> None:
    for encoding, word in WORD.items():
        root = tmp_path / encoding
        path = written(root, case, encoding, word)
        if encoding.startswith("utf-16") and (case in JSON or case in XML):
            if encoding == "utf-16" or case == "coco":
                photos = open_dataset(root)
                assert photos.class_names == (word,)
                assert photos[0].labels.tolist() == [0]
            continue
        if (case, encoding) == ("ndjson", "utf-16-le"):  # its first line is not recognised
            continue
        with pytest.raises(DatasetError) as caught:
            open_dataset(root)[0]
        found = "UTF-16" if encoding.startswith("utf-16") else "bytes of another encoding, such as Latin-1 or GBK"
        assert str(caught.value).startswith(f"{path}: expected text in UTF-8, got {found}"), encoding
        assert str(caught.value).endswith("; save the file as UTF-8")
        assert "codec" not in str(caught.value)


@pytest.mark.parametrize(
    "case", [case for case in FILES if case not in ("map declaration", "yolo list", "yolo labels")]
)
def test_a_mark_of_utf_8_is_no_text(tmp_path: Path, case: str) -> None:
    written(tmp_path, case, "utf-8-sig", "a" if case == "voc list" else "cup")
    assert open_dataset(tmp_path)[0].image.shape == (3, 24, 32)


@pytest.mark.parametrize("case", XML)
@pytest.mark.parametrize(
    ("encoding", "word"), [("gbk", "杯"), ("iso-8859-1", "é"), ("windows-1251", "чашка"), ("shift_jis", "杯")]
)
def test_xml_is_read_in_the_encoding_that_it_declares(tmp_path: Path, case: str, encoding: str, word: str) -> None:
    written(tmp_path, case, encoding, word, f'<?xml version="1.0" encoding="{encoding}"?>')
    photos = open_dataset(tmp_path)
    assert photos.class_names == (word,)


def test_xml_that_declares_another_encoding(tmp_path: Path) -> None:
    path = written(tmp_path, "voc xml", "latin-1", "é", '<?xml version="1.0" encoding="gbk"?>')
    with pytest.raises(DatasetError, match=rf"{path}: expected text in gbk, as its first line declares"):
        open_dataset(tmp_path)


def test_check_goes_on_after_a_label_file(tmp_path: Path) -> None:
    path = written(tmp_path, "yolo labels", "gbk", "杯")
    found = [finding for finding in list_yolo(read_data(tmp_path), "train").findings if finding.kind == "broken_entry"]
    assert [finding.message for finding in found] == [
        f"{path}: expected text in UTF-8, got bytes of another encoding, such as Latin-1 or GBK, in line 1; save the "
        "file as UTF-8"
    ]


def test_null_bytes_are_no_encoding(tmp_path: Path) -> None:
    """A disk that was full or lost power leaves zeros, after the text or in place of it."""
    for case, content in {"yolo labels": b"\0" * 99, "map classes": b"cup\n" + b"\0" * 99}.items():
        path = written(tmp_path / case, case, "utf-8", "")
        path.write_bytes(content)
        with pytest.raises(
            DatasetError, match="expected text in UTF-8, got null bytes; download or write the file again"
        ):
            open_dataset(tmp_path / case)


def test_a_config(tmp_path: Path) -> None:
    for suffix in ("yaml", "json"):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes('{"max_instances": 7}'.encode("utf-8-sig"))
        assert BatchCopyPasteConfig.load(path).max_instances == 7
        path.write_bytes('{"max_instances": 7}'.encode("utf-16"))
        with pytest.raises(ValueError, match=rf"{path}: expected text in UTF-8, got UTF-16; save the file as UTF-8"):
            BatchCopyPasteConfig.load(path)
