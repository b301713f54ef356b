"""Photos of other channels and bits: read as RGB, or refused by name with what to do."""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from map_files import png_of_16_bits
from on_disk import noise
from segpaste.datasets import DatasetError
from segpaste.datasets.formats.image_pixels import read_rgb, read_upright
from segpaste.datasets.formats.image_scan import image_problem

SIZE = (7, 11)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [*product(["L", "LA", "RGB", "RGBA", "P", "1"], ["png", "tif"]), *product(["L", "RGB", "CMYK"], ["jpg"])],
)
def test_eight_bits_become_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    """Grey is repeated, a fourth channel is dropped, a palette is looked up."""
    Image.fromarray(noise(SIZE)).convert(mode).save(tmp_path / f"a.{suffix}")
    with Image.open(tmp_path / f"a.{suffix}") as photo:
        values = np.array(photo.convert("RGB"))
    assert (read_rgb(tmp_path / f"a.{suffix}", SIZE).permute(1, 2, 0).numpy() == values).all()
    assert image_problem(tmp_path / f"a.{suffix}", SIZE) is None


def test_channels_of_16_bits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rgb.png").write_bytes(png_of_16_bits(noise(SIZE).astype(np.uint16) * 257))
    Image.fromarray(noise(SIZE)[..., 0].astype(np.uint16)).save(tmp_path / "grey.tif")
    for name, came in (("rgb.png", "16"), ("grey.tif", "mode I;16")):
        message = f"expected an image of 8 bits per channel, got {came}; convert it"
        assert message in str(image_problem(tmp_path / name, SIZE))
        for read in (lambda path: read_rgb(path, SIZE), read_upright):
            with pytest.raises(DatasetError, match=f"{name}: {message}"):
                read(tmp_path / name)


def test_a_tiff_of_five_channels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bands.tif"
    tags = [(256, 3, 1, 11), (257, 3, 1, 7), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 200)]
    tags += [(277, 3, 1, 5), (278, 3, 1, 7), (279, 4, 1, 385)]
    rows = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    path.write_bytes((b"II*\0" + struct.pack("<IH", 8, len(tags)) + rows + b"\0" * 4).ljust(200, b"\0") + b"\1" * 385)
    message = "or a TIFF of channels or bits that Pillow does not read; save three channels of 8 bits"
    assert message in str(image_problem(path, SIZE))
    with pytest.raises(DatasetError, match=message):
        read_upright(path)
