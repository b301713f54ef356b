"""Dataset of another library: its annotations, read once into entries in COCO's form, and images, read on demand."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste._pixels import Size
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError, first_few
from segpaste.datasets.formats.image_annotations import Transforms
from segpaste.datasets.formats.outlined import AnnotatedImage, ShapeTable
from segpaste.datasets.formats.outlined_images import OutlinedImages
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.tool_shapes import join_parts
from segpaste.datasets.lone_objects import LoneObjects

NO_CLASS = ""
"""Label of the shape of a region without a class."""
Pixels = Callable[[int], NDArray[Any]]
"""Function from the index of an image to its pixels, [H, W, C] RGB or grey [H, W], uint8."""


@dataclass(slots=True)
class ToolTable:
    """What a library says of a dataset.

    Attributes:
        tool: name of the library, for messages.
        categories: entries of the classes in order, each with at least a ``name``; an ``id`` is not used.
        images: images with their shapes; ``file_name`` is a path if images are files.
        pixels: function that returns the pixels of images that are not files; None if all are.
        drawn_upright: True if the library shows images rotated by their EXIF orientation.
        not_read: number of annotations that are no objects of samples, by description.
    """

    tool: str
    categories: list[JsonRow]
    images: list[AnnotatedImage] = field(default_factory=list)
    pixels: Pixels | None = None
    drawn_upright: bool = False
    not_read: Counter[str] = field(default_factory=Counter)

    def dataset(self, transforms: Transforms | None) -> ToolImages:
        """Return the dataset; warn about annotations that are not read.

        Raises:
            DatasetError: two classes have one name.
        """
        names = [row["name"] for row in self.categories]
        if twice := [name for name, num in Counter(names).items() if num > 1]:
            raise DatasetError(
                f"{self.tool}: expected a name for each class, each once, got {twice[0]!r} twice; rename one"
            )
        if +self.not_read:
            words = ", ".join(f"{num:,} {what}" for what, num in (+self.not_read).items())
            warnings.warn(f"{self.tool}: {words} are not read, since samples do not hold them", stacklevel=3)
        self._name_regions()
        self._number()
        folder = Path() if self.pixels is not None else _common_folder([str(i.row["file_name"]) for i in self.images])
        for image in self.images:
            if self.pixels is None:
                image.row["file_name"] = os.path.relpath(os.path.abspath(image.row["file_name"]), folder)
        return ToolImages(self, folder, transforms)

    def _name_regions(self) -> None:
        """Give regions without a class the first one, since every annotation has a class."""
        first = self.categories[0]["name"] if self.categories else None
        for image in self.images:
            kept = [shape for shape in image.shapes if shape.label != NO_CLASS or first is not None]
            image.shapes[:] = [replace(s, label=first) if s.label == NO_CLASS and first else s for s in kept]

    def _number(self) -> None:
        """Number images and objects from 1, unless all of them have ids of their own that differ."""
        if not _are_ids([image.row.get("id") for image in self.images]):
            for number, image in enumerate(self.images, start=1):
                image.row["id"] = number
        if not _are_ids([parts[0].id for image in self.images for parts in join_parts(image.shapes)]):
            for image in self.images:
                image.shapes[:] = [replace(shape, id=None) for shape in image.shapes]


class ToolImages(OutlinedImages):
    """Images and annotations of another library; `from_supervision` and its neighbours make such datasets.

    Annotations are those at the time of the call. Images are read when they are needed, from their files where there
    are any. Pickles hold the annotations, and the images that are not files.
    """

    def __init__(self, table: ToolTable, images_dir: Path, transforms: Transforms | None) -> None:
        self._pixels = table.pixels
        self.reads_maps = table.pixels is not None
        rows = table.categories
        categories = [{key: value for key, value in row.items() if key != "id"} for row in rows]
        found = ShapeTable(
            Path(table.tool),
            table.images,
            categories,
            _digest(categories, table.images),
            drawn_upright=table.drawn_upright,
        )
        shapes = [shape for image in table.images for shape in image.shapes if not (shape.ignored or shape.crowd)]
        has_masks = any(shape.segmentation for shape in shapes) or not shapes
        super().__init__(images_dir, found.path, _unread, found, has_masks=has_masks, transforms=transforms)

    def __getstate__(self) -> JsonRow:
        return {**super().__getstate__(), "_records": self._records}

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        return {self.image_id(index): index for index in range(len(self))}

    def photo_file(self, index: int) -> Any:
        """Return the path of an image, and its (H, W); None if it is not a file."""
        return super().photo_file(index) if self._pixels is None else None

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return the instances to decode one by one; None if the image is not a file."""
        return super().lone_objects(index) if self._pixels is None else None

    @property
    def _is_plain(self) -> bool:
        return self._pixels is None and super()._is_plain

    def _read_image(self, record: JsonRow) -> Tensor:
        if self._pixels is None:
            return super()._read_image(record)
        size = record["height"], record["width"]
        pixels = np.asarray(self._pixels(self._positions[record["id"]]))
        if pixels.dtype != np.uint8 or pixels.shape[:2] != size or pixels.ndim not in (2, 3):
            raise DatasetError(
                f"{self.annotations_file}: {record['file_name']}: expected pixels [{size[0]}, {size[1]}, 3] uint8, got "
                f"{list(pixels.shape)} {pixels.dtype}; convert them"
            )
        planes = pixels[..., None] if pixels.ndim == 2 else pixels
        planes = planes[..., :3] if planes.shape[-1] > 2 else planes[..., :1].repeat(3, -1)
        return torch.from_numpy(np.ascontiguousarray(planes.transpose(2, 0, 1)))


def _unread() -> ShapeTable:
    raise AssertionError("the annotations of another library are read once")


def _are_ids(ids: Sequence[object]) -> bool:
    return all(type(key) is int and key >= 0 for key in ids) and len({*ids}) == len(ids)


def _common_folder(paths: Sequence[str]) -> Path:
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    folder = Path(os.path.commonpath(folders)) if folders else Path()
    if not folder.is_dir():
        raise DatasetError(f"{first_few(paths, 1)}: expected the file of an image, found none; check the paths")
    return folder


def _digest(categories: Sequence[JsonRow], images: Sequence[AnnotatedImage]) -> str:
    """Return the SHA-256 of classes, image entries and shapes."""
    found = hashlib.sha256(json.dumps(categories, default=str).encode())
    for image in images:
        found.update(json.dumps(image.row, default=str).encode())
        for shape in image.shapes:
            found.update(repr(replace(shape, where="")).encode())
    return found.hexdigest()


def cropped_mask(mask: NDArray[np.bool_], corner: tuple[int, int], size: Size) -> JsonRow:
    """Return the run lengths of a mask [h, w] whose first pixel is at (x, y) of an image of (H, W)."""
    whole = np.zeros(size, bool)
    x, y = corner
    whole[y : y + mask.shape[0], x : x + mask.shape[1]] = mask
    return encode_mask(whole)


def json_value(value: Any) -> Any:
    """Return a value of NumPy or Python as JSON; texts of what is not JSON."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # a database has integers of its own
    return value if value is None or isinstance(value, bool | float | str) else str(value)
