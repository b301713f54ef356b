"""Size of an object relative to its image, by class, for objects without an original image, such as cut-outs.

The size is the longer side of the object's box divided by the square root of the image's area: 0.25 is a quarter of the
side of a square image. A prior is a list of ascending quantiles, evenly spaced from the smallest size to the largest.
One number is a fixed size, two numbers are a range. This module does not import torch.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.datasets.entries import TableColumns, box_of, missing
from segpaste.datasets.errors import DatasetError, refuse
from segpaste.datasets.formats.text_files import read_yaml_or_json
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import id_column, positions_in
from segpaste.datasets.tables import AnnotationTables

EVERY_CLASS = "*"
"""Name of the prior for classes without their own prior."""
NUM_QUANTILES = 101
_TABLES: dict[str, TableColumns] = {
    "images": {"id": int, "height": int, "width": int},
    "annotations": {"image_id": int, "category_id": int},
    "categories": {"id": int, "name": str},
}
Quantiles = tuple[float, ...]


def size_at(quantiles: Sequence[float], name: str) -> float:
    """Return the size of an object: a quantile that depends only on its name, interpolated between the nearest two."""
    digest = hashlib.sha256(name.encode()).digest()
    place = int.from_bytes(digest[:8], "little") / 2**64 * (len(quantiles) - 1)
    low = math.floor(place)
    high = min(low + 1, len(quantiles) - 1)
    return quantiles[low] + (place - low) * (quantiles[high] - quantiles[low])


def read_size_prior(path: str | PathLike[str]) -> dict[str, Quantiles]:
    """Read sizes by class from YAML or JSON: ``cup: 0.1`` or ``cup: [0.05, 0.2]``; ``"*"`` is for all other classes.

    Raises:
        DatasetError: the file is missing or malformed, or a size is not above 0, up to 1, in ascending order.
    """
    document = read_yaml_or_json(path, "sizes")
    if not isinstance(document, Mapping) or not document:
        raise DatasetError(f"{path}: expected sizes by class, such as 'cup: [0.05, 0.2]', got {document!r:.60}")
    return {str(name): _quantiles(path, str(name), value) for name, value in document.items()}


def learned_sizes(annotations_file: str | PathLike[str]) -> tuple[dict[str, Quantiles], tuple[int, int]]:
    """Return quantiles of the object sizes of a dataset, by class name, and the median size (H, W) of its images.

    Args:
        annotations_file: COCO or LVIS instances in JSON; boxes are used, crowd and ignored regions are not.

    Raises:
        DatasetError: the file is missing or broken, or no object has a box.
    """
    path = Path(annotations_file)
    tables = AnnotationTables(AnnotationFile(path), _TABLES)
    images, names = tables.images(named=False), tables.categories.names
    found = [(label, image_id, max(box[2:])) for label, image_id, box in _boxes(tables)]
    if not found:
        raise DatasetError(f"{path}: expected objects with a 'bbox', got none; give the annotations of instances")
    positions = positions_in(images.ids, id_column(image_id for _, image_id, _ in found))
    if (positions < 0).any():
        refuse(missing(path, "an annotation", found[int(np.argmax(positions < 0))][1], "images"))
    sides = np.sqrt(np.prod(images.sizes.astype(np.float64), 1))[positions]
    sizes: defaultdict[str, list[float]] = defaultdict(list)
    for (label, _, side), of_image in zip(found, sides.tolist(), strict=True):
        sizes[names[label]].append(min(side / of_image, 1.0))
    levels = np.linspace(0, 1, NUM_QUANTILES)
    height, width = (round(float(median)) for median in np.median(images.sizes, 0))
    quantiles = {name: tuple(np.quantile(values, levels).tolist()) for name, values in sorted(sizes.items())}
    return quantiles, (height, width)


def _boxes(tables: AnnotationTables) -> Iterator[tuple[int, int, list[float]]]:
    """Yield the class, the image id and the box (x, y, w, h) of each object that has one."""
    for row, label, image_id in tables.objects():
        if (box := box_of(row)) is not None and min(box[2:]) > 0:
            yield label, image_id, box


def _quantiles(path: str | PathLike[str], name: str, value: object) -> Quantiles:
    values: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and 0 < v <= 1 for v in values)
    if not values or not are_numbers or values != sorted(values):
        raise DatasetError(
            f"{path}: expected a size above 0, up to 1, of '{name}', or a range [low, high], as a fraction of the side "
            f"of the image, got {value!r:.60}"
        )
    return tuple(float(v) for v in values)
