#!/usr/bin/env python3
"""Read a bank of every format at random from many processes, and compare each crop with the written one.

The parent reads first and goes on reading, which is where shared file offsets, shared LMDB environments and threads
that did not survive a fork would show. Crops are pure functions of their index, so a process needs no copy of them.

    python scripts/check_bank_processes.py                          # 8 forked, then 8 spawned, 100,000 reads each
    python scripts/check_bank_processes.py --processes 2 --reads 1000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from segpaste.bank import Crop, Layout, StoredBank, open_bank
from segpaste.bank.format import WRITERS

NUM_CROPS, SIZE = 5_000, (16, 12)


def crop(index: int) -> Crop:
    """The crop of an index."""
    rng = np.random.default_rng(index)
    return Crop(
        image=rng.integers(0, 256, (3, *SIZE), np.uint8),
        alpha=rng.random((1, *SIZE)) < 0.5,
        class_id=index % 7,
        content_box=rng.integers(0, 9, 4, np.int32),
    )


def read(bank: StoredBank, seed: int, num_reads: int) -> int:
    """Return how many of so many random reads gave another crop."""
    wrong = 0
    for index in np.random.default_rng(seed).integers(0, NUM_CROPS, num_reads).tolist():
        found, expected = bank[index], crop(index)
        same = found.class_id == expected.class_id
        for name in ("image", "alpha", "content_box"):
            same &= np.array_equal(getattr(found, name), getattr(expected, name))
        wrong += not same
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every read was right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--processes", type=int, default=8, metavar="N", help="of each kind, default: 8")
    parser.add_argument("--reads", type=int, default=100_000, metavar="N", help="of each format and kind of process")
    options = parser.parse_args(argv)
    all_wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for kind, writer_of in WRITERS.items():
            with writer_of(Path(scratch, kind), Layout(SIZE), [str(i) for i in range(7)]) as writer:
                for index in range(NUM_CROPS):
                    writer.add(crop(index))
                writer.finish()
            bank = open_bank(Path(scratch, kind))
            for start in ("fork", "spawn"):
                began, wrong = time.perf_counter(), read(bank, 1, 100)  # the parent first
                shares = [options.reads // options.processes] * options.processes
                with ProcessPoolExecutor(options.processes, mp_context=get_context(start)) as pool:
                    pending = [pool.submit(read, bank, seed, num) for seed, num in enumerate(shares)]
                    wrong += read(bank, 2, 100)
                    wrong += sum(future.result() for future in pending)
                num = sum(shares) + 200
                print(
                    f"{kind:10} {options.processes} x {start:5} {num:,} reads, {wrong} wrong, "
                    f"{time.perf_counter() - began:.1f} s",
                    flush=True,
                )
                all_wrong += wrong
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
