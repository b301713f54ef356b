"""Listing of the files below a folder in the same order on every machine, for readers of images without a table."""

from __future__ import annotations

import os
from pathlib import Path

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.records import expect_folder


def files_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder and its subfolders, sorted, as relative paths with ``/``.

    Hidden files and folders, whose names begin with a dot, are left out. Links are followed, except to folders that
    contain them.

    Raises:
        DatasetError: the folder is missing or cannot be listed.
    """
    root = expect_folder(folder)
    found: list[str] = []

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename}: expected a readable folder, got {error.strerror}") from error

    for parent, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        if _lies_in_itself(Path(parent), root):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        where = Path(parent).relative_to(root)
        found += [(where / name).as_posix() for name in names if not name.startswith(".")]
    return sorted(found)


def _lies_in_itself(path: Path, root: Path) -> bool:
    """Return whether a path is a link to a folder that contains it."""
    if path == root:
        return False
    target, above = path.resolve(), path.parent
    while True:
        if above.resolve() == target:
            return True
        if above == root:
            return False
        above = above.parent
