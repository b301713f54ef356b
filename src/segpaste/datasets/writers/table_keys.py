"""Keys beside the annotations of a written dataset: of images and categories in tables, and of the data YAML of YOLO.

The ledger states them as they came to the writer, and they are compared with those that our readers find. Keys that
refer to other images or annotations are compared for images only: their ids are known when all images are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from segpaste.datasets.contract import AnnotatedDataset, JsonRow
from segpaste.datasets.formats.carried import finite_row
from segpaste.datasets.formats.references import refers
from segpaste.datasets.formats.yolo.data_yaml import read_yaml
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.format import View
from segpaste.datasets.writers.ledger import OF_ENTRIES, digest

HAS_TABLES = (*OF_ENTRIES, "coco-panoptic")
_COMPARED = frozenset({"file_name", "width", "height"})
"""Keys of images that are compared with their files."""


def image_keys(view: View, row: JsonRow, regions: Collection[int] = ()) -> JsonRow:
    """Return the keys of the entry of an image, with its id; of LVIS with its lists of classes, in ascending order.

    Args:
        view: the format.
        row: the entry.
        regions: ids of the classes with a crowd or ignored region, which LVIS does not hold; they are not exhaustive.
    """
    keys = {key: value for key, value in row.items() if key not in _COMPARED}
    if view.format == "lvis":
        keys["neg_category_ids"] = sorted({*(row.get("neg_category_ids") or ())} - {*regions})
        keys["not_exhaustive_category_ids"] = sorted({*(row.get("not_exhaustive_category_ids") or ()), *regions})
    return keys


def key_differences(view: View, photos: AnnotatedDataset) -> Iterator[str]:
    """Yield how the keys of categories and of the data YAML differ from those of the view."""
    if view.format in HAS_TABLES:
        there = {row["id"]: row for row in photos.categories}
        for row in view.categories:
            if (key := _other_key(row, there.get(row["id"], {}))) is not None:
                yield f"category {row['name']!r}: expected {key!r} as it was read, got another, or none"
    elif isinstance(photos, YoloDataset):
        yield from _yaml_differences(view, photos)


def _yaml_differences(view: View, photos: YoloDataset) -> Iterator[str]:
    """Yield how the keypoints and the further keys of a data YAML differ."""
    promised = dict(view.source_yaml or {})
    if view.schema is not None and view.task == "pose":
        there = (*photos.data.keypoint_names,) if photos.data.keypoint_names else ()
        if there != view.schema.names:
            yield f"data.yaml: expected the keypoints {list(view.schema.names)}, got {list(there)}"
        if "flip_idx" in promised and photos.data.flip_idx != view.schema.flip_order:
            yield f"data.yaml: expected flip_idx {list(view.schema.flip_order)}, got {photos.data.flip_idx}"
    promised.pop("flip_idx", None)
    document = read_yaml(photos.data.file) if promised else {}
    for key, value in promised.items():
        if repr(document.get(key)) != repr(value):
            yield f"data.yaml: expected {key!r} as it was read, got another, or none"


def _other_key(promised: JsonRow, there: JsonRow) -> str | None:
    """Return the first key of the entry of a class that is not there as promised, None without one."""
    keys: dict[str, Any] = finite_row(promised, "categories", Counter())
    keys = {key: value for key, value in keys.items() if not refers({key: value}, "categories")}
    if digest(keys) == digest({key: there.get(key) for key in keys}):
        return None
    return next(key for key, value in keys.items() if key not in there or digest(value) != digest(there[key]))
