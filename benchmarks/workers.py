"""Paste in the workers of a data loader for many batches, and check that nothing hangs and memory stays flat.

    python -m benchmarks.workers --batches 500

Prints the resident memory of all workers as the epoch goes on.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from segpaste.augmentation import BatchCopyPaste
from segpaste.datasets.scenes import SceneConfig, scene_batch

from .batches import EVERY_IMAGE


class PastedScenes(Dataset[Any]):
    """Batches of scenes, pasted by the worker that reads them."""

    def __init__(self, num_batches: int) -> None:
        self.num_batches = num_batches
        self.paste = BatchCopyPaste(EVERY_IMAGE)

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> tuple[int, Any]:
        # Sixteen batches again and again: scenes cost more than pastes.
        config = SceneConfig(height=96, width=96)
        return os.getpid(), self.paste(scene_batch(batch_size=4, max_instances=24, seed=index % 16, config=config))


def resident_mib(pids: set[int]) -> float:
    """Resident memory of processes, shared pages counted once for each."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(context: str, num_workers: int, num_batches: int) -> None:
    """One epoch; ten lines."""
    loader = DataLoader(
        PastedScenes(num_batches),
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=context,
        timeout=120,
    )
    pids: set[int] = set()
    start = time.perf_counter()
    for number, (pid, _) in enumerate(loader, start=1):
        pids.add(pid)
        if number % max(1, num_batches // 10) == 0:
            print(f"{context:6} batch {number:5}: {resident_mib(pids):8.1f} MiB in {len(pids)} workers", flush=True)
    print(f"{context:6} {num_batches} batches in {time.perf_counter() - start:.1f} s")


def main() -> None:
    """Four forked workers, then one spawned."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=500, help="default: 500")
    args = parser.parse_args()
    PastedScenes(1)[0]  # the parent has pasted before it forks
    run("fork", 4, args.batches)
    run("spawn", 1, args.batches)


if __name__ == "__main__":
    main()
