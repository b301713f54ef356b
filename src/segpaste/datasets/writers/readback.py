"""Comparison of a written dataset with its ledger, before the folder gets its final name.

The folder is opened as any user would open it: recognised, with our readers, split by split. All annotations, label
maps, depth, normals and cameras are read and compared; every image by its header and the checksum of its file. Pixels
are decoded for the first 16 images and one in 50.
"""

from __future__ import annotations

import filecmp
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import header_size, read_head, read_image
from segpaste.datasets.formats.stored_pixels import read_stored
from segpaste.datasets.writers.annotations import read_regions, stored_pixels, surface_difference, tolerance_px
from segpaste.datasets.writers.beside_annotations import Images, SplitNames, key_differences, table_differences
from segpaste.datasets.writers.counterparts import without_origin
from segpaste.datasets.writers.format import View
from segpaste.datasets.writers.ledger import (
    HAS_TABLES,
    OF_ENTRIES,
    UNCHANGED,
    ExpectedImage,
    Region,
    byte_sum,
    checksum,
    digest,
    image_keys,
)
from segpaste.datasets.writers.mask_sums import mask_sum
from segpaste.types import DenseSample

Verify = Literal["full", "sample", "off"]
VERIFY: tuple[Verify, ...] = ("full", "sample", "off")
_SHOWN, _FIRST, _STEP = 5, 16, 50


class VerificationError(DatasetError):
    """Error of a written dataset that differs from its ledger.

    Attributes:
        files: images that differ, relative to the dataset's folder.
    """

    def __init__(
        self, folder: Path, found: Sequence[str], num: int, files: Iterable[str], *, is_source: bool = False
    ) -> None:
        self.files = frozenset(files)
        more = f"; and {num - len(found):,} more" if num > len(found) else ""
        anyway = f"to publish the dataset anyway, remove {folder.parent} and give --verify off"
        super().__init__(
            f"{folder}: images that were copied byte by byte cannot be read, so their sources cannot: "
            f"{'; '.join(found)}{more}; replace them in the source, and run the same command again, which copies them "
            f"again; {anyway}"
            if is_source
            else f"{folder}: the written dataset differs from what was read, so it is not published: "
            f"{'; '.join(found)}{more}; run the same command again, which makes these images again; if the difference "
            f"stays, report this message; {anyway}"
        )


@dataclass(slots=True)
class Verified:
    """Numbers of what was read again and found equal."""

    images: int = 0
    objects: int = 0
    files: int = 0
    decoded: int = 0

    def __str__(self) -> str:
        maps = f", {self.files:,} maps and other files" if self.files else ""
        return f"{self.images:,} images, {self.objects:,} objects{maps} read again, {self.decoded:,} images decoded"


@dataclass(frozen=True, slots=True)
class WrittenView:
    """A split of the written dataset, and how it is read.

    Attributes:
        view: format and classes.
        open: opens it.
        images: returns the facts of its images, in the order of writing.
        tables: other tables of an annotation file; None if it has none.
        copied: names of the splits that are copied beside a split to train on; None if all splits are written.
    """

    view: View
    open: Callable[[], AnnotatedDataset]
    images: Callable[[], Iterable[ExpectedImage]]
    tables: JsonRow | None = None
    copied: Sequence[str] | None = None


@dataclass(slots=True)
class _Differences:
    folder: Path
    shown: list[str] = field(default_factory=list)
    num: int = 0
    files: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)

    def add(self, file: str, text: str) -> None:
        self.num += 1
        self.files.add(file)
        if len(self.shown) < _SHOWN:
            self.shown.append(f"{file}: {text}" if file else text)

    def add_error(self, file: str, error: Exception) -> None:
        self.add(file, str(error).replace(f"{self.folder}{os.sep}", "").removeprefix(f"{file}: "))


def is_decoded(number: int) -> bool:
    """Return whether the pixels of the image of this number, from 0, are decoded: of the first 16, and of one in 50."""
    return number < _FIRST or number % _STEP == 0


