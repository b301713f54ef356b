#!/usr/bin/env python3
"""Paste thousands of random hostile batches, and check every pixel of the outputs.

Each batch is a pure function of its seed: canvases down to one pixel, no image, no slot, views of every layout, ids up
to the largest, padding of any pixels, depth of any magnitude, cameras that construction would refuse, every option of
the config, in place and not, with ClassMix and with crops of a bank. Every output is held against
`segpaste.invariants`, and must hold no depth or normal that is NaN, no valid depth that is not finite and > 0, and no
colour that is not finite.

    python scripts/hostile_batches.py --num 10000                     # the backends of the CPU
    python scripts/hostile_batches.py --num 200 --backend reference   # and equal to the reference, bit for bit
    python scripts/hostile_batches.py --num 200 --backend triton       # likewise; without a GPU Triton interprets them
    python scripts/hostile_batches.py --num 200 --backend reference triton --record record.json  # all three, and counts
    python scripts/hostile_batches.py --num 1 --seed 4711             # one batch again

Exits with 1, and prints the seeds, if a batch fails. A record counts the batches into which something was pasted by the
options that they used (`hostile_options`); if a value of an option is missing at the end, the program exits with 1,
too, as it does if fewer batches than ``--pasted`` pasted something. A record that ``--seconds`` cut short exits with 3,
and the same command resumes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from hostile_inputs import Inputs, hostile_inputs
from hostile_record import Record
from torch import Tensor

from segpaste import BatchCopyPaste, PaddedBatchedDenseSample
from segpaste.augmentation import PasteReport
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.engine import use_backend
from segpaste.invariants import Case, batch_violations, violations
from segpaste.types import FIELDS

BACKENDS = ("native", "reference", "triton")
TESTS = Path(__file__).resolve().parents[1] / "tests"

Outcome = tuple[PaddedBatchedDenseSample, PasteReport]


def run(seeds: Sequence[int], *backends: str) -> Iterator[tuple[int, int, list[str]]]:
    """Paste the batches of these seeds by the native backend, and by others if they are named.

    Yields:
        The seed, how many pastes were placed, and what is wrong.
    """
    for seed in seeds:
        if "triton" in backends:
            set_tiles(seed)
        try:
            yield seed, *_checked(hostile_inputs(seed), backends)
        except Exception as error:  # whatever it is, the seed must be told
            yield seed, 0, [f"{type(error).__name__}: {error}"]


def _checked(inputs: Inputs, backends: Sequence[str]) -> tuple[int, list[str]]:
    out, report = _pasted(inputs, "native")
    wrong = [*no_numbers(out), *_broken(inputs, out, report)]
    for backend in backends:
        if backend == "native":
            continue
        found = [*differences((out, report), _pasted(inputs, backend))]
        if inputs.inplace:  # without a report what is seen needs no plane of its own
            found += differences((out, report), (_pasted_without_report(inputs, backend), report))
        # Harmonisation is torch's own arithmetic, which rounds otherwise on a card.
        is_ours = device_of(backend).type == "cpu" or not inputs.config.harmonize.is_active
        wrong += [f"{name}: {backend} differs from native" for name in found if is_ours or name != "images"]
    return int(report.num_placed.sum()), wrong


def device_of(backend: str) -> torch.device:
    """Return where a backend runs: the Triton kernels on a GPU, if there is one."""
    return torch.device("cuda" if backend == "triton" and torch.cuda.is_available() else "cpu")


def _pasted(inputs: Inputs, backend: str) -> Outcome:
    """One forward, on a copy of the batch where it works in place; the outcome is on the CPU."""
    out, report = _forward(inputs, backend, reports=True)
    return out.to("cpu"), report.to("cpu")


def _pasted_without_report(inputs: Inputs, backend: str) -> PaddedBatchedDenseSample:
    batch: PaddedBatchedDenseSample = _forward(inputs, backend, reports=False)
    return batch.to("cpu")


def _forward(inputs: Inputs, backend: str, *, reports: bool) -> Any:
    device = device_of(backend)
    module = BatchCopyPaste(inputs.config, inplace=inputs.inplace).to(device)
    batch = (inputs.batch.clone() if inputs.inplace else inputs.batch).to(device)
    staged, region = (None if given is None else given.to(device) for given in (inputs.staged, inputs.region))
    with use_backend(backend), warnings.catch_warnings():
        for message in ("BatchCopyPaste could paste nothing", "BatchCopyPaste: expected at least 4 scales"):
            warnings.filterwarnings("ignore", message)
        module.schedule.at(inputs.progress)
        return module(batch, staged=staged, region=region, return_report=reports)


def no_numbers(out: PaddedBatchedDenseSample) -> Iterator[str]:
    """Values that no output may hold."""
    if out.images.is_floating_point() and not out.images.isfinite().all():
        yield "images: a value that is not finite"
    if out.normals is not None and not out.normals.isfinite().all():
        yield "normals: a value that is not finite"
    if out.depth is not None and out.depth_valid is not None:
        if not out.depth.isfinite().all():
            yield "depth: a value that is not finite"
        if not (out.depth[out.depth_valid] > 0).all():
            yield "depth: a valid value that is not > 0"


def _broken(inputs: Inputs, out: PaddedBatchedDenseSample, report: PasteReport) -> list[str]:
    """Invariants that do not hold, of the forward and of the output by itself."""
    before, config = _comparable(inputs), inputs.config
    source = None if inputs.staged is None else source_batch(inputs.staged, before, config.source)
    found = violations(Case(before, out, report, config, source))
    schema = None if config.panoptic is None else config.panoptic.taxonomy
    return [str(violation) for violation in [*found, *batch_violations(out, schema=schema)]]


def _comparable(inputs: Inputs) -> PaddedBatchedDenseSample:
    """Return the batch as the module took it: without the fields that its config excludes."""
    closed = ("depth", "depth_valid") if inputs.config.emit_depth is False else ()
    return inputs.batch.derived(**dict.fromkeys(closed))


def differences(one: Outcome, other: Outcome) -> Iterator[str]:
    """Yield the fields of two outputs, and of their reports, that are not equal."""
    for field in FIELDS:
        values = [getattr(outcome[0], field.batched_name) for outcome in (one, other)]
        if not _equal(*values):
            yield field.batched_name
    if one[1] is None and other[1] is None:
        return
    for item in dataclasses.fields(PasteReport):
        values = [getattr(outcome[1], item.name) for outcome in (one, other)]
        if item.name != "placement" and not _equal(*values):
            yield f"report.{item.name}"


def _equal(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one.float(), other.float(), rtol=0, atol=0, equal_nan=True)


def prepare_cuda() -> None:
    """Without a GPU run the CUDA kernels in Triton's interpreter, whose time goes by the tile."""
    if torch.cuda.is_available():
        return
    if os.environ.get("TRITON_INTERPRET") != "1":  # read when Triton is imported, which has happened: start again
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "TRITON_INTERPRET": "1"})
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="triton.runtime.interpreter")
    sys.path[:0] = [str(TESTS), str(TESTS / "engine")]
    import pytest
    from quick_interpreter import patch_interpreter

    patch_interpreter(pytest.MonkeyPatch())  # for the rest of the process


