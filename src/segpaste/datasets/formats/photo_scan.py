"""A look at the heads of all photos of a dataset: what is missing, unreadable, or of another size.

A head says what kind of image a file is and how large; about a second for 10,000 photos. A photo that breaks off
behind its head is found when it is decoded.
"""

from __future__ import annotations

from collections import Counter
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


@dataclass(frozen=True, slots=True)
class PhotoScan:
    """What the heads of a dataset's photos say.

    Attributes:
        problems: the photos that cannot be read, by ascending index.
        num_rotated: photos that are rotated or mirrored by their EXIF orientation, as their annotations are.
        num_as_stored: photos whose EXIF orientation is not followed, since their annotations lie on stored pixels.
    """

    problems: list[PhotoProblem]
    num_rotated: int
    num_as_stored: int

    def orientation_line(self) -> str | None:
        """Say how many EXIF orientations were followed and how many not; None where all photos are upright."""
        if not self.num_rotated and not self.num_as_stored:
            return None
        return (
            f"EXIF     {self.num_rotated:,} photos are rotated as their orientation says, {self.num_as_stored:,} read "
            "as stored, as their annotations are"
        )


def scan_photos(photos: Any, num_threads: int = 8, indices: Iterable[int] | None = None) -> PhotoScan:
    """Look at the heads of the photos of a dataset.

    Args:
        photos: a reader of this package. A dataset without a method ``photo_file``, such as one of scenes, has no
            files and no problems.
        num_threads: files that are looked at at once.
        indices: the photos to look at; by default all.
    """
    file_of = getattr(photos, "photo_file", None)
    if file_of is None:
        return PhotoScan([], 0, 0)
    wanted = range(len(photos)) if indices is None else list(indices)

    def look(chunk: Sequence[int]) -> tuple[list[PhotoProblem], Counter[bool]]:
        problems, followed = [], Counter[bool]()
        for index in chunk:
            path, size = file_of(index)
            try:
                head = check_head(path, size)
            except DatasetError as error:
                problems.append(PhotoProblem(index, path, _reason(path, error)))
                continue
            if head.orientation > 1:
                followed[bool(head.is_rotated_for(size, drawn_upright=is_drawn_upright(photos, index)))] += 1
        return problems, followed

    chunks = [wanted[start : start + _CHUNK] for start in range(0, len(wanted), _CHUNK)]
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        found = [*pool.map(look, chunks)]
    all_problems = sorted((problem for problems, _ in found for problem in problems), key=lambda p: p.index)
    followed = sum((counts for _, counts in found), Counter[bool]())
    return PhotoScan(all_problems, followed[True], followed[False])


def photo_problem(path: Path, size: Size | None = None) -> str | None:
    """Say what is wrong with a photo by its head; None if nothing is.

    Args:
        path: the file.
        size: (H, W) that the annotations give, in the orientation as stored or as shown; None if they give none.
    """
    try:
        check_head(path, size)
    except DatasetError as error:
        return _reason(path, error)
    return None


def problem_lines(problems: list[PhotoProblem], most: int = 20) -> Iterator[str]:
    """Yield a line for each of the first problems, and one that counts the others."""
    yield from map(str, problems[:most])
    if len(problems) > most:
        yield f"and {len(problems) - most:,} more"


def _reason(path: Path, error: DatasetError) -> str:
    return str(error).removeprefix(f"{path}: ")


def is_drawn_upright(photos: Any, index: int) -> bool:
    """Return whether a photo's annotations are drawn on it as it is shown; a joined dataset has it by photo."""
    of_photo = getattr(photos, "is_drawn_upright", None)
    return bool(getattr(photos, "drawn_upright", False) if of_photo is None else of_photo(index))