def read_back(
    folder: Path, views: Sequence[WrittenView], mode: Verify, copies: Mapping[Path, Path] | None = None
) -> Verified:
    """Read a written dataset again and compare it.

    Args:
        folder: the folder, not yet published.
        views: its splits, and formats as which it is read; images are decoded as the first one that has them.
        mode: ``full`` decodes the pixels of all images, ``sample`` of some; ``off`` reads nothing.
        copies: source of each file that was copied unchanged, by its path in the folder.

    Raises:
        VerificationError: something differs; the message lists the first differences with their files.
    """
    if mode == "off":
        return Verified()
    with warnings.catch_warnings(action="ignore"):
        return _compared(folder, views, mode, copies or {})


def _compared(folder: Path, views: Sequence[WrittenView], mode: Verify, copies: Mapping[Path, Path]) -> Verified:
    done, found = Verified(), _Differences(folder)
    seen = set[str]()
    for written in views:
        try:
            photos = written.open()
        except (DatasetError, OSError) as error:
            found.add_error("", error)
            continue
        every = [other.view.split for other in views if other.view.format == written.view.format]
        _compare_lists(written, photos, SplitNames(every, written.copied), found)
        places, own, images = _places(photos, folder), set[str](), Images()
        for expected in written.images():
            is_new = expected.file not in seen
            has_pixels = is_new and (mode == "full" or is_decoded(len(seen)) or expected.pixels is not None)
            seen.add(expected.file)
            images.add(written.view, expected)
            try:
                if is_new:
                    own.add(expected.file)
                    _compare_files(folder, expected, done, found, by_pillow=has_pixels)
                if not (left := places.get(expected.file)):
                    found.add(expected.file, f"expected this image in {written.view.format}, not found by the reader")
                    continue
                index = left.popleft()
                _compare_labels(written.view, photos, index, expected, found, folder)
                is_counted = expected.file in own  # not as another view of it before
                done.objects += is_counted * len(expected.views.get(written.view.format) or expected.seen or ())
                if has_pixels:
                    _decode(written.view, photos, index, expected, found)
                    done.decoded += 1
            except (DatasetError, ValueError, KeyError, OSError) as error:
                found.add_error(expected.file, error)
        for text in images.differences(written.view, photos, folder):
            found.add("", text)
        for file in (file for file, left in places.items() for _ in left):
            found.add(file, f"expected no such image in {written.view.format}, the reader finds one")
    for target, source in copies.items():
        if not target.is_file() or not filecmp.cmp(source, target, shallow=False):
            found.add(str(target.relative_to(folder)), f"expected a copy of {source}")
        done.files += 1
    if found.num:
        raise VerificationError(folder, found.shown, found.num, found.files, is_source=found.sources == found.files)
    return done


def _places(photos: AnnotatedDataset, folder: Path) -> dict[str, deque[int]]:
    """Return the indices of each image file; in a table, several rows may name one file."""
    found = dict[str, deque[int]]()
    for index in range(len(photos)):
        found.setdefault(_path_of(photos, index, folder), deque()).append(index)
    return found


def _path_of(photos: AnnotatedDataset, index: int, folder: Path) -> str:
    return os.path.relpath(photos.path_of(index), folder).replace(os.sep, "/")


def _compare_lists(written: WrittenView, photos: AnnotatedDataset, splits: SplitNames, found: _Differences) -> None:
    """Compare the list of classes with their keys, and the other tables."""
    view, names = written.view, list(photos.class_names)
    for path, kind in photos.stray_files().items():
        found.add(path.name, f"expected no {kind} without an image")
    expected = list(view.names)
    if view.format in ("voc", "label-maps"):
        is_boxed = view.format == "voc" and not photos.has_masks and not photos.has_semantic_maps
        names = names[(view.first_value if not is_boxed else 0) :]
        expected = expected[1:] if is_boxed and view.first_value == 0 else expected
    if names != expected:
        first = next((i for i, pair in enumerate(zip(expected, names, strict=False)) if pair[0] != pair[1]), None)
        told = f"{len(expected)} classes, the reader finds {len(names)}"
        if first is not None:
            told = f"the class {expected[first]!r} at position {first}, the reader finds {names[first]!r}"
        found.add("", f"list of classes of {view.format} {view.split or 'dataset'}: expected {told}")
    for text in key_differences(view, photos, splits):
        found.add("", f"{view.format} {view.split or 'dataset'}: {text}")
    for name in [] if written.tables is None else table_differences(written.tables, photos):
        found.add("", f"table {name!r} of {view.split or 'the dataset'}: expected it as it was, got another")


