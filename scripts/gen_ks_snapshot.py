#!/usr/bin/env python3
"""Draw the reference of the statistics gate and keep its counts in tests/statistics/ks_snapshot.json.

The reference is the plain loop sampler of tests/statistics/loop_sampler.py. Run this after a change of it or of the
pictures, crops and rules of population.py and bank_population.py beside it; the tests say so when the file no longer
fits. Same seed, same bytes. Do not run it because the gate fails: then the module draws otherwise than it did, and that
is what to look at.

    python scripts/gen_ks_snapshot.py               # about two minutes
    python scripts/gen_ks_snapshot.py --check       # does the file fit? draws the first 1,000 images of it again
    python scripts/gen_ks_snapshot.py --distances   # a table: how far the module lies from the reference
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "statistics"))

import ks_snapshot
from histograms import LEVEL, LIMIT, Counts, class_distances, critical_distance, distances


def print_distances(path: Path, num_images: int, seed: int) -> bool:
    """One row for each case, then one for each of its 20 most frequent classes; whether all are within the limit."""
    reference, passed = ks_snapshot.load(path), True
    of_classes: list[str] = []
    print("| case | paste area | pastes per image | class of a paste | pastes per image of one class |")
    print("| --- | --- | --- | --- | --- |")
    for case in ks_snapshot.CASES:
        counts = counts_of_module(case, num_images, seed)
        found = distances(counts, reference[case])
        passed &= max(found.values()) <= LIMIT
        level = critical_distance(counts.num_images, reference[case].num_images)
        for label, distance in class_distances(counts, reference[case]).items():
            num = int(counts.classes[label])
            of_classes.append(f"| {case} | {label} | {num} | {distance:.4f} | {level:.4f} |")
        print(f"| {case} | " + " | ".join(f"{distance:.4f}" for distance in found.values()) + " |", flush=True)
    print(f"\n| case | class | pastes | pastes per image | critical distance at level {LEVEL} |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(of_classes))
    return passed


def counts_of_module(case: str, num_images: int, seed: int) -> Counts:
    """Return the counts of the module's pastes into whole batches, at least ``num_images`` images."""
    from bank_draws import BATCH_SIZE, bank_counts, drawn_crops, open_bank
    from module_draws import make_module, module_counts

    if case != ks_snapshot.BANK:
        return module_counts(make_module(case), case, num_images, seed)
    num_images += -num_images % BATCH_SIZE
    with tempfile.TemporaryDirectory() as folder, open_bank(Path(folder, "bank")) as bank:
        return bank_counts(bank, drawn_crops(bank, num_images, seed=seed), seed)


def write(path: Path, num_images: int, seed: int) -> None:
    """Draw everything and write the file, which appears whole or not at all."""
    text = ks_snapshot.dumps(ks_snapshot.made(num_images, seed, lambda line: print(line, flush=True)))
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    print(f"wrote {path}, {len(text.encode())} bytes")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all is well, 1 if the file is stale or a distance too large."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare the file with the reference, write nothing")
    what.add_argument("--distances", action="store_true", help="compare the module with the file, write nothing")
    parser.add_argument("--out", type=Path, default=ks_snapshot.SNAPSHOT, metavar="FILE", help="the snapshot")
    parser.add_argument("--images", type=int, metavar="N", help="images a case (50000; with --distances 5000)")
    parser.add_argument("--seed", type=int, help="of the reference; with --distances of the module")
    options = parser.parse_args(argv)
    if options.images is not None and options.images < ks_snapshot.NUM_HEAD:
        parser.error(f"--images: expected at least {ks_snapshot.NUM_HEAD}, got {options.images}")
    try:
        if options.check:
            ks_snapshot.check_head(options.out)
            print(f"{options.out} fits")
        elif options.distances:
            seed = 7 if options.seed is None else options.seed
            return 0 if print_distances(options.out, options.images or 5_000, seed) else 1
        else:
            seed = ks_snapshot.SEED if options.seed is None else options.seed
            write(options.out, options.images or ks_snapshot.NUM_IMAGES, seed)
    except (OSError, ValueError) as error:
        print(f"FAIL {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
