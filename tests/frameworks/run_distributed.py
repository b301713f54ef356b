"""Trainings with DistributedDataParallel and FSDP, then under Accelerate: one of two processes.

It finds its place in the variables of torchrun. To start two processes more for Accelerate would cost twice as much.

Usage: run_distributed.py FOLDER
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import run_accelerate
import run_apart
import run_sharded
import torch
from runs_world import MID_STEPS, NUM_EPOCHS, STEPS, TORCH_RUNS, Model, Step, Written, make_early, make_loader, record
from torch import distributed
from torch.nn.parallel import DistributedDataParallel


class Training:
    """A model of two processes, and what its steps see.

    Args:
        variant: of the loader.
        written: takes the records.
        num_done: steps before this run.
    """

    def __init__(self, variant: str, written: Written, num_done: int = 0) -> None:
        self.model = DistributedDataParallel(Model())
        self.step, self.written, self.num_done = Step(variant), written, num_done
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def on(self, item: Any) -> None:
        batch = self.step(item)
        self.written.records.append(record(self.num_done, batch))
        self.optimizer.zero_grad()
        self.model(batch).backward()
        self.optimizer.step()
        self.num_done += 1


def train_whole(loader: Any, training: Training, checkpoint: Path) -> None:
    """All epochs; rank 0 saves the loader's state in the middle of the second."""
    if isinstance(loader, Exception):
        raise loader  # the early one failed
    for epoch in range(NUM_EPOCHS):
        loader.set_epoch(epoch)
        for item in loader:
            training.on(item)
            if training.num_done == MID_STEPS:
                state = loader.state_dict()
                if distributed.get_rank() == 0:
                    checkpoint.parent.mkdir(exist_ok=True)
                    torch.save(state, checkpoint)


def train_resumed(loader: Any, training: Training, checkpoint: Path) -> None:
    """Train the remaining epochs; every rank loads the state of rank 0."""
    loader.load_state_dict(torch.load(checkpoint, weights_only=True))
    for epoch in range(training.num_done // STEPS, NUM_EPOCHS):
        loader.set_epoch(epoch)
        for item in loader:
            training.on(item)


def train_without_epochs(loader: Any, training: Training) -> None:
    """Train as many passes as epochs, without setting an epoch."""
    for _ in range(NUM_EPOCHS):
        for item in loader:
            training.on(item)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    loaders = {name: make_early(run.variant, folder, run.num_workers) for name, run in TORCH_RUNS.items()}
    for name, loader in loaders.items():
        with Written(folder, f"too-early-{name}", rank):
            next(iter(loader))
    distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
    for name, (variant, num_workers) in TORCH_RUNS.items():
        checkpoint = folder / "checkpoints" / f"{name}.pt"
        with Written(folder, f"ddp-whole-{name}", rank) as written:
            train_whole(loaders[name], Training(variant, written), checkpoint)
        distributed.barrier()
        with Written(folder, f"ddp-resumed-{name}", rank) as written:
            train_resumed(make_loader(variant, folder, num_workers), Training(variant, written, MID_STEPS), checkpoint)
        with Written(folder, f"ddp-repeated-{name}", rank) as written:
            train_without_epochs(make_loader(variant, folder, num_workers), Training(variant, written))
    run_apart.main(folder, rank)
    run_sharded.main(folder, rank)
    distributed.destroy_process_group()
    os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    run_accelerate.main(folder)  # makes a process group of its own


if __name__ == "__main__":
    main(Path(sys.argv[1]))
