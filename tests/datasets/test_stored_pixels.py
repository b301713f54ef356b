"""Values of map files as stored, whatever the number of bits, channels and pages, and the errors of others."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from map_files import png_of_16_bits
from segpaste.datasets import DatasetError, open_dataset
from segpaste.datasets.formats.coco.segments import read_segment_ids
from segpaste.datasets.formats.image_pixels import read_upright
from segpaste.datasets.formats.stored_pixels import one_channel, read_array
from segpaste.datasets.formats.voc.files import palette, read_map
from stored_files import chunk, packed, png, tiff

CLASSES = np.arange(15, dtype=np.uint8).reshape(3, 5)
WIDE = CLASSES.astype(np.int64)


def few(bits: int) -> Any:
    return CLASSES & ((1 << bits) - 1)


PNGS = {
    **{f"grey {bits}": (png(few(bits), bits), few(bits)) for bits in (1, 2, 4, 8)},
    "grey 16": (png(WIDE * 4000, 16), WIDE * 4000),
    **{f"palette {n}": (png(few(n), n, [(i, 9, 0) for i in range(1 << n)]), few(n)) for n in (1, 2, 4, 8)},
    "palette with transparency": (png(few(4), 4, [(i, 9, 0) for i in range(16)], b""), few(4)),
    "gamma": (png(few(4), 4, more=chunk(b"gAMA", (45455).to_bytes(4)) + chunk(b"sRGB", b"\0")), few(4)),
    "transparent grey": (png(few(2), 2, more=chunk(b"tRNS", b"\0\1")), few(2)),
}


def sun_rows(values: Any) -> bytes:
    """Bits of a Sun raster, whose rows have an even number of bytes."""
    return b"".join(packed(row, 1).ljust(2, b"\0") for row in values)


SIGNED = (WIDE - 7).astype(np.int8)
TIFFS = {
    **{f"tiff {bits}": (tiff([few(bits)], bits), few(bits)) for bits in (1, 2, 4, 8)},
    **{f"tiff {bits}, 0 is white": (tiff([few(bits)], bits, photometric=0), few(bits)) for bits in (1, 2, 4, 8)},
    "tiff 16 big-endian": (tiff([(WIDE * 4000).astype(np.uint16)], 16, order=">"), WIDE * 4000),
    "tiff 32 unsigned": (tiff([(WIDE + (1 << 32) - 20).astype(np.uint32)], 32), WIDE + (1 << 32) - 20),
    "tiff 32 signed": (tiff([(WIDE - 9).astype(np.int32)], 32, sample_format=2), WIDE - 9),
    "tiff 16 signed": (tiff([(WIDE - 9).astype(np.int16)], 16, sample_format=2), WIDE - 9),
    "tiff 8 signed": (tiff([SIGNED], 8, sample_format=2), SIGNED),
    "tiff float": (tiff([(WIDE / 4).astype(np.float32)], 32, sample_format=3), WIDE / 4),
    "tiff float big-endian": (tiff([(WIDE / 4).astype(np.float32)], 32, order=">", sample_format=3), WIDE / 4),
    "tiff with a smaller copy": (tiff([CLASSES, CLASSES[::2, ::2]], subfile=1), CLASSES),
    "pgm of 15": (b"P5 5 3 15\n" + CLASSES.tobytes(), CLASSES),
    "pgm of 300": (b"P5 5 3 300\n" + (WIDE * 20).astype(">u2").tobytes(), WIDE * 20),
    "pbm": (b"P4 5 3 " + b"".join(packed(row, 1) for row in few(1)), few(1)),
    "pbm in text": (b"P1 5 3\n" + " ".join(map(str, few(1).ravel())).encode(), few(1)),
    "sun raster": (struct.pack(">8I", 0x59A66A95, 5, 3, 1, 6, 1, 0, 0) + sun_rows(few(1)), few(1)),
    "pgm in text": (b"P2 5 3 20\n" + " ".join(map(str, CLASSES.ravel())).encode(), CLASSES),
}


@pytest.mark.parametrize("case", [*PNGS, *TIFFS])
def test_values_are_those_of_the_file(tmp_path: Path, case: str) -> None:
    content, values = (PNGS | TIFFS)[case]
    path = tmp_path / f"a.{'png' if case in PNGS else 'pgm' if 'pgm' in case else 'tif'}"
    path.write_bytes(content)
    found = read_array(path)
    assert found.shape == values.shape
    assert (found == values).all()


REFUSED = {
    "two pages": (tiff([CLASSES, CLASSES]), "got a TIFF of 2 pages"),
    "two channels": (tiff([np.stack([CLASSES] * 2, -1)], extra=[0]), "got a TIFF of 2 channels, of which 1 can"),
    "four channels": (
        tiff([np.stack([CLASSES] * 4, -1)], photometric=2, extra=[0]),
        "got a TIFF of 4 channels, of which 3 can be read",
    ),
    "five channels": (
        tiff([np.stack([CLASSES] * 5, -1)], photometric=2, extra=[0, 0]),
        "got a TIFF of 5 channels, of which 3 can be read",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_pages_and_channels_are_never_left_out(tmp_path: Path, case: str) -> None:
    content, message = REFUSED[case]
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    for read in (read_array, read_upright):
        with pytest.raises(DatasetError, match=rf"a\.tif: .*{message}.*; save each"):
            read(path)


def test_animations_are_no_maps(tmp_path: Path) -> None:
    frames = [Image.fromarray(CLASSES + i) for i in range(3)]
    for name in ("a.gif", "a.png"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        with pytest.raises(DatasetError, match=r"a map of one image, got \d images in one file; save each"):
            read_array(tmp_path / name)


def test_arrays_of_any_layout(tmp_path: Path) -> None:
    wide = np.stack([CLASSES, CLASSES.T.reshape(3, 5)], -1)
    for number, values in enumerate([np.asfortranarray(WIDE), WIDE.astype(">i4"), WIDE.astype(np.uint32), wide]):
        np.save(tmp_path / f"{number}.npy", values)
        assert (read_array(tmp_path / f"{number}.npy") == values).all()


def test_one_channel() -> None:
    opaque = np.full_like(CLASSES, 255)
    for values in (
        CLASSES[None],
        CLASSES[..., None],
        np.stack([CLASSES] * 3, -1),
        np.stack([CLASSES] * 3 + [CLASSES[::-1]], -1),
        np.stack([CLASSES, opaque], -1),
    ):
        assert np.array_equal(one_channel(values), CLASSES)
    for values in (np.stack([CLASSES, CLASSES], -1), np.stack([CLASSES, CLASSES, opaque], -1)):
        assert one_channel(values).ndim == 3


def declared(tmp_path: Path, text: str, **files: Any) -> Any:
    """The only sample of a declared dataset of one image of 5 x 3 pixels."""
    tmp_path.mkdir(exist_ok=True)
    Image.new("RGB", (5, 3)).save(tmp_path / "x.jpg")
    for name, content in files.items():
        (tmp_path / f"{name}.png").write_bytes(content)
    (tmp_path / "segpaste.yaml").write_text("photos: '{name}.jpg'\n" + text)
    return open_dataset(tmp_path)[0]


def as_png(values: Any) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


NAMES = f"classes: {json.dumps([f'c{i}' for i in range(16)])}\n"


class TestDeclared:
    def test_classes_of_four_bits(self, tmp_path: Path) -> None:
        sample = declared(tmp_path, NAMES + "semantic: {files: 'm.png'}\n", m=png(CLASSES, 4))
        assert (np.asarray(sample.semantic_map) == CLASSES).all()

    def test_classes_in_grey_with_alpha(self, tmp_path: Path) -> None:
        values = as_png(np.stack([CLASSES, np.full_like(CLASSES, 255)], -1))
        sample = declared(tmp_path, NAMES + "semantic: {files: 'm.png'}\n", m=values)
        assert (np.asarray(sample.semantic_map) == CLASSES).all()

    def test_depth_of_four_bits_and_of_equal_channels(self, tmp_path: Path) -> None:
        for number, content in enumerate([png(CLASSES, 4), as_png(np.stack([CLASSES] * 3, -1))]):
            sample = declared(tmp_path / str(number), "depth: {files: 'm.png', unit: m}\n", m=content)
            assert (np.asarray(sample.depth)[0] == CLASSES).all()

    def test_colours_that_an_optimiser_put_into_a_palette(self, tmp_path: Path) -> None:
        text = "classes: [{name: a, color: [9, 0, 0]}, {name: b, color: [0, 9, 9]}]\n"
        text += "semantic: {files: 'm.png', encoding: color}\n"
        sample = declared(tmp_path, text, m=png(few(1), 1, [(0, 9, 9), (9, 0, 0)]))
        assert (np.asarray(sample.semantic_map) == 1 - few(1)).all()

    def test_an_alpha_channel_is_in_no_mask(self, tmp_path: Path) -> None:
        text = "classes: [a]\ninstances: {files: 'm*.png', encoding: mask, class: a}\n"
        mask = (CLASSES > 9).astype(np.uint8) * 255
        for number, channels in enumerate([1, 3]):
            content = as_png(np.stack([mask] * channels + [np.full_like(mask, 255)], -1))
            sample = declared(tmp_path / str(number), text, m1=content)
            assert (np.asarray(sample.instance_masks)[0] == (mask > 0)).all()


class TestSegmentIds:
    IDS = np.array([[0, 300, 70000, 9, 9]] * 3)

    def test_colours_palettes_and_grey(self, tmp_path: Path) -> None:
        rgb = np.stack([self.IDS % 256, self.IDS // 256 % 256, self.IDS // 65536], -1).astype(np.uint8)
        small = np.array([[0, 1, 2, 3, 3]] * 3, np.uint8)
        cases = {
            "rgb": (as_png(rgb), self.IDS),
            "rgba": (as_png(np.dstack([rgb, small])), self.IDS),
            "palette": (png(small, 2, [tuple(rgb[0, i].tolist()) for i in (0, 1, 2, 3)]), self.IDS),
            "grey": (png(small, 8), small),
            "grey 2": (png(small, 2), small),
            "grey 16": (png(self.IDS % 65536, 16), self.IDS % 65536),
        }
        for name, (content, ids) in cases.items():
            (tmp_path / "a.png").write_bytes(content)
            assert (read_segment_ids(tmp_path / "a.png", (3, 5)) == ids).all(), name

    def test_others(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png_of_16_bits(np.zeros((3, 5, 3), np.uint16)))
        with pytest.raises(DatasetError, match=r"a\.png: expected segment ids in colours of 8 bits per channel"):
            read_segment_ids(tmp_path / "a.png", (3, 5))


COLORS = tuple(palette())
MAP = np.array([[0, 1, 1, 15, 255]] * 3)


class TestPalettesOfVoc:
    def read(self, tmp_path: Path, content: bytes) -> Any:
        (tmp_path / "a.png").write_bytes(content)
        return read_map(tmp_path / "a.png", (3, 5), palette())

    def test_a_renumbered_palette_is_read_by_its_colours(self, tmp_path: Path) -> None:
        order = [255, 0, 15, 1]
        indices = np.array([[order.index(v) for v in row] for row in MAP.tolist()], np.uint8)
        found = self.read(tmp_path, png(indices, 2, [COLORS[v] for v in order]))
        assert (found == MAP).all()

    @pytest.mark.parametrize("colors", ["own", "grey", "filled"])
    def test_other_palettes_are_indices(self, tmp_path: Path, colors: str) -> None:
        table = {
            "own": list(COLORS),
            "grey": [(i, i, i) for i in range(256)],
            "filled": [(0, 0, 0), COLORS[2], COLORS[1], *[(0, 0, 0)] * 253],
        }[colors]
        assert (self.read(tmp_path, png(MAP.astype(np.uint8), 8, table)) == MAP).all()

    def test_grey_maps_of_few_bits(self, tmp_path: Path) -> None:
        for bits in (1, 2, 4):
            assert (self.read(tmp_path, png(few(bits), bits)) == few(bits)).all()
