"""Keys of a dataset's entries without a field in samples: licences, sources, attributes, unknown keys.

Augmentation and conversion copy these keys. Keys that depend on pixels or ids, such as ``bbox``, are not among them;
they are computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow, finite
from segpaste.datasets.formats.references import OWN_KEY, Owner

IMAGE_KEYS = frozenset({"id", "file_name", "width", "height"})
"""Image keys that exist in every format in some form."""
LIST_KEYS = frozenset({"neg_category_ids", "not_exhaustive_category_ids"})
"""Lists of LVIS, which a paste changes; see `segpaste.datasets.FederatedLabels`."""
REGION_KEYS = frozenset({"id", "image_id", "category_id", "segmentation", "bbox", "area", "iscrowd", "ignore"})
"""Annotation keys that exist in every format in some form."""
POINT_KEYS = frozenset({"keypoints", "num_keypoints"})


def carried_image(photos: AnnotatedDataset, index: int) -> JsonRow:
    """Return the keys that a written image's entry copies from its original, such as ``license``.

    Written and original image differ in name and size, and the lists of LVIS depend on the pasted objects.
    """
    return _without(photos.image_row(index), IMAGE_KEYS | LIST_KEYS | {OWN_KEY})


def carried_annotations(photos: AnnotatedDataset, index: int) -> dict[int, JsonRow]:
    """Return the keys that a written object's entry copies from its original, by annotation id, and our own key.

    Keypoints and keys of geometry are among them; they hold only for an object that nothing touches.
    """
    return {row["id"]: _without(row, REGION_KEYS) for row in photos.annotation_rows(index) if "id" in row}


def without_counts(categories: Sequence[JsonRow]) -> list[JsonRow]:
    """Return categories without their object counts, which are those of the original dataset."""
    return [_without(row, {"instance_count", "image_count"}) for row in categories]


def finite_row(row: JsonRow, owner: Owner, lost: Counter[str], own: Collection[str] = ()) -> JsonRow:
    """Return an entry with null for NaN and infinite numbers in keys that are not its ``own``, which are counted."""
    further = _without(row, own)
    known = finite(further, f"keys of {owner}", lost)
    return row if known is further else {**row, **known}


def _without(row: Mapping[str, object], keys: Collection[str]) -> JsonRow:
    return {key: value for key, value in row.items() if key not in keys}
