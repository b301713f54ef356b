"""Heads of photos: what they say is what reading the photo shows, for every format and orientation."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from on_disk import noise
from segpaste.datasets import DatasetError
from segpaste.datasets.formats.image_files import check_head, read_head, read_pixels, read_upright, upright_size

SIZE = (7, 11)
ORIENTATION = 0x0112


def write(path: Path, orientation: int | None) -> Path:
    exif = Image.Exif()
    if orientation is not None:
        exif[ORIENTATION] = orientation
    Image.fromarray(noise(SIZE)).save(path, exif=exif)
    return path


def with_exif_last(path: Path) -> None:
    """Move the EXIF chunk of a PNG behind its pixels, by the letter of the format."""
    data, chunks, place = path.read_bytes(), [], 8
    while place < len(data):
        size = int.from_bytes(data[place : place + 4])
        chunks.append(data[place : place + 12 + size])
        place += 12 + size
    assert all(zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:]) for chunk in chunks)
    chunks.sort(key=lambda chunk: (chunk[4:8] == b"IEND", chunk[4:8] == b"eXIf"))
    path.write_bytes(data[:8] + b"".join(chunks))


@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff", "webp"])
@pytest.mark.parametrize("orientation", [None, 1, 3, 6, 8, 9])
def test_size_and_orientation_are_those_of_the_pixels(tmp_path: Path, suffix: str, orientation: int | None) -> None:
    path = write(tmp_path / f"a.{suffix}", orientation)
    head = read_head(path)
    if suffix == "tiff":  # which Pillow rotates by itself
        assert head[:3] == (SIZE[::-1] if orientation in (6, 8) else SIZE, 1, "RGB")
    else:
        assert head[:3] == (SIZE, orientation if orientation in (3, 6, 8) else 1, "RGB")
    assert head.upright_size == upright_size(path) == tuple(read_upright(path).shape[1:])


@pytest.mark.parametrize("orientation", [3, 6])
def test_a_png_that_ends_with_its_orientation(tmp_path: Path, orientation: int) -> None:
    path = write(tmp_path / "a.png", orientation)
    with_exif_last(path)
    assert read_head(path).orientation == orientation
    assert read_head(path).upright_size == tuple(read_upright(path).shape[1:])


@pytest.mark.parametrize("orientation", [None, 6])
def test_pixels_of_a_png_are_not_read(tmp_path: Path, orientation: int | None) -> None:
    path = write(tmp_path / "a.png", orientation)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"IDAT") + 30])
    assert read_head(path).size == SIZE
    with pytest.raises(DatasetError, match="could not decode"):
        read_upright(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("read", [read_head, read_upright])
def test_a_pipe_is_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DatasetError, match=r"a\.png: expected an image, got a pipe or a device"):
        read(tmp_path / "a.png")


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("size", [SIZE, SIZE[::-1], (7, 12)])
def test_a_head_is_refused_where_its_photo_is(tmp_path: Path, orientation: int, size: tuple[int, int]) -> None:
    path = write(tmp_path / "a.png", orientation)
    head = read_head(path)
    if head.is_rotated_for(size) is None:
        with pytest.raises(DatasetError) as of_pixels:
            read_pixels(path, size)
        with pytest.raises(DatasetError) as of_head:
            check_head(path, size)
        assert str(of_head.value) == str(of_pixels.value)
        return
    assert check_head(path, size) == head
    shown = read_pixels(path, size)
    stored = read_pixels(write(tmp_path / "plain.png", None), SIZE)
    assert head.is_rotated_for(size) == (shown.shape != stored.shape or bool((shown != stored).any()))
