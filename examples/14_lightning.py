"""Train under Lightning: a DataModule that resumes in the middle of an epoch, and a callback that pastes.

The callback pastes into training batches on the trainer's device and leaves validation alone. The checkpoint holds the
place in the epoch and the schedule of the augmentation.

    python examples/14_lightning.py
    python examples/14_lightning.py data.yaml --steps 1000
"""

# %%
import argparse
from pathlib import Path

import pytorch_lightning as lightning
import torch
from torch import nn

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import PlacementConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.integrations.lightning import CopyPasteCallback, CopyPasteDataModule
from segpaste.viz import show

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml; by default scenes")
parser.add_argument("--steps", type=int, default=12, help="training steps, default: 12")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## The model
#
# Any LightningModule whose steps take a padded batch. This one finds the pixels that belong to an object.

# %%


class Segmentation(lightning.LightningModule):
    """Three convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
        )
        self.losses: list[float] = []
        self.last: PaddedBatchedDenseSample | None = None

    def training_step(self, batch: PaddedBatchedDenseSample, batch_idx: int) -> torch.Tensor:
        """Return the loss of a pasted batch."""
        objects = batch.instance_masks.any(1, keepdim=True).float()
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(batch.images / 255), objects)
        self.losses.append(loss.item())
        self.last = batch
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), 1e-2)


# %% [markdown]
# ## Training
#
# In the last quarter of the training the probability of a paste falls to zero. The callback sets the progress.

# %%
torch.manual_seed(0)
scenes = SceneDataset(16, SceneConfig(height=128, width=128), modalities=["image", "instance"])
data = CopyPasteDataModule(args.data or scenes, batch_size=4, size=128, max_instances=32, scale_range=(0.8, 1.2))
augment = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(fade_last=0.25, fade_curve="linear")))
model = Segmentation()
trainer = lightning.Trainer(
    accelerator="cpu",
    max_steps=args.steps,
    callbacks=[CopyPasteCallback(augment)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(model, datamodule=data)
print("losses", ", ".join(f"{loss:.2f}" for loss in model.losses[:6]))
print(f"probability of a paste in the last step: {augment.schedule.paste_prob:.2f}")

# %% [markdown]
# ## The picture
#
# `show` draws the last batch as the training step got it.

# %%
picture = args.out / "14_lightning.png"
show(model.last, path=picture)
print("picture", picture)
