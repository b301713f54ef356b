"""Draw rare classes more often, from a bank of all objects of a dataset.

A bank holds the objects of a dataset, cut out once. Each training step draws classes first, then an object of each,
whatever else is in the batch. The report says what to expect before training; the counts afterwards agree with it.

    python examples/03_rare_classes.py
    python examples/03_rare_classes.py data.yaml
"""

# %%
import argparse
import tempfile
from pathlib import Path

import torch

from segpaste import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    create_bank_dataloader,
    create_coco_dataloader,
    open_bank,
)
from segpaste.bank import build_bank, zip_loaders
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml with instance masks; by default scenes")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A dataset with a long tail
#
# A bank is built from any dataset that can name its images and annotations: those of `open_dataset`, scenes, and any
# other that has the methods of `segpaste.bank.Photos`.

# %%
long_tail = SceneConfig(height=192, width=192, num_classes=6, long_tail=1.5, rays_per_px=1)
dataset = (
    open_dataset(args.data) if args.data else SceneDataset(32, long_tail, seed=3, modalities=["image", "instance"])
)
class_names = dataset.class_names if args.data else long_tail.thing_names

# %% [markdown]
# ## The bank, and what will be drawn
#
# `class_uniform` draws every class that has crops as often as the others. A high factor on few crops means that these
# very crops are seen again and again, so look at that column too. `fit_into` is the size of the loader's images:
# objects shrink with their image, so that pastes are as large as the other objects.

# %%
folder = tempfile.TemporaryDirectory()
summary = build_bank(
    dataset, f"{folder.name}/objects", class_names=class_names, crop_size=(96, 96), fit_into=(192, 192)
)
print(summary.num_crops, "crops;", {reason: num for reason, num in summary.skipped.items() if num})
bank = open_bank(summary.where)

targets = create_coco_dataloader(dataset=dataset, batch_size=8, size=192, scale_range=(0.8, 1.2), max_instances=32)
crops = create_bank_dataloader(bank, batch_size=8, crops_per_target=4, steps=len(targets), mode="class_uniform")
print(crops.report())

# %% [markdown]
# ## Training
#
# `zip_loaders` walks through both loaders. Each staged crop is placed by itself; the step of a model stands where the
# objects are counted here. Every image gets its crops (`paste_prob` 1); by default half of the images get none.

# %%
placement = {"paste_prob": 1.0, "scale_range": (0.5, 1.0), "max_attempts": 8}
augment = BatchCopyPaste(BatchCopyPasteConfig(source={"kind": "bank", "crops_per_target": 4}, placement=placement))
before, after = torch.zeros(2, len(class_names), dtype=torch.int64)
for batch, staged in zip_loaders(targets, crops):
    augmented, report = augment(batch, staged=staged, return_report=True)
    before += batch.labels[batch.instance_valid].bincount(minlength=len(class_names))
    after += augmented.labels[augmented.instance_valid].bincount(minlength=len(class_names))

print("class              in the photos  drawn  after the paste")
for name, *counts in zip(class_names, before.tolist(), crops.stats.num_drawn, after.tolist(), strict=True):
    print("{:18} {:13d} {:6d} {:16d}".format(name, *counts))

# %% [markdown]
# ## The picture
#
# The last batch, with an outline around pasted crops.

# %%
views = []
for b, sample in enumerate(augmented.to_batched().to_samples()):
    pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
    views.append(draw_instances(sample, class_names=class_names, pasted=pasted))
picture = gallery_png(args.out / "03_rare_classes.png", [views[:4], views[4:]], note="pasted objects")
folder.cleanup()
print("picture", picture)
