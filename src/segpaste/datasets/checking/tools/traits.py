"""Traits of images and annotations that tools treat in different ways, and how a dataset is searched for them."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.checking.listing import ListedImage, ListedObject, Listing
from segpaste.datasets.entries import Box
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.rle import decode_segmentation
from segpaste.datasets.mask_parts import num_holes, num_parts
from segpaste.types.sampling import Size, mask_box

_ALPHA, _WIDE = ("LA", "PA", "RGBA"), ("I;16", "I;16B", "I;16L", "I", "F")


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

    @property
    def polygons(self) -> list[object] | None:
        """Polygons as in the file; None for run lengths, or without a segmentation."""
        return self.segmentation if isinstance(self.segmentation, list) else None

    @cached_property
    def mask(self) -> NDArray[np.bool_] | None:
        """Mask [H, W]; None without one, or if it cannot be decoded."""
        if not self.segmentation:
            return None
        try:
            return decode_segmentation(self.segmentation, self.size)
        except ValueError:
            return None

    @cached_property
    def inner(self) -> NDArray[np.bool_] | None:
        """The part of the mask in its box; None without a pixel."""
        mask = self.mask
        if mask is None or (box := mask_box(mask)) is None:
            return None
        x1, y1, x2, y2 = box
        return mask[y1:y2, x1:x2]

    @property
    def box(self) -> Box | None:
        """Box as in the file."""
        return self.found.box_px(self.size)


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


def _is_object(shape: Shape) -> bool:
    return not shape.found.is_crowd and not shape.found.is_stuff


def _id_zero(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.id == 0


def _run_lengths(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(shape.segmentation, dict)


def _hole(shape: Shape) -> bool:
    return _is_object(shape) and shape.inner is not None and num_holes(shape.inner) > 0


def _parts(shape: Shape) -> bool:
    if not _is_object(shape):
        return False
    polygons = shape.polygons
    if polygons is not None:
        return len(polygons) > 1
    return shape.inner is not None and num_parts(shape.inner) > 1


def _crowd(shape: Shape) -> bool:
    return shape.found.is_crowd


def _box_only(shape: Shape) -> bool:
    return _is_object(shape) and shape.segmentation is None and shape.box is not None


def _empty_outline(shape: Shape) -> bool:
    return _is_object(shape) and shape.segmentation == []


def _compressed(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(shape.segmentation, dict) and isinstance(shape.segmentation["counts"], str)


def _float_class(shape: Shape) -> bool:
    return shape.found.has_float_class


def _thin(shape: Shape) -> bool:
    """Whether a mask or box is at most one pixel high or wide."""
    if not _is_object(shape):
        return False
    if shape.inner is not None:
        return bool(min(shape.inner.shape) <= 1)
    box = shape.box
    return box is not None and min(box[2] - box[0], box[3] - box[1]) <= 1


def _outside(shape: Shape) -> bool:
    """Whether an outline, or a box, goes beyond the image by more than rounding."""
    if not _is_object(shape):
        return False
    height, width = shape.size
    if shape.polygons:
        points = _points(shape.polygons)
        edges = (*points.min(0, initial=0.0), *points.max(0, initial=0.0))
    elif shape.box is not None:
        edges = shape.box
    else:
        return False
    x1, y1, x2, y2 = edges
    return bool(min(x1, y1) < -_ROUNDED_PX or x2 > width + _ROUNDED_PX or y2 > height + _ROUNDED_PX)


def _points(polygons: Sequence[object]) -> NDArray[np.float64]:
    """Return the points [P, 2] of polygons of numbers."""
    numbers = [value for polygon in polygons if isinstance(polygon, list) for value in polygon[: len(polygon) // 2 * 2]]
    return np.array(numbers, np.float64).reshape(-1, 2)


def _few_points(shape: Shape) -> bool:
    return _is_object(shape) and any(isinstance(of, list) and len(of) < 6 for of in shape.polygons or ())


def _no_area(shape: Shape) -> bool:
    return _is_object(shape) and "area" in shape.found.lacks


def _area_zero(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.area is not None and shape.found.area <= 0


def _no_iscrowd(shape: Shape) -> bool:
    return _is_object(shape) and "iscrowd" in shape.found.lacks


def _no_box(shape: Shape) -> bool:
    return _is_object(shape) and "bbox" in shape.found.lacks


def _hole_from_first(shape: Shape) -> bool:
    """Whether the parts of an outline, cut where it comes back to their first points, fill a hole of it."""
    polygons = shape.polygons
    if polygons is None or len(polygons) != 1 or not _hole(shape):
        return False
    parts = _closed_parts(_points(polygons).tolist())
    return len(parts) > 1 and bool((decode_segmentation(parts, shape.size) != shape.mask).any())


def _closed_parts(points: Sequence[list[float]]) -> list[list[float]]:
    """Return the parts [x1, y1, ...] of an outline that come back to their first points, and the rest."""
    parts, part, last = list[list[list[float]]](), list[list[float]](), list[float]()
    for point in points:
        if point != last:
            part.append(point)
        if len(part) > 3 and point == part[0]:
            parts.append(part)
            part = []
        last = point
    parts += [part] if len(part) > 2 else []
    return [[number for point in part for number in point] for part in parts]


_ROUNDED_PX = 0.01
_SMALL_PX, _LOW_PX = 10, 32


def _oriented(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the image as its EXIF orientation turns it."""
    is_turned = head is not None and head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)
    return bool(is_turned) and bool(objects)


