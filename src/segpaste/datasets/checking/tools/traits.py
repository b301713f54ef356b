"""Traits of images and annotations that tools treat in different ways, and how a dataset is searched for them."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType

import numpy as np
from PIL import Image

from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject
from segpaste.datasets.checking.tools.layout_traits import OF_LAYOUTS
from segpaste.datasets.checking.tools.map_traits import OF_MAPS
from segpaste.datasets.checking.tools.object_traits import OF_OBJECTS
from segpaste.datasets.checking.tools.trait import ListedSplit, Place, Shape, Trait
from segpaste.datasets.checking.tools.voc_traits import OF_VOC
from segpaste.datasets.entries import file_name_of
from segpaste.datasets.errors import collected
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.tables import CLASS_LISTS, INSTANCES, AnnotationTables

_ALPHA, _WIDE = ("LA", "PA", "RGBA"), ("I;16", "I;16B", "I;16L", "I", "F")


_SMALL_PX, _LOW_PX = 10, 32
_TRANSPOSED = 5
_MAPPED = ("L", "P", "I;16", "RGBA", "RGBX", "CMYK")
"""Modes of Pillow whose uncompressed files it maps into memory."""
_COCO_POINTS = 17


def _is_labelled(image: ListedImage, objects: Sequence[ListedObject]) -> bool:
    """Whether an image has annotations, or a map of classes."""
    return bool(objects) or image.semantic_path is not None


def _oriented(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the image as its EXIF orientation turns it."""
    is_turned = head is not None and head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)
    return bool(is_turned) and not _is_tiff(head) and _is_labelled(image, objects)


