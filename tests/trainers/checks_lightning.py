"""The adapter under the name ``lightning.pytorch``, beside ``pytorch_lightning``; run by `test_trainers`.

`tests/integrations` has the trainings under the other name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch  # before the adapter, which takes the name that is imported
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from trainer_data import SIZE, dataset_of

from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste
from segpaste.integrations.lightning import CopyPasteCallback, CopyPasteDataModule


class Training(lightning.pytorch.LightningModule):
    """A net of one convolution that finds the pixels of any object."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Conv2d(3, 1, 3, padding=1)
        self.losses: list[float] = []

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch.derived(images=batch.images.float() / 255)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        wanted = batch.instance_masks.any(1, True).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(self.net(batch.images), wanted)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def losses(folder: Path, path: Path | None = None) -> list[float]:
    """Train for twenty steps, or on from a checkpoint, and save every sixth."""
    torch.manual_seed(0)
    model = Training()
    save = ModelCheckpoint(folder, "{step}", every_n_train_steps=6, save_top_k=-1)
    quiet: Any = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.pytorch.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=20,
        callbacks=[CopyPasteCallback(BatchCopyPaste(EVERY_IMAGE)), save],
        **quiet,
    )
    loaders = CopyPasteDataModule(dataset_of("scenes"), batch_size=2, size=SIZE, max_instances=24)
    trainer.fit(model, datamodule=loaders, ckpt_path=path)
    return model.losses


def test_twenty_steps_twice_and_resumed(tmp_path: Path) -> None:
    whole = losses(tmp_path)
    assert len(whole) == 20
    assert torch.tensor(whole).isfinite().all()
    assert losses(tmp_path) == whole
    assert losses(tmp_path, tmp_path / "step=6.ckpt") == whole[6:]


def test_the_name_in_use_is_taken() -> None:
    """In a process that has imported one of them, and then neither."""
    code = """
import sys, pytorch_lightning
from segpaste.integrations import lightning
print(lightning.framework.__name__)
for name in [name for name in sys.modules if name.startswith(("pytorch_lightning", "segpaste.integrations"))]:
    del sys.modules[name]
from segpaste.integrations import lightning
print(lightning.framework.__name__)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split()[-2:] == ["pytorch_lightning", "lightning.pytorch"]
