"""Build batches of N classes and M images of each from a long-tailed dataset.

Copy-paste takes its objects from the other images of a batch, and losses that compare samples need several of each
class. A plain shuffled batch of a long tail has mostly the common classes; these batches always have N of them.

    python examples/08_class_batches.py
    python examples/08_class_batches.py data.yaml
"""

# %%
import argparse
from pathlib import Path

import numpy as np

from segpaste import BatchCopyPaste, ExhaustiveNxMSampler, create_coco_dataloader
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.samplers import rarest_labels
from segpaste.seeding import keys_of
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml; by default scenes")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## The class of an image
#
# An image with several objects counts as its rarest class. Datasets of files say which labels a photo has without
# reading it.

# %%
if args.data:
    dataset = open_dataset(args.data)
    labels, class_names = map(dataset.instance_labels, range(len(dataset))), dataset.class_names
else:
    config = SceneConfig(height=192, width=192, num_objects_range=(1, 3), long_tail=1.2, rays_per_px=1)
    dataset = SceneDataset(48, config, seed=0, modalities=["instance"])
    labels, class_names = (dataset[i].labels.tolist() for i in range(len(dataset))), config.thing_names
classes = rarest_labels(labels)
for label, count in zip(*np.unique(classes, return_counts=True), strict=True):
    print(f"{class_names[label] if label >= 0 else 'no object':20}{count:3} images")

# %% [markdown]
# ## The sampler
#
# `ExhaustiveNxMSampler` goes through all samples, M of a class at a time, as long as N classes have samples left;
# `RandomNxMSampler` takes every class once an epoch. The report says what an epoch covers.

# %%
sampler = ExhaustiveNxMSampler(classes, N_classes_per_batch=3, M_samples_per_class=2)
print(sampler.report())

# %% [markdown]
# ## The loader
#
# Images of one batch paste from one another, so rare classes are pasted as often as common ones. `set_epoch` sets the
# sampler's epoch too.

# %%
loader = create_coco_dataloader(
    dataset=dataset, batch_size=6, size=192, scale_range=(0.8, 1.2), max_instances=32, sampler=sampler
)
augment = BatchCopyPaste()
loader.set_epoch(0)
for batch in loader:
    augmented, report = augment(batch, return_report=True)
    num_classes = len({classes[key.sample_idx] for key in keys_of(batch.sample_keys)})
    print("batch of", num_classes, "classes,", int(report.num_placed.sum()), "objects pasted")

# %% [markdown]
# ## The picture
#
# The last batch, with an outline around pasted objects.

# %%
views = []
for b, sample in enumerate(augmented.to_batched().to_samples()):
    pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
    views.append(draw_instances(sample, class_names=class_names, pasted=pasted))
picture = gallery_png(args.out / "08_class_batches.png", [views[:3], views[3:]], note="pasted objects")
print("picture", picture)
