"""Paste things into panoptic batches, with ids, classes and masks that stay consistent.

A taxonomy says which classes are things and which are stuff. With one, only things are pasted, every pasted thing
gets a fresh id, and no stuff class is wiped out. The invariants of the package check the result.

    python examples/04_panoptic.py
    python examples/04_panoptic.py panoptic.json --images photos
"""

# %%
import argparse
from pathlib import Path

from segpaste import BatchCopyPaste, create_coco_dataloader, get_preset
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneDataset
from segpaste.invariants import Case, applicable, violations
from segpaste.viz import before_after_sheet, png_bytes

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="COCO panoptic segments in JSON; by default scenes")
parser.add_argument("--images", help="the folder of the photos, with `data`")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## The taxonomy
#
# It belongs to the dataset and is never guessed from a batch: a batch without a single wall says nothing about walls.

# %%
dataset = (
    open_dataset(args.data, images_dir=args.images) if args.data else SceneDataset(4, seed=5, modalities=["panoptic"])
)
kinds = list(dataset.schema.classes.values())
print(kinds.count("thing"), "thing classes and", kinds.count("stuff"), "stuff classes")

# %% [markdown]
# ## The paste
#
# The preset `panoptic_lsj` pastes up to eight things of two other images. Stuff of which less than a tenth would be
# left gets its pixels back; these pastes are counted as `reverted`.

# %%
loader = create_coco_dataloader(dataset=dataset, batch_size=4, size=256, scale_range=(0.8, 1.25), max_instances=64)
batch = next(iter(loader))
augment = BatchCopyPaste(get_preset("panoptic_lsj").config_for(dataset.schema))
augmented, report = augment(batch, return_report=True)
print(report)

# %% [markdown]
# ## What holds afterwards
#
# Each invariant computes from first principles what must be true. They read every pixel several times, so use them in
# tests and where something looks wrong, not in each step.

# %%
case = Case(batch, augmented, report, augment.config)
print("violations:", violations(case) or f"none of {len(applicable(case))} invariants")
for b in range(2):
    things = augmented.panoptic_maps[b].unique()
    rows = augmented.instance_ids[b][augmented.instance_valid[b]]
    print(f"image {b}: ids in the map {things[things > 0].tolist()}, ids of the rows {sorted(rows.tolist())}")

# %% [markdown]
# ## The picture
#
# The image with the most pastes, before and after.

# %%
b = int(report.num_placed.argmax())
before, after = batch.to_batched().to_samples()[b], augmented.to_batched().to_samples()[b]
pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
picture = args.out / "04_panoptic.png"
picture.parent.mkdir(parents=True, exist_ok=True)
picture.write_bytes(png_bytes(before_after_sheet(before, after, pasted, dataset.class_names, tile_px=256)))
print("picture", picture)