def _oriented_as_stored(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the stored pixels of an image with an EXIF orientation."""
    if head is None or not head.is_oriented or not objects:
        return False
    return not head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)


def _grey(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in ("1", "L") and bool(objects)


def _palette(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in ("P", "PA") and bool(objects)


def _alpha(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in _ALPHA and bool(objects)


def _wide(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and (head.is_wide or head.mode in _WIDE) and bool(objects)


def _no_objects(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return not objects


def _only_crowds(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return bool(objects) and all(found.is_crowd for found in objects)


def _mixed_rows(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return len({found.segmentation is None for found in objects if not found.is_crowd}) > 1


def _small_image(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and min(head.size) < _SMALL_PX and bool(objects)


def _low_image(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and _SMALL_PX <= min(head.size) < _LOW_PX and bool(objects)


def _subfolder(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return image.in_subfolder and bool(objects)


def _mixed_suffix(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether the suffix of an image has upper-case and lower-case letters."""
    suffix = PurePosixPath(image.name).suffix
    return suffix not in (suffix.lower(), suffix.upper()) and bool(objects)


def _some_keypoints(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return len({"keypoints" in found.lacks for found in objects if not found.is_crowd}) > 1


def _same_stem(split: ListedSplit) -> Iterator[Place]:
    """Yield the images whose names differ only by their suffix from that of another image of their folder."""
    yield from _alike(split, lambda name: str(PurePosixPath(name).with_suffix("")))


def _same_name(split: ListedSplit) -> Iterator[Place]:
    """Yield the images that have the same name as one of another folder."""
    yield from _alike(split, lambda name: PurePosixPath(name).name)


def _alike(split: ListedSplit, key: Callable[[str], str]) -> Iterator[Place]:
    keys = [key(image.name) for image in split.listing.images]
    counts = Counter(keys)
    yield from (Place(i) for i, found in enumerate(keys) if counts[found] > 1)


def _byte_order_mark(split: ListedSplit) -> Iterator[Place]:
    """Yield the images with rows whose label file begins with a byte order mark; the files are read only here."""
    for position in sorted({of.image for of in split.listing.objects}) if split.listing.format == "yolo" else ():
        path = split.listing.images[position].label_file
        with suppress(OSError), open(path or "", "rb") as file:
            if file.read(len(BOM_UTF8)) == BOM_UTF8:
                yield Place(position)


def _box_rows(split: ListedSplit) -> Iterator[Place]:
    """Yield the images whose rows are all boxes without keypoints."""
    found = split.listing.objects if split.listing.format == "yolo" and not split.listing.keypoint_shape else []
    outlined = {of.image for of in found if of.segmentation is not None}
    yield from (Place(image) for image in sorted({of.image for of in found} - outlined))


def _no_points(split: ListedSplit) -> Iterator[Place]:
    """Yield the images with objects of a dataset whose file declares no keypoints."""
    if split.listing.format == "yolo" and not split.listing.keypoint_shape:
        yield from (Place(image) for image in sorted({of.image for of in split.listing.objects}))


def _pose_rows(split: ListedSplit, is_odd: bool) -> Iterator[Place]:
    """Yield the rows with keypoints whose numbers after the class are odd or even in number."""
    num, size = split.listing.keypoint_shape or (0, 0)
    if num and num * size % 2 == is_odd:
        yield from (Place(of.image, of.id) for of in split.listing.objects if of.segmentation is None)


def _repeated(split: ListedSplit) -> Iterator[Place]:
    """Yield the rows of label files that repeat the class and the numbers of a row above; poses are not compared."""
    seen = set[tuple[int, int | None, bytes]]()
    for found in split.listing.objects if split.listing.format == "yolo" else ():
        size = split.sizes[found.image]
        if size is None or found.has_keypoints:
            continue
        numbers = found.box_px(size) if found.segmentation is None else found.segmentation(size)
        key = found.image, found.label, np.asarray(numbers, np.float32).tobytes()
        if key in seen:
            yield Place(found.image, found.id)
        seen.add(key)


def _of_class(split: ListedSplit, classes: set[int]) -> Iterator[Place]:
    yield from (Place(of.image, of.id) for of in split.listing.objects if of.label in classes and not of.is_crowd)


def _category_zero(split: ListedSplit) -> Iterator[Place]:
    ids = split.listing.category_ids or []
    yield from _of_class(split, {label for label, number in enumerate(ids) if number == 0})


def _category_gaps(split: ListedSplit) -> Iterator[Place]:
    """Yield the annotations of categories whose ids are not 1, 2, 3 ... or 0, 1, 2 ..., from the first gap on."""
    ids = split.listing.category_ids or []
    yield from _of_class(split, {label for label, number in enumerate(ids) if number > label + max(ids[0], 0)})


def _names_alike(split: ListedSplit) -> Iterator[Place]:
    counts = Counter(split.listing.class_names)
    yield from _of_class(split, {i for i, name in enumerate(split.listing.class_names) if counts[name] > 1})


TRAITS: Mapping[str, Trait] = MappingProxyType(
    {
        "id_zero": Trait("annotations with the id 0", of_object=_id_zero),
        "run_lengths": Trait("masks in run lengths", of_object=_run_lengths),
        "hole": Trait("masks with a hole", of_object=_hole),
        "parts": Trait("masks of several parts", of_object=_parts),
        "crowd": Trait("crowd and ignored regions", of_object=_crowd),
        "compressed": Trait("masks in compressed run lengths", of_object=_compressed),
        "box_only": Trait("objects with a box and no mask", of_object=_box_only),
        "empty_outline": Trait("objects whose mask is an empty list", of_object=_empty_outline),
        "thin": Trait("objects of one pixel, or one pixel high or wide", of_object=_thin),
        "outside": Trait("outlines or boxes that go beyond their image", of_object=_outside),
        "few_points": Trait("polygons of fewer than three points", of_object=_few_points),
        "no_area": Trait("annotations without an area", of_object=_no_area),
        "area_zero": Trait("objects whose entry has the area 0", of_object=_area_zero),
        "no_iscrowd": Trait("annotations without iscrowd", of_object=_no_iscrowd),
        "no_box": Trait("annotations without a box", of_object=_no_box),
        "hole_from_first": Trait(
            "outlines with a hole that is filled if they are cut at their first point", of_object=_hole_from_first
        ),
        "category_zero": Trait("annotations of a category with the id 0", of_split=_category_zero),
        "category_gaps": Trait("annotations of categories after a gap in the ids", of_split=_category_gaps),
        "names_alike": Trait("annotations of categories that have one name", of_split=_names_alike),
        "oriented": Trait("images that their EXIF orientation turns, with their annotations", of_image=_oriented),
        "oriented_as_stored": Trait(
            "images with an EXIF orientation and annotations on stored pixels", of_image=_oriented_as_stored
        ),
        "grey": Trait("grey images", of_image=_grey),
        "palette": Trait("images with a palette", of_image=_palette),
        "alpha": Trait("images with an alpha channel", of_image=_alpha),
        "wide": Trait("images of 16 bits", of_image=_wide),
        "no_objects": Trait("images without annotations", of_image=_no_objects),
        "only_crowds": Trait("images with crowd regions only", of_image=_only_crowds),
        "mixed_rows": Trait("images with both boxes and outlines", of_image=_mixed_rows),
        "some_keypoints": Trait("images of which only some objects have keypoints", of_image=_some_keypoints),
        "byte_order_mark": Trait("images whose label file has a byte order mark", of_split=_byte_order_mark),
        "box_rows": Trait("images whose labels are all boxes", of_split=_box_rows),
        "float_class": Trait("rows whose class has a point or an exponent", of_object=_float_class),
        "mixed_suffix": Trait("images whose suffix has upper-case and lower-case letters", of_image=_mixed_suffix),
        "no_points": Trait("images of a dataset without keypoints", of_split=_no_points),
        "pose_pairs": Trait(
            "rows with keypoints, of an even number of values", of_split=partial(_pose_rows, is_odd=False)
        ),
        "pose_odd": Trait("rows with keypoints, of an odd number of values", of_split=partial(_pose_rows, is_odd=True)),
        "small_image": Trait("images of less than 10 pixels in height or width", of_image=_small_image),
        "low_image": Trait("images of 10 to 31 pixels in height or width", of_image=_low_image),
        "subfolder": Trait("images in folders below the folder of the split", of_image=_subfolder),
        "repeated": Trait("rows that repeat a row above", of_split=_repeated),
        "same_stem": Trait("images whose names differ by their suffix only", of_split=_same_stem),
        "same_name": Trait("images of one name in several folders", of_split=_same_name),
    }
)
"""Each trait that a rule may name."""


def find_traits(split: ListedSplit, names: Iterable[str]) -> dict[str, list[Place]]:
    """Search a dataset for traits; masks are decoded only if a trait asks for them.

    Args:
        split: the dataset.
        names: keys of `TRAITS`.

    Returns:
        For each trait the places where it was found, in the order of the dataset.
    """
    found: dict[str, list[Place]] = {name: [] for name in names}
    by_image: defaultdict[int, list[ListedObject]] = defaultdict(list)
    for annotation in split.listing.objects:
        by_image[annotation.image].append(annotation)
    for position, (image, head, size) in enumerate(zip(split.listing.images, split.heads, split.sizes, strict=True)):
        objects = by_image[position]
        for name, of_image in ((name, TRAITS[name].of_image) for name in found):
            if of_image is not None and of_image(image, head, objects):
                found[name].append(Place(position))
        for annotation in objects if size is not None else ():
            assert size is not None
            shape = Shape(annotation, size)
            for name, of_object in ((name, TRAITS[name].of_object) for name in found):
                if of_object is not None and of_object(shape):
                    found[name].append(Place(position, annotation.id))
    for name, of_split in ((name, TRAITS[name].of_split) for name in found):
        found[name] += of_split(split) if of_split is not None else ()
    return found
