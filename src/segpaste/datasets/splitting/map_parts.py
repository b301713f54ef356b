"""Parts of datasets of maps: the name of the split in the paths is replaced, or lists of the parts are declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.datasets.formats.maps.declaration import DECLARATION_FILE
from segpaste.datasets.formats.maps.files import SPLIT, roles_of
from segpaste.datasets.formats.maps.patterns import PathPattern
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.formats.yolo.data import read_yaml
from segpaste.datasets.splitting.part_files import Copied, Made, PartFiles, Parts

_WORD = f"{{{SPLIT}}}"


class MapParts(PartFiles):
    """Images and maps in the folders of the declaration, of the user or of the format."""

    _LISTED = ("classes.txt", "class_names.txt", "class_dict.csv", "objectInfo150.txt", "sceneCategories.txt")
    photos: MapPhotos

    def __init__(self, found: FoundDataset, split: str, photos: MapPhotos) -> None:
        super().__init__(found, split, photos)
        declared = photos.declared
        patterns = [PathPattern(declared.photos), *roles_of(declared).values()]
        self._are_listed = bool(declared.splits) or SPLIT not in patterns[0].words
        given = found.path if found.path.is_file() else found.path / DECLARATION_FILE
        self._declaration = given if given.is_file() and found.format.name == "maps" else None
        self._starts = [] if self._are_listed else sorted(map(self._start, patterns), key=len, reverse=True)

    def _start(self, pattern: PathPattern) -> str:
        """Return the text of a pattern before the name of the split."""
        start, word, rest = pattern.text.partition(_WORD)
        if word and ("{" in start or "*" in start or _WORD in rest):
            raise DatasetError(
                f"{self.found.path}: expected {_WORD} once in a pattern of files, before other placeholders, got "
                f"{pattern.text!r}; convert the dataset first (segpaste convert --to label-maps)"
            )
        return f"{start}{self.split}" if word else ""

    def _own_files(self, index: int, part: str) -> Iterator[Copied]:
        root = self.photos.images_dir
        for path in (self.photos.path_of(index), *self.photos.map_files(index)):
            if path.is_file():
                yield self._target(path, root, part), path

    def _target(self, path: Path, root: Path, part: str) -> PurePosixPath:
        if not path.is_relative_to(root) or ".." in path.relative_to(root).parts:
            raise DatasetError(
                f"{path}: expected files below {root}, got another place; convert the dataset first (segpaste convert "
                "--to label-maps)"
            )
        name = path.relative_to(root).as_posix()
        start = next((start for start in self._starts if start and name.startswith(start)), None)
        if start is None:
            return PurePosixPath(name)
        return PurePosixPath(f"{start.removesuffix(self.split)}{part}{name.removeprefix(start)}")

    def closing(self, parts: Parts) -> Iterator[Made]:
        """Yield the lists of classes, and the declaration with lists of the parts."""
        import yaml

        classes = self.photos.declared.classes
        names = dict.fromkeys((*self._LISTED, *([classes] if isinstance(classes, str) else [])))
        for name in names:
            if (file := self.photos.images_dir / name).is_file():
                yield self._target(file, self.photos.images_dir, "").as_posix(), file.read_bytes()
        if self._declaration is None:
            return
        document: dict[str, Any] = read_yaml(self._declaration)
        kept = {key: value for key, value in document.items() if key not in ("root", "splits")}
        if self._are_listed:
            kept["splits"] = {part: f"splits/{part}.txt" for part in parts}
            for part, indices in parts.items():
                listed = "".join(f"{self.photos.file_name(index)}\n" for index in indices)
                yield f"splits/{part}.txt", listed.encode()
        yield DECLARATION_FILE, yaml.safe_dump(kept, sort_keys=False, allow_unicode=True).encode()
