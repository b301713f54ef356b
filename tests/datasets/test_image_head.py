"""Heads of photos: what they say is what reading the photo shows, for every format and orientation."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import segpaste
from on_disk import noise
from segpaste.datasets import DatasetError
from segpaste.datasets.formats.cutouts import read_cutout
from segpaste.datasets.formats.image_files import check_head, read_head, upright_size
from segpaste.datasets.formats.image_pixels import read_pixels, read_upright
from segpaste.datasets.formats.stored_pixels import read_array
from segpaste.datasets.writers.annotations import stored_pixels

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


TURNED: dict[int, Callable[[Any], Any]] = {
    1: lambda values: values,
    2: lambda values: values[:, ::-1],
    3: lambda values: values[::-1, ::-1],
    4: lambda values: values[::-1],
    5: lambda values: values.swapaxes(0, 1),
    6: lambda values: np.rot90(values, -1),
    7: lambda values: values[::-1, ::-1].swapaxes(0, 1),
    8: np.rot90,
}
"""Pixels [H, W] or [H, W, C] as stored to those that each EXIF orientation shows."""


class TestTurnedTiffs:
    """Pillow maps uncompressed files that it opens by their names, with the sides that it has swapped."""

    @pytest.mark.parametrize("orientation", TURNED)
    @pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK"])
    def test_photos(self, tmp_path: Path, mode: str, orientation: int) -> None:
        path, photo = tmp_path / "a.tif", Image.fromarray(noise(SIZE)).convert(mode)
        photo.save(path, tiffinfo={ORIENTATION: orientation})
        wanted = TURNED[orientation](np.array(photo.convert("RGB")))
        np.testing.assert_array_equal(read_upright(path).permute(1, 2, 0), wanted)
        np.testing.assert_array_equal(read_pixels(path, wanted.shape[:2]).permute(1, 2, 0), wanted)
        assert read_head(path)[:2] == (SIZE, orientation)
        if orientation >= 5:  # of a tool that ignores it
            stored = read_pixels(path, SIZE).permute(1, 2, 0)
            np.testing.assert_array_equal(stored, photo.convert("RGB"))

    @pytest.mark.parametrize("orientation", TURNED)
    @pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.uint16, np.int32, np.float32])
    @pytest.mark.parametrize("compression", ["raw", "tiff_deflate"])
    def test_maps(self, tmp_path: Path, compression: str, dtype: type, orientation: int) -> None:
        path, values = tmp_path / "a.tif", (noise(SIZE)[..., 0] % 2 * 77).astype(dtype)
        Image.fromarray(values).save(path, compression=compression, tiffinfo={ORIENTATION: orientation})
        for read in (read_array, stored_pixels):
            np.testing.assert_array_equal(read(path), TURNED[orientation](values))

    @pytest.mark.parametrize("orientation", TURNED)
    def test_cutouts(self, tmp_path: Path, orientation: int) -> None:
        path, alpha = tmp_path / "a.tif", noise(SIZE)[..., :1] // 128 * 255
        Image.fromarray(np.concatenate([noise(SIZE, 1), alpha], -1)).save(path, tiffinfo={ORIENTATION: orientation})
        mask = read_cutout(path, 0.5)[1]
        np.testing.assert_array_equal(mask[1:-1, 1:-1], TURNED[orientation](alpha[..., 0] > 0))

    def test_no_file_is_opened_by_its_name(self) -> None:
        sources = Path(segpaste.__file__).parent.rglob("*.py")
        calls = {call for path in sources for call in re.findall(r"Image\.open\(([\w.]+)", path.read_text())}
        assert calls == {"file", "BytesIO", "io.BytesIO"}
