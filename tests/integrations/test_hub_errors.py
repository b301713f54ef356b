"""Errors of `HubSamples` name row and column, what was expected and came, and what to do; without ``datasets``."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from segpaste.integrations.huggingface import HubSamples

GREY = Image.new("L", (16, 12), 7)
CLASSES = np.zeros((12, 16), np.uint8)
OBJECTS = {"bbox": [[1, 2, 3, 4]], "category": [0]}


class Rows:
    """Dataset of rows as the package gives them."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows, self.column_names = rows, list(rows[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def content(kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 48), 50).save(file, kind)
    return file.getvalue()


def broken_png() -> bytes:
    """Return a PNG whose second chunk has a broken length: a SyntaxError of Pillow."""
    data = bytearray(content())
    at = data.index(b"IDAT")
    data[at : at + 4] = b"\x00\x01\x02\x03"
    return bytes(data)


def bomb() -> bytes:
    """Return a PNG whose header claims 100,000 x 100,000 pixels."""
    import zlib

    data = bytearray(content())
    data[16:24] = struct.pack(">II", 100_000, 100_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


class Lazy(Image.Image):
    """Image that fails only when its pixels are read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._mode, self._size, self.error = "L", (16, 12), error

    def load(self) -> Any:
        raise self.error


BROKEN: dict[str, Any] = {
    "text": {"bytes": b"text", "path": None},
    "half": {"bytes": content()[:200], "path": None},
    "half a JPEG": {"bytes": content("jpeg")[:300], "path": None},
    "broken chunk": {"bytes": broken_png(), "path": None},
    "bomb": {"bytes": bomb(), "path": None},
    "no bytes": {"bytes": 5, "path": None},
    **{f"{type(e).__name__} later": Lazy(e) for e in (OSError("x"), SyntaxError("x"), ValueError("x"), struct.error())},
}


@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("role", ["image", "semantic_map", "instance_map"])
def test_broken_images(value: Any, role: str) -> None:
    fine = {"image": GREY, "map": CLASSES if role == "semantic_map" else CLASSES[..., None].repeat(2, 2)}
    column = "image" if role == "image" else "map"
    maps = {"semantic_map" if role == "image" else role: "map"}
    fine["map"] = CLASSES if role == "image" else fine["map"]
    samples = HubSamples(Rows(fine, {**fine, column: value}), **maps)
    assert samples[0].canvas_size == (12, 16)
    with pytest.raises(ValueError, match=rf"^HubSamples: row 1, column '{column}': expected .*, (got|could) .*; \w+"):
        samples[1]


@pytest.mark.parametrize(
    ("role", "values", "message"),
    [
        (
            "semantic_map",
            CLASSES[:5],
            r"expected a map of the size of the image, .*\(12, 16\), got \(5, 16\); resize it",
        ),
        ("instance_map", np.zeros((5, 16, 2), np.uint8), "expected a map of the size of the image.*; resize it"),
        ("instance_map", CLASSES, r"expected a map with a channel of classes .*, got \[12, 16\]; give the column as"),
        ("semantic_map", np.full((12, 16), -5, np.int32), "expected classes from 0 to .*, got -5; give void=-5 if"),
        (
            "semantic_map",
            np.full((12, 16), 2**63, np.uint64),
            "expected classes from 0 to .*, got 9223372036854775808;",
        ),
        ("instance_map", np.full((12, 16, 2), -5, np.int32), "expected classes from 0 to .*, got -5; give void=-5 if"),
        ("semantic_map", [[1, 2], [3]], "expected an image of integers, got ValueError: .*; filter such rows out"),
        ("semantic_map", np.zeros((12, 16, 3), np.uint8) + np.arange(3, dtype=np.uint8), "expected one class for each"),
    ],
)
def test_maps(role: str, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^HubSamples: row 0, column 'map': {message}"):
        HubSamples(Rows({"image": GREY, "map": values}), **{role: "map"})[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [5]}, "expected each bbox as four numbers"),
        ({"bbox": [[1, 2, 3, 1e300]]}, "expected each bbox as four numbers"),
        ({"category": [2**70]}, "expected categories from 0 to"),
        ({"iscrowd": [[0, 1]]}, "expected each iscrowd as 0 or 1"),
        ({"segmentation": [{"size": [12, 16]}]}, "segmentation: .*; "),
        ({"segmentation": [{"size": "ab", "counts": [1]}]}, "segmentation: .*; "),
        ({"segmentation": [5]}, "segmentation: .*; "),
        ({"segmentation": [[[1, "a", 2, 3, 4, 5]]]}, "segmentation: .*; "),
        (5, "expected a record of lists or a list of records, got 5; name the column"),
    ],
)
def test_objects(change: Any, message: str) -> None:
    objects = {**OBJECTS, **change} if isinstance(change, dict) else change
    samples = HubSamples(Rows({"image": GREY, "objects": objects}), objects="objects", class_names=["a"])
    with pytest.raises(ValueError, match=f"^HubSamples: row 0, column 'objects': {message}"):
        samples[0]


@pytest.mark.parametrize("error", [OSError("cut"), SyntaxError("chunk"), struct.error("short"), ValueError("mode")])
def test_what_the_package_cannot_decode(error: Exception) -> None:
    """The package decodes images itself when a row is read."""

    class Decoding(Rows):
        columns: tuple[str, ...] = ("image", "map")

        def select_columns(self, columns: list[str]) -> Decoding:
            found = Decoding(*self.rows)
            found.columns = tuple(columns)
            return found

        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 1 and "image" in self.columns:
                raise error
            return super().__getitem__(index)

    row = {"image": GREY, "map": CLASSES}
    samples = HubSamples(Decoding(row, row), semantic_map="map")
    with pytest.raises(
        ValueError, match=r"^HubSamples: row 1, column 'image': expected values that .*, got .*; filter"
    ):
        samples[1]
    with pytest.raises(IndexError):
        samples[2]
