"""Comparison of an augmented dataset on disk with images that are remade from their records."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste.augmenting.remaking import Remaker
from segpaste.augmenting.wording import AugmentError
from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.carried import POINT_KEYS, REGION_KEYS
from segpaste.datasets.formats.coco_writer import LAYOUT, SampleRows
from segpaste.datasets.formats.layouts import WrittenLayout
from segpaste.datasets.formats.records import IMAGE_COLUMNS, read_tables
from segpaste.datasets.formats.xml_text import parse_xml
from segpaste.replay import ReplayError, ReplayRecord
from segpaste.workspace import Content


def _write_for_now(path: Path, content: Content) -> Path:
    """Write a temporary file, without a flush to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes | bytearray | memoryview) else b"".join(content))
    return path


class WrittenImages:
    """An augmented dataset on disk, whose images can be compared one by one."""

    def __init__(self, folder: Path, layout: WrittenLayout) -> None:
        self.folder, self.layout = folder, layout
        tables = read_tables(folder / layout.tables, {"images": IMAGE_COLUMNS, "annotations": {"image_id": int}})
        self.images = {row["file_name"]: row for row in tables["images"]}
        self._annotations: dict[int, list[JsonRow]] = defaultdict(list)
        for row in tables["annotations"]:
            self._annotations[row["image_id"]].append(row)
        self._segments: dict[int, JsonRow] = {}
        if (path := folder / "panoptic.json").exists():
            rows = read_tables(path, {"annotations": {"image_id": int, "segments_info": list}})["annotations"]
            self._segments = {row["image_id"]: row for row in rows}

    def differences(self, record: ReplayRecord, remaker: Remaker) -> list[str]:
        """Return the differences between an image and its record, in words; empty if all is equal."""
        if record.name is None or record.name not in self.images:
            return [f"is not in {self.layout.tables}"]
        with tempfile.TemporaryDirectory() as scratch:
            try:
                rows = remaker.write(Path(scratch), record, _write_for_now)
            except ReplayError as error:
                return [str(error)]
            return [*self._other_files(Path(scratch), Path(record.name).stem), *self._other_rows(rows)]

    def _other_files(self, scratch: Path, stem: str) -> Iterator[str]:
        """Yield pixel files that are missing, unexpected, or of other values; their compression does not matter."""
        ours, theirs = (
            {
                str(p.relative_to(root))
                for name in (*self.layout.folders, *LAYOUT)
                for p in (root / name).glob(f"{stem}.*")
            }
            for root in (scratch, self.folder)
        )
        for name in sorted(ours | theirs):
            if name not in theirs:
                yield f"{name} is missing"
            elif name not in ours:
                yield f"{name} is not of this image"
            elif not _equal(scratch / name, self.folder / name):
                yield f"{name} differs"

    def _other_rows(self, rows: SampleRows) -> Iterator[str]:
        """Yield rows of the tables that differ; ids of annotations and provenance are not compared."""
        image, image_id = _plain(rows.image), rows.image["id"]
        there = self.images[rows.image["file_name"]]
        if any(there.get(key) != value for key, value in image.items()):
            yield f"its row in {self.layout.tables} differs"
        if not _are_same(_plain(rows.annotations), self._annotations[image_id]):
            yield "its annotations differ"
        segments = self._segments.get(image_id, {}).get("segments_info")
        if not _are_same(_plain(rows.segments), segments, ("segpaste",)):
            yield "its segments differ"


def _array(path: Path) -> NDArray[Any]:
    """Return the values of a pixel file."""
    try:
        if path.suffix == ".npy":
            return cast(NDArray[Any], np.load(path, allow_pickle=False))
        with Image.open(path) as picture:
            return np.array(picture)
    except (OSError, ValueError) as error:
        raise AugmentError(
            f"{path}: expected a picture or an array, got a file that cannot be read: {error}"
        ) from error


def _equal(one: Path, other: Path) -> bool:
    """Return whether two pixel files have the same values, or two label files the same objects."""
    if one.suffix == ".txt":
        return one.read_bytes() == other.read_bytes()
    if one.suffix == ".xml":
        return _objects_of(one) == _objects_of(other)
    ours, theirs = _array(one), _array(other)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    pairs = zip(np.atleast_1d(ours), np.atleast_1d(theirs), strict=True)  # row by row: pictures may be large
    return all(np.asarray(row).tobytes() == np.asarray(its).tobytes() for row, its in pairs)


def _objects_of(path: Path) -> list[list[str | None]]:
    """Return class, kind and edges of each object of an XML file; further elements are from the dataset."""
    keys = ("name", "difficult", *(f"bndbox/{edge}" for edge in ("xmin", "ymin", "xmax", "ymax")))
    return [[item.findtext(key) for key in keys] for item in parse_xml(path).iter("object")]


def _plain(value: Any) -> Any:
    """Return a value after a round trip through JSON."""
    return json.loads(json.dumps(value))


def _are_same(
    ours: list[JsonRow] | None, theirs: list[JsonRow] | None, without: Collection[str] = ("id", "segpaste")
) -> bool:
    """Return whether rows agree; those on disk may have further keys from the dataset."""
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours is theirs is None
    keys = REGION_KEYS | POINT_KEYS
    return all(
        all(key in without or other.get(key) == row.get(key) for key in {*row, *(keys & {*other})})
        for row, other in zip(ours, theirs, strict=True)
    )
