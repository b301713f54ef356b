"""Check all invariants of the Triton backend on the random batches of the tests, in Triton's interpreter on the CPU.

The suite draws these batches for the native backend; interpreted, a forward takes up to a second. Most batches have
one tile for a whole image, every twentieth tiles of 8 x 8.

    python scripts/interpret_invariants.py --batches 200 --part 0/2     # 200 of every second modality subset

Exits with 1, and prints what broke, at the first batch in which an invariant fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined
TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "invariants"), str(TESTS / "engine")]

import pytest  # noqa: E402
import torch  # noqa: E402
from cuda_cases import set_tiles  # noqa: E402
from invariant_cases import all_modality_subsets, draw, run, subset_id  # noqa: E402
from quick_interpreter import patch_interpreter  # noqa: E402

from segpaste.engine import use_backend  # noqa: E402
from segpaste.invariants import check_all  # noqa: E402


def main() -> int:
    """Run the batches of the command line; return 0 if every invariant holds."""
    parser = argparse.ArgumentParser(description="Hold all invariants in Triton's interpreter.", allow_abbrev=False)
    parser.add_argument("--batches", type=int, default=200, help="of each modality subset")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th subset, from the i-th on")
    options = parser.parse_args()
    first, step = (int(number) for number in options.part.split("/"))
    torch.set_num_threads(1)
    for subset in all_modality_subsets()[first::step]:
        start = time.monotonic()
        for number in range(options.batches):
            with pytest.MonkeyPatch.context() as patch, use_backend("triton"):
                patch_interpreter(patch)
                set_tiles(patch, (8, 8) if number % 20 == 19 else (32, 32), 1)
                check_all(run(*draw(subset, number)))
        print(f"{subset_id(subset):44} {options.batches} batches, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
