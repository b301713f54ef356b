"""Findings about the files of a dataset: headers, on request pixels, identical files, and the errors of readers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from segpaste._pixels import Size
from segpaste.datasets.checking.listings.findings import Finding
from segpaste.datasets.checking.listings.listing import ListedImage
from segpaste.datasets.errors import DatasetError, first_few
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.format import file_digest
from segpaste.datasets.formats.image_files import ImageHead, expect_readable, read_head, read_image
from segpaste.datasets.formats.stored_pixels import read_array

_OF_MAP = "expected an image", "expected a panoptic map"
"""What errors of image files say, and what they say about one that is a map."""
_ARRAYS = frozenset({".npy", ".npz", ".exr"})

Advance = Callable[[], object]


def look_at(
    images: Sequence[ListedImage], num_threads: int, *, decode: bool = False, advance: Advance = lambda: None
) -> tuple[list[ImageHead | None], list[Finding]]:
    """Read the file headers of images, several in parallel.

    Args:
        images: the images.
        num_threads: number of images read in parallel.
        decode: read the pixels, too.
        advance: called after each image.

    Returns:
        The header of each image, None if it cannot be read, and the findings.
    """

    def look(image: ListedImage) -> tuple[ImageHead | None, list[Finding]]:
        findings: list[Finding] = []
        if image.path is None:
            advance()
            return None, findings
        head = _looked_at(image, image.path, decode, findings)
        if head is not None and head.orientation > 1:
            is_applied = head.is_rotated_for(image.size, drawn_upright=image.drawn_upright)
            kind = "orientation_applied" if is_applied else "orientation_ignored"
            findings.append(Finding.at(image.path, kind, f"EXIF orientation {head.orientation}", image.name))
        if image.map_path is not None:
            of_map: list[Finding] = []
            _looked_at(image, image.map_path, decode, of_map)
            findings += [replace(found, message=found.message.replace(*_OF_MAP)) for found in of_map]
        advance()
        return head, findings

    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        found = [*pool.map(look, images)]
    return [head for head, _ in found], [finding for _, findings in found for finding in findings]


def _looked_at(image: ListedImage, path: Path, decode: bool, findings: list[Finding]) -> ImageHead | None:
    """Return the header of an image file; None, with a finding, if readers reject it."""
    head = None
    try:
        head = read_head(path)
        if not image.any_mode:
            expect_readable(path, head, image.size)
    except DatasetError as error:
        if head is None:
            kind = "broken_file" if os.path.exists(path) else "missing_file"
        else:
            kind = "wrong_size" if head.is_eight_bit else "many_bits"
        findings.append(Finding.at(path, kind, str(error), image.name))
        return None
    if decode and not image.was_decoded:
        try:
            read_image(path, image.size)
        except DatasetError as error:
            findings.append(Finding.at(path, "broken_file", str(error), image.name))
    return head


def head_of(image: ListedImage) -> ImageHead | None:
    """Return the header of an image, whether segpaste reads it or not; None without a file that is an image."""
    if image.path is None:
        return None
    try:
        return read_head(image.path)
    except DatasetError:
        return None


def copies_among(images: Sequence[ListedImage], num_threads: int) -> list[Finding]:
    """Return a finding for each image with the same bytes as an earlier one; only files of equal length are read."""
    by_length: defaultdict[int, dict[Path, str]] = defaultdict(dict)
    for image in images:
        if image.path is not None and os.path.isfile(image.path):
            by_length[image.path.stat().st_size].setdefault(image.path, image.name)
    alike = [(path, name) for group in by_length.values() if len(group) > 1 for path, name in group.items()]
    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        digests = [*pool.map(_digest, [path for path, _ in alike])]
    first: dict[str, str] = {}
    findings = []
    for (path, name), digest in zip(alike, digests, strict=True):
        if digest is not None and (original := first.setdefault(digest, name)) != name:
            findings.append(Finding.at(path, "duplicate_photo", f"{name}: the same bytes as {original}", name))
    return findings


def _digest(path: Path) -> str | None:
    try:
        return file_digest(path) if path.is_file() else None  # opening a pipe would wait for its writer
    except OSError:
        return None


def unlisted(listed_images: Sequence[ListedImage], more: Iterable[Path] = ()) -> list[Finding]:
    """Return a finding for each folder of listed images that has unlisted ones, with their number.

    Args:
        listed_images: the images.
        more: further unlisted images, such as those in other folders.
    """
    names: defaultdict[Path, set[str]] = defaultdict(set)
    others = {path for image in listed_images for path in image.other_paths}
    for image in listed_images:
        if image.path is not None:
            names[image.path.parent].add(image.path.name)
    found: defaultdict[Path, set[str]] = defaultdict(set)
    for path in more:
        found[path.parent].add(path.name)
    for folder, listed in names.items():
        files = sorted(folder.iterdir()) if os.path.isdir(folder) else []
        images = [path for path in files if path.suffix.lower() in IMAGE_SUFFIXES and path.name not in listed]
        found[folder] |= {path.name for path in images if path not in others and path.is_file() and path.name[0] != "."}
    texts = {
        folder: f"{len(there):,} image{'s' * (len(there) > 1)}, {first_few(sorted(there))}"
        for folder, there in found.items()
        if there
    }
    return [Finding.at(folder, "unlisted_photo", text) for folder, text in texts.items()]


def named_file(error: DatasetError, known: Iterable[Path] = ()) -> Path | None:
    """Return the file at the start of an error: the longest known or existing path; None if there is none."""
    text = str(error)
    starts = [text[:end] for end in range(len(text)) if text.startswith(": ", end)]
    listed = {str(path) for path in known}
    found = [start for start in starts if start in listed or os.path.exists(start)]
    missing = [start for start in starts[:1] if os.sep in start]
    return Path((found or missing)[-1]) if found or missing else None


def kind_of(error: DatasetError, file: Path | None, *, is_map: bool = False) -> str:
    """Return the kind of the finding for an error of a reader.

    Args:
        error: the error; its ``kind`` decides, if it has one.
        file: the file that it names, other than an image.
        is_map: True for a map of classes, objects, depth or normals.
    """
    if error.kind is not None:
        return error.kind
    if file is None or file.is_dir():
        return "unreadable"
    if not file.exists():
        return "missing_file"
    if is_map or file.suffix.lower() in IMAGE_SUFFIXES | _ARRAYS:
        return "broken_map" if _is_whole(file) else "broken_file"
    return "broken_entry"


def pixel_problem(path: Path, size: Size | None) -> DatasetError | None:
    """Return the error of decoding an image; None if it can be decoded."""
    try:
        read_image(path, size)
    except DatasetError as error:
        return error
    return None


def _is_whole(path: Path) -> bool:
    """Return whether a map can be decoded, whatever its values mean."""
    try:
        read_array(path, None)
    except DatasetError as error:
        return "set 'key'" in str(error)  # several arrays, which were read
    return True
