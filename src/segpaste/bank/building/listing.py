"""List of the objects of a dataset for a bank: the images, their ids, and the labels of their objects."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.bank.building.parts import stored_id
from segpaste.bank.schema.record import BankError
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.types import DenseSample


def checked_names(
    dataset: AnnotatedDataset, kind: Any, class_names: Sequence[str] | Mapping[int, str] | None
) -> tuple[str, ...]:
    """Return the name of each class, as given or from the dataset, which is of the class ``kind`` of the user's."""
    if class_names is None and not dataset.names_classes:
        if any(part.names_classes for part in dataset.joined()):
            raise BankError(
                "expected datasets of equal class_names in a ConcatDataset, got others; join them with "
                "segpaste.datasets.JoinedPhotos, which joins classes by name"
            )
        takes_names = "class_names" in inspect.signature(kind.__init__).parameters
        raise BankError(
            f"DatasetBank: expected class_names, since a {kind.__name__} has none; give "
            + (f"{kind.__name__}(..., class_names=[...])" if takes_names else "DatasetBank(dataset, class_names=[...])")
            + " instead"
        )
    names: Sequence[str] | Mapping[int, str] = dataset.class_names if class_names is None else class_names
    if isinstance(names, Mapping):
        if sorted(names) != list(range(len(names))):
            raise BankError(f"DatasetBank: expected class_names of 0 to {len(names) - 1}, got {sorted(names)[:20]}")
        names = [names[label] for label in range(len(names))]
    return tuple(str(name) for name in names)


def first_readable(
    dataset: AnnotatedDataset, images: NDArray[np.int64], unreadable: dict[int, str] | None
) -> DenseSample:
    """Read the first of some images, at least one; those that cannot be read are passed over if they are noted.

    Args:
        dataset: the samples.
        images: [N] indices, which may occur several times.
        unreadable: gets the reason of each image that is passed over, by its index; None passes over none.

    Raises:
        ValueError, OSError: an image cannot be read, and is not passed over or there is no other.
    """
    last: Exception | None = None
    for image in dict.fromkeys(images.tolist()):
        try:
            return dataset[image]
        except (ValueError, OSError) as error:
            if unreadable is None:
                raise
            unreadable[image], last = str(error), error
    assert last is not None
    raise last


def check_first(sample: DenseSample) -> None:
    """Reject an unsuitable dataset by its first sample, before training."""
    if sample.instance_masks is None:
        raise BankError(
            "DatasetBank: expected samples with instance_masks, got none; objects are cut out by their masks"
        )
    if sample.image.dtype != torch.uint8 or sample.image.shape[0] != 3:
        raise BankError(
            f"DatasetBank: expected images of uint8 [3, H, W], got {sample.image.dtype} {list(sample.image.shape)}; "
            "convert them"
        )


def image_ids(dataset: AnnotatedDataset) -> NDArray[np.int64]:
    """Return the id of each image; the indices of the images if the dataset has no ids, or no integers as ids."""
    ids: list[Any] = [dataset.image_id(image) for image in range(len(dataset))]
    if not all(isinstance(image_id, Integral) for image_id in ids):
        return np.arange(len(ids), dtype=np.int64)
    return np.array([stored_id(image_id, "image") for image_id in ids], np.int64)


def _labels_of(dataset: AnnotatedDataset, image: int) -> Sequence[int]:
    """Return the labels of an image, without reading it if the dataset lists them."""
    if dataset.lists_labels:
        return dataset.instance_labels(image)
    sample: Any = dataset[image]
    if not isinstance(sample, DenseSample):
        raise BankError(
            f"DatasetBank: dataset[{image}]: expected a DenseSample, got {type(sample).__name__}; convert it in the "
            "dataset, for example with DenseSample.from_masks"
        )
    labels: list[int] = sample.labels.tolist()
    return labels


def objects_of(
    dataset: AnnotatedDataset, num_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return image, number among the objects of its class in that image, and label of each object, [N] each."""
    images: list[int] = []
    ordinals: list[int] = []
    labels: list[int] = []
    for image in range(len(dataset)):
        seen: Counter[int] = Counter()
        for label in map(int, _labels_of(dataset, image)):
            images.append(image)
            ordinals.append(seen[label])
            labels.append(label)
            seen[label] += 1
    if not labels:
        raise BankError("DatasetBank: expected a dataset with objects, got none")
    if not 0 <= min(labels) <= max(labels) < num_classes:
        raise BankError(
            f"DatasetBank: expected labels from 0 to {num_classes - 1}, since there are {num_classes} class names, got "
            f"{min(labels)} to {max(labels)}"
        )
    return np.array(images, np.int64), np.array(ordinals, np.int64), np.array(labels, np.int64)
