"""Format of LVIS: COCO's entries, with the annotated classes of each image and the frequency of each class.

See https://www.lvisdataset.org. LVIS has no crowds: a class with a crowd is written as not exhaustive in that image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.writers.coco import CocoInstances, json_lines
from segpaste.datasets.writers.format import File, LabelledImage, Losses, SampleRows, View, WrittenSplit

_MOST_RARE, _MOST_COMMON = 10, 100


class LvisInstances(CocoInstances):
    """LVIS instances."""

    name = "lvis"
    title = "LVIS"
    files = "SPLIT/NAME and annotations/lvis_SPLIT.json"
    holds = "masks, boxes, lists of absent and not exhaustive classes, frequencies, all keys of entries"
    has_iscrowd = False

    def split_name(self, split: str) -> str:
        """Return the name, ``train`` without splits."""
        return split or "train"

    def photos_dir(self, split: str) -> str:
        """Return the folder of a split."""
        return split

    def tables(self, split: str) -> str:
        """Return the file of a split."""
        return f"annotations/lvis_{split}.json"

    def labels(self, image: LabelledImage, view: View, losses: Losses) -> tuple[SampleRows, Sequence[File]]:
        """Return the entries of the annotations, and count the regions, which the closing file leaves out."""
        rows, files = super().labels(image, view, losses)
        for annotation in filter(_is_region, rows.annotations):
            losses["ignored regions" if annotation.get("ignore") else "crowd regions"] += 1
        return rows, files

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield a file of all entries for each split."""
        for split in splits:
            images = (_image(row) for row in split.rows())
            annotations = (a for row in split.rows() for a in row.annotations if not _is_region(a))
            tables: dict[str, Any] = {**split.tables, "categories": lvis_categories(split), "images": images}
            yield self.tables(split.name), json_lines({**tables, "annotations": annotations})


def lvis_categories(split: WrittenSplit) -> list[JsonRow]:
    """Return the categories with counts and frequency: r up to 10 images, c up to 100, f above.

    A category keeps existing values, because a part of a dataset is evaluated with the frequencies of the whole.
    """
    num_instances: Counter[Any] = Counter()
    num_images: Counter[Any] = Counter()
    for row in split.rows():
        ids = [annotation["category_id"] for annotation in row.annotations if not _is_region(annotation)]
        num_instances.update(ids)
        num_images.update(set(ids))
    return [_category(row, num_images[row["id"]], num_instances[row["id"]]) for row in split.categories]


def _category(row: JsonRow, num_images: int, num_instances: int) -> JsonRow:
    frequency = "r" if num_images <= _MOST_RARE else "c" if num_images <= _MOST_COMMON else "f"
    named = {"synset": row["name"], "synonyms": [row["name"]], "def": ""}
    counts = {"frequency": frequency, "image_count": num_images, "instance_count": num_instances}
    return row if set(row) >= set(counts) else {**named, **counts, **row}


def _image(row: SampleRows) -> JsonRow:
    """Return the entry of an image; a class with a crowd is not exhaustive, and not absent."""
    crowds = {annotation["category_id"] for annotation in row.annotations if _is_region(annotation)}
    absent = [i for i in row.image.get("neg_category_ids") or [] if i not in crowds]
    partly = list(row.image.get("not_exhaustive_category_ids") or [])
    partly += sorted(crowds - set(partly))
    return {**row.image, "neg_category_ids": absent, "not_exhaustive_category_ids": partly}


def _is_region(annotation: JsonRow) -> bool:
    return bool(annotation.get("iscrowd") or annotation.get("ignore"))