def _compare_files(
    folder: Path, expected: ExpectedImage, done: Verified, found: _Differences, *, by_pillow: bool
) -> None:
    """Compare the header and the bytes of an image, and the values of the files beside it, decoded by our readers.

    The values of some are decoded ``by_pillow``, as others will do.
    """
    path = folder / expected.file
    content = path.read_bytes()
    if (len(content), byte_sum(content)) != (expected.num_bytes, expected.sum):
        found.add(expected.file, f"expected {expected.num_bytes:,} bytes as encoded, got {len(content):,} other ones")
    if header_size(content) != expected.size:
        head = read_head(path)
        if expected.size not in (head.size, head.upright_size):
            found.add(expected.file, f"expected (height, width) {expected.size}, got {head.size} in its header")
    done.images += 1
    for name, value in expected.values.items():
        done.files += 1
        if not (folder / name).is_file():
            found.add(expected.file, f"expected {name}, found no such file")
        elif _values(folder / name, by_pillow) != value:
            found.add(expected.file, f"expected the values in {name} as they were read, got others")
    for name, value in expected.copies.items():
        done.files += 1
        if not (folder / name).is_file() or byte_sum((folder / name).read_bytes()) != value:
            found.add(expected.file, f"expected {name} as it was read, it is missing or another file")


def _values(path: Path, by_pillow: bool) -> int:
    """Return the checksum of the values of a file."""
    if path.suffix == ".npy":
        return checksum(np.load(path, allow_pickle=False))
    if path.suffix == ".txt":
        return checksum(np.array([float(word) for word in path.read_text().split()], np.float64))
    values = stored_pixels(path) if by_pillow else read_stored(path).values
    return checksum(values if values.dtype == np.uint8 else values.astype(np.uint16))


def _compare_labels(
    view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage, found: _Differences, folder: Path
) -> None:
    """Compare the annotations of an image, and the keys of its entry."""
    if (keys := expected.keys.get(view.format)) is not None:
        there = digest(image_keys(view, photos.image_row(index)))
        if there != (digest(keys) if isinstance(keys, dict) else keys):
            found.add(expected.file, f"expected the further keys of its entry in {view.format} as they were read")
    if view.format in HAS_TABLES:
        row = photos.image_row(index)
        if (size := (row.get("height"), row.get("width"))) != expected.size:
            found.add(expected.file, f"expected (height, width) {expected.size}, got {size} in {view.format}")
    wanted = expected.views.get(view.format, [])
    regions = read_regions(view, photos, index, expected, folder)
    if len(regions) != len(wanted):
        found.add(expected.file, f"expected {len(wanted)} annotations in {view.format}, got {len(regions)}")
    tolerance = tolerance_px(view, expected.size)
    for number, pair in enumerate(zip(wanted, regions, strict=False), start=1):
        if (text := _difference(*pair, view, tolerance)) is not None:
            found.add(expected.file, f"annotation {number} in {view.format}: {text}")
            break


def _difference(one: Region, other: Region, view: View, tolerance: float) -> str | None:
    """Return how an annotation differs from the expected one, None if it does not."""
    names = view.names
    is_same = one.label == other.label or (view.format == "voc" and names[one.label] == _name(names, other.label))
    kinds = ["object" if kind == "boxed" else kind for kind in (one.kind, other.kind)]
    if not is_same or kinds[0] != kinds[1]:
        return f"expected {one.kind} {names[one.label]!r}, got {other.kind} {_name(names, other.label)!r}"
    for what in ("box", "points"):
        ours, theirs = getattr(one, what), getattr(other, what)
        if ours is not None and not _are_near(ours, theirs, tolerance * (2 if what == "box" else 1)):
            return f"expected the {what} {_short(ours)} of {names[one.label]!r}, got {_short(theirs)}"
    if one.area is not None and not _are_near([one.area], [other.area], 0.0):
        return f"expected {one.area} pixels of {names[one.label]!r}, got {other.area}"
    if one.mask and one.mask != other.mask:
        return f"expected the mask of {names[one.label]!r} as it was read, got another one of the same box and area"
    keys = digest(without_origin(one.keys)) if isinstance(one.keys, dict) else one.keys
    if keys and keys != other.keys:
        return f"expected the further keys of {names[one.label]!r} as they were read, got others"
    return None


