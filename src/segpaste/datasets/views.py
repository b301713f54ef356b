"""Datasets of other classes, and subsets and concatenations of torch, as datasets with the members of the contract."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch.utils.data import ConcatDataset, Dataset, Subset

from segpaste.datasets.annotations import ATTRIBUTES
from segpaste.datasets.contract import OF_IMAGE, AnnotatedDataset, DatasetView, DatasetWrapper, numbers_of
from segpaste.datasets.entries import JsonRow
from segpaste.types import DenseSample


@runtime_checkable
class Samples(Protocol):
    """Map-style dataset of samples of any class, such as a list; `annotated` gives it the other members."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> DenseSample: ...


class SelectedSamples(DatasetWrapper):
    """Some samples of a dataset, as `torch.utils.data.Subset` selects them.

    Args:
        dataset: the dataset.
        indices: index of each sample there; a negative one counts from the end.
    """

    def __init__(self, dataset: AnnotatedDataset, indices: Sequence[int]) -> None:
        super().__init__(dataset)
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def place(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the dataset, and the index of a sample there."""
        found = int(self.indices[index])
        return self.dataset, found + len(self.dataset) if found < 0 else found

    def facts(self) -> Any:
        """Return the indices, and the facts of the dataset."""
        indices, inner = [int(index) for index in self.indices], self.dataset.facts()
        return indices if inner is None else [indices, inner]


class ConcatenatedSamples(DatasetView):
    """Several datasets one after another, as `torch.utils.data.ConcatDataset` concatenates them.

    Classes have names if all datasets name them alike; `segpaste.datasets.JoinedPhotos` joins other classes by name.

    Args:
        parts: the datasets.
    """

    def __init__(self, parts: Sequence[AnnotatedDataset]) -> None:
        self.parts = tuple(parts)
        self._ends = list(accumulate(len(part) for part in self.parts))
        first = self.parts[0]
        self.names_classes = all(part.names_classes and part.class_names == first.class_names for part in self.parts)
        self.class_names = first.class_names if self.names_classes else ()
        self.schema = first.schema if all(part.schema == first.schema for part in self.parts) else None
        is_alike = all(part.keypoint_schema == first.keypoint_schema for part in self.parts)
        self.keypoint_schema = first.keypoint_schema if is_alike else None
        self.has_masks = all(part.has_masks for part in self.parts)
        self.has_semantic_maps = all(part.has_semantic_maps for part in self.parts)
        self.lists_labels = all(part.lists_labels for part in self.parts)
        self.depth_fill = any(part.depth_fill for part in self.parts)
        self.transforms = next((part.transforms for part in self.parts if part.transforms is not None), None)
        self.num_datasets = sum(part.num_datasets for part in self.parts)
        self.digest = "+".join(part.digest for part in self.parts)

    def __len__(self) -> int:
        return self._ends[-1]

    def place(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the part of a sample, and its index there."""
        number, own = self._numbered(index)
        return self.parts[number], own

    def _numbered(self, index: int) -> tuple[int, int]:
        at = range(len(self))[index]
        number = bisect_right(self._ends, at)
        return number, at - (self._ends[number - 1] if number else 0)

    def dataset_idx(self, index: int) -> int:
        """Return the number of the dataset of a sample among all datasets of all parts."""
        number, own = self._numbered(index)
        return sum(part.num_datasets for part in self.parts[:number]) + (self.parts[number].dataset_idx(own) or 0)

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes of the first dataset."""
        return self.parts[0].categories

    def joined(self) -> tuple[AnnotatedDataset, ...]:
        """Return the datasets."""
        return self.parts

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folders that the datasets search for images."""
        return tuple(folder for part in self.parts for folder in part.searched_folders())

    def facts(self) -> Any:
        """Return length and facts of each part."""
        return {"parts": [[len(part), part.facts()] for part in self.parts]}


class _ForeignDataset(AnnotatedDataset):
    """Samples of a class that knows nothing of the contract, with the members of it that it has nevertheless."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._latest: tuple[int, DenseSample] | None = None
        self.names_classes = getattr(dataset, "class_names", None) is not None
        self.lists_labels = hasattr(dataset, "instance_labels")
        for name in (*ATTRIBUTES, *OF_IMAGE, "searched_folders", "tables"):
            if (own := getattr(dataset, name, None)) is not None:
                setattr(self, name, own)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> DenseSample:
        sample: DenseSample = self.dataset[index]
        self._latest = index, sample
        return sample

    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the numbers of the instances; the latest sample is not read again for them."""
        sample = self._latest[1] if self._latest is not None and self._latest[0] == index else self[index]
        return numbers_of(sample)

    @property
    def categories(self) -> list[JsonRow]:
        own = getattr(self.dataset, "categories", None)
        return super().categories if own is None else list(own)


def annotated(dataset: Samples | Dataset[Any]) -> AnnotatedDataset:
    """Return a dataset with the members of `AnnotatedDataset`.

    Args:
        dataset: such a dataset, which is returned as it is; a list of samples or another map-style dataset of samples,
            whose members of these names are used; or a `torch.utils.data.Subset` or `ConcatDataset` of any of these.

    Raises:
        TypeError: the dataset has no length, or no samples by index.
    """
    if isinstance(dataset, AnnotatedDataset):
        return dataset
    if isinstance(dataset, Subset):
        return SelectedSamples(annotated(dataset.dataset), dataset.indices)
    if isinstance(dataset, ConcatDataset):
        return ConcatenatedSamples([annotated(part) for part in dataset.datasets])
    if not isinstance(dataset, Samples):
        raise TypeError(
            f"expected a dataset with a length and samples by index, got {type(dataset).__name__}; give the dataset of "
            "a loader (loader.dataset), or a list of samples"
        )
    return _ForeignDataset(dataset)
