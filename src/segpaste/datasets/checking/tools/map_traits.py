"""Traits of maps: of the segments of panoptic maps, and of maps of classes. Pixels are read only if a rule asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

import numpy as np

from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject
from segpaste.datasets.checking.tools.trait import ListedSplit, Place, Trait
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.segments import read_segment_ids
from segpaste.datasets.formats.image_files import ImageHead, read_head
from segpaste.datasets.formats.stored_pixels import read_stored

_VOID = 255


def _other_area(split: ListedSplit) -> Iterator[Place]:
    """Yield the segments whose area in the table is not the number of their pixels in the map."""
    given: dict[int, list[tuple[int, float]]] = {}
    for found in split.listing.objects if split.listing.format == "panoptic" else ():
        if found.area is not None:
            given.setdefault(found.image, []).append((found.id, found.area))
    for position, segments in given.items():
        path, size = split.listing.images[position].map_path, split.sizes[position]
        if path is None or size is None:
            continue
        with suppress(DatasetError):  # a map that cannot be read is a finding of the check
            ids, counts = np.unique(read_segment_ids(path, size), return_counts=True)
            pixels = dict(zip(ids.tolist(), counts.tolist(), strict=True))
            yield from (Place(position, number) for number, area in segments if pixels.get(number, area) != area)


def _crowd_twice(split: ListedSplit) -> Iterator[Place]:
    """Yield the crowd regions of panoptic maps whose class has another one in their image."""
    crowds = [of for of in split.listing.objects if of.is_crowd] if split.listing.format == "panoptic" else []
    counts = Counter((of.image, of.label) for of in crowds)
    yield from (Place(of.image, of.id) for of in crowds if counts[of.image, of.label] > 1)


def _no_segments(image: ListedImage, head: ImageHead | None, objects: Sequence[ListedObject]) -> bool:
    """Whether an image has a panoptic map without a segment, so that all of it is void."""
    return image.map_path is not None and not objects


def _map_mode(split: ListedSplit, modes: tuple[str, ...], formats: tuple[str, ...]) -> Iterator[Place]:
    """Yield the images whose map is stored in one of these modes of Pillow."""
    for position, image in enumerate(split.listing.images if split.listing.format in formats else ()):
        path = image.map_path or image.semantic_path
        with suppress(DatasetError):
            if path is not None and read_head(path).mode in modes:
                yield Place(position)


def _shown(split: ListedSplit, values: Callable[[ListedSplit], set[int]]) -> Iterator[Place]:
    """Yield the images whose map of classes has one of some values; maps are read only if there are such values."""
    known = split.listing.map_values
    if known is None or known.is_coloured or not (chosen := values(split)):
        return
    for position, image in enumerate(split.listing.images):
        with suppress(DatasetError):
            if image.semantic_path is not None and np.isin(read_stored(image.semantic_path).values, [*chosen]).any():
                yield Place(position)


def _void(split: ListedSplit) -> set[int]:
    known = split.listing.map_values
    return set() if known is None else {*known.void} - {*known.ids} & {_VOID}


def _other_void(split: ListedSplit) -> set[int]:
    known = split.listing.map_values
    return set() if known is None else {*known.void} - {_VOID, *known.ids}


def _class_255(split: ListedSplit) -> set[int]:
    known = split.listing.map_values
    return set() if known is None else {*known.ids} & {_VOID}


def _class_gaps(split: ListedSplit) -> set[int]:
    """Return the ids of classes that are not below the number of classes."""
    known = split.listing.map_values
    return set() if known is None else {number for number in known.ids if number >= len(known.ids)} - {_VOID}


def _map_colours(split: ListedSplit) -> Iterator[Place]:
    known = split.listing.map_values
    if known is not None and known.is_coloured:
        yield from _map_mode(split, ("RGB", "RGBA"), ("maps",))


_BOTH = ("panoptic", "maps")

OF_MAPS: Mapping[str, Trait] = MappingProxyType(
    {
        "other_area": Trait("segments with another area than their pixels", of_split=_other_area),
        "crowd_twice": Trait("crowd regions, several of a class in an image", of_split=_crowd_twice),
        "no_segments": Trait("panoptic maps without a segment", of_image=_no_segments),
        "map_alpha": Trait(
            "maps with an alpha channel", of_split=partial(_map_mode, modes=("RGBA", "LA", "PA"), formats=_BOTH)
        ),
        "map_palette": Trait("maps with a palette", of_split=partial(_map_mode, modes=("P", "PA"), formats=_BOTH)),
        "map_grey": Trait(
            "panoptic maps in grey", of_split=partial(_map_mode, modes=("L", "LA", "I;16", "I"), formats=("panoptic",))
        ),
        "map_wide": Trait(
            "maps of classes of 16 bits", of_split=partial(_map_mode, modes=("I;16", "I"), formats=("maps",))
        ),
        "map_colours": Trait("maps of classes as colours", of_split=_map_colours),
        "void": Trait("maps with void 255", of_split=partial(_shown, values=_void)),
        "other_void": Trait("maps with another void value than 255", of_split=partial(_shown, values=_other_void)),
        "class_255": Trait("maps with a class whose id is 255", of_split=partial(_shown, values=_class_255)),
        "class_gaps": Trait(
            "maps with a class whose id is not below the number of classes",
            of_split=partial(_shown, values=_class_gaps),
        ),
    }
)
"""Traits of maps."""
