#!/usr/bin/env python3
"""Compile every Triton kernel ahead of time, without a card, and check what it needs of a multiprocessor.

The launches are those of ``tests/engine/cuda_compiles.py``, and every dtype of images in every layout besides. A kernel
beyond a ceiling fails the run: registers of a thread, bytes that are spilled to memory, bytes of shared memory. So does
one that fuses or approximates arithmetic. The Triton that runs compiles; set PYTHONPATH to the folder of another one.

    python scripts/compile_kernels.py
    python scripts/compile_kernels.py --cards 90 --every 4
    PYTHONPATH=.venv/triton-3.6 python scripts/compile_kernels.py --out kernels.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "engine")]

import cuda_compiles  # noqa: E402

from samples import OPTIONAL, SCHEMA, make_batch  # noqa: E402
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, SourceConfig  # noqa: E402
from segpaste.engine import reference  # noqa: E402
from segpaste.engine import triton as backend  # noqa: E402
from segpaste.types import Modality, StagedCrops  # noqa: E402

CARDS = (80, 90, 100)
MOST_REGISTERS, MOST_SPILLED, MOST_SHARED = 128, 0, 48 * 1024
DTYPES = (torch.uint8, torch.float32, torch.float16, torch.bfloat16)
LAYOUTS: dict[str, Any] = {
    "row-major": lambda batch: batch,
    "channels last": cuda_compiles.channels_last,
    "strided": cuda_compiles.every_second,
}
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Compiled:
    """One kernel for one set of arguments.

    Attributes:
        name: of the kernel.
        card: compute capability, as in 90.
        registers: of a thread.
        spilled: bytes of registers that are stored in memory, and loaded.
        shared: bytes of shared memory of a block.
        warps: of a block.
    """

    name: str
    card: int
    registers: int
    spilled: int
    shared: int
    warps: int

    @property
    def excesses(self) -> list[str]:
        """Return the figures beyond their ceilings."""
        found = [
            (self.registers, MOST_REGISTERS, "registers"),
            (self.spilled, MOST_SPILLED, "bytes spilled"),
            (self.shared, MOST_SHARED, "bytes of shared memory"),
        ]
        return [f"{value} {what}, at most {most}" for value, most, what in found if value > most]


def every_launch() -> Iterator[tuple[Any, Any]]:
    """Yield the launches of the tests, then all dtypes in all layouts, in place, and with crops of a bank."""
    yield from _FROM_TESTS()
    for modalities in (set(OPTIONAL), {Modality.INSTANCE}):
        for dtype in DTYPES:
            for layout in LAYOUTS.values():
                batch = make_batch(2, size=(16, 32), max_instances=8, modalities=modalities, image_dtype=dtype)
                yield cuda_compiles.module(2), layout(batch)
    for dtype in DTYPES:
        for slots, modalities in product((8, 64), (set(OPTIONAL), set(OPTIONAL) - {Modality.PANOPTIC})):
            batch = make_batch(2, size=(16, 32), max_instances=slots, modalities=modalities, image_dtype=dtype)
            yield cuda_compiles.in_place(cuda_compiles.module(2)), batch
        for modalities in (set(OPTIONAL), {Modality.INSTANCE}):
            yield of_a_bank(), make_batch(2, max_instances=8, modalities=modalities, image_dtype=dtype)


def of_a_bank() -> Callable[[Any], Any]:
    """Return a call that pastes staged crops, with depth where the batch has some."""
    source = SourceConfig(kind="bank", crops_per_target=3, value_range=1.0)
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA})
    paste = BatchCopyPaste(BatchCopyPasteConfig(source=source, panoptic=rules))

    def call(batch: Any) -> Any:
        shape, plane = (batch.batch_size, 3), (batch.batch_size, 3, 1, 8, 8)
        crops = StagedCrops(
            images=torch.zeros(*shape, 3, 8, 8, dtype=torch.uint8),
            alphas=torch.ones(plane, dtype=torch.bool),
            class_ids=torch.ones(shape, dtype=torch.int64),
            boxes=torch.tensor([0, 0, 8, 8]).expand(*shape, 4).contiguous(),
            crop_idx=torch.zeros(shape, dtype=torch.int64),
            depth=None if batch.depth is None else torch.ones(plane),
            depth_valid=None if batch.depth is None else torch.ones(plane, dtype=torch.bool),
        )
        return paste(batch, staged=crops)

    return call


_FROM_TESTS = cuda_compiles.launches


def compile_all(cards: Iterable[int], every: int = 1) -> tuple[list[Compiled], list[str]]:
    """Compile for each card every ``every``-th launch; the process can compile nothing else after that.

    Returns:
        What was compiled, and the lines of `cuda_compiles.main` that name inexact arithmetic.
    """
    found: dict[tuple[int, str], Compiled] = {}
    real_run = triton.JITFunction.run

    def run(kernel: Any, *arguments: Any, **options: Any) -> Any:
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            made = real_run(kernel, *arguments, **options)
        card = made.metadata.target.arch
        if (card, made.hash) not in found:
            found[card, made.hash] = _read(kernel.__name__, card, made.metadata, log.getvalue())
        return made

    triton.JITFunction.run = run
    stage = backend.stage_crops
    backend.stage_crops = lambda *given: [f(*given) for f in (stage, reference.stage_crops)][1]  # nothing is launched
    triton.knobs.nvidia.dump_ptxas_log = True
    cuda_compiles.launches = partial(_every, every)
    lines = io.StringIO()
    with contextlib.redirect_stdout(lines):
        cuda_compiles.main(*(f"{card}:0:1" for card in cards))
    return list(found.values()), [line for line in lines.getvalue().splitlines()[1:] if not line.endswith(" True")]


def _every(step: int) -> Iterator[tuple[Any, Any]]:
    for number, launch in enumerate(every_launch()):
        if number % step == 0:
            print(f"launch {number}", file=sys.stderr, flush=True)
            yield launch


def _read(name: str, card: int, metadata: Any, log: str) -> Compiled:
    """Read the needs of a kernel from the log of the assembler."""
    registers = [int(number) for number in _REGISTERS.findall(log)]
    if not registers:
        raise RuntimeError(f"expected the assembler's log of {name}, got {log!r:.200}; is the kernel in a cache?")
    spilled = sum(int(number) for pair in _SPILLS.findall(log) for number in pair)
    return Compiled(name, card, max(registers), spilled, metadata.shared, metadata.num_warps)


def table(found: Sequence[Compiled]) -> list[str]:
    """Return the largest needs of each kernel on each card as lines of Markdown."""
    lines = ["| kernel | sm | variants | registers | spilled | shared | warps |", "|---|---|---|---|---|---|---|"]
    for name, card in sorted({(kernel.name, kernel.card) for kernel in found}):
        same = [kernel for kernel in found if (kernel.name, kernel.card) == (name, card)]
        most = [max(getattr(kernel, what) for kernel in same) for what in ("registers", "spilled", "shared", "warps")]
        low = min(kernel.registers for kernel in same)
        lines.append(f"| {name} | {card} | {len(same)} | {low}..{' | '.join(map(str, most))} |")
    return lines


def main() -> int:
    """Compile, print the table and what is beyond a ceiling; 1 if anything is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cards", type=int, nargs="+", default=CARDS, metavar="SM", help="default: 80 90 100")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th launch only, default: all")
    parser.add_argument("--out", type=Path, help="a JSON file for all kernels")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:  # a kernel in a cache has no log
        os.environ["TRITON_CACHE_DIR"] = cache
        found, inexact = compile_all(args.cards, args.every)
    print(f"Triton {triton.__version__}", *table(found), sep="\n")
    wrong = [f"{k.name} for sm_{k.card}: {excess}" for k in found for excess in k.excesses]
    wrong += [f"inexact or not compiled: {line}" for line in inexact]
    for line in sorted(set(wrong)):
        print(line)
    if args.out is not None:
        args.out.write_text(json.dumps({"triton": triton.__version__, "kernels": [asdict(k) for k in found]}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
