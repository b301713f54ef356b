"""Keys of a dataset's entries that samples have no field for: licences, sources, attributes, unknown keys.

A dataset that is augmented or converted carries them along. Keys that say how pixels or ids are, such as ``bbox``, are
not among them: they are written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from segpaste.datasets.formats.records import JsonRow

IMAGE_KEYS = frozenset({"id", "file_name", "width", "height"})
"""Keys of photos that every format has in some form."""
LIST_KEYS = frozenset({"neg_category_ids", "not_exhaustive_category_ids"})
"""The lists of LVIS, which a paste changes; see `segpaste.datasets.FederatedLabels`."""
REGION_KEYS = frozenset({"id", "image_id", "category_id", "segmentation", "bbox", "area", "iscrowd", "ignore"})
"""Keys of annotations that every format has in some form."""
POINT_KEYS = frozenset({"keypoints", "num_keypoints"})
_OWN = "segpaste"


class KeepsRows(Protocol):
    """A dataset that returns its entries as in its files, as `segpaste.datasets.formats.records.AnnotatedPhotos`."""

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of a photo."""
        ...

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of a photo's annotations."""
        ...

    def tables(self) -> JsonRow:
        """Return the other tables."""
        ...


def carried_image(photos: KeepsRows, index: int) -> JsonRow:
    """Return the keys that the entry of a written photo has from that of its original, such as ``license``.

    Written and original photo differ in name and size, and the lists of LVIS follow from what was pasted.
    """
    return _without(photos.image_row(index), IMAGE_KEYS | LIST_KEYS | {_OWN})


def carried_annotations(photos: KeepsRows, index: int) -> dict[int, JsonRow]:
    """Return the keys that the entry of a written object has from its original: annotation id to keys.

    They are the same for an object that stays in its photo and for one that is pasted elsewhere.
    """
    rows = photos.annotation_rows(index)
    return {row["id"]: _without(row, REGION_KEYS | POINT_KEYS | {_OWN}) for row in rows if "id" in row}


def carried_tables(photos: KeepsRows) -> JsonRow:
    """Return the tables that a written dataset has from its original, such as ``licenses``; ``info`` is its own."""
    return _without(photos.tables(), {"info"})


def without_counts(categories: Sequence[JsonRow]) -> list[JsonRow]:
    """Return categories without the numbers of their objects, which are those of the original, not of its copy."""
    return [_without(row, {"instance_count", "image_count"}) for row in categories]


def _without(row: Mapping[str, object], keys: Collection[str]) -> JsonRow:
    return {key: value for key, value in row.items() if key not in keys}
