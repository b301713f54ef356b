"""Base of the datasets of files: the annotations of images, with the samples that are made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.image_annotations import ImageAnnotations
from segpaste.types import DenseSample
from segpaste.types.dense import fill_holes


class AnnotatedImages(ImageAnnotations, AnnotatedDataset):
    """Images with their annotations, one `DenseSample` each."""

    _RECENT: ClassVar[int] = 64

    @abstractmethod
    def instance_labels(self, index: int) -> Sequence[int]:
        """Return the class of each object, from the annotations alone; no image is read."""

    @abstractmethod
    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance; instance id i + 1 is at position i, before ``transforms``."""

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample.

        Raises:
            DatasetError: its image or one of its annotations cannot be read.
        """
        return self._finished(index, self._read_sample(self._records[index]))

    def _finished(self, index: int, sample: DenseSample) -> DenseSample:
        """Add the fields of files beside the annotations to a sample, transform it, and fill holes in depth."""
        if self.beside is not None:
            sample = self.beside(sample, self.file_name(index), self.image_row(index))
        sample = self.transforms(sample) if self.transforms else sample
        return fill_holes(sample) if self.depth_fill else sample

    @abstractmethod
    def _read_sample(self, record: JsonRow) -> DenseSample:
        """Read the sample of one record."""

    @cached_property
    def _ids_of_recent(self) -> dict[int, tuple[int, ...]]:
        """Ids of the instances of images that were read lately, by the id of the image."""
        return {}

    def _remember(self, image_id: int, ids: Iterable[int]) -> None:
        """Keep the ids of the instances of a read image, so that nobody decodes its masks again to learn them."""
        if len(self._ids_of_recent) >= self._RECENT:
            self._ids_of_recent.clear()
        self._ids_of_recent[image_id] = tuple(ids)