def _name(names: Sequence[str], label: int) -> str:
    return names[label] if 0 <= label < len(names) else f"class {label}"


def _short(values: Sequence[float] | None) -> str:
    return "none" if values is None else f"[{', '.join(f'{value:.7g}' for value in values[:8])}]"


def _are_near(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Return whether two lists of numbers are equal but for the tolerance; NaN is equal to NaN."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return bool(ours == theirs)
    return len(ours) == len(theirs) and all(
        a == b or (a != a and b != b) or (tolerance > 0 and abs(a - b) <= tolerance)
        for a, b in zip(ours, theirs, strict=True)
    )


def _decode(view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage, found: _Differences) -> None:
    """Decode an image, and compare its sample; if its bytes are those of the source, the source is broken."""
    try:
        _compare_sample(view, photos, index, expected, found)
    except DatasetError as error:
        if expected.pixels is not None or expected.file in found.files:
            raise
        found.sources.add(expected.file)
        found.add_error(expected.file, error)


def _compare_sample(
    view: View, photos: AnnotatedDataset, index: int, expected: ExpectedImage, found: _Differences
) -> None:
    """Decode an image, and compare its sample; of unchanged annotations without depth, the pixels alone are decoded.

    Their bytes are those of the source. All data of a JPEG are decoded even for an eighth of its size: what is broken
    is found, in 60 % of the time.
    """
    regions = expected.views.get(view.format, [])
    if expected.pixels is None and not expected.values and any(region.kind in UNCHANGED for region in regions):
        read_image(photos.path_of(index), expected.size, (1, 1), drawn_upright=photos.is_drawn_upright(index))
        return
    sample = photos[index]
    if sample.canvas_size != expected.size:
        found.add(expected.file, f"expected a sample of (height, width) {expected.size}, got {sample.canvas_size}")
        return
    if (text := surface_difference(view, photos, index, sample, expected)) is not None:
        found.add(expected.file, text)
    if expected.pixels is not None:
        pixels = sample.image.as_subclass(Tensor).permute(1, 2, 0).numpy()
        if checksum(pixels) != expected.pixels:
            found.add(expected.file, "expected the pixels as they were made, got others")
    if view.format in OF_ENTRIES or view.format == "yolo":
        if any(region.kind in UNCHANGED for region in regions):
            return
        kinds = ("object",) if photos.has_masks else ("object", "boxed")
        wanted = [(region.label, region.area) for region in regions if region.kind in kinds]
    elif expected.seen is None:
        return
    else:
        wanted = [(label, area) for label, area in expected.seen if area]
    _compare_instances(view, photos, sample, expected, wanted, found)


def _compare_instances(
    view: View,
    photos: AnnotatedDataset,
    sample: DenseSample,
    expected: ExpectedImage,
    wanted: Sequence[tuple[int, float | None]],
    found: _Differences,
) -> None:
    """Compare classes and areas of the instances of a sample, as far as the reader gives instances."""
    if (view.format, view.task) == ("yolo", "obb") or (view.format in ("voc", "label-maps") and not photos.has_masks):
        return
    names = [photos.class_names[label] for label in sample.labels.tolist()]
    if names != [view.names[label] for label, _ in wanted]:
        shown = [view.names[label] for label, _ in wanted][:8]
        found.add(expected.file, f"expected a sample with the objects {shown}, got {names[:8]}")
    elif sample.instance_masks is not None and all(area is not None for _, area in wanted):
        masks = sample.instance_masks.as_subclass(Tensor).numpy()
        areas = [int(np.count_nonzero(mask)) for mask in masks]
        if areas != [area for _, area in wanted]:
            found.add(expected.file, f"expected masks of {[a for _, a in wanted][:8]} pixels, got {areas[:8]}")
        elif view.format == "yolo":  # outlines, of which boxes and areas are compared before
            pairs = zip(expected.views["yolo"], masks, strict=True)
            if any(region.mask and mask_sum(mask, region.box or ()) != region.mask for region, mask in pairs):
                found.add(
                    expected.file, "expected the masks of the outlines as they were, got others of the same areas"
                )
