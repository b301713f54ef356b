"""One augmentation step on the CPU, next to a clone of the same batch and to stand-ins for other pipelines.

    python -m benchmarks.step --quick
    python -m benchmarks.step --threads 1 --out benchmarks/results/step.json

Every function of a row is called in turn, so that all see the same machine. ``clone`` is measured twice under two
names: the ratio of the two is the noise.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks import batches, stand_ins, timing
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig
from segpaste.kernels import use_kernels

COLUMNS = ("clone again", "segpaste", "segpaste, reference", "list-based stand-in", "grid_sample stand-in")


def measure(size: int, num_instances: int, dtype: torch.dtype, rounds: int, batch_size: int = 8) -> dict[str, Any]:
    """One row: milliseconds of everything on one batch."""
    batch = batches.random_boxes(batch_size, size, num_instances, dtype)
    paste = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(k_range=(1, num_instances))))
    lists = stand_ins.as_lists(batch)

    def by_reference() -> object:
        with use_kernels("reference"):
            return paste(batch)

    _, report = paste(batch, return_report=True)
    times = timing.in_turns(
        {
            "clone": batch.clone,
            "clone again": batch.clone,
            "segpaste": lambda: paste(batch),
            "list-based stand-in": lambda: stand_ins.list_based(*lists),
        },
        rounds,
    )
    few = max(3, rounds // 5)  # these take a hundred times longer
    times |= timing.in_turns(
        {"segpaste, reference": by_reference, "grid_sample stand-in": lambda: stand_ins.grid_sampled(batch)}, few, 1
    )
    return {
        "size": size,
        "batch_size": batch_size,
        "instances": num_instances,
        "dtype": str(dtype).removeprefix("torch."),
        "pasted_share": float((report.visible_layer >= 0).float().mean()),
        "times": {name: timing.summary(values) for name, values in times.items()},
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown: the clone in milliseconds, everything else as a multiple of it."""
    lines = [f"| batch | pasted | clone, ms | {' | '.join(COLUMNS)} |", "|---|---|---|" + "---|" * len(COLUMNS)]
    for row in rows:
        clone = row["times"]["clone"]
        ratios = [f"{row['times'][name]['median_ms'] / clone['median_ms']:.2f} x" for name in COLUMNS]
        name = f"{row['batch_size']} x {row['size']}², 1..{row['instances']}, {row['dtype']}"
        spread = f"{clone['median_ms']:.2f} ({clone['low_ms']:.2f}..{clone['high_ms']:.2f})"
        lines.append(f"| {name} | {row['pasted_share']:.1%} | {spread} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rows of ten rounds")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, default: 1")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    timing.keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shapes = [(512, 5, torch.float32), (512, 20, torch.float32)]
    if not args.quick:
        shapes += [(512, 5, torch.uint8), (512, 20, torch.uint8), (1024, 20, torch.float32)]
    rows = [measure(*shape, rounds=10 if args.quick else 30) for shape in shapes]
    found = {"threads": args.threads, "machine": timing.machine(), "rows": rows}
    print(table(rows))
    print(f"\n{args.threads} thread(s); {found['machine']}")
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
