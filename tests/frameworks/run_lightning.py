"""Trainings by Lightning on two ranks. Lightning starts the second process from the first.

Usage: run_lightning.py FOLDER whole | resumed
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy
from runs_world import (
    BATCH_SIZE,
    CONTAINERS,
    LIGHTNING_RUNS,
    NUM_EPOCHS,
    LightningRun,
    Model,
    Step,
    Written,
    make_early,
    make_loader,
    record,
)
from torch import Tensor
from torch.utils.data import DataLoader

from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import BatchedDenseSample, DenseSample


class Training(lightning.LightningModule):
    """Writes what its steps see."""

    def __init__(self, run: LightningRun, folder: Path) -> None:
        super().__init__()
        self.model, self.step, self.own_run, self.folder = Model(), Step(run.variant), run, folder
        self.written: Written | None = None

    def training_step(self, item: Any, batch_idx: int) -> Tensor:
        batch = self.step(item)
        assert self.written is not None
        self.written.records.append(record(self.global_step, batch))
        loss: Tensor = self.model(batch)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class TrainingWithLoader(Training):
    def train_dataloader(self) -> Any:
        return make_loader(self.own_run.variant, self.folder, self.own_run.num_workers)


class Containers(lightning.LightningModule):
    """Takes lists of samples or ragged batches, as Lightning moved them, and augments them."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.model, self.augment, self.written = Model(), BatchCopyPaste(EVERY_IMAGE), written

    def training_step(self, batch: list[DenseSample] | BatchedDenseSample, batch_idx: int) -> Tensor:
        ragged = batch if isinstance(batch, BatchedDenseSample) else BatchedDenseSample.from_samples(batch)
        self.written.facts["type"] = type(batch).__name__
        self.written.facts["item"] = type(batch[0]).__name__ if isinstance(batch, list) else None
        padded = ragged.to_padded(64, sample_seeds=torch.arange(BATCH_SIZE))
        loss: Tensor = self.model(self.augment(padded))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(folder: Path, max_epochs: int, callbacks: list[Any]) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=120)),
        max_epochs=max_epochs,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def train(name: str, module: Training, loader: Any, folder: Path, resumed: bool) -> None:
    checkpoints = folder / "checkpoints" / name
    saves = ModelCheckpoint(checkpoints, "{step}", every_n_train_steps=module.own_run.resumes_at, save_top_k=-1)
    made = trainer(folder, NUM_EPOCHS, [] if resumed else [saves])
    with Written(folder, f"lightning-{sys.argv[2]}-{name}", made.global_rank) as module.written:
        if isinstance(loader, Exception):
            raise loader  # the early one failed
        path = checkpoints / f"step={module.own_run.resumes_at}.ckpt" if resumed else None
        made.fit(module, loader, ckpt_path=path)


def main(folder: Path, phase: str) -> None:
    torch.set_num_threads(1)
    loaders = {
        name: None if run.inside else make_early(run.variant, folder, run.num_workers)
        for name, run in LIGHTNING_RUNS.items()
    }
    modules = {
        name: (TrainingWithLoader if run.inside else Training)(run, folder) for name, run in LIGHTNING_RUNS.items()
    }
    for name, module in modules.items():
        train(name, module, loaders[name], folder, phase == "resumed")
    if phase == "resumed":
        return
    scenes = SceneDataset(8, SceneConfig(height=48, width=48), modalities=["image", "instance"])
    for name, collate in CONTAINERS.items():
        made = trainer(folder, 1, [])
        with Written(folder, f"lightning-{name}", made.global_rank) as written:
            made.fit(Containers(written), DataLoader(scenes, BATCH_SIZE, collate_fn=collate))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
