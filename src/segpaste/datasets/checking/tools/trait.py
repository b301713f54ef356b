"""Definition of a trait, and the views of annotations, images and listed datasets in which traits are searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from segpaste._pixels import Size
from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject, Listing
from segpaste.datasets.entries import Box
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.rle import decode_runs
from segpaste.datasets.mask_parts import MaskRuns, column_runs, num_parts_and_holes


class Place(NamedTuple):
    """Where a trait was found.

    Attributes:
        image: position of the image.
        annotation: id or line of the annotation; None for a trait of an image.
    """

    image: int
    annotation: int | None = None


class Shape:
    """Mask of an annotation, decoded when it is asked for.

    Args:
        found: the annotation.
        size: (H, W) of its image.

    Attributes:
        found: the annotation.
        size: (H, W) of its image.
    """

    def __init__(self, found: ListedObject, size: Size) -> None:
        self.found, self.size = found, size

    @cached_property
    def segmentation(self) -> object:
        """Segmentation as in the file; None without one."""
        return None if self.found.segmentation is None else self.found.segmentation(self.size)

    @cached_property
    def polygons(self) -> list[list[float]] | None:
        """Polygons as in the file; None for run lengths, without a segmentation, or if one is no list of numbers."""
        found = self.segmentation
        return found if isinstance(found, list) and all(map(_is_numbers, found)) else None

    @cached_property
    def runs(self) -> MaskRuns | None:
        """Runs of the mask down its columns; None without a mask or a pixel, or if it cannot be decoded."""
        if not self.segmentation:
            return None
        try:
            runs = column_runs(decode_runs(self.segmentation, self.size), self.size[0])
        except ValueError:
            return None
        return runs if len(runs.rows) else None

    @cached_property
    def num_parts_and_holes(self) -> tuple[int, int]:
        """Number of the parts of the mask, and of its holes; (0, 0) without one."""
        return (0, 0) if self.runs is None else num_parts_and_holes(self.runs, self.size[0])

    @property
    def box(self) -> Box | None:
        """Box as in the file."""
        return self.found.box_px(self.size)


def _is_numbers(polygon: object) -> bool:
    return isinstance(polygon, list) and all(issubclass(kind, int | float) for kind in {*map(type, polygon)})


class ListedSplit(NamedTuple):
    """Listing of a dataset, with the headers of its images.

    Attributes:
        listing: images and annotations.
        heads: header of each image; None if it cannot be read.
        sizes: (H, W) of each image in the frame of its annotations; None if unknown.
    """

    listing: Listing
    heads: Sequence[ImageHead | None]
    sizes: Sequence[Size | None]


OfObject = Callable[[Shape], bool]
OfImage = Callable[[ListedImage, ImageHead | None, Sequence[ListedObject]], bool]
OfSplit = Callable[[ListedSplit], Iterable[Place]]


@dataclass(frozen=True, slots=True)
class Trait:
    """Property of annotations, images or a whole dataset.

    Attributes:
        text: what has it, in the plural.
        of_object: tells whether an annotation has it.
        of_image: tells whether an image has it, from its entry, its header and its annotations.
        of_split: lists what has it in the dataset.
    """

    text: str
    of_object: OfObject | None = None
    of_image: OfImage | None = None
    of_split: OfSplit | None = None
