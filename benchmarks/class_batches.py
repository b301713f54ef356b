"""Measure epochs of class-structured batches: time and coverage, compared with other samplers.

    python -m benchmarks.class_batches

A million samples: 100,000 classes of about ten, and a long tail of as many. Batches of 32 classes, 4 samples of each.
MPerClassSampler is pytorch-metric-learning's, and makes an epoch of as many indices as there are samples;
WeightedRandomSampler is torch's, every class as likely as any other. Times are the best of four epochs, fewer where
they take 30 s together, one thread.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import WeightedRandomSampler

from segpaste import ExhaustiveNxMSampler, NxMSampler, RandomNxMSampler

N, M = 32, 4
NUM_EPOCHS, MAX_SECONDS = 4, 30
Ints = NDArray[np.int64]
Epochs = Callable[[int], Iterable[int]]
"""The indices of an epoch, by its number."""
MakeEpochs = Callable[[Ints], Epochs]
"""Makes a sampler of labels, then its epochs."""


def datasets(num_samples: int, num_classes: int) -> dict[str, Ints]:
    """Labels by the name of their distribution."""
    rng = np.random.default_rng(0)
    even = rng.integers(0, num_classes, num_samples)
    shares = 1 / np.arange(1, num_classes + 1)
    tail = rng.choice(num_classes, num_samples, p=shares / shares.sum())
    return {"even": even, "long tail": tail}


def ours(kind: type[NxMSampler]) -> MakeEpochs:
    """A sampler of this project."""

    def make(labels: Ints) -> Epochs:
        sampler = kind(labels, N, M)

        def epoch(number: int) -> Iterable[int]:
            sampler.set_epoch(number)
            return sampler

        return epoch

    return make


def metric_learning(labels: Ints) -> Epochs:
    """MPerClassSampler's epochs."""
    from pytorch_metric_learning.samplers import MPerClassSampler

    sampler = MPerClassSampler(labels, M, batch_size=N * M, length_before_new_iter=len(labels))
    return lambda _: sampler


def weighted(labels: Ints) -> Epochs:
    """WeightedRandomSampler's epochs."""
    weights = torch.from_numpy(1 / np.bincount(labels)[labels])
    return lambda _: WeightedRandomSampler(weights, len(labels))


SAMPLERS: dict[str, MakeEpochs] = {
    "RandomNxMSampler": ours(RandomNxMSampler),
    "ExhaustiveNxMSampler": ours(ExhaustiveNxMSampler),
    "MPerClassSampler": metric_learning,
    "WeightedRandomSampler": weighted,
}


class Measured(NamedTuple):
    """Cost of a sampler, and the content of its last epoch.

    Attributes:
        made_s: seconds to make the sampler.
        epoch_s: seconds for the indices of an epoch, the least of those measured.
        num_indices: of the epoch.
        covered_frac: samples of the dataset that are in whole batches of it.
        min_distinct: distinct classes of the batch that has the fewest.
        mean_distinct: of all batches.
    """

    made_s: float
    epoch_s: float
    num_indices: int
    covered_frac: float
    min_distinct: int
    mean_distinct: float


def measure(make: MakeEpochs, labels: Ints) -> Measured:
    """Make a sampler, and draw its epochs."""
    start = time.perf_counter()
    epoch = make(labels)
    made = time.perf_counter() - start
    seconds: list[float] = []
    indices: list[int] = []
    while len(seconds) < NUM_EPOCHS and sum(seconds) < MAX_SECONDS:
        start = time.perf_counter()
        indices = list(epoch(len(seconds)))
        seconds.append(time.perf_counter() - start)
    whole = np.array(indices[: len(indices) // (N * M) * N * M]).reshape(-1, N * M)
    classes = np.sort(labels[whole], axis=1)
    distinct = (np.diff(classes, axis=1) != 0).sum(1) + 1
    return Measured(
        made_s=made,
        epoch_s=min(seconds),
        num_indices=len(indices),
        covered_frac=len(np.unique(whole)) / len(labels),
        min_distinct=int(distinct.min()),
        mean_distinct=float(distinct.mean()),
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=100_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with suppress(ImportError):  # it takes seconds, which no sampler should be charged with
        importlib.import_module("pytorch_metric_learning.samplers")
    print("| labels | sampler | made in | an epoch | indices | samples covered | classes of a batch, least and mean |")
    print("|---|---|---|---|---|---|---|")
    for name, labels in datasets(args.samples, args.classes).items():
        for sampler, make in SAMPLERS.items():
            try:
                found = measure(make, labels)
            except ImportError as error:
                print(f"| {name} | {sampler} | skipped: {error} | | | | |", flush=True)
                continue
            print(
                f"| {name} | {sampler} | {found.made_s:.2f} s | {found.epoch_s:.2f} s | {found.num_indices:,} | "
                f"{found.covered_frac:.1%} | {found.min_distinct}, {found.mean_distinct:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
