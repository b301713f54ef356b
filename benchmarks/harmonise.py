"""Measure the time to harmonise an image, by mode.

    python -m benchmarks.harmonise

One image of 512 x 512 pixels with a paste of 200 x 200, uint8, on one thread of the CPU: the time of the thread, the
least of several runs, so that other programs on the machine count little.
"""

from __future__ import annotations

import argparse
import time

import torch

from segpaste.augmentation import HarmonizeConfig
from segpaste.augmentation.harmonize import MODES, Harmonizer

SIZE, FIRST, END = 512, 100, 300


def milliseconds(mode: str, num_runs: int = 8) -> float:
    """Return the time of one image."""
    generator = torch.Generator().manual_seed(0)
    composed, target = torch.randint(0, 256, (2, 1, 3, SIZE, SIZE), generator=generator, dtype=torch.uint8)
    visible = torch.zeros(1, SIZE, SIZE, dtype=torch.bool)
    visible[:, FIRST:END, FIRST:END] = True
    harmonizer = Harmonizer(HarmonizeConfig.model_validate({"mode": mode, "prob": 1.0}))
    seeds, times = torch.zeros(1, dtype=torch.int64), []
    for _ in range(num_runs):
        start = time.thread_time()
        harmonizer(composed, target, visible, seeds)
        times.append(time.thread_time() - start)
    return min(times) * 1000


def main() -> None:
    """A table in Markdown."""
    argparse.ArgumentParser(prog="python -m benchmarks.harmonise", description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    print("| mode | ms per image |")
    print("|---|---|")
    for mode in MODES:
        print(f"| `{mode}` | {milliseconds(mode):.0f} |")


if __name__ == "__main__":
    main()
