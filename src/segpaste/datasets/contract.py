"""Contract of datasets with annotations: samples, classes, ids, entries, regions and files.

A dataset of your own is a list of samples, any map-style dataset of samples, or a subclass of `AnnotatedDataset` that
overrides what it knows:

    class Rooms(AnnotatedDataset):
        class_names = ("chair", "table")

        def __len__(self) -> int: ...
        def __getitem__(self, index: int) -> DenseSample: ...

Everything else has a default, so nobody asks for a member. `segpaste.datasets.views.annotated` gives any dataset these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from segpaste.datasets.entries import JsonRow as JsonRow
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.types import DenseSample, KeypointSchema, PanopticSchema
from segpaste.types.movable import Movable

ImageFile = tuple[Path, tuple[int, int] | None]
"""Path of an image, and its (H, W) in the annotations, or None if they do not give it."""
Frame = tuple[tuple[int, int], tuple[int, int]]
"""Size (H, W) of the image around a picture, and its number of pixels per pixel of the picture, (num, den)."""
Surfaces = tuple[NDArray[Any] | None, float, NDArray[np.float64] | None]
"""Values of the maps that a declaration names, before invalid ones are zero; None without such a map."""


class Crowd(NamedTuple):
    """Region of an image whose objects are not annotated individually, or that an evaluation ignores.

    Attributes:
        annotation_id: its id in the file.
        label: its class.
        is_ignored: True if the file marks it as ``ignore``, with or without ``iscrowd``.
        mask: [H, W] bool.
        box: box (x1, y1, x2, y2) of an object without a mask in a dataset of masks; None for a region. Such an object
            is no instance. It is written as an object with a box.
        given: the same box as [x, y, width, height] in the digits of the file; None if it was cut or moved.
        is_in_sample: False for an object whose mask has no pixel: the crowd mask of the sample does not have its box.
    """

    annotation_id: int
    label: int
    is_ignored: bool
    mask: NDArray[np.bool_]
    box: tuple[float, float, float, float] | None = None
    given: tuple[float, ...] | None = None
    is_in_sample: bool = True

    @property
    def xywh(self) -> tuple[float, ...] | None:
        """Box [x, y, width, height] of an object without a mask, in the digits of the file if they are known."""
        if self.given is not None or self.box is None:
            return self.given
        x1, y1, x2, y2 = self.box
        return x1, y1, x2 - x1, y2 - y1


def numbers_of(sample: DenseSample) -> range:
    """Return 1, 2, ... up to the last instance id of a sample, as ids of annotations without others."""
    ids = range(1, sample.num_instances + 1) if sample.instance_ids is None else sample.instance_ids.tolist()
    return range(1, max(ids, default=0) + 1)


@dataclass(frozen=True, slots=True)
class FederatedLabels(Movable):
    """Annotated classes of an image of LVIS, which lists classes known to be absent and classes only partly annotated.

    A loss or a metric treats a class in neither list and without instances as unknown. Source: Gupta, Dollár, Girshick,
    "LVIS: A Dataset for Large Vocabulary Instance Segmentation", 2019, section 3.1, and https://www.lvisdataset.org.

    Attributes:
        positive: classes with an annotation in the image, ascending.
        negative: classes verified to be absent, ascending.
        not_exhaustive: classes with possibly unannotated objects, ascending.
    """

    positive: tuple[int, ...]
    negative: tuple[int, ...]
    not_exhaustive: tuple[int, ...]

    def with_pasted(self, pasted: Iterable[int], carried_along: Iterable[int] = ()) -> FederatedLabels:
        """Return the labels after objects of these classes were pasted into the image.

        A class that was verified absent becomes present and exhaustive. A class that was not annotated may have
        unannotated objects besides the pasted one, so it becomes not exhaustive. A class that was present does not
        change. A class that lost its last instance does not become absent, because fragments may remain.

        A pasted mask may contain other objects over it, such as the hat of a person, without an annotation. Their
        classes are not absent, and become not exhaustive.

        Args:
            pasted: the classes of the pasted objects, in any order.
            carried_along: classes that may have pixels inside the pasted masks.
        """
        new, along = set(pasted), set(carried_along)
        unknown = new - set(self.positive) - set(self.negative)
        return FederatedLabels(
            positive=tuple(sorted(new | set(self.positive))),
            negative=tuple(sorted(set(self.negative) - new - along)),
            not_exhaustive=tuple(sorted(unknown | along | set(self.not_exhaustive))),
        )


class AnnotatedDataset(Dataset[DenseSample], ABC):
    """Map-style dataset of samples, with what is known about them.

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "instance_labels" in vars(cls) and "lists_labels" not in vars(cls):
            cls.lists_labels = True

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> DenseSample: ...

    def instance_labels(self, index: int) -> Sequence[int]:
        """Return the class of each object, from the annotations alone if ``lists_labels``."""
        labels: list[int] = self[index].labels.tolist()
        return labels

    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance; instance id i + 1 is at position i, before ``transforms``."""
        return numbers_of(self[index])

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

    def place_of(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the dataset that a sample was read from, and its index there."""
        return self, index

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

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if the file does not say, as in COCO."""
        return None

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return the instances of an image to decode one by one; None if only its whole sample can be read."""
        return None

    def crowds(self, index: int) -> Sequence[Crowd]:
        """Return the crowd and ignored regions of an image separately, and its objects without a mask.

        They are in the frame of the image before ``transforms``.
        """
        return []

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

    def joined(self) -> tuple[AnnotatedDataset, ...]:
        """Return the datasets that are joined in this one; empty for a single one."""
        return ()

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


