"""Report of the samples that an epoch of N x M batches covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste.samplers.epoch import Plan

_MAX_LINES = 10


class LeftOut(NamedTuple):
    """Class with samples that are in no batch of an epoch.

    Attributes:
        label: label of the class, an integer or a string.
        num_samples: number of samples of the class.
        num_left_out: number of these samples that are in no batch.
    """

    label: Any
    num_samples: int
    num_left_out: int


@dataclass(frozen=True)
class NxMReport:
    """Coverage of an epoch, over all replicas.

    Attributes:
        num_samples: number of samples in the dataset.
        num_classes: number of classes in the dataset.
        N_classes_per_batch: number of distinct classes that a batch should have, N.
        M_samples_per_class: number of samples of each class in a batch, M.
        num_batches: number of batches of the epoch, T, without repetitions.
        num_repeated_batches: number of batches that are repeated so that every replica has the same number.
        min_distinct: minimum number of distinct classes in a batch.
        mean_distinct: mean number of distinct classes in a batch.
        num_covered: number of samples that are taken at least once.
        num_repeats: number of indices of samples already taken in this epoch, without those of repeated batches.
        left_out: classes with samples that are in no batch, in descending order of their number. For a random sampler,
            which takes only M samples of each class, these are the classes that are in no batch at all.
    """

    num_samples: int
    num_classes: int
    N_classes_per_batch: int
    M_samples_per_class: int
    num_batches: int
    num_repeated_batches: int
    min_distinct: int
    mean_distinct: float
    num_covered: int
    num_repeats: int
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        size = self.N_classes_per_batch * self.M_samples_per_class
        lines = [
            f"batches            {self.num_batches} of {self.N_classes_per_batch} x {self.M_samples_per_class} = "
            f"{size}, {self.num_repeated_batches} repeated so that all replicas have the same number",
            f"distinct classes   {self.min_distinct} at least, {self.mean_distinct:.2f} on average, "
            f"{self.N_classes_per_batch} possible",
            f"samples            {self.num_covered} of {self.num_samples} taken "
            f"({self.num_covered / self.num_samples:.2%}), {self.num_repeats} repeats",
        ]
        for row in self.left_out[:_MAX_LINES]:
            lines.append(f"left out           {row.num_left_out} of {row.num_samples} samples of class {row.label}")
        if (more := len(self.left_out) - _MAX_LINES) > 0:
            lines.append(f"                   and some of {more} more classes")
        return "\n".join(lines)


def report_batches(
    labels: NDArray[Any], class_ids: NDArray[Any], plan: Plan, batches: NDArray[np.int64], num_replicas: int
) -> NxMReport:
    """Return the coverage of the batches of an epoch.

    Args:
        labels: label of each class, [C].
        class_ids: class of each sample, from 0, [num_samples].
        plan: plan that made the batches.
        batches: all batches of the epoch, [T, N M].
        num_replicas: number of replicas that share the batches.
    """
    classes = np.sort(class_ids[batches], axis=1)
    num_distinct = (np.diff(classes, axis=1) != 0).sum(axis=1) + 1
    times = np.bincount(batches.ravel(), minlength=len(class_ids))
    num = np.bincount(class_ids, minlength=len(labels))
    num_left = np.bincount(class_ids[times == 0], minlength=len(labels))
    if not plan.exhaustive:
        num_left = np.where(num_left == num, num, 0)
    order = np.argsort(-num_left, kind="stable")[: int((num_left > 0).sum())]
    num_covered = int((times > 0).sum())
    return NxMReport(
        num_samples=len(class_ids),
        num_classes=len(labels),
        N_classes_per_batch=plan.N_classes_per_batch,
        M_samples_per_class=plan.M_samples_per_class,
        num_batches=len(batches),
        num_repeated_batches=-len(batches) % num_replicas,
        min_distinct=int(num_distinct.min()),
        mean_distinct=float(num_distinct.mean()),
        num_covered=num_covered,
        num_repeats=batches.size - num_covered,
        left_out=tuple(LeftOut(labels[c].item(), int(num[c]), int(num_left[c])) for c in order),
    )
