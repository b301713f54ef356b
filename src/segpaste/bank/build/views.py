"""Subsets and concatenations of torch: methods and attributes of the datasets in them, at any depth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from torch.utils.data import ConcatDataset, Dataset, Subset

from segpaste.bank.schema.record import BankError
from segpaste.types import DenseSample

MAY_LACK = "photo_frame"
"""Method that returns None for images of a dataset that does not have it."""


class View(Dataset[DenseSample]):
    """Dataset with the methods that `by_index` finds in the datasets of a subset or concatenation.

    Args:
        dataset: the subset or concatenation.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> DenseSample:
        sample: DenseSample = self.dataset[index]
        return sample

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("__") or name == "dataset" else by_index(self.dataset, name)
        if found is None:
            raise AttributeError(name)
        return found


def with_methods(dataset: Any) -> Any:
    """Return a dataset with the methods of the datasets in it; a dataset of its own stays."""
    return View(dataset) if isinstance(dataset, Subset | ConcatDataset) else dataset


def by_index(dataset: Any, name: str) -> Callable[..., Any] | None:
    """Return a method whose first argument is the index of a sample, also of the datasets in it; None if one lacks it.

    ``dataset_idx`` of a concatenation is the number of the dataset of a sample, since ids are unique only within it.
    """
    found: Callable[..., Any] | None = getattr(dataset, name, None)
    if found is not None:
        return found
    if isinstance(dataset, Subset):
        inner = by_index(dataset.dataset, name)
        return None if inner is None else lambda index, *more: inner(_index_in_whole(dataset, index), *more)
    if not isinstance(dataset, ConcatDataset):
        return None
    if name == "dataset_idx":
        return lambda index: _number_of(dataset, index)
    methods = [by_index(part, name) for part in dataset.datasets]
    if all(method is None for method in methods) or (None in methods and name != MAY_LACK):
        return None

    def of_part(index: int, *more: Any) -> Any:
        part, own = _place(dataset, index)
        method = methods[part]
        return None if method is None else method(own, *more)

    return of_part


def attribute_of(dataset: Any, name: str) -> Any:
    """Return an attribute of a dataset, or of the datasets in it; None if there is none.

    Raises:
        BankError: the datasets of a concatenation differ in it.
    """
    found = getattr(dataset, name, None)
    if found is not None:
        return found
    if isinstance(dataset, Subset):
        return attribute_of(dataset.dataset, name)
    if not isinstance(dataset, ConcatDataset):
        return None
    values = [attribute_of(part, name) for part in dataset.datasets]
    if name in ("digest", "transforms"):
        return next((v for v in values if v is not None), None) if name == "transforms" else "+".join(map(str, values))
    if any(value != values[0] for value in values):
        raise BankError(
            f"expected datasets of equal {name} in a ConcatDataset, got {values[0]!r:.80} and others; join them with "
            "segpaste.datasets.JoinedPhotos, which joins classes by name"
        )
    return values[0]


def facts_of(dataset: Any) -> Any:
    """Return JSON facts about the indices of subsets and the lengths of concatenations; None for other datasets."""
    if isinstance(dataset, Subset):
        indices, inner = [int(index) for index in dataset.indices], facts_of(dataset.dataset)
        return indices if inner is None else [indices, inner]
    if isinstance(dataset, ConcatDataset):
        return {"parts": [[len(part), facts_of(part)] for part in dataset.datasets]}  # type: ignore[arg-type]
    return None


def _index_in_whole(subset: Subset[Any], index: int) -> int:
    found = int(subset.indices[index])
    return found + len(subset.dataset) if found < 0 else found  # type: ignore[arg-type]


def _place(dataset: ConcatDataset[Any], index: int) -> tuple[int, int]:
    """Return the part of a concatenation that a sample is from, and the index of the sample there."""
    part = bisect_right(dataset.cumulative_sizes, index)
    return part, index - (dataset.cumulative_sizes[part - 1] if part else 0)


def _number_of(dataset: ConcatDataset[Any], index: int) -> int:
    """Return the number of the dataset of a sample among all datasets of a concatenation."""
    part, own = _place(dataset, index)
    inner = by_index(dataset.datasets[part], "dataset_idx")
    return sum(map(_num_datasets, dataset.datasets[:part])) + (0 if inner is None else int(inner(own)))


def _num_datasets(dataset: Any) -> int:
    """Return the number of datasets that a dataset consists of."""
    if isinstance(dataset, Subset):
        return _num_datasets(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        return sum(map(_num_datasets, dataset.datasets))
    return len(getattr(dataset, "datasets", "1")) if hasattr(dataset, "dataset_idx") else 1
