"""Traits of images and annotations that tools treat in different ways, and how a dataset is searched for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

from segpaste.datasets.checking.listing import ListedImage, ListedObject
from segpaste.datasets.checking.tools.trait import ListedSplit, Place, Shape, Trait
from segpaste.datasets.entries import file_name_of
from segpaste.datasets.errors import collected
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.mask_parts import num_holes, num_parts
from segpaste.datasets.tables import CLASS_LISTS, INSTANCES, AnnotationTables

_ALPHA, _WIDE = ("LA", "PA", "RGBA"), ("I;16", "I;16B", "I;16L", "I", "F")


def _is_object(shape: Shape) -> bool:
    return not shape.found.is_crowd and not shape.found.is_stuff


def _id_zero(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.id == 0


def _id_negative(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.id < 0


def _counts(shape: Shape) -> object:
    """Return the run lengths as in the file; None for polygons, or without a segmentation."""
    return shape.segmentation.get("counts") if isinstance(shape.segmentation, dict) else None


def _run_lengths(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(_counts(shape), list)


def _compressed(shape: Shape) -> bool:
    return _is_object(shape) and isinstance(_counts(shape), str | bytes)


def _hole_runs(shape: Shape) -> bool:
    return isinstance(shape.segmentation, dict) and _hole(shape)


def _thin_runs(shape: Shape) -> bool:
    return isinstance(shape.segmentation, dict) and _thin(shape)


def _empty_outline(shape: Shape) -> bool:
    return _is_object(shape) and shape.segmentation == []


def _crowd_polygons(shape: Shape) -> bool:
    return _crowd(shape) and bool(shape.polygons)


def _crowd_compressed(shape: Shape) -> bool:
    return _crowd(shape) and isinstance(_counts(shape), str | bytes)


def _keypoints(shape: Shape) -> bool:
    return _is_object(shape) and shape.found.has_keypoints


def _no_area(shape: Shape) -> bool:
    return _is_object(shape) and "area" in shape.found.lacks


def _no_iscrowd(shape: Shape) -> bool:
    return _is_object(shape) and "iscrowd" in shape.found.lacks


def _no_box(shape: Shape) -> bool:
    return _is_object(shape) and "bbox" in shape.found.lacks


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
    return shape.found.is_crowd and not shape.found.is_ignored


def _ignored(shape: Shape) -> bool:
    return shape.found.is_ignored


def _box_only(shape: Shape) -> bool:
    return _is_object(shape) and not shape.segmentation and shape.box is not None


def _thin(shape: Shape) -> bool:
    """Whether a mask or box is at most one pixel high or wide."""
    if not _is_object(shape):
        return False
    if shape.inner is not None:
        return bool(min(shape.inner.shape) <= 1)
    box = shape.box
    return box is not None and bool(min(box[2] - box[0], box[3] - box[1]) <= 1)


def _outside(shape: Shape) -> bool:
    """Whether an outline, or a box, goes beyond the image by more than rounding."""
    if not _is_object(shape):
        return False
    height, width = shape.size
    if shape.polygons:
        low = min(min(polygon, default=0) for polygon in shape.polygons)
        high_x = max(max(polygon[::2], default=0) for polygon in shape.polygons)
        high_y = max(max(polygon[1::2], default=0) for polygon in shape.polygons)
    elif (box := shape.box) is not None:
        low, high_x, high_y = min(box), box[2], box[3]
    else:
        return False
    return bool(low < -_ROUNDED_PX or high_x > width + _ROUNDED_PX or high_y > height + _ROUNDED_PX)


def _few_points(shape: Shape) -> bool:
    return _is_object(shape) and any(len(polygon) < 6 for polygon in shape.polygons or ())


_ROUNDED_PX = 0.01


def _oriented(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the image as its EXIF orientation turns it."""
    is_turned = head is not None and head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)
    return bool(is_turned) and bool(objects)


def _oriented_as_stored(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the stored pixels of an image with an EXIF orientation."""
    if head is None or not head.is_oriented or not objects:
        return False
    return head.is_rotated_for(image.size, drawn_upright=image.drawn_upright) is False


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


def _subfolder(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return image.in_subfolder and bool(objects)


def _mixed_rows(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return len({found.segmentation is None for found in objects if not found.is_crowd}) > 1


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


def _of_class(split: ListedSplit, classes: set[int]) -> Iterator[Place]:
    yield from (Place(of.image, of.id) for of in split.listing.objects if of.label in classes and not of.is_crowd)


def _first_object(split: ListedSplit) -> Iterator[Place]:
    """Yield the first annotation that is an object, of the first image that has one."""
    found = (of for of in split.listing.objects if not of.is_crowd and not of.is_stuff)
    first = min(found, key=lambda of: of.image, default=None)
    if first is not None:
        yield Place(first.image, first.id)


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


def _no_class_lists(split: ListedSplit) -> Iterator[Place]:
    """Yield the images of a COCO file whose entries lack LVIS's lists, which are read only here."""
    listing, lacking = split.listing, set[str]()
    if listing.format != "coco" or listing.file is None:
        return
    with collected():  # entries that cannot be read are findings of the check
        for row in AnnotationTables(AnnotationFile(listing.file), INSTANCES).rows("images"):
            if any(key not in row for key in CLASS_LISTS):
                lacking.add(file_name_of(listing.file, row))
    yield from (Place(i) for i, image in enumerate(listing.images) if image.name in lacking)


TRAITS: Mapping[str, Trait] = MappingProxyType(
    {
        "id_zero": Trait("annotations with the id 0", of_object=_id_zero),
        "id_negative": Trait("annotations with an id below 0", of_object=_id_negative),
        "any_object": Trait("annotations of objects", of_object=_is_object),
        "first_object": Trait("the first annotation", of_split=_first_object),
        "no_area": Trait("annotations without an area", of_object=_no_area),
        "no_iscrowd": Trait("annotations without iscrowd", of_object=_no_iscrowd),
        "no_box": Trait("annotations without a box", of_object=_no_box),
        "keypoints": Trait("objects with keypoints", of_object=_keypoints),
        "run_lengths": Trait("masks in run lengths that are lists", of_object=_run_lengths),
        "compressed": Trait("masks in compressed run lengths", of_object=_compressed),
        "hole": Trait("masks with a hole", of_object=_hole),
        "parts": Trait("masks of several parts", of_object=_parts),
        "hole_runs": Trait("masks in run lengths with a hole", of_object=_hole_runs),
        "crowd": Trait("crowd regions", of_object=_crowd),
        "crowd_polygons": Trait("crowd regions in polygons", of_object=_crowd_polygons),
        "crowd_compressed": Trait("crowd regions in compressed run lengths", of_object=_crowd_compressed),
        "ignored": Trait("ignored regions that are no crowds", of_object=_ignored),
        "box_only": Trait("objects with a box and no mask", of_object=_box_only),
        "thin": Trait("objects of one pixel, or one pixel high or wide", of_object=_thin),
        "thin_runs": Trait("masks in run lengths of one pixel, or one pixel high or wide", of_object=_thin_runs),
        "empty_outline": Trait("objects with an empty list of polygons", of_object=_empty_outline),
        "outside": Trait("outlines or boxes that go beyond their image", of_object=_outside),
        "few_points": Trait("polygons of fewer than three points", of_object=_few_points),
        "no_class_lists": Trait("images without LVIS's lists of classes", of_split=_no_class_lists),
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
        "subfolder": Trait("images in folders below the folder of the split", of_image=_subfolder),
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
