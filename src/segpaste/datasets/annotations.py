"""Annotations of a dataset without its samples: classes, ids, entries and files.

Readers of annotations are such classes, which need no torch. The datasets of `segpaste.datasets` add the samples, see
`segpaste.datasets.contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segpaste._point_names import KeypointSchema
from segpaste.datasets.entries import JsonRow

if TYPE_CHECKING:
    from segpaste.types import DenseSample, PanopticSchema

ImageFile = tuple[Path, tuple[int, int] | None]
"""Path of an image, and its (H, W) in the annotations, or None if they do not give it."""
Frame = tuple[tuple[int, int], tuple[int, int]]
"""Size (H, W) of the image around a picture, and its number of pixels per pixel of the picture, (num, den)."""
Surfaces = tuple[NDArray[Any] | None, float, NDArray[np.float64] | None]
"""Values of the maps that a declaration names, before invalid ones are zero; None without such a map."""


class Annotations(ABC):
    """Annotations of a dataset without its samples; `segpaste.datasets.AnnotatedDataset` has the samples, too.

    Attributes:
        class_names: the name of each class; labels index it.
        names_classes: False if labels have no names.
        digest: a digest of the annotations; two datasets with the same digest have the same labels. Empty if unknown.
        images_dir: the folder to which file names of images are relative; without files it means nothing.
        annotations_file: the annotation file, or the folder of a dataset with a file per image; None without files.
        schema: things and stuff of panoptic datasets, else None.
        keypoint_schema: names of the keypoints; None without keypoints.
        has_masks: True if samples have instance masks, False if they have boxes only.
        has_semantic_maps: True if samples have semantic maps.
        beside: function that adds fields of files beside the annotations to a sample, see
            `segpaste.datasets.formats.sidecar_maps`; called with the sample, and the name and the entry of the image.
        depth_fill: True if holes in the depth of objects have values, see `segpaste.types.depth_holes`.
        transforms: function that changes each sample; None without one.
        lists_labels: True if `instance_labels` reads no image; so it is in a class that overrides the method.
        num_datasets: number of datasets that `dataset_idx` tells apart.
        declared_maps: roles of the maps that a declaration names, such as ``depth``; None without a declaration.
        any_mode: True if images may have more than 8 bits per channel.
        unread_files: annotation files of the same images that are not read, relative to the dataset's folder.
    """

    class_names: tuple[str, ...] = ()
    names_classes: bool = True
    digest: str = ""
    images_dir: Path = Path()
    annotations_file: Path | None = None
    schema: PanopticSchema | None = None
    keypoint_schema: KeypointSchema | None = None
    has_masks: bool = True
    has_semantic_maps: bool = False
    beside: Callable[[DenseSample, str, JsonRow], DenseSample] | None = None
    depth_fill: bool = False
    transforms: Callable[[DenseSample], DenseSample] | None = None
    lists_labels: bool = False
    num_datasets: int = 1
    declared_maps: frozenset[str] | None = None
    any_mode: bool = False
    unread_files: tuple[str, ...] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    def left_out(self, index: int) -> Mapping[str, int]:
        """Count the annotations of a read image that are not instances, by reason."""
        return {}

    def unread(self, index: int) -> Mapping[str, int]:
        """Count, by description, what the files say of a read image and neither its sample nor its entries do."""
        return {}

    def void(self, index: int) -> NDArray[np.bool_] | None:
        """Return the pixels [H, W] without a class that a sample cannot tell, before ``transforms``; or None."""
        return None

    def stored_surfaces(self, index: int) -> Surfaces:
        """Return depth [H, W] as stored, its metres per unit, and stored floats of normals [3, H, W] in our frame."""
        return None, 1.0, None

    def image_id(self, index: int) -> int:
        """Return the id of the image in the annotations."""
        return index

    def dataset_idx(self, index: int) -> int | None:
        """Return the number of the dataset of a sample, where ids are unique only in it; None if they are unique."""
        return None

    def file_name(self, index: int) -> str:
        """Return the image's file, relative to ``images_dir``, or another name of the sample."""
        return f"sample {index}"

    def photo_file(self, index: int) -> ImageFile | None:
        """Return the path of an image and its size in the annotations; None without a file."""
        return None

    def path_of(self, index: int) -> Path:
        """Return the path of an image of a dataset with files."""
        return self.images_dir / self.file_name(index)

    def label_file(self, index: int) -> Path | None:
        """Return the file with the annotations of an image; None if they are in several files, or in none."""
        return None

    def map_files(self, index: int) -> tuple[Path, ...]:
        """Return the paths of the maps of an image, such as depth."""
        return ()

    def map_row(self, index: int) -> JsonRow:
        """Return the entry of the panoptic map of an image, without its segments; empty without one."""
        return {}

    def shape_rows(self, index: int, size: tuple[int, int]) -> dict[int, JsonRow]:
        """Return the entries of an image's objects by annotation id, with polygons or boxes of an image of (H, W)."""
        return {row["id"]: row for row in self.annotation_rows(index) if "id" in row}

    def label_numbers(self, index: int, task: str) -> dict[int, list[float]]:
        """Return the numbers of each object in a label file of YOLO for a task; empty if its file has others."""
        return {}

    def is_drawn_upright(self, index: int) -> bool:
        """Return whether the annotations of an image are drawn on the image rotated by its EXIF orientation."""
        return False

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folders that are searched for images, with their subfolders; none if files list the images."""
        return ()

    def photo_frame(self, index: int, box: tuple[int, int, int, int]) -> Frame | None:
        """Return the image that is assumed around a picture, see `segpaste.datasets.CutOuts.photo_frame`; or None."""
        return None

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes as in the file, in file order; without entries, names with ids from 1.

        Classes are numbered by ascending ``id``.
        """
        return [{"id": label, "name": name} for label, name in enumerate(self.class_names, start=1)]

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image as in the file, with all its keys; without one, ``id`` and ``file_name``."""
        return {"id": self.image_id(index), "file_name": self.file_name(index)}

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations as in the file, in file order, with all their keys.

        They include instances, crowds, ignored regions and empty masks. The ``id`` of an entry is that of
        `annotation_ids` and of `crowds`. The list is empty if the file has no such entries.
        """
        return []

    def tables(self) -> JsonRow:
        """Return the other keys of the file, such as ``info`` and ``licenses``, as in the file and in file order."""
        return {}

    def facts(self) -> Any:
        """Return JSON facts about the choice of samples that ``digest`` does not tell; None without a choice."""
        return None

    def incomplete_images(self) -> Mapping[str, str]:
        """Return the role of the missing file of each image that is left out because of it, by file name."""
        return {}

    def stray_files(self) -> Mapping[Path, str]:
        """Return the files of labels and maps that belong to no image, with a word for their kind."""
        return {}

    def unread_paths(self) -> Mapping[Path, str]:
        """Return further files of the dataset that belong to no image of a split, with words for their kind."""
        return {}

    def left_out_files(self) -> Counter[str]:
        """Count what the whole dataset leaves out beside the annotations of read images, by description."""
        lost = Counter(f"images without {role}" for role in self.incomplete_images().values())
        lost.update(f"{kind} without an image" for kind in self.stray_files().values())
        return lost


ATTRIBUTES = tuple(Annotations.__annotations__)