ATTRIBUTES = tuple(AnnotatedDataset.__annotations__)
OF_IMAGE = (
    "instance_labels", "annotation_ids", "left_out", "unread", "void", "image_id", "dataset_idx", "place_of",
    "file_name", "photo_file", "label_file", "is_drawn_upright", "photo_frame", "federated", "crowds", "image_row",
    "annotation_rows", "path_of", "map_files", "map_row", "stored_surfaces",
)  # fmt: skip
"""Methods whose first argument is the index of a sample."""


def _asked(name: str) -> Callable[..., Any]:
    def method(self: DatasetView, index: int, *more: Any) -> Any:
        dataset, own = self.place(index)
        return getattr(dataset, name)(own, *more)

    method.__name__, method.__doc__ = name, getattr(AnnotatedDataset, name).__doc__
    return method


class DatasetView(AnnotatedDataset):
    """Base of datasets whose samples come from other datasets: what is asked about a sample, is asked there."""

    @abstractmethod
    def place(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the dataset of a sample, and its index there."""

    def __getitem__(self, index: int) -> DenseSample:
        dataset, own = self.place(index)
        return dataset[own]

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return those of the other dataset, unless this one changes its samples."""
        dataset, own = self.place(index)
        return dataset.lone_objects(own) if type(self).__getitem__ is DatasetView.__getitem__ else None


for _name in OF_IMAGE:
    setattr(DatasetView, _name, _asked(_name))


class DatasetWrapper(DatasetView):
    """A dataset with the members of another; subclasses override what they change.

    Args:
        dataset: the other dataset.
    """

    def __init__(self, dataset: AnnotatedDataset) -> None:
        self.dataset = dataset
        for name in ATTRIBUTES:
            setattr(self, name, getattr(dataset, name))

    def __len__(self) -> int:
        return len(self.dataset)

    def place(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the other dataset, and the index."""
        return self.dataset, index

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes of the other dataset."""
        return self.dataset.categories

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folders that the other dataset searches for images."""
        return self.dataset.searched_folders()

    def tables(self) -> JsonRow:
        """Return the other tables of the other dataset."""
        return self.dataset.tables()

    def facts(self) -> Any:
        """Return the facts of the other dataset."""
        return self.dataset.facts()

    def unread_paths(self) -> Mapping[Path, str]:
        """Return the files of the other dataset that belong to no image."""
        return self.dataset.unread_paths()

    def left_out_files(self) -> Counter[str]:
        """Count what the other dataset leaves out."""
        return self.dataset.left_out_files()
