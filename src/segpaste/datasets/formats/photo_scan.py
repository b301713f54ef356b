"""A look at the heads of all photos of a dataset: what is missing, unreadable, or of another size.

A head says what kind of image a file is and how large; about a second for 10,000 photos. A photo that breaks off
behind its head is found when it is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.datasets.formats.photo_head import check_head
from segpaste.datasets.formats.records import DatasetError
from segpaste.types.sampling import Size

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class PhotoProblem:
    """A photo that cannot be read.

    Attributes:
        index: of the photo in its dataset.
        path: of its file.
        reason: what is wrong with the file, and what to do.
    """

    index: int
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def scan_photos(photos: Any, num_threads: int = 8, indices: Iterable[int] | None = None) -> list[PhotoProblem]:
    """Return the photos of a dataset that cannot be read, by ascending index.

    Args:
        photos: a reader of this package. A dataset without a method ``photo_file``, such as one of scenes, has no
            files and no problems.
        num_threads: files that are looked at at once.
        indices: the photos to look at; by default all.
    """
    file_of = getattr(photos, "photo_file", None)
    if file_of is None:
        return []
    wanted = range(len(photos)) if indices is None else list(indices)

    def look(chunk: Sequence[int]) -> list[PhotoProblem]:
        found = ((index, *file_of(index)) for index in chunk)
        return [PhotoProblem(i, path, reason) for i, path, size in found if (reason := photo_problem(path, size))]

    chunks = [wanted[start : start + _CHUNK] for start in range(0, len(wanted), _CHUNK)]
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        return sorted(_flat(pool.map(look, chunks)), key=lambda problem: problem.index)


def photo_problem(path: Path, size: Size | None = None) -> str | None:
    """Say what is wrong with a photo by its head; None if nothing is.

    Args:
        path: the file.
        size: (H, W) that the annotations give, in the orientation as stored or as shown; None if they give none.
    """
    try:
        check_head(path, size)
    except DatasetError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def problem_lines(problems: list[PhotoProblem], most: int = 20) -> Iterator[str]:
    """Yield a line for each of the first problems, and one that counts the others."""
    yield from map(str, problems[:most])
    if len(problems) > most:
        yield f"and {len(problems) - most:,} more"


def _flat(lists: Iterable[list[PhotoProblem]]) -> Iterator[PhotoProblem]:
    return (problem for found in lists for problem in found)
