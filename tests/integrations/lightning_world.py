"""Small trainings under Lightning, whichever of its names is in use, and what their steps saw."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kept_scenes import KeptScenes
from live_tensors import LiveTensors
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, CocoDetectionV2
from segpaste.augmentation import PlacementConfig
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.integrations._lightning import framework
from segpaste.integrations.lightning import CopyPasteCallback, CopyPasteDataModule
from segpaste.seeding import keys_of
from segpaste.types import PaddedBatchedDenseSample

SIZE = 48
FADING = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fade_last=0.75, fade_curve="linear"))


class Seen(NamedTuple):
    """Record of one training step.

    Attributes:
        seeds: of the samples of its batch.
        pixels: sum of the pasted images.
        paste_prob: of the schedule, for the batch.
        loss: of the step.
    """

    seeds: list[int]
    pixels: float
    paste_prob: float
    loss: float


class Training(framework.LightningModule):
    """A segmentation net of three convolutions that finds the pixels of any object."""

    def __init__(self, augment: Any = None, rate: float = 0.01) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, more in [(3, 16), (16, 16)]:
            layers += [nn.Conv2d(channels, more, 3, padding=1), nn.BatchNorm2d(more), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(16, 1, 1))
        self.seen: list[Seen] = []
        self.validated: list[tuple[int, PaddedBatchedDenseSample]] = []
        self.trained: list[PaddedBatchedDenseSample] = []
        self.samples: list[list[int]] = []
        self.alive: LiveTensors | None = None
        self.scheduled, self.rate = augment, rate

    def loss_of(self, batch: PaddedBatchedDenseSample) -> Tensor:
        assert batch.instance_masks is not None
        found = self.net(batch.images.float() / 255)
        return nn.functional.binary_cross_entropy_with_logits(found, batch.instance_masks.any(1, True).float())

    def training_step(self, batch: PaddedBatchedDenseSample, batch_idx: int) -> Tensor:
        loss = self.loss_of(batch)
        assert batch.sample_seeds is not None
        prob = -1.0 if self.scheduled is None else self.scheduled.schedule.paste_prob
        self.seen.append(Seen(batch.sample_seeds.tolist(), batch.images.double().sum().item(), prob, loss.item()))
        if batch.sample_keys is not None:
            self.samples.append([key.sample_idx for key in keys_of(batch.sample_keys)])
        self.trained = [*self.trained[:1], batch]  # the first and the last
        if self.alive is not None:
            self.alive.after_step()
        return loss

    def validation_step(self, batch: PaddedBatchedDenseSample, batch_idx: int) -> None:
        self.loss_of(batch)
        self.validated.append((batch_idx, batch))

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.rate)


def photos_of(folder: Path) -> Any:
    """Return the photos of tiny_coco or coco128_seg."""
    if folder.name == "tiny_coco":
        return CocoDetectionV2(folder / "val2017", folder / "annotations" / "instances_val2017.json")
    return open_dataset(folder)


def trainer(folder: Path, callbacks: list[Any], **options: Any) -> Any:
    """A trainer on the CPU that says nothing."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    where = {"accelerator": "cpu", "devices": 1, "default_root_dir": folder}
    saves = any("checkpoint" in type(callback).__name__.lower() for callback in callbacks)
    return framework.Trainer(**{**quiet, **where, "enable_checkpointing": saves, "callbacks": callbacks, **options})


@cache
def scenes(num: int = 14) -> SceneDataset:
    return KeptScenes(num, SceneConfig(height=SIZE, width=SIZE), seed=0, modalities=["image", "instance"])


def data_of(dataset: Any, num_workers: int = 0, **options: Any) -> CopyPasteDataModule:
    """Batches of two for training, and scenes for validation."""
    return CopyPasteDataModule(
        dataset, scenes(5), batch_size=2, size=SIZE, max_instances=24, num_workers=num_workers, **options
    )


def fit(
    folder: Path,
    data: Any,
    *,
    every: int = 0,
    resume: int = 0,
    config: BatchCopyPasteConfig = FADING,
    alive: LiveTensors | None = None,
    **options: Any,
) -> Training:
    """Train with pastes; save every so many steps into a folder, or resume from the checkpoint of a step there.

    The tensors that are alive are counted only where ``alive`` is given: it takes longer than the steps do.
    """
    torch.manual_seed(0)
    augment = BatchCopyPaste(config).eval()  # as some trainers leave a loaded model: the callback knows that it trains
    callbacks: list[Any] = [CopyPasteCallback(augment)]
    if every:
        saves = framework.callbacks.ModelCheckpoint
        callbacks.append(saves(folder / "saved", "{step}", every_n_train_steps=every, save_top_k=-1))
    model = Training(augment)
    model.alive = alive
    path = folder / "saved" / f"step={resume}.ckpt" if resume else None
    trainer(folder, callbacks, **options).fit(model, datamodule=data, ckpt_path=path)
    return model
