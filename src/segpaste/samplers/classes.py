"""Class labels, read from arrays, banks and datasets."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor


class HasCropClassIds(Protocol):
    """Bank; see `segpaste.bank.InstanceBank`."""

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Return the class of every crop, [num_samples]."""


class HasLabels(Protocol):
    """Dataset with the class of each sample in ``labels``."""

    @property
    def labels(self) -> Any:
        """Class of each sample, [num_samples]."""


class HasTargets(Protocol):
    """Dataset with the class of each sample in ``targets``."""

    @property
    def targets(self) -> Any:
        """Class of each sample, [num_samples]."""


Labels = ArrayLike | Tensor | HasCropClassIds | HasLabels | HasTargets
"""Class of each sample: a tensor, array or list of integers or strings; a bank; or a dataset with ``labels`` or
``targets``, as the datasets of torchvision have."""


def read_labels(labels: Labels) -> NDArray[Any]:
    """Return the class of each sample, [num_samples], as integers or strings.

    Raises:
        ValueError: there are no labels, or they are not a vector of integers or strings.
    """
    values: Any = labels
    if hasattr(labels, "crop_class_ids"):
        values = labels.crop_class_ids()
    elif not isinstance(labels, (Tensor, np.ndarray, list, tuple)):
        values = _labels_of(labels)
        if values is labels and not hasattr(labels, "__array__") and not isinstance(labels, range):
            raise ValueError(_WRONG_LABELS.format(type(labels).__name__))  # a dataset: np.asarray would read all of it
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values if values.is_floating_point() or values.is_complex() else values.to(torch.int64)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(_WRONG_LABELS.format(f"{type(labels).__name__} ({error})")) from error
    if array.ndim == 1 and array.dtype.kind == "U" and not all(isinstance(value, str) for value in values):
        raise ValueError(_WRONG_LABELS.format("both in one list"))  # NumPy would make all of them strings
    if array.dtype == object and array.ndim == 1:
        array = _of_objects(array)
    if array.ndim != 1 or array.dtype.kind not in "iubU":
        got = f"{type(labels).__name__} of shape {list(array.shape)} and dtype {array.dtype}"
        raise ValueError(_WRONG_LABELS.format(got))
    if not len(array):
        raise ValueError(_WRONG_LABELS.format("none"))
    return array


def _of_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels in an array of objects as strings, or as integers.

    Raises:
        ValueError: they are not all strings or all integers.
    """
    are_texts = bool(len(values)) and isinstance(values[0], str)
    numbers = []
    for position, value in enumerate(values.tolist()):
        try:
            numbers.append(0 if are_texts and isinstance(value, str) else operator.index(value))
            is_odd = are_texts and not isinstance(value, str)
        except (TypeError, ValueError):
            is_odd = True
        if is_odd:
            raise ValueError(_WRONG_LABELS.format(f"the {type(value).__name__} {value!r:.40} at position {position}"))
    if are_texts:
        return values.astype(str)
    if max(map(abs, numbers), default=0) >= 1 << 63:
        raise ValueError(_WRONG_LABELS.format("integers of more than 64 bits"))
    return np.array(numbers, np.int64)


def _labels_of(dataset: Any) -> Any:
    """Return the ``labels`` or ``targets`` of a dataset, one for each sample, or the dataset if it has neither.

    Raises:
        ValueError: the numbers of labels and samples differ.
    """
    found = {name: getattr(dataset, name) for name in ("labels", "targets") if hasattr(dataset, name)}
    num = len(dataset) if hasattr(dataset, "__len__") else None
    for values in found.values():
        if num is None or not hasattr(values, "__len__") or len(values) == num:
            return values
    if found:
        name, values = next(iter(found.items()))
        raise ValueError(
            f"labels: expected as many as the {num} samples of the {type(dataset).__name__}, got {len(values)} in its "
            f"{name}; give the class of each sample"
        )
    return dataset


_WRONG_LABELS = (
    "labels: expected the class of each sample, integers or strings in a vector [num_samples] of at least one, a bank, "
    "or a dataset with labels or targets (of a Subset: [labels[i] for i in subset.indices]), got {}"
)


def rarest_labels(labels: Iterable[Iterable[int]], empty: int = -1) -> NDArray[np.int64]:
    """Return, for each image, the class of its objects that is in the fewest images, [num_images] int64.

    N x M batches of these classes contain rare classes as often as others. If several classes are in equally few
    images, the smallest class id is returned.

    Args:
        labels: the classes of the objects of each image, integers, such as the ``instance_labels`` of a dataset.
        empty: the class of images without objects. A sampler treats it as any other class, so a batch may hold M
            images without objects; leave these images out if that is not wanted.

    Raises:
        ValueError: a class is not an integer.
    """
    classes = [_distinct_classes(row) for row in labels]
    num_images = Counter(c for row in classes for c in row)
    return np.array([min(row, key=num_images.__getitem__, default=empty) for row in classes], np.int64)


def _distinct_classes(row: Iterable[int]) -> list[int]:
    """Return the distinct classes of the objects of an image, ascending."""
    try:
        return sorted(set(map(operator.index, row)))
    except TypeError as error:
        raise ValueError(
            f"rarest_labels: expected integers, the classes of the objects of an image, got {row!r}; number the classes"
        ) from error
