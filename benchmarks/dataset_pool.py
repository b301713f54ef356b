"""Measure the milliseconds to cut a drawn crop out of a dataset, with and without the memory of a `DatasetBank`.

    python -m benchmarks.dataset_pool DATASET [--images FOLDER] [--num 300]

DATASET is a folder, a data YAML, or a file of COCO instances with ``--images``. Figures are CPU time of one process,
and how many images were read for a crop.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from segpaste.bank import BankSampler, DatasetBank, stage_bank_batch
from segpaste.bank.read.class_draws import DrawMode
from segpaste.datasets import open_dataset
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.datasets.lone_objects import LoneObjects, Part
from segpaste.types import DenseSample

STEP = 4


class Counting(DatasetWrapper):
    """A dataset that counts how often it decodes an image."""

    num_reads = 0

    def __getitem__(self, index: int) -> DenseSample:
        self.num_reads += 1
        return self.dataset[index]

    def lone_objects(self, index: int) -> LoneObjects | None:
        """Return those of the dataset."""
        if (lone := self.dataset.lone_objects(index)) is None:
            return None

        def read_part(part: Part) -> Tensor:
            self.num_reads += 1
            return lone.read_part(part)

        return replace(lone, read_part=read_part)


def measure(dataset: AnnotatedDataset, mode: DrawMode, cache_bytes: int, num: int) -> tuple[float, float]:
    """Return milliseconds of a crop, and reads of an image for each crop."""
    counting = Counting(dataset)
    bank = DatasetBank(counting, cache_bytes=cache_bytes)
    crops = BankSampler(bank, num, mode=mode).draws(0, num).crops
    before, start = counting.num_reads, time.process_time()
    for first in range(0, num, STEP):
        stage_bank_batch(bank, crops[first : first + STEP].reshape(1, -1))
    return (time.process_time() - start) / num * 1e3, (counting.num_reads - before) / num


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--num", type=int, default=300, help="crops of each figure")
    args = parser.parse_args()
    dataset = open_dataset(args.dataset, images_dir=args.images)
    print("| mode | memory | ms a crop | reads a crop |\n|---|---|---|---|")
    for mode in ("natural", "class_uniform"):
        for cache_bytes in (0, 256 << 20):
            milliseconds, reads = measure(dataset, mode, cache_bytes, args.num)
            print(f"| {mode} | {cache_bytes >> 20} MiB | {milliseconds:.1f} | {reads:.2f} |")


if __name__ == "__main__":
    main()
