"""Scan of the file headers of a dataset's images for missing and unreadable files and wrong sizes.

A header has the format and the size of an image. A scan takes about a second for 10,000 images. A file that is
truncated after its header is found only when it is decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from segpaste._pixels import Size
from segpaste._reprs import counted
from segpaste.datasets.annotations import Annotations
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import check_head

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class ImageProblem:
    """Image that cannot be read.

    Attributes:
        index: index of the image in its dataset.
        path: path of its file.
        reason: the problem of the file, and the remedy.
    """

    index: int
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ImageScan:
    """Result of a scan of the file headers of a dataset's images.

    Attributes:
        problems: the images that cannot be read, by ascending index.
        num_rotated: number of images that are rotated or mirrored by their EXIF orientation, as their annotations are.
        num_as_stored: number of images whose EXIF orientation is ignored, because their annotations follow the stored
            pixels.
    """

    problems: list[ImageProblem]
    num_rotated: int
    num_as_stored: int

    def orientation_line(self) -> str | None:
        """Return a line with the number of EXIF orientations followed and ignored; None if all images are upright."""
        if not self.num_rotated and not self.num_as_stored:
            return None
        return (
            f"EXIF     {counted(self.num_rotated, 'image')} rotated by orientation, {self.num_as_stored:,} read as "
            "stored, like their annotations"
        )


def scan_images(dataset: Annotations, num_threads: int = 8, indices: Iterable[int] | None = None) -> ImageScan:
    """Scan the file headers of the images of a dataset.

    Args:
        dataset: the dataset. One without files, such as one of scenes, has no problems.
        num_threads: number of files read in parallel.
        indices: the images to scan; by default all.
    """
    wanted = range(len(dataset)) if indices is None else list(indices)

    def look(chunk: Sequence[int]) -> tuple[list[ImageProblem], Counter[bool]]:
        problems, followed = [], Counter[bool]()
        for index in chunk:
            if (file := dataset.photo_file(index)) is None:
                continue
            path, size = file
            try:
                head = check_head(path, size)
            except DatasetError as error:
                problems.append(ImageProblem(index, path, _reason(path, error)))
                continue
            if head.orientation > 1:
                followed[bool(head.is_rotated_for(size, drawn_upright=dataset.is_drawn_upright(index)))] += 1
        return problems, followed

    chunks = [wanted[start : start + _CHUNK] for start in range(0, len(wanted), _CHUNK)]
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        found = [*pool.map(look, chunks)]
    all_problems = sorted((problem for problems, _ in found for problem in problems), key=lambda p: p.index)
    followed = sum((counts for _, counts in found), Counter[bool]())
    return ImageScan(all_problems, followed[True], followed[False])


def image_problem(path: Path, size: Size | None = None) -> str | None:
    """Return the problem of an image by its header; None without a problem.

    Args:
        path: the file.
        size: (H, W) in the annotations, in the stored or the EXIF orientation; None if they do not give it.
    """
    try:
        check_head(path, size)
    except DatasetError as error:
        return _reason(path, error)
    return None


def problem_lines(problems: list[ImageProblem], most: int = 20) -> Iterator[str]:
    """Yield a line for each of the first problems, and a line that counts the others."""
    yield from map(str, problems[:most])
    if len(problems) > most:
        yield f"and {len(problems) - most:,} more"


def _reason(path: Path, error: DatasetError) -> str:
    return str(error).removeprefix(f"{path}: ")
