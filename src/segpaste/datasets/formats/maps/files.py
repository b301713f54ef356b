"""Files of each image, found by the patterns of a declaration.

Maps are not searched for if their paths follow from those of the images. If a pattern has ``*`` or further words, all
files are listed once and grouped by image.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from segpaste._pixels import Size
from segpaste._reprs import counted
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.image_files import read_head
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE, MapDeclaration
from segpaste.datasets.formats.maps.patterns import PathPattern
from segpaste.datasets.formats.text_files import image_name_of, read_lines

SPLIT = "split"
_OF_MANY = ("camera", "valid")
_OF_PLACE = (SPLIT, "folders")
"""Words that tell where an image is. A map without another word of its image is declared to be that of several."""
"""Roles of files that many images may share."""
Words = dict[str, str]
Found = dict[tuple[str, ...], list[tuple[str, Words]]]


def roles_of(declared: MapDeclaration) -> dict[str, PathPattern]:
    """Return the pattern of each kind of file beside the images, by its role."""
    parts = {
        "semantic": declared.semantic,
        "instances": declared.instances,
        "depth": declared.depth,
        "disparity": declared.disparity,
        "normals": declared.normals,
        "camera": declared.camera,
    }
    found = {name: part.files for name, part in parts.items() if part is not None and part.files is not None}
    if declared.depth is not None and declared.depth.valid is not None:
        found["valid"] = declared.depth.valid
    return {name: PathPattern(text) for name, text in found.items()}


@dataclass(frozen=True)
class MapFiles:
    """Files of a declared dataset.

    Attributes:
        root: the folder to which paths are relative.
        declared: the declaration.
    """

    root: Path
    declared: MapDeclaration

    @cached_property
    def roles(self) -> dict[str, PathPattern]:
        """Patterns of each kind of file beside the images."""
        return roles_of(self.declared)

    def records(self, split: str) -> tuple[list[JsonRow], dict[str, str]]:
        """List the images of a split with all their files, and the kind of missing file of each other image.

        Raises:
            DatasetError: no image has all its files.
        """
        found = find_images(self.root, PathPattern(self.declared.photos))
        images = list(of_split(self.root, self.declared, split, found))
        if not images:
            name = f" of '{split}'" if split else ""
            raise DatasetError(
                f"{self.root}: expected images {self.declared.photos}{name}, found none; correct 'photos'"
            )
        groups = {
            role: group(self.root, pattern, [words for _, words in images])
            for role, pattern in self.roles.items()
            if not pattern.is_filled_by(images[0][1])
        }
        lacking: dict[str, str] = {}
        records: list[JsonRow] = []
        others = self._other_cases(images)
        for path, words in images:
            listed = {role: groups[role].get(key_of(self.roles[role], words), []) for role in groups}
            listed |= {role: [(file, {})] for role, file in others.get(path, {}).items()}
            missing = next((role for role in self.roles if not self._has(role, words, listed)), None)
            if missing is None:
                records.append({"id": len(records) + 1, "file_name": path, "words": words, "listed": listed})
            else:
                lacking[path] = missing
        if not records:
            role = next(iter(lacking.values()))
            wanted = self.roles[role].fill(images[0][1])
            raise DatasetError(
                f"{self.root}: expected files of '{role}', such as {wanted}, found none for "
                f"{counted(len(images), 'image')}"
                f"{self._advice(role, wanted)}"
            )
        self._expect_own(records, found)
        maps = {file for record in records for _, file, _ in self.paths(record)}
        return records, {path: role for path, role in lacking.items() if path not in maps}

    def _expect_own(self, records: Sequence[JsonRow], images: Sequence[tuple[str, Words]]) -> None:
        """Raise `DatasetError` if a map that is named by all words of its image is that of another image, too."""
        named = set(PathPattern(self.declared.photos).words).difference(_OF_PLACE)
        for role, pattern in self.roles.items():
            owners: dict[tuple[str, ...], list[str]] = defaultdict(list)
            for path, words in images if role not in _OF_MANY and named <= set(pattern.words) else ():
                owners[key_of(pattern, words)].append(path)
            for record in records:
                if (key := key_of(pattern, record["words"])) and len(same := owners[key]) > 1:
                    raise DatasetError(
                        f"{self.root}: expected files of '{role}' of one image each, got one for {same[0]} and "
                        f"{same[1]}; use all words of 'photos' ({self.declared.photos}) in their names and in 'files'"
                    )

    def strays(self, split: str) -> dict[str, str]:
        """Return the files of maps of a split that belong to no image, with their roles.

        Files that no split claims are those of the first one. Roles whose names cannot be told from others' are left
        out.
        """
        lists = self.declared.splits
        if lists and split != next(iter(lists)):
            return {}
        images = find_images(self.root, PathPattern(self.declared.photos))
        claimed = sorted({words[SPLIT] for _, words in images if SPLIT in words})
        images = [(path, words) for path, words in images if not split or words.get(SPLIT, split) == split]
        filled = [role for role in self.roles.values() if role.is_filled_by(images[0][1])]
        used = {path for path, _ in images} | {role.fill(words) for role in filled for _, words in images}
        found: dict[str, str] = {}
        for role, pattern in self.roles.items():
            shared = [word for word in pattern.words if word in images[0][1]]
            if not shared or (pattern not in filled and pattern.open_words(shared)):
                continue
            known = {tuple(words[word].casefold() for word in shared) for _, words in images}
            for path, words in pattern.find(self.root):
                is_of_split = not split or words.get(SPLIT, split) == split
                is_of_split |= split in claimed[:1] and words.get(SPLIT, split) not in claimed
                if is_of_split and path not in used and tuple(words[word].casefold() for word in shared) not in known:
                    found.setdefault(path, role)
        return found

    def _advice(self, role: str, wanted: str) -> str:
        """Return what is there instead of the files of a role, and what to write; ``wanted`` is the first of them."""
        path = self.root / wanted
        names = path.parent.iterdir() if path.parent.is_dir() else ()
        other = next((found.suffix for found in sorted(names) if found.stem == path.stem and found != path), None)
        there = "" if other is None else f", but {path.with_suffix(other).relative_to(self.root).as_posix()}"
        if (self.root / DECLARATION_FILE).is_file():
            return f"{there}; correct 'files' of '{role}' in {DECLARATION_FILE}"
        if other is None or role == "valid":
            return f"{there}; add them, or declare the files that are there in {DECLARATION_FILE} (docs/guide/maps.md)"
        values = self.declared.model_dump(mode="json", exclude_unset=True, by_alias=True)
        values[role]["files"] = f"{PurePosixPath(values[role]['files']).with_suffix(other)}"
        return f"{there}; convert them, or write {DECLARATION_FILE}: {json.dumps(values)}"

    def _other_cases(self, images: Sequence[tuple[str, Words]]) -> dict[str, dict[str, str]]:
        """Return by image the file of each role whose path differs in case from that of the pattern.

        It is the file of one image only: of a path that no other image has in another case.
        """
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for role, pattern in self.roles.items():
            if not pattern.is_filled_by(images[0][1]):
                continue
            wanted: dict[str, list[str]] = defaultdict(list)
            paths = {path: pattern.fill(words) for path, words in images}
            lacking = [path for path, file in paths.items() if not os.path.isfile(self.root / file)]
            for file in paths.values() if lacking else ():
                wanted[file.casefold()].append(file)
            there: dict[str, list[str]] = defaultdict(list)
            for file in pattern.files(self.root) if lacking else ():
                there[file.casefold()].append(file)
            for path in lacking:
                key = paths[path].casefold()
                if len(wanted[key]) == 1 == len(there[key]):
                    found[path][role] = there[key][0]
        return found

    def paths(self, record: JsonRow) -> Iterator[tuple[str, str, Words]]:
        """Yield the files of a record beside its image: role, path and the words that are not in the image's path."""
        for role, pattern in self.roles.items():
            if role in record["listed"]:
                yield from ((role, path, words) for path, words in record["listed"][role])
            else:
                yield role, pattern.fill(record["words"]), {}

    def path(self, record: JsonRow, role: str) -> Path:
        """Return the only file of a role.

        Raises:
            DatasetError: there are several files.
        """
        found = [path for name, path, _ in self.paths(record) if name == role]
        if len(found) != 1:
            raise DatasetError(
                f"{self.root / record['file_name']}: expected one file of '{role}', got {len(found)}: "
                f"{', '.join(found[:3])}; make 'files' of '{role}' more exact"
            )
        return self.root / found[0]

    def map_size(self, record: JsonRow) -> Size | None:
        """Return the (H, W) of the first map in an image file, from its header; None if there is no readable one."""
        for role, path, _ in self.paths(record):
            if role != "camera" and Path(path).suffix.lower() in IMAGE_SUFFIXES:
                with contextlib.suppress(DatasetError):
                    return read_head(self.root / path).size
        return None

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folder whose subfolders are searched for images; none if images are listed or in one folder."""
        pattern = PathPattern(self.declared.photos)
        is_deep = "{folders}" in pattern.text or "/" in pattern.text.removeprefix(pattern.folder)
        return (self.root / pattern.folder,) if is_deep and not self.declared.splits else ()

    def _has(self, role: str, words: Words, listed: Mapping[str, Any]) -> bool:
        if role not in listed:
            return os.path.isfile(self.root / self.roles[role].fill(words))
        found = self.declared.instances
        is_for_each = role == "instances" and found is not None and found.encoding == "mask"
        return is_for_each or bool(listed[role])  # an image without object files has no objects


def find_images(root: Path, pattern: PathPattern) -> list[tuple[str, Words]]:
    """List the images, sorted by path.

    Raises:
        DatasetError: two images have the same words, such as ``1.jpg`` and ``1.png``.
    """
    images = [(path, words) for path, words in pattern.find(root) if Path(path).suffix.lower() in IMAGE_SUFFIXES]
    seen: dict[tuple[str, ...], str] = {}
    for path, words in images:
        if (same := seen.setdefault(tuple(words.values()), path)) != path:
            raise DatasetError(f"{root / path}: expected one image of this name, got {same}, too; remove one of them")
    return images


def splits_of(root: Path, declared: MapDeclaration) -> tuple[str, ...] | None:
    """Return the names of the splits; None without splits. A folder of maps alone, such as ``train_mask``, is none."""
    if declared.splits:
        return tuple(declared.splits)
    pattern = PathPattern(declared.photos)
    if SPLIT not in pattern.words:
        return None
    images = find_images(root, pattern)
    filled = [role for role in roles_of(declared).values() if images and role.is_filled_by(images[0][1])]
    maps = {role.fill(words) for role in filled for _, words in images}
    return tuple(sorted({words[SPLIT] for path, words in images if path not in maps}))


def of_split(
    root: Path, declared: MapDeclaration, split: str, images: Iterable[tuple[str, Words]]
) -> Iterator[tuple[str, Words]]:
    """Yield the images of a split, in order.

    Raises:
        DatasetError: the list of a split names a missing image.
    """
    if not declared.splits:
        yield from ((path, words) for path, words in images if not split or words.get(SPLIT, split) == split)
        return
    path = root / declared.splits[split]
    try:
        lines = read_lines(path)
    except OSError as error:
        raise DatasetError(
            f"{path}: expected the names of the images of '{split}', could not read it ({error})"
        ) from error
    names_of = [(file, words, _names_of(file, words)) for file, words in images]
    there = {name for *_, names in names_of for name in names}
    wanted = {name for line in lines if (name := image_name_of(line, there.__contains__))}
    found = [(file, words, names & wanted) for file, words, names in names_of]
    missing = wanted - set().union(*(names for *_, names in found), set())
    if missing:
        raise DatasetError(
            f"{path}: expected names of images, found no image of {len(missing)} of them, such as "
            f"{min(missing)!r:.60}; correct the list"
        )
    yield from ((file, words) for file, words, names in found if names)


def _names_of(file: str, words: Words) -> set[str]:
    """Return the names of an image in the list of a split."""
    return {file, words.get("name", file), Path(file).stem, Path(file).name}


def group(root: Path, pattern: PathPattern, images: Iterable[Mapping[str, str]]) -> Found:
    """List the files of a pattern, by the texts of the words that it shares with the images.

    Only texts of images are matched: in ``{name}_{class}.png`` a name may contain ``_``, and the longest name of an
    image is used.
    """
    rows = list(images)
    shared = [word for word in pattern.words if rows and word in rows[0]]
    known = {tuple(row[word] for word in shared) for row in rows}
    found: Found = defaultdict(list)
    left = pattern.files(root)
    open_words = pattern.open_words(shared)
    for lengths in sorted({tuple(len(row[word]) for word in open_words) for row in rows}, reverse=True):
        taken: set[str] = set()
        for path, words in pattern.match(left, dict(zip(open_words, lengths, strict=True))):
            key = tuple(words[word] for word in shared)
            if key in known:
                taken.add(path)
                found[key].append((path, {word: text for word, text in words.items() if word not in shared}))
        left = [path for path in left if path not in taken]
    for files in found.values():
        files.sort(key=lambda file: _natural(file[0]))
    return found


def key_of(pattern: PathPattern, words: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of the words that a pattern shares with an image."""
    return tuple(words[word] for word in pattern.words if word in words)


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a sort key that orders names by their numbers: 2 before 10."""
    parts = "".join(c if c.isdecimal() else f" {c} " for c in path).split()
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
