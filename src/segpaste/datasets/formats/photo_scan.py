"""Look at the photos of a dataset before a long run: which of them are missing, broken or of another size.

Only heads are read, so a photo whose data breaks off later is not found; read the sample for that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from segpaste.datasets.formats.photo_head import check_head
from segpaste.datasets.formats.records import AnnotatedPhotos, DatasetError


@dataclass(frozen=True, slots=True)
class PhotoProblem:
    """Photo that cannot be read.

    Attributes:
        index: its position in the dataset.
        path: its file.
        reason: one line that names the file and says what was expected and what came.
    """

    index: int
    path: str
    reason: str


def scan_photos(photos: AnnotatedPhotos, num_threads: int = 8) -> list[PhotoProblem]:
    """Return the photos of a dataset that are missing, unreadable or of another size than their annotations say.

    Args:
        photos: the dataset; its ``transforms`` are not called.
        num_threads: files that are read at once.

    Returns:
        One entry for each such photo, in the order of the dataset.
    """

    def problem_of(index: int) -> PhotoProblem | None:
        record = photos._records[index]
        path = photos.images_dir / str(record["file_name"])
        size = (record["height"], record["width"]) if "height" in record else None
        try:
            check_head(path, size)
        except DatasetError as error:
            return PhotoProblem(index, str(path), str(error))
        return None

    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        return [problem for problem in pool.map(problem_of, range(len(photos))) if problem is not None]
