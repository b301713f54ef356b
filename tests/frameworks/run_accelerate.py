"""Trainings under Accelerate in one of two processes, which it tells its place by variables of its launcher."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from runs_world import MID_STEPS, NUM_EPOCHS, STEPS, TORCH_RUNS, Model, Step, Written, make_loader, record
from torch import distributed


class Training:
    """What a training script has: all but the loop.

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
        """The epochs that are left; with a checkpoint, save there in the middle of the second."""
        for epoch in range(self.num_done // STEPS, NUM_EPOCHS):
            self.loader.set_epoch(epoch)
            for item in self.loader:
                self.on(item)
                if checkpoint is not None and self.num_done == MID_STEPS:
                    self.accelerator.save_state(str(checkpoint))


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
    distributed.destroy_process_group()