def _oriented_as_stored(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether annotations are drawn on the stored pixels of an image with an EXIF orientation."""
    return not _is_tiff(head) and _is_on_stored_pixels(image, head, objects)


def _is_on_stored_pixels(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    if head is None or not head.is_oriented or not _is_labelled(image, objects):
        return False
    return head.is_rotated_for(image.size, drawn_upright=image.drawn_upright) is False


def _is_tiff(head: ImageHead | None) -> bool:
    """Whether an image is a TIFF, whose orientation Pillow and OpenCV apply unasked."""
    return head is not None and head.is_tiff


def _tiff_oriented(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    is_turned = head is not None and head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)
    return bool(is_turned) and _is_tiff(head) and _is_labelled(image, objects)


def _tiff_as_stored(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return _is_tiff(head) and _is_on_stored_pixels(image, head, objects)


def _tiff_mapped(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether Pillow maps a file into memory with the sides of the turned image, so that its rows are scrambled."""
    if head is None or not head.is_tiff or head.orientation < _TRANSPOSED or head.mode not in _MAPPED:
        return False
    if image.path is None or head.size[0] == head.size[1] or not _is_labelled(image, objects):
        return False
    with suppress(OSError), image.path.open("rb") as file:
        return Image.open(file).info.get("compression") == "raw"
    return False


def _grey(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in ("1", "L") and _is_labelled(image, objects)


def _palette(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in ("P", "PA") and _is_labelled(image, objects)


def _alpha(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode in _ALPHA and _is_labelled(image, objects)


def _cmyk(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and head.mode == "CMYK" and _is_labelled(image, objects)


def _wide(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and (head.is_wide or head.mode in _WIDE) and _is_labelled(image, objects)


def _no_objects(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return all(found.is_stuff for found in objects) and image.semantic_path is None


def _only_crowds(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return bool(objects) and all(found.is_crowd for found in objects)


def _subfolder(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return image.in_subfolder and _is_labelled(image, objects)


def _mixed_rows(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return len({found.segmentation is None for found in objects if not found.is_crowd}) > 1


def _small_image(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and min(head.size) < _SMALL_PX and _is_labelled(image, objects)


def _low_image(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return head is not None and _SMALL_PX <= min(head.size) < _LOW_PX and _is_labelled(image, objects)


def _upper_suffix(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    suffix = PurePosixPath(image.name).suffix
    return suffix == suffix.upper() != suffix.lower() and _is_labelled(image, objects)


def _mixed_suffix(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether the suffix of an image has upper-case and lower-case letters."""
    suffix = PurePosixPath(image.name).suffix
    return suffix not in (suffix.lower(), suffix.upper()) and _is_labelled(image, objects)


def _some_keypoints(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    return len({"keypoints" in found.lacks for found in objects if not found.is_crowd}) > 1


def _same_stem(split: ListedSplit) -> Iterator[Place]:
    """Yield the images whose names differ only by their suffix from that of another image of their folder."""
    yield from _alike(split, lambda name: str(PurePosixPath(name).with_suffix("")))


def _same_name(split: ListedSplit) -> Iterator[Place]:
    """Yield the images that have the same name as one of another folder."""
    yield from _alike(split, lambda name: PurePosixPath(name).name)


def _alike(split: ListedSplit, key: Callable[[str], str]) -> Iterator[Place]:
    """Yield the images with the key of another file; a file that is listed twice is one."""
    counts = Counter(key(name) for name in {image.name for image in split.listing.images})
    yield from (Place(i) for i, image in enumerate(split.listing.images) if counts[key(image.name)] > 1)


def _listed_twice(split: ListedSplit) -> Iterator[Place]:
    counts = Counter(image.name for image in split.listing.images)
    yield from (Place(i) for i, image in enumerate(split.listing.images) if counts[image.name] > 1)


def _byte_order_mark(split: ListedSplit) -> Iterator[Place]:
    """Yield the images with rows whose label file begins with a byte order mark; the files are read only here."""
    for position in sorted({of.image for of in split.listing.objects}) if split.listing.format == "yolo" else ():
        path = split.listing.images[position].label_file
        with suppress(OSError), open(path or "", "rb") as file:
            if file.read(len(BOM_UTF8)) == BOM_UTF8:
                yield Place(position)


def _box_among_masks(split: ListedSplit) -> Iterator[Place]:
    """Yield the objects with a box and no mask of a dataset in which others have masks."""
    whole = [of for of in split.listing.objects if not of.is_crowd and not of.is_stuff]
    if any(of.segmentation is not None for of in whole):
        for of in whole:
            size = split.sizes[of.image]
            if size is not None and of.segmentation is None and of.box_px(size) is not None:
                yield Place(of.image, of.id)


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


def _category_negative(split: ListedSplit) -> Iterator[Place]:
    ids = split.listing.category_ids or []
    yield from _of_class(split, {label for label, number in enumerate(ids) if number < 0})


def _image_negative(split: ListedSplit) -> Iterator[Place]:
    yield from (Place(i) for i, image in enumerate(split.listing.images) if (image.image_id or 0) < 0)


def _flat_boxes(split: ListedSplit) -> Iterator[Place]:
    """Yield the objects whose box has no width or height, in a dataset of boxes alone."""
    found = [] if any(of.segmentation is not None for of in split.listing.objects) else split.listing.objects
    for of in found:
        size = split.sizes[of.image]
        box = None if size is None or of.is_crowd or of.is_segment else of.box_px(size)
        if box is not None and (box[2] <= box[0] or box[3] <= box[1]):
            yield Place(of.image, of.id)


def _posed(split: ListedSplit) -> list[ListedObject]:
    """Return the objects of a COCO file with keypoints; none of one without."""
    found = split.listing.objects if split.listing.format == "coco" else []
    return [of for of in found if not of.is_crowd] if any(of.has_keypoints for of in found) else []


def _other_points(split: ListedSplit) -> Iterator[Place]:
    yield from (Place(of.image, of.id) for of in _posed(split) if of.num_points not in (0, _COCO_POINTS))


def _no_num_keypoints(split: ListedSplit) -> Iterator[Place]:
    yield from (Place(of.image, of.id) for of in _posed(split) if "num_keypoints" in of.lacks)


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
        **OF_OBJECTS,
        **OF_LAYOUTS,
        **OF_MAPS,
        **OF_VOC,
        "first_object": Trait("the first annotation", of_split=_first_object),
        "no_class_lists": Trait("images without LVIS's lists of classes", of_split=_no_class_lists),
        "category_zero": Trait("annotations of a category with the id 0", of_split=_category_zero),
        "category_gaps": Trait("annotations of categories after a gap in the ids", of_split=_category_gaps),
        "category_negative": Trait("annotations of a category with an id below 0", of_split=_category_negative),
        "image_negative": Trait("images with an id below 0", of_split=_image_negative),
        "flat_boxes": Trait("boxes of no width or height in a dataset of boxes", of_split=_flat_boxes),
        "other_points": Trait("objects with another number of keypoints than 17", of_split=_other_points),
        "no_num_keypoints": Trait(
            "objects without num_keypoints, in a dataset with keypoints", of_split=_no_num_keypoints
        ),
        "names_alike": Trait("annotations of categories that have one name", of_split=_names_alike),
        "oriented": Trait("images that their EXIF orientation turns, with their annotations", of_image=_oriented),
        "oriented_as_stored": Trait(
            "images with an EXIF orientation and annotations on stored pixels", of_image=_oriented_as_stored
        ),
        "tiff_oriented": Trait("TIFFs that their orientation turns, with their annotations", of_image=_tiff_oriented),
        "tiff_as_stored": Trait("TIFFs with an orientation and annotations on stored pixels", of_image=_tiff_as_stored),
        "tiff_mapped": Trait(
            "uncompressed TIFFs of other modes than RGB that lie on their side", of_image=_tiff_mapped
        ),
        "listed_twice": Trait("images that are listed twice", of_split=_listed_twice),
        "grey": Trait("grey images", of_image=_grey),
        "palette": Trait("images with a palette", of_image=_palette),
        "alpha": Trait("images with an alpha channel", of_image=_alpha),
        "cmyk": Trait("images in CMYK", of_image=_cmyk),
        "wide": Trait("images of 16 bits", of_image=_wide),
        "no_objects": Trait("images without annotations", of_image=_no_objects),
        "only_crowds": Trait("images with crowd regions only", of_image=_only_crowds),
        "some_keypoints": Trait("images of which only some objects have keypoints", of_image=_some_keypoints),
        "byte_order_mark": Trait("images whose label file has a byte order mark", of_split=_byte_order_mark),
        "upper_suffix": Trait("images whose suffix is in upper-case letters", of_image=_upper_suffix),
        "mixed_suffix": Trait("images whose suffix has upper-case and lower-case letters", of_image=_mixed_suffix),
        "mixed_rows": Trait("images with both boxes and outlines", of_image=_mixed_rows),
        "box_among_masks": Trait("objects with a box and no mask, among others with masks", of_split=_box_among_masks),
        "box_rows": Trait("images whose labels are all boxes", of_split=_box_rows),
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
    chosen = {name: TRAITS[name] for name in names}
    found: dict[str, list[Place]] = {name: [] for name in chosen}
    of_images = [(found[name], trait.of_image) for name, trait in chosen.items() if trait.of_image is not None]
    of_objects = [(found[name], trait.of_object) for name, trait in chosen.items() if trait.of_object is not None]
    by_image: defaultdict[int, list[ListedObject]] = defaultdict(list)
    for annotation in split.listing.objects:
        by_image[annotation.image].append(annotation)
    for position, (image, head, size) in enumerate(zip(split.listing.images, split.heads, split.sizes, strict=True)):
        objects = by_image[position]
        for places, of_image in of_images:
            if of_image(image, head, objects):
                places.append(Place(position))
        for annotation in objects if size is not None else ():
            assert size is not None
            shape = Shape(annotation, size)
            for places, of_object in of_objects:
                if of_object(shape):
                    places.append(Place(position, annotation.id))
    for name, trait in chosen.items():
        found[name] += trait.of_split(split) if trait.of_split is not None else ()
    return found
