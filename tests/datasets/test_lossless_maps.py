"""Maps are read only from files without losses, whatever they are called; losses change values along edges."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import image_row
from PIL import Image, features

from on_disk import rectangle
from segpaste import convert_dataset
from segpaste.datasets import DatasetError, check_dataset, open_dataset

SIZE = (48, 64)
VALUES = (rectangle(SIZE, 10, 10, 30, 40) + 2 * rectangle(SIZE, 30, 20, 44, 60)).astype(np.uint8)
LOSSY: dict[str, tuple[str, dict[str, Any]]] = {
    "JPEG": ("JPEG", {"quality": 95}),
    "JPEG, of two": ("MPO", {}),
    "lossy WebP": ("WEBP", {"quality": 90}),
    "lossy WebP, with alpha": ("WEBP", {"quality": 90, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    "AVIF": ("AVIF", {}),
    "JPEG 2000": ("JPEG2000", {"quality_mode": "rates", "quality_layers": [30]}),
    "JPEG 2000, other wavelet": ("JPEG2000", {"irreversible": True}),
    "a TIFF with JPEG": ("TIFF", {"compression": "jpeg"}),
}
HAS = {"AVIF": "avif", "WEBP": "webp", "JPEG2000": "jpg_2000"}
DECLARED = "photos: images/{{name}}.png\n{}: {{{{files: maps/{{name}}.{}}}}}\n"


def encoded(values: np.ndarray[Any, Any], form: str, **options: Any) -> bytes:
    if form in HAS and not features.check(HAS[form]):
        pytest.skip(f"Pillow has no {form}")
    file, picture = io.BytesIO(), Image.fromarray(values)
    picture.convert("RGB" if form == "WEBP" else picture.mode).save(file, form, **options)
    return file.getvalue()


def photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*SIZE, 3), 90, np.uint8)).save(path)


def declared(folder: Path, suffix: str, content: bytes, kind: str) -> Path:
    """Write a folder with one map, which a declaration names."""
    photo(folder / "images/1.png")
    text = f"photos: images/{{name}}.png\n{kind}: {{files: 'maps/{{name}}.{suffix}'"
    more = {
        "depth": ", unit: 0.001",
        "normals": ", axes: [right, down, forward]",
        "instances": ", encoding: number, class: cup",
    }.get(kind, "")
    (folder / "segpaste.yaml").write_text(f"{text}{more}}}\nclasses: [background, cup, fork]\n")
    (folder / "maps").mkdir()
    (folder / f"maps/1.{suffix}").write_bytes(content)
    return folder


def voc(folder: Path, suffix: str, content: bytes, kind: str) -> Path:
    """Write a dataset of VOC, with the map of classes or objects as given, and the other as PNG."""
    photo(folder / "JPEGImages/1.png")
    for name in ("SegmentationClass", "SegmentationObject"):
        (folder / name).mkdir()
        (folder / f"{name}/1.png").write_bytes(content if name == kind else encoded(VALUES, "PNG"))
    return folder


def panoptic(folder: Path, suffix: str, content: bytes, kind: str) -> Path:
    photo(folder / "images/1.png")
    (folder / "panoptic").mkdir()
    (folder / "panoptic/1.png").write_bytes(content)
    segments = [{"id": i, "category_id": 1, "iscrowd": 0, "area": 1, "bbox": [0, 0, 1, 1]} for i in (1, 2)]
    tables = {
        "images": [image_row(1, SIZE, "1.png")],
        "annotations": [{"image_id": 1, "file_name": "1.png", "segments_info": segments}],
        "categories": [{"id": 1, "name": "cup", "isthing": 1}],
    }
    (folder / "panoptic.json").write_text(json.dumps(tables))
    return folder


Writer = Callable[[Path, str, bytes, str], Path]
READERS: dict[str, tuple[Writer, str, str]] = {
    "declared classes": (declared, "semantic", "png"),
    "declared classes in their own suffix": (declared, "semantic", "jpg"),
    "declared objects": (declared, "instances", "png"),
    "depth": (declared, "depth", "png"),
    "normals": (declared, "normals", "png"),
    "VOC's classes": (voc, "SegmentationClass", "png"),
    "VOC's objects": (voc, "SegmentationObject", "png"),
    "panoptic segments": (panoptic, "", "png"),
}


@pytest.mark.parametrize("codec", [*LOSSY])
@pytest.mark.parametrize("reader", [*READERS])
def test_lossy_maps_are_refused(reader: str, codec: str, tmp_path: Path) -> None:
    """One error names the file and its codec; nothing is written."""
    write, kind, suffix = READERS[reader]
    form, options = LOSSY[codec]
    folder = write(tmp_path / "in", suffix, encoded(VALUES, form, **options), kind)
    with pytest.raises(
        DatasetError, match=rf"1\.{suffix}: expected a map in a lossless format.*got {codec.split(',')[0]}"
    ):
        open_dataset(folder)[0]
    for to in ("coco", "coco-panoptic"):  # which copies the maps of panoptic segments
        with pytest.raises(DatasetError, match="lossless format"):
            convert_dataset(folder, tmp_path / "out", to)
        assert not (tmp_path / "out").exists()
    if write is panoptic:
        return  # `check` reads the table of segments alone
    report = check_dataset(open_dataset(folder), decode=True)
    assert any("lossless format" in str(finding) for finding in report.findings)


@pytest.mark.parametrize(
    ("form", "options"), [("WEBP", {"lossless": True}), ("TIFF", {"compression": "tiff_lzw"}), ("GIF", {})]
)
def test_lossless_ones_are_read(form: str, options: dict[str, Any], tmp_path: Path) -> None:
    folder = declared(tmp_path, "png", encoded(VALUES, form, **options), "semantic")
    semantic = open_dataset(folder)[0].semantic_map
    assert semantic is not None
    np.testing.assert_array_equal(semantic.numpy(), VALUES)
