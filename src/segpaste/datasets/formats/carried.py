"""Keys of a dataset's entries without a field in samples: licences, sources, attributes, unknown keys.

Augmentation and conversion copy these keys. Keys that depend on pixels or ids, such as ``bbox``, are not among them;
they are computed again.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from segpaste.datasets.formats.records import JsonRow

IMAGE_KEYS = frozenset({"id", "file_name", "width", "height"})
"""Image keys that exist in every format in some form."""
LIST_KEYS = frozenset({"neg_category_ids", "not_exhaustive_category_ids"})
"""Lists of LVIS, which a paste changes; see `segpaste.datasets.FederatedLabels`."""
REGION_KEYS = frozenset({"id", "image_id", "category_id", "segmentation", "bbox", "area", "iscrowd", "ignore"})
"""Annotation keys that exist in every format in some form."""
POINT_KEYS = frozenset({"keypoints", "num_keypoints"})
_OWN = "segpaste"
_OTHER_IDS = frozenset({"image_ids", "annotation_id", "annotation_ids", "ann_id", "ann_ids"})


class KeepsRows(Protocol):
    """Dataset that returns the entries of its files, as `segpaste.datasets.formats.records.AnnotatedPhotos` does."""

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image."""
        ...

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations."""
        ...

    def tables(self) -> JsonRow:
        """Return the other tables."""
        ...


def carried_image(photos: KeepsRows, index: int) -> JsonRow:
    """Return the keys that a written image's entry copies from its original, such as ``license``.

    Written and original image differ in name and size, and the lists of LVIS depend on the pasted objects.
    """
    return _without(photos.image_row(index), IMAGE_KEYS | LIST_KEYS | {_OWN})


def carried_annotations(photos: KeepsRows, index: int) -> dict[int, JsonRow]:
    """Return the keys that a written object's entry copies from its original, by annotation id.

    They are the same for an object that stays in its image and for a pasted one.
    """
    rows = photos.annotation_rows(index)
    return {row["id"]: _without(row, REGION_KEYS | POINT_KEYS | {_OWN}) for row in rows if "id" in row}


def carried_tables(photos: KeepsRows, written: Sequence[tuple[int, int]] | None = None) -> JsonRow:
    """Return the tables that a written dataset copies from its original, such as ``licenses``, but not ``info``.

    A table whose rows name images by ``image_id``, such as the scenes of TACO, gets a row for each written image of
    that original; their ``id`` is numbered anew. A table that names several images a row, or annotations, is left out
    with a warning, since its ids would mean others.

    Args:
        photos: the original dataset.
        written: the id of each written image and of its original; by default the ids are those of the original.
    """
    tables = _without(photos.tables(), {"info"})
    if written is None:
        return tables
    found: JsonRow = {}
    for name, table in tables.items():
        keys = {key for row in table if isinstance(row, dict) for key in row} if isinstance(table, list) else set()
        if keys & _OTHER_IDS:
            warnings.warn(
                f"table '{name}': expected rows of one image each, got {', '.join(sorted(keys & _OTHER_IDS))}, whose "
                "ids are those of the original dataset; it is left out",
                stacklevel=2,
            )
        else:
            found[name] = _of_written(table, written) if "image_id" in keys else table
    return found


def _of_written(table: Sequence[Any], written: Sequence[tuple[int, int]]) -> list[Any]:
    """Return the rows of a table for each written image, after those that name no image."""
    of_image: dict[object, list[JsonRow]] = {}
    rows = [row for row in table if not (isinstance(row, dict) and "image_id" in row)]
    for row in table:
        if isinstance(row, dict) and "image_id" in row:
            of_image.setdefault(row["image_id"], []).append(row)
    for image_id, original in written:
        rows += [{**row, "image_id": image_id} for row in of_image.get(original, ())]
    is_numbered = any(isinstance(row, dict) and "id" in row for row in rows)
    return [{**row, "id": number} for number, row in enumerate(rows, start=1)] if is_numbered else rows


def without_counts(categories: Sequence[JsonRow]) -> list[JsonRow]:
    """Return categories without their object counts, which are those of the original dataset."""
    return [_without(row, {"instance_count", "image_count"}) for row in categories]


def _without(row: Mapping[str, object], keys: Collection[str]) -> JsonRow:
    return {key: value for key, value in row.items() if key not in keys}
