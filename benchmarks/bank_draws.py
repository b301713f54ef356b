"""Measure draws from 100 M crops: draws per second and memory, compared with torch's WeightedRandomSampler.

    python -m benchmarks.bank_draws

Classes follow a power law. WeightedRandomSampler takes at most 2 ** 24 weights, so it is measured at 16 M crops, where
it draws a whole epoch at once; this project's sampler is measured there too. Memory is the peak of the process while a
sampler is made, above that before, which does not hold the classes of the crops yet.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import WeightedRandomSampler

from segpaste.bank import BankSampler

NUM_CLASSES = 1203
LARGE, SMALL = 100_000_000, 16_000_000


class ClassesOnly:
    """Stand-in for a bank without pixels; as in a bank on disk, classes are read on demand."""

    version = "0"

    def __init__(self, num_crops: int) -> None:
        shares = 1 / np.arange(1, NUM_CLASSES + 1) ** 1.5
        counts = np.maximum(shares / shares.sum() * num_crops, 1).astype(np.int64)
        counts[0] += num_crops - counts.sum()
        self.class_frequencies = tuple(counts.tolist())
        self.class_names = tuple(f"class {c}" for c in range(NUM_CLASSES))

    def __len__(self) -> int:
        return sum(self.class_frequencies)

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Spread over the bank by a step that has no factor in common with its size."""
        ids = np.repeat(np.arange(NUM_CLASSES), self.class_frequencies)
        step = 7919 * 4096 + 1
        for first in range(0, 1 << 20, 1 << 14):  # enough to mix the blocks that are sorted
            last = len(ids) - first - (1 << 14)
            other = first * step % last
            ids[first : first + (1 << 14)], ids[other : other + (1 << 14)] = (
                ids[other : other + (1 << 14)].copy(),
                ids[first : first + (1 << 14)].copy(),
            )
        return ids


def peak_bytes() -> int:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rate(draw: Callable[[], Iterable[int]], num: int) -> float:
    """Return draws per second, all of them handed out one by one; the best of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        deque(draw(), maxlen=0)
        seconds.append(time.perf_counter() - start)
    return num / min(seconds)


def ours(num_crops: int, num_draws: int, mode: str = "repeat_factor") -> dict[str, Any]:
    """The figures of `BankSampler`."""
    torch.set_num_threads(1)
    bank: Any = ClassesOnly(num_crops)
    before, start = peak_bytes(), time.perf_counter()
    sampler = BankSampler(bank, num_draws, mode=mode)  # type: ignore[arg-type]
    seconds, peak = time.perf_counter() - start, peak_bytes() - before
    blocks = range(0, num_draws, 1 << 14)
    return {
        "name": f"BankSampler, {mode}",
        "bytes": peak / num_crops,
        "seconds": seconds,
        "rate": rate(lambda: sampler, num_draws),
        "array_rate": rate(lambda: (len(sampler.draws(first, 1 << 14).crops) for first in blocks), num_draws),
    }


def theirs(num_crops: int, num_draws: int) -> dict[str, Any]:
    """The figures of torch's sampler, given a weight for each crop."""
    torch.set_num_threads(1)
    bank = ClassesOnly(num_crops)
    before, start = peak_bytes(), time.perf_counter()
    weights = 1 / np.sqrt(np.array(bank.class_frequencies))
    sampler = WeightedRandomSampler(torch.from_numpy(weights[bank.crop_class_ids()]), num_draws)
    iterator = iter(sampler)
    next(iterator)
    seconds, peak = time.perf_counter() - start, peak_bytes() - before
    return {
        "name": "WeightedRandomSampler",
        "bytes": peak / num_crops,
        "seconds": seconds,
        "rate": rate(lambda: sampler, num_draws),
    }


def alone(measure: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Measure in a new process, so that memory peaks are its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *args).result()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crops", type=int, default=LARGE)
    parser.add_argument("--draws", type=int, default=4_000_000)
    args = parser.parse_args()
    small = min(SMALL, args.crops)
    print("| sampler | crops | made in | peak bytes a crop | M draws/s | in arrays |\n|---|---|---|---|---|---|")
    for measure, num, *more in (
        (ours, args.crops, args.draws),
        (ours, args.crops, args.draws, "class_uniform"),
        (ours, small, args.draws),
        (theirs, small, args.draws),
    ):
        found = alone(measure, num, *more)
        arrays = f"{found['array_rate'] / 1e6:.1f}" if "array_rate" in found else ""
        print(
            f"| {found['name']} | {num / 1e6:.0f} M | {found['seconds']:.1f} s | {found['bytes']:.1f} | "
            f"{found['rate'] / 1e6:.1f} | {arrays} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
