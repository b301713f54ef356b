"""Comparison of what a dataset holds beside its annotations: keys of classes, data YAML, tables, lists, counts.

The keys of categories that refer to images or annotations have new ids, which are not known, so they are left out.
What a writer adds, such as the splits of a data YAML or the counts of LVIS, is made here by other code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import finite_row
from segpaste.datasets.formats.references import refers
from segpaste.datasets.formats.yolo.data import SPLIT_KEYS, read_yaml
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.format import View
from segpaste.datasets.writers.ledger import HAS_TABLES, ExpectedImage, digest

_OWN_OF_YAML = frozenset({*SPLIT_KEYS, "path", "validation", "nc", "names", "kpt_shape", "flip_idx", "kpt_names"})
_COUNTED = frozenset({"frequency", "image_count", "instance_count"})


class SplitNames(NamedTuple):
    """Splits of a written dataset.

    Attributes:
        written: those that are written.
        copied: those that are copied beside one to train on; None if all are written.
    """

    written: Sequence[str]
    copied: Sequence[str] | None = None


class Images:
    """Names and numbers of objects of the images of a split, for the lists and counts that are written after them."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.num_objects, self.num_images = Counter[int](), Counter[int]()

    def add(self, view: View, expected: ExpectedImage) -> None:
        """Add an image of a view."""
        if view.format == "voc":
            self.files.append(expected.file)
        elif view.format == "lvis":
            labels = [region.label for region in expected.views.get("lvis", ())]
            self.num_objects.update(labels)
            self.num_images.update({*labels})

    def differences(self, view: View, photos: AnnotatedDataset, folder: Path) -> Iterator[str]:
        """Yield how the lists of VOC and the counts of LVIS differ."""
        if view.format == "voc":
            wanted = "".join(f"{Path(file).stem}\n" for file in self.files).encode()
            for name in ("Main", "Segmentation"):
                path = folder / "ImageSets" / name / f"{view.split}.txt"
                if not path.is_file() or path.read_bytes() != wanted:
                    yield f"ImageSets/{name}/{view.split}.txt: expected the {len(self.files)} images of the split"
        elif view.format == "lvis":
            there = {row["id"]: row for row in photos.categories}
            for label, row in enumerate(view.categories):
                yield from _other_keys(self._counts(label, row), there.get(row["id"], {}), row["name"])

    def _counts(self, label: int, row: JsonRow) -> JsonRow:
        """Return the keys that LVIS adds to the entry of a class."""
        if {*row} >= _COUNTED:
            return {}
        num = self.num_images[label]
        kind = "r" if num <= 10 else "c" if num <= 100 else "f"
        counts = {"frequency": kind, "image_count": num, "instance_count": self.num_objects[label]}
        added = {"synset": row["name"], "synonyms": [row["name"]], "def": "", **counts}
        return {key: value for key, value in added.items() if key not in row}


def key_differences(view: View, photos: AnnotatedDataset, splits: SplitNames) -> Iterator[str]:
    """Yield how the keys of categories and the data YAML differ from those of the view."""
    if view.format in HAS_TABLES:
        there = {row["id"]: row for row in photos.categories}
        for row in view.categories:
            keys = finite_row(row, "categories", Counter())
            keys = {key: value for key, value in keys.items() if not refers({key: value}, "categories")}
            yield from [*_other_keys(keys, there.get(row["id"], {}), row["name"])][:1]
    elif view.format == "yolo":
        assert isinstance(photos, YoloDataset)
        wanted, found = _yaml(view, splits), read_yaml(photos.data.file)
        for key in {**wanted, **found}:
            if repr(wanted.get(key)) != repr(found.get(key)):
                yield f"data.yaml: expected {key!r}: {wanted.get(key)!r:.200}, got {found.get(key)!r:.200}"


def table_differences(wanted: JsonRow, photos: AnnotatedDataset) -> Iterator[str]:
    """Yield the names of the other tables that are not as they were."""
    there = photos.tables()
    for name in {**wanted, **there}:
        if digest(wanted.get(name)) != digest(there.get(name)):
            yield name


def _yaml(view: View, splits: SplitNames) -> dict[str, Any]:
    """Return the content of a data YAML."""
    found: dict[str, Any] = _folders(splits)
    found |= {"nc": len(view.names), "names": dict(enumerate(view.names))}
    given = view.source_yaml
    if view.schema is not None and view.task == "pose":
        found["kpt_shape"] = [view.schema.num_points, view.point_size]
        if given is None or "flip_idx" in given:
            found["flip_idx"] = [*view.schema.flip_order]
        found["kpt_names"] = {label: [*view.schema.names] for label in range(len(view.names))}
    return found | {key: value for key, value in (given or {}).items() if key not in _OWN_OF_YAML}


def _folders(splits: SplitNames) -> dict[str, Any]:
    """Return the folders of images by the key of a data YAML; a split without a key is trained on, or left out."""
    names = [*splits.written, *(splits.copied or ())]
    found: dict[str, list[str]] = {key: [] for key in SPLIT_KEYS}
    for name in names:
        for key in SPLIT_KEYS:
            if name.lower().startswith(key):
                found[key].append(f"images/{name}")
                break
        else:
            if splits.copied is not None and name == splits.written[0]:
                found["train"].append(f"images/{name}")
    if not any(found.values()):
        found["train"] = [f"images/{name}" for name in names]
    return {key: own[0] if len(own) == 1 else own for key, own in found.items() if own}


def _other_keys(promised: JsonRow, there: JsonRow, name: str) -> Iterable[str]:
    """Yield the keys of the entry of a class that are not there as promised."""
    for key, value in promised.items():
        if key not in there or digest(value) != digest(there[key]):
            yield f"category {name!r}: expected {key!r} as it was, got another, or none"
