"""Paste into batches of one image: objects come from the whole dataset, rare classes as often as common ones.

No bank is built: objects are cut out of their images when they are drawn. Half of the images of each batch stay as they
are.

    python examples/15_small_batches.py
    python examples/15_small_batches.py data.yaml
"""

# %%
import argparse
from collections import Counter
from pathlib import Path

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import DatasetBank
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering, open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.viz import show

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml with instance masks; by default scenes")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## Where the objects come from
#
# `DatasetBank` lists all objects of the dataset. `fit_into` is the size of the loader's images: objects shrink with
# their image. `balance` says how their classes are drawn, and what to expect of an epoch is printed before its first
# batch. With `create_bank_dataloader` workers would cut the objects out.

# %%
config = SceneConfig(height=160, width=160, num_classes=6, long_tail=1.5)
scenes = SceneDataset(12, config, seed=3, modalities=["image", "instance"])
dataset = open_dataset(args.data) if args.data else scenes
pool = DatasetBank(dataset, fit_into=(160, 160), crop_size=(160, 160))


def loader_of(batch_size: int) -> EpochDataLoader:
    """Return a loader of images of one size; every new one begins with the same epoch."""
    jitter = make_large_scale_jittering((160, 160), scale_range=(0.8, 1.2))
    return EpochDataLoader(dataset, batch_size=batch_size, max_instances=40, jitter=jitter, base_seed=1)


batches = BatchCopyPaste.from_dataloader(
    loader_of(1),
    max_instances=40,
    config=BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=4)),
    source_pool=pool,
    balance="class_uniform",
)

# %% [markdown]
# ## What an epoch has

# %%
own, pasted = Counter(), Counter()
for plain, augmented in zip(loader_of(1), batches, strict=True):
    own.update(plain.labels[plain.instance_valid].tolist())
    pasted.update(augmented.labels[augmented.instance_valid].tolist())
for label, name in enumerate(dataset.class_names):
    if own[label] or pasted[label]:
        print(f"{name:20} {own[label]:4} objects, {pasted[label]:4} after the paste")

# %% [markdown]
# ## A fixed share of pasted images
#
# With `fixed_share`, two of the four images of every batch are pasted into, never none or all.

# %%
half = PlacementConfig(paste_prob=0.5, fixed_share=True)
augment = BatchCopyPaste(
    BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=4), placement=half), source_pool=pool
)
for number, batch in zip(range(3), loader_of(4), strict=False):
    augmented, report = augment(batch, return_report=True)
    print(f"batch {number}: {int((report.num_tried > 0).sum())} of {batch.batch_size} images are pasted into")

picture = args.out / "15_small_batches.png"
show(augmented, pasted=report.slot_layer >= 0, class_names=dataset.class_names, path=picture)
print("picture", picture)
