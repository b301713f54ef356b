"""Counts of each class in annotations, scenes and banks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from segpaste.augmenting.photos import class_pixels
from segpaste.bank import open_bank
from segpaste.bank.read.class_draws import count_photos
from segpaste.cli._errors import CommandError
from segpaste.datasets import CocoDetectionV2, CocoPanoptic, SceneConfig, SceneDataset, find_dataset
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import TableColumns
from segpaste.datasets.formats.format import ReadOptions, Task
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.tables import AnnotationTables
from segpaste.samplers.classes import SamplesOfClasses
from segpaste.types import Modality

_TABLES: dict[str, TableColumns] = {
    "images": {},
    "annotations": {"image_id": int},
    "categories": {"id": int, "name": str},
}
SCENE_SIZE_PX = 256
"""Side of the scenes, the same as in `segpaste augment`."""


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


def of_annotations(path: Path) -> ClassCounts:
    """Count the classes of a JSON file of COCO instances or panoptic segments, or LVIS."""
    tables = AnnotationTables(AnnotationFile(path), _TABLES)
    rows = tables.categories.rows
    things = [label for label, row in enumerate(rows) if row.get("isthing", 1)]
    number_of = {label: number for number, label in enumerate(things)}
    is_augmented, found = False, list[tuple[int, Any, bool]]()
    for row, label, image_id in tables.objects():
        if label in number_of:
            origin = row.get("segpaste", {})
            is_augmented |= "pasted" in origin
            found.append((number_of[label], image_id, bool(origin.get("pasted"))))
    return _counted([rows[label]["name"] for label in things], found, is_augmented)


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


def _of_maps(photos: AnnotatedDataset, names: Sequence[str]) -> MapCounts:
    """Count the pixels of each class; every map is read."""
    pixels, showing = Counter[int](), Counter[int]()
    for index in range(len(photos)):
        found = class_pixels(photos[index])
        pixels.update(found)
        showing.update(found.keys())
    labels = range(len(names))
    return MapCounts(tuple(names), tuple(pixels[n] for n in labels), tuple(showing[n] for n in labels), len(photos))


def of_folder(path: Path, split: str | None, task: Task | None, format: str | None) -> ClassCounts | MapCounts:
    """Count the classes of a split of a dataset in a folder or a data YAML; without objects, the pixels of its maps."""
    photos = find_dataset(path, format).open(split, ReadOptions(task=task))
    if isinstance(photos, CocoDetectionV2 | CocoPanoptic):
        return of_annotations(photos.annotations_file)
    if not photos.has_masks and photos.has_semantic_maps:
        return _of_maps(photos, photos.class_names)
    rows = [(label, i, False) for i in range(len(photos)) for label in photos.instance_labels(i)]
    return _counted(photos.class_names, rows, False)


def of_scenes(num: int, seed: int) -> ClassCounts:
    """Count the classes of synthetic scenes."""
    config = SceneConfig(height=SCENE_SIZE_PX, width=SCENE_SIZE_PX)
    scenes = SceneDataset(num, config, seed, modalities=(Modality.INSTANCE,))
    found = [(label, i, False) for i in range(num) for label in scenes[i].labels.tolist()]
    return _counted(config.thing_names, found, False)


def of_bank(path: Path | str, photos: bool) -> ClassCounts:
    """Count the classes of a bank in a folder or at a URL; with ``photos`` also its images, which takes longer."""
    if isinstance(path, Path) and not (path / "meta.json").is_file():
        raise CommandError(
            f"{path}: expected a dataset with annotations.json or a bank with meta.json, found neither; check the path"
        )
    with open_bank(path) as bank:
        counts = ClassCounts("bank", bank.class_names, bank.class_frequencies)
        if not photos:
            return counts
        showing, num_photos = count_photos(bank, SamplesOfClasses(bank.crop_class_ids(), len(bank.class_names)))
        return replace(counts, num_showing=tuple(showing.tolist()), num_photos=num_photos)


def _counted(names: Sequence[str], found: Iterable[tuple[int, Any, bool]], is_augmented: bool) -> ClassCounts:
    """Count objects, given as (class, image, pasted)."""
    num_objects, num_pasted = [0] * len(names), [0] * len(names)
    showing: list[set[Any]] = [set() for _ in names]
    for label, photo, pasted in found:
        num_objects[label] += 1
        num_pasted[label] += pasted
        showing[label].add(photo)
    return ClassCounts(
        "augmented dataset" if is_augmented else "dataset",
        tuple(names),
        tuple(num_objects),
        tuple(len(photos) for photos in showing),
        tuple(num_pasted) if is_augmented else None,
        len(set().union(*showing)),
    )
