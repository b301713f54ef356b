"""Files of VGG Image Annotator: a project, and annotations exported as JSON or CSV, as the same entries.

VIA 2 (``_via_data_format_version`` 2.0.10) saves a project as ``{"_via_settings": ..., "_via_img_metadata": {KEY:
ENTRY}, "_via_attributes": ...}``, an export as ``{KEY: ENTRY}``, and CSV with a region in each row. KEY is the name of
a file followed by its size in bytes. VIA 1 has the regions of an entry by their number.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, each
from segpaste.datasets.formats.text_files import decoded, head_of, json_of

_METADATA, _SETTINGS, _ATTRIBUTES = "_via_img_metadata", "_via_settings", "_via_attributes"
_AGAIN = "export it again"
_PROJECT = re.compile(rb'"_via_(settings|img_metadata|attributes)"\s*:')
_EXPORT = (re.compile(rb'"filename"\s*:'), re.compile(rb'"(regions|base64_img_data)"\s*:'))
_COLUMNS = ("filename", "file_size", "file_attributes", "region_shape_attributes", "region_attributes")
_KNOWN = ("filename", "size", "regions", "file_attributes", "base64_img_data", "fileref")


@dataclass(frozen=True, slots=True)
class ViaRegion:
    """Region of an image.

    Attributes:
        shape: its shape: ``name`` and numbers.
        values: its attributes that are not empty.
        facts: other keys.
    """

    shape: JsonRow
    values: JsonRow
    facts: JsonRow = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ViaEntry:
    """Image.

    Attributes:
        file_name: its name or address.
        regions: its regions in order.
        facts: its attributes and other keys.
    """

    file_name: str
    regions: list[ViaRegion]
    facts: JsonRow


@dataclass(frozen=True, slots=True)
class ViaDocument:
    """Contents of a file.

    Attributes:
        entries: images by key.
        attributes: declarations of the attributes of regions; empty for exports, which lack them.
        folder: the project's default folder of images; may be empty.
        facts: settings and declarations of the project.
    """

    entries: dict[str, ViaEntry]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    facts: JsonRow = field(default_factory=dict)


def is_via(path: Path) -> bool:
    """Return whether a JSON or CSV file is one of VIA, by its first bytes."""
    head = head_of(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    if path.suffix.lower() == ".csv":
        first = head.partition(b"\n")[0]
        return all(name.encode() in first for name in _COLUMNS)
    is_json = path.suffix.lower() == ".json" and head.startswith(b"{")
    return is_json and (_PROJECT.search(head) is not None or all(pattern.search(head) for pattern in _EXPORT))


def read_document(path: Path, content: bytes) -> ViaDocument:
    """Read the bytes of a file.

    Raises:
        DatasetError: it is not of VIA, or an entry is broken.
    """
    if path.suffix.lower() == ".csv":
        return ViaDocument(_entries(path, _csv_entries(path, decoded(path, content))))
    document = _object(str(path), "JSON of VIA", json_of(path, content, "JSON of VIA", _AGAIN))
    if not any(key.startswith("_via_") for key in document):
        return ViaDocument(_entries(path, document))
    found = _object(str(path), f"the key '{_METADATA}'", document.get(_METADATA))
    facts = {key: document[key] for key in (_SETTINGS, _ATTRIBUTES) if document.get(key)}
    declared = _inside(document, _ATTRIBUTES, "region")
    folder = _inside(document, _SETTINGS, "core").get("default_filepath")
    return ViaDocument(_entries(path, found), declared, folder if isinstance(folder, str) else "", facts)


def _inside(document: JsonRow, *keys: str) -> JsonRow:
    """Return an object inside others; empty without one."""
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _object(where: str, what: str, value: Any) -> JsonRow:
    if not isinstance(value, dict):
        raise DatasetError(f"{where}: expected {what} with an object, got {value!r:.40}; {_AGAIN}")
    return value


def _entries(path: Path, rows: JsonRow) -> dict[str, ViaEntry]:
    return dict(each(rows.items(), lambda item: (item[0], _entry(f"{path}: image {item[0]!r}", item[1]))))


def _entry(where: str, row: Any) -> ViaEntry:
    row = _object(where, "an entry of VIA", row)
    name, regions = row.get("filename"), row.get("regions") or []
    if not isinstance(name, str) or not name.strip():
        raise DatasetError(f"{where}: expected the name of its file as 'filename', got {name!r:.40}; {_AGAIN}")
    if isinstance(regions, dict):
        regions = list(regions.values())
    if not isinstance(regions, list):
        raise DatasetError(f"{where}: expected a list of regions as 'regions', got {regions!r:.40}; {_AGAIN}")
    facts = {key: value for key, value in row.items() if key not in _KNOWN and value not in (None, {}, "")}
    of_file = row.get("file_attributes") or {}
    facts |= of_file if isinstance(of_file, dict) else {"file_attributes": of_file}
    return ViaEntry(name, [_region(f"{where}: region {i}", region) for i, region in enumerate(regions, 1)], facts)


def _region(where: str, row: Any) -> ViaRegion:
    row = _object(where, "a region", row)
    shape = _object(where, "the key 'shape_attributes'", row.get("shape_attributes"))
    values = _object(where, "the key 'region_attributes'", row.get("region_attributes") or {})
    facts = {key: value for key, value in row.items() if key not in ("shape_attributes", "region_attributes")}
    return ViaRegion(shape, {key: value for key, value in values.items() if value not in ("", None)}, facts)


def _csv_entries(path: Path, text: str) -> JsonRow:
    """Return the entries of CSV as those of JSON."""
    found: dict[str, JsonRow] = {}
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text.lstrip("#"))), start=2):
            where = f"{path}: line {number}"
            name, size = row.get("filename"), row.get("file_size") or ""
            values = {key: _cell(where, key, row.get(key)) for key in _COLUMNS[2:]}
            start: JsonRow = {"filename": name, "file_attributes": values["file_attributes"], "regions": []}
            entry = found.setdefault(f"{name}{size}", start)
            if shape := values["region_shape_attributes"]:
                region = {"shape_attributes": shape, "region_attributes": values["region_attributes"]}
                entry["regions"].append(region)
    except csv.Error as error:
        raise DatasetError(
            f"{path}: expected CSV of VIA, got text that does not parse ({error}); export JSON"
        ) from error
    return found


def _cell(where: str, key: str, text: str | None) -> JsonRow:
    try:
        return _object(where, f"'{key}'", json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{where}: expected '{key}' in JSON, got {text!r:.60}; {_AGAIN}") from error
