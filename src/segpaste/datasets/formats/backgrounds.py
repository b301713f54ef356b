"""Reader of images without objects, such as empty rooms or streets, as targets for pastes.

Join them with annotated images by `segpaste.datasets.JoinedPhotos`. Not for images that show objects of your classes
without annotations, because a model then learns that these objects are background.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES, files_below
from segpaste.datasets.formats.image_annotations import PackedRecords
from segpaste.datasets.formats.image_pixels import read_upright
from segpaste.datasets.formats.instances import without_objects
from segpaste.types import DenseSample


class BackgroundImages(AnnotatedImages):
    """Images of a folder and its subfolders, sorted by path, one `DenseSample` without instances each.

    A sample has image (uint8), rotated by its EXIF orientation, and N = 0 instances with masks. Hidden files and files
    without the suffix of an image are left out.

    Args:
        images_dir: the folder.
        transforms: called with each `DenseSample`; its result replaces the sample.

    Attributes:
        class_names: empty, because there are no objects.
        digest: digest of the names and sizes of the files.

    Raises:
        DatasetError: the folder is missing, or has no image.
    """

    class_names: tuple[str, ...] = ()
    drawn_upright = True
    digest: str

    def __init__(
        self, images_dir: str | PathLike[str], *, transforms: Callable[[DenseSample], DenseSample] | None = None
    ) -> None:
        super().__init__(images_dir, images_dir, transforms=transforms)

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folder."""
        return (self.images_dir,)

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return an empty tuple: there are no instances."""
        return ()

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return an empty tuple: there are no instances."""
        return ()

    def left_out(self, index: int) -> dict[str, int]:
        """Return an empty dictionary: there are no annotations."""
        return {}

    def crowds(self, index: int) -> list[Crowd]:
        """Return an empty list: there are no annotations."""
        return []

    def _read_records(self) -> PackedRecords:
        names = [name for name in files_below(self.images_dir) if Path(name).suffix.lower() in IMAGE_SUFFIXES]
        if not names:
            raise DatasetError(f"{self.images_dir}: expected at least one image, got none; check the folder")
        digest = hashlib.sha256()
        for name in names:
            digest.update(json.dumps([name, _num_bytes(self.images_dir / name)]).encode())
        self.digest = digest.hexdigest()
        return PackedRecords({"id": number, "file_name": name} for number, name in enumerate(names, start=1))

    def _read_sample(self, record: JsonRow) -> DenseSample:
        return without_objects(read_upright(self.images_dir / record["file_name"]))


def _num_bytes(path: Path) -> int:
    """Return the size of a file; -1 for a broken link, which the reader reports."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
