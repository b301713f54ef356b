"""Counts by class: of objects and of images that show them, and those of COCO's files, which need no torch.

    counts = count_annotations(Path("instances.json"))
    dict(zip(counts.names, counts.num_objects))

The objects are those that can be pasted: no crowds or ignored objects, and only things of panoptic datasets.
`segpaste.datasets.dataset_counts` counts the objects of an open dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.datasets.entries import TableColumns
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.tables import AnnotationTables

_TABLES: dict[str, TableColumns] = {
    "images": {},
    "annotations": {"image_id": int},
    "categories": {"id": int, "name": str},
}


@dataclass(frozen=True)
class ClassCounts:
    """Objects of a dataset or bank by class; unknown counts are None.

    Attributes:
        kind: ``dataset``, ``augmented dataset`` or ``bank``.
        names: name of each class.
        num_objects: number of objects of each class.
        num_showing: number of images that show each class.
        num_pasted: number of pasted objects of each class.
        num_photos: number of images that show any object, 0 if not known.
    """

    kind: str
    names: tuple[str, ...]
    num_objects: tuple[int, ...]
    num_showing: tuple[int, ...] | None = None
    num_pasted: tuple[int, ...] | None = None
    num_photos: int = 0

    def photo_fracs(self) -> list[float]:
        """Return the fraction of the images with any object that show each class."""
        assert self.num_showing is not None
        return [num / max(self.num_photos, 1) for num in self.num_showing]


@dataclass(frozen=True)
class MapCounts:
    """Pixels of semantic maps without objects, by class.

    Attributes:
        names: name of each class.
        num_pixels: number of pixels of each class.
        num_showing: number of images that show each class.
        num_photos: number of images.
    """

    names: tuple[str, ...]
    num_pixels: tuple[int, ...]
    num_showing: tuple[int, ...]
    num_photos: int


def count_annotations(path: Path) -> ClassCounts:
    """Count the objects of a JSON file of COCO instances or panoptic segments, or LVIS; pasted ones also separately."""
    tables = AnnotationTables(AnnotationFile(path), _TABLES)
    rows = tables.categories.rows
    things = [label for label, row in enumerate(rows) if row.get("isthing", 1)]
    is_thing, is_augmented, objects = set(things), False, list[tuple[int, Any, bool]]()
    for row, label, image_id in tables.objects():
        if label in is_thing:
            origin = row.get("segpaste", {})
            is_augmented |= "pasted" in origin
            objects.append((label, image_id, bool(origin.get("pasted"))))
    return counted([row["name"] for row in rows], things, objects, is_augmented=is_augmented)


def counted(
    names: Sequence[str], things: Sequence[int], objects: Iterable[tuple[int, Any, bool]], *, is_augmented: bool = False
) -> ClassCounts:
    """Count the objects of some classes, given as (class, image, pasted)."""
    num_objects, num_pasted = [0] * len(names), [0] * len(names)
    showing: list[set[Any]] = [set() for _ in names]
    for label, image, is_pasted in objects:
        num_objects[label] += 1
        num_pasted[label] += is_pasted
        showing[label].add(image)
    return ClassCounts(
        "augmented dataset" if is_augmented else "dataset",
        tuple(names[label] for label in things),
        tuple(num_objects[label] for label in things),
        tuple(len(showing[label]) for label in things),
        tuple(num_pasted[label] for label in things) if is_augmented else None,
        len(set().union(*(showing[label] for label in things))),
    )