def set_tiles(seed: int) -> None:
    """In the interpreter give a batch tiles of whole images, and every eighth batch several tiles for each image."""
    if not torch.cuda.is_available():
        import cuda_cases
        import pytest

        cuda_cases.set_tiles(pytest.MonkeyPatch(), *(((8, 8), 2) if seed % 8 == 7 else ((32, 32), 1)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing was wrong."""
    options = options_of(argv)
    if "triton" in options.backend:
        prepare_cuda()
    torch.set_num_threads(1)
    try:
        record = Record.opened(options.record, options.backend, options.seed, options.num)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    start = time.monotonic()
    for seed, placed, wrong in run(range(options.seed + record.num_done, options.seed + options.num), *options.backend):
        if wrong:
            print(f"seed {seed}:", *wrong[:10], sep="\n    ", flush=True)
        record.add(seed, placed, wrong, hostile_inputs(seed))
        if time.monotonic() - start > options.seconds:
            break
    record.write(time.monotonic() - start)
    print(record.summary())
    if record.num_done < options.num and options.record is not None:
        print(f"{options.num - record.num_done} batches are missing; the same command resumes")
        return 3
    missing = record.missing() if options.record is not None else []
    if missing:
        print("no batch that pasted something used", ", ".join(missing))
    if too_few := record.num_pasted < options.pasted:
        print(f"expected at least {options.pasted} batches that paste something, got {record.num_pasted}")
    return 1 if record.failed or missing or too_few else 0


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--num", type=int, default=1000, metavar="N", help="batches, default: 1000")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch, default: 0; each next one's is 1 more")
    parser.add_argument(
        "--backend", choices=BACKENDS, default=["native"], nargs="+", help="to compare the native backend with"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="JSON file with counts; every option is demanded")
    parser.add_argument("--pasted", type=int, default=0, metavar="N", help="batches that must paste, default: 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after the batch of this time")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
