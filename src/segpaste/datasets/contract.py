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

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from segpaste.datasets.annotations import ATTRIBUTES, Annotations
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.types import DenseSample
from segpaste.types.movable import Movable


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


class AnnotatedDataset(Annotations, Dataset[DenseSample]):
    """Map-style dataset of samples, with what is known about them; see `Annotations` for its other members."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "instance_labels" in vars(cls) and "lists_labels" not in vars(cls):
            cls.lists_labels = True

    @abstractmethod
    def __getitem__(self, index: int) -> DenseSample: ...

    def instance_labels(self, index: int) -> Sequence[int]:
        """Return the class of each object, from the annotations alone if ``lists_labels``."""
        labels: list[int] = self[index].labels.tolist()
        return labels

    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance; instance id i + 1 is at position i, before ``transforms``."""
        return numbers_of(self[index])

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return the instances of an image to decode one by one; None if only its whole sample can be read."""
        return None

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if the file does not say, as in COCO."""
        return None

    def crowds(self, index: int) -> Sequence[Crowd]:
        """Return the crowd and ignored regions of an image separately, and its objects without a mask.

        They are in the frame of the image before ``transforms``.
        """
        return []

    def place_of(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the dataset that a sample was read from, and its index there."""
        return self, index

    def joined(self) -> tuple[AnnotatedDataset, ...]:
        """Return the datasets that are joined in this one; empty for a single one."""
        return ()


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


def ids_of_instances(dataset: AnnotatedDataset, index: int, sample: DenseSample) -> list[int]:
    """Return the dataset's id of each instance of a sample, whose instance ids may have gaps."""
    ids = dataset.annotation_ids(index)
    return list(ids) if sample.instance_ids is None else [ids[number - 1] for number in sample.instance_ids.tolist()]


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
