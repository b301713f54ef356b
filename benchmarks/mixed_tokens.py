"""Count the tokens of a vision transformer that show more than one object, with and without alignment.

    python -m benchmarks.mixed_tokens

Rectangles that fill their boxes, pasted one by one over canvases of several sizes, the same seeds with and without.
A token is mixed where its patch shows pixels of a paste and of the target, or of two pastes.
"""

from __future__ import annotations

import argparse

import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig, num_mixed_tokens
from segpaste.types import PaddedBatchedDenseSample

from .batches import random_boxes

PATCHES = (8, 14, 16, 28, 32)
SIZES = ((448, 448), (518, 518), (448, 672), (333, 450))


def pasted(batch: PaddedBatchedDenseSample, patch: int, align: str | None) -> tuple[int, int]:
    """Pastes in the output and mixed tokens, over some batches of seeds."""
    options = {} if align is None else {"patch_aligned_paste": True, "align": align}
    placement = PlacementConfig(
        paste_prob=1.0, grouping="instance", layers=6, k_range=(6, 6), pad_to_multiple=patch, **options
    )  # type: ignore[arg-type]
    paste = BatchCopyPaste(BatchCopyPasteConfig(placement=placement))
    num_placed = num_mixed = 0
    for start in range(0, 40, batch.batch_size):
        seeds = torch.arange(start, start + batch.batch_size)
        _, report = paste(batch.derived(sample_seeds=seeds), return_report=True)
        num_placed += int(report.num_placed.sum())
        num_mixed += int(num_mixed_tokens(report.visible_layer, patch).sum())
    return num_placed, num_mixed


def main() -> None:
    """A table in Markdown."""
    argparse.ArgumentParser(prog="python -m benchmarks.mixed_tokens", description=__doc__.splitlines()[0]).parse_args()
    counts = "pastes, free | mixed tokens a paste | pastes, aligned | mixed tokens a paste"
    print(f"| canvas | patch | {counts} | kept | canvas |")
    print("|---|---|---|---|---|---|---|---|")
    for height, width in SIZES:
        batch = random_boxes(8, (height, width), 12, torch.uint8)
        for patch in PATCHES:
            free, mixed_free = pasted(batch, patch, None)
            aligned, mixed = pasted(batch, patch, "instance")
            on_canvas, _ = pasted(batch, patch, "canvas")
            print(
                f"| {height} × {width} | {patch} | {free} | {mixed_free / max(free, 1):.1f} | {aligned} | "
                f"{mixed / max(aligned, 1):.1f} | {aligned / max(free, 1):.0%} | "
                f"{on_canvas / max(free, 1):.0%} |"
            )


if __name__ == "__main__":
    main()
