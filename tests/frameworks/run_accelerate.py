"""Trainings under Accelerate in one of two processes, whose rank is given by variables of its launcher."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from runs_world import MID_STEPS, NUM_EPOCHS, STEPS, TORCH_RUNS, Model, Step, Written, make_loader, record
from torch import distributed
from torch.utils.data import DataLoader

from segpaste import BankSampler, open_bank
from segpaste.samplers import ExhaustiveNxMSampler


class Training:
    """Everything that a training script has except the loop.

    Args:
        variant: of the loader.
        folder: of the world.
        num_workers: of the loader.
        written: takes the records.
    """

    def __init__(self, variant: str, folder: Path, num_workers: int, written: Written) -> None:
        loader = make_loader(variant, folder, num_workers)
        self.accelerator = Accelerator(cpu=True)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        written.facts["is_the_same"] = self.loader is loader
        if not isinstance(loader, torch.utils.data.DataLoader):  # whose states Accelerate knows nothing of
            self.accelerator.register_for_checkpointing(loader)
        self.step, self.written, self.num_done = Step(variant), written, 0

    def on(self, item: Any) -> None:
        batch = self.step(item).to(self.accelerator.device)
        self.written.records.append(record(self.num_done, batch))
        self.optimizer.zero_grad()
        self.accelerator.backward(self.model(batch))
        self.optimizer.step()
        self.num_done += 1

    def run(self, checkpoint: Path | None = None) -> None:
        """Run the remaining epochs; with a checkpoint, save there in the middle of the second."""
        for epoch in range(self.num_done // STEPS, NUM_EPOCHS):
            self.loader.set_epoch(epoch)
            for item in self.loader:
                self.on(item)
                if checkpoint is not None and self.num_done == MID_STEPS:
                    self.accelerator.save_state(str(checkpoint))


def shard_twice(folder: Path, rank: int) -> None:
    """Hand plain DataLoaders with segpaste's samplers to ``prepare``, and read them with and without."""
    bank = open_bank(folder / "bank")
    labels = [i % 6 for i in range(48)]
    for name, make in {
        "nxm": lambda: DataLoader(labels, 4, sampler=ExhaustiveNxMSampler(labels, 2, 2)),  # type: ignore[arg-type]
        "nxm_batches": lambda: DataLoader(
            labels,  # type: ignore[arg-type]
            batch_sampler=ExhaustiveNxMSampler(labels, 2, 2).batch_sampler(),
        ),
        "bank": lambda: DataLoader(range(15), 3, sampler=BankSampler(bank, 12)),  # type: ignore[arg-type]
    }.items():
        with Written(folder, f"accelerate-left-out-{name}", rank) as written:
            written.facts["num_samples"] = sum(len(batch) for batch in make())
        for way, dispatches in {"prepared": False, "dispatched": True}.items():
            with Written(folder, f"accelerate-{way}-{name}", rank):
                accelerator = Accelerator(
                    cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatches)
                )
                if not dispatches or rank == 0:  # the others wait for the first
                    next(iter(accelerator.prepare(make())))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    for name, (variant, num_workers) in TORCH_RUNS.items():
        checkpoint = folder / "checkpoints" / name
        with Written(folder, f"accelerate-whole-{name}", rank) as written:
            Training(variant, folder, num_workers, written).run(checkpoint)
        with Written(folder, f"accelerate-resumed-{name}", rank) as written:
            training = Training(variant, folder, num_workers, written)
            training.accelerator.wait_for_everyone()
            training.accelerator.load_state(str(checkpoint))
            training.num_done = MID_STEPS
            training.run()
    shard_twice(folder, rank)
    distributed.destroy_process_group()
