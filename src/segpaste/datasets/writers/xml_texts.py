"""Texts that an XML of VOC must hold of the keys of an entry, and those that are there, for the ledger.

A key or attribute has a text if its value is one, or a number. Values that say nothing, and the flags of regions, which
are compared by their kind, have none; nor has what XML holds in another form, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.text_files import parse_xml

_FLAGS = ("pose", "truncated", "occluded")
_OF_FLAGS = {"True": "1", "False": "0"}
_OF_REGIONS = frozenset({"difficult", "iscrowd", "ignore"})
_NOTHING = {("pose", "Unspecified"), ("truncated", "0"), ("occluded", "0"), ("folder", "VOC")}
_OF_FILE = frozenset({"filename", "size", "object", "segmented"})
"""Elements of an image that are made for its file."""
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def object_texts(row: JsonRow) -> list[tuple[str, str]]:
    """Return the names and texts of the further keys of an object, sorted."""
    others = {key: value for key, value in row.items() if key not in REGION_KEYS and key not in POINT_KEYS}
    return sorted({pair for pair in _pairs(others) if pair[0] not in _OF_REGIONS} - _NOTHING)


def image_texts(row: JsonRow, split: str) -> JsonRow:
    """Return the texts of the further keys of an image by name, of those that stand once and do not name its split."""
    others = {key: value for key, value in row.items() if key not in IMAGE_KEYS}
    given = others.pop("attributes") if isinstance(others.get("attributes"), dict) else {}
    found = {key: text for key, text in [*_texts(given), *_texts(others)] if (key, text) not in _NOTHING}
    of_split = {key for key in ("split", "subset") if found.get(key) == split}
    left_out = (given.keys() & others.keys()) | _OF_FILE | of_split
    return {key: text for key, text in found.items() if key.isascii() and key.isidentifier() and key not in left_out}


def header_texts(name: str, size: tuple[int, int], *, is_segmented: bool) -> dict[str, str]:
    """Return the texts of the elements that an XML has of its image file; ``size`` is (H, W)."""
    sides = {"height": str(size[0]), "width": str(size[1]), "depth": "3"}
    return {"filename": _NOT_XML.sub("", name), **sides, "segmented": str(int(is_segmented))}


def written_header(path: Path) -> dict[str, str | None]:
    """Return those texts of an XML file."""
    root = parse_xml(path)
    places = {
        "filename": "filename",
        "segmented": "segmented",
        **{s: f"size/{s}" for s in ("height", "width", "depth")},
    }
    return {key: root.findtext(place) for key, place in places.items()}


def _pairs(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of keys, of their ``attributes``, and of those of an XML in these."""
    yield from _texts(row)
    if not isinstance(given := row.get("attributes"), dict):
        return
    yield from _texts(given)
    inner = given.get("attributes")
    listed = inner.get("attribute") if isinstance(inner, dict) else None
    rows: list[Any] = listed if isinstance(listed, list) else [listed]
    if all(isinstance(one, dict) and "name" in one and {*one} <= {"name", "value"} for one in rows):
        for one in rows:
            yield from _texts({str(one["name"]): one.get("value")})


def _texts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys whose value is a text or a number on one line, with this as a text."""
    for key, value in row.items():
        if isinstance(value, str | int | float):
            text = str(value)
            text = _OF_FLAGS.get(text, text) if key in _FLAGS else text
            if all(word and word.isprintable() and word == word.strip() for word in (key, text)):
                yield key, text
