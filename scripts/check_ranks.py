#!/usr/bin/env python3
"""Train in two processes that augment on their own devices: NCCL with two GPUs, otherwise gloo.

Each process pastes its own batches on its device, before that is the current one, and compares them with the native
backend on the CPU. Then it trains a DistributedDataParallel model that contains the augmentation, whose schedule
differs between the ranks: gradients must be the same on both, and no schedule may be overwritten.

    python scripts/check_ranks.py
    python scripts/check_ranks.py --device cpu

Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import device_cases
import torch
from device_cases import LARGE, SMALL
from hostile_batches import differences
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from segpaste import BatchCopyPaste, PaddedBatchedDenseSample
from segpaste.engine import use_backend

WORLD_SIZE = 2
SECONDS = 120
"""After which a process that waits for the other gives up."""

PROBABILITIES = (0.25, 0.75)
"""Of a paste, on each rank."""

CASE = "rounds of removal"
"""Its contact priorities are tables of int16, which no backend may need to broadcast."""


class Augmented(nn.Module):
    """A convolution with a norm, whose buffers are broadcast, on augmented images."""

    def __init__(self, augment: BatchCopyPaste) -> None:
        super().__init__()
        self.augment = augment
        self.head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

    def forward(self, batch: PaddedBatchedDenseSample) -> Tensor:
        """Return the mean over all pixels."""
        out: Tensor = self.head(self.augment(batch).images.float() / 255).mean()
        return out


def run_rank(rank: int, meet: str, kind: str) -> int:
    """Check one process; print what is wrong."""
    device, backend = _place(rank, kind)
    torch.manual_seed(0)
    with use_backend("native" if device.type == "cpu" else "triton"):
        wrong = list(_pasted(rank, device))
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group(
            backend, init_method=meet, rank=rank, world_size=WORLD_SIZE, timeout=timedelta(seconds=SECONDS)
        )
        wrong += _trained(rank, device)
        distributed.destroy_process_group()
    note = "" if device.type == "cuda" else "; pastes of native code were not compared with another backend"
    lines = [f"rank {rank} on {device} by {backend}: {'differs' if wrong else 'fine'}{note}", *wrong]
    sys.stdout.write("\n    ".join(lines) + "\n")  # whole: both processes write here
    return 1 if wrong else 0


def _place(rank: int, kind: str) -> tuple[torch.device, str]:
    """Return the device of a rank, and the backend that connects all of them."""
    num_cards = torch.cuda.device_count() if kind == "cuda" else 0
    device = torch.device("cuda", rank % num_cards) if num_cards else torch.device("cpu")
    return device, "nccl" if num_cards >= WORLD_SIZE else "gloo"


def _pasted(rank: int, device: torch.device) -> Iterator[str]:
    """Paste batches of this rank on its device, and yield what differs from the CPU."""
    size = LARGE if device.type == "cuda" else SMALL
    for name, case in device_cases.cases(size).items():
        batch, staged = case.made(size, seed=10 + rank)
        with use_backend("native"):
            expected = device_cases.forward(BatchCopyPaste(case.config), batch, staged)
        moved = None if staged is None else staged.to(device)
        found = device_cases.forward(BatchCopyPaste(case.config).to(device), batch.to(device), moved)
        yield from (
            f"{name}: {field} differs from native" for field in differences(expected, device_cases.on_cpu(found))
        )


def _trained(rank: int, device: torch.device) -> Iterator[str]:
    """Train two steps, and yield what of the ranks does not agree."""
    case = device_cases.cases(SMALL)[CASE]
    augmented = Augmented(BatchCopyPaste(case.config)).to(device)
    augmented.augment.schedule.set(paste_prob=PROBABILITIES[rank])
    model = DistributedDataParallel(augmented)
    for step in range(2):
        model(case.made(SMALL, seed=10 * rank + step)[0].to(device)).backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        most, least = gradients.clone(), gradients.clone()
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        distributed.all_reduce(least, distributed.ReduceOp.MIN)
        if not torch.equal(most, least):
            yield f"step {step}: the gradients of the ranks differ by {(most - least).max()}"
        if not gradients.abs().max() > 0:
            yield f"step {step}: the gradients are zero"
    if (found := augmented.augment.schedule.paste_prob) != PROBABILITIES[rank]:
        yield f"expected paste_prob {PROBABILITIES[rank]} on rank {rank}, got {found}"


def main(argv: Sequence[str] | None = None) -> int:
    """Start both processes; 0 if nothing differs."""
    options = options_of(argv)
    torch.set_num_threads(1)
    if options.rank is not None:
        return run_rank(options.rank, options.meet, options.device)
    with tempfile.TemporaryDirectory() as folder:
        meet = f"file://{Path(folder) / 'meet'}"
        command = [sys.executable, __file__, "--device", options.device, "--meet", meet, "--rank"]
        ranks = [subprocess.Popen([*command, str(rank)]) for rank in range(WORLD_SIZE)]
        return max([1 if rank.wait() else 0 for rank in ranks])


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a CUDA device, torch sees none; --device cpu runs on the CPU")
    return options


if __name__ == "__main__":
    sys.exit(main())
