"""A part of an image is that of the whole image, whatever the file; a plain JPEG is decoded only down to its end."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, JpegImagePlugin

from segpaste.datasets import DatasetError
from segpaste.datasets.formats import image_files, plain_jpeg
from segpaste.datasets.formats.image_pixels import read_part, read_pixels

SIZE, PART = (75, 53), (3, 2, 9, 20)
PLAIN: dict[str, dict[str, Any]] = {
    "4:4:4": {"subsampling": 0},
    "4:2:2": {"subsampling": 1},
    "4:2:0": {"subsampling": 2},
    "low quality": {"quality": 20},
    "optimised": {"optimize": True},
    "restart marks": {"restart_marker_rows": 1},
    "XMP": {"xmp": b"<x:xmpmeta/>"},
    "resolution": {"dpi": (72, 72)},
    "grey": {"mode": "L"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "progressive": {"progressive": True},
    "CMYK": {"mode": "CMYK"},
    "EXIF": {"exif": {ExifTags.Base.Artist: "nobody"}},
    "XMP with an orientation": {"xmp": b'<x tiff:Orientation="3"/>'},
    "turned": {"exif": {ExifTags.Base.Orientation: 3}},
    "mirrored": {"exif": {ExifTags.Base.Orientation: 2}},
    "PNG": {"format": "PNG"},
    "bytes after the end": {"after": b"\0"},
}


def write(path: Path, options: dict[str, Any]) -> Path:
    """Write a picture with edges and noise to a file of these options of Pillow."""
    options = dict(options)
    mode, after, exif = options.pop("mode", "RGB"), options.pop("after", b""), options.pop("exif", None)
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (9, 7, 3), dtype=np.uint8).repeat(9, 0).repeat(8, 1)[: SIZE[0], : SIZE[1]]
    image = Image.fromarray((coarse // 2 + rng.integers(0, 128, (*SIZE, 3))).astype(np.uint8)).convert(mode)
    if exif is not None:
        options["exif"] = image.getexif()
        options["exif"].update(exif)
    buffer = BytesIO()
    image.save(buffer, **{"format": "JPEG", **options})
    path.write_bytes(buffer.getvalue() + after)
    return path


def parts() -> list[tuple[int, int, int, int]]:
    """Return parts that end at every row."""
    return [(bottom % 40, bottom // 3, 41 + bottom % 13, bottom) for bottom in range(1, SIZE[0] + 1)]


@pytest.fixture
def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note the files that are decoded as a whole."""
    found: list[Path] = []
    decode: Callable[..., Any] = image_files._decode

    def noted(path: Path, *args: Any, **options: Any) -> Any:
        found.append(path)
        return decode(path, *args, **options)

    monkeypatch.setattr(image_files, "_decode", noted)
    return found


def expect_pixels(path: Path) -> None:
    """Expect parts with the pixels of the whole image."""
    whole = read_pixels(path, SIZE)
    for part in parts():
        left, top, right, bottom = part
        assert torch.equal(read_part(path, SIZE, part), whole[:, top:bottom, left:right]), part


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_files_are_decoded_in_part(kind: str, tmp_path: Path, whole_reads: list[Path]) -> None:
    expect_pixels(write(tmp_path / "photo.jpg", PLAIN[kind]))
    assert len(whole_reads) == 1


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_decoded_whole(kind: str, tmp_path: Path, whole_reads: list[Path]) -> None:
    expect_pixels(write(tmp_path / "photo.jpg", OTHERS[kind]))
    assert len(whole_reads) == 1 + len(parts())


def test_photos_with_several_frames_are_decoded_whole(tmp_path: Path, whole_reads: list[Path]) -> None:
    frames = [Image.open(write(tmp_path / f"{n}.jpg", {"quality": 60 + n})) for n in range(2)]
    path = tmp_path / "photo.jpg"
    frames[0].save(path, format="MPO", save_all=True, append_images=frames[1:])
    expect_pixels(path)
    assert len(whole_reads) == 1 + len(parts())


def test_less_is_decoded_for_a_part_at_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights: list[int] = []
    load = JpegImagePlugin.JpegImageFile.load

    def noted(self: Any) -> Any:
        heights.append(self.size[1])
        return load(self)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "load", noted)
    read_part(write(tmp_path / "photo.jpg", {}), SIZE, (3, 2, 9, 20))
    assert heights[0] == 20 + plain_jpeg._ROWS_BELOW


@pytest.mark.parametrize("fault", ["missing", "another size", "truncated", "no picture", "folder"])
def test_errors_are_those_of_the_whole_image(fault: str, tmp_path: Path) -> None:
    path, size = write(tmp_path / "photo.jpg", {}), SIZE
    content = path.read_bytes()
    if fault == "another size":
        size = SIZE[0] + 8, SIZE[1]
    elif fault == "truncated":
        path.write_bytes(content[: len(content) * 3 // 4])
    elif fault == "no picture":
        path.write_bytes(content[:3] + bytes(400) + b"\xff\xd9")
    else:
        path.unlink()
        if fault == "folder":
            path.mkdir()
    messages = []
    for read in (
        lambda: read_pixels(path, size),
        lambda: read_part(path, size, PART),
    ):
        with pytest.raises(DatasetError) as caught:
            read()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("folder", ["tiny_coco/val2017", "coco128_seg", "labelme_voc", "fruits_nuts", "cleargrasp"])
def test_photos_of_datasets(folder: str, test_data: Path, whole_reads: list[Path]) -> None:
    files = sorted((test_data / folder).rglob("*.jpg"))
    for n, path in enumerate(files[:40]):
        with Image.open(path) as image:
            width, height = image.size
        whole = read_pixels(path, (height, width))
        bottom = 1 + n * 37 % height
        left, top, right = width // 5, bottom // 2, width - 7
        assert torch.equal(
            read_part(path, (height, width), (left, top, right, bottom)), whole[:, top:bottom, left:right]
        )
    num = len(files[:40])
    assert num <= len(whole_reads) <= num + 1  # one has an orientation in its XMP
