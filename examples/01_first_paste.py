"""Paste objects between the images of a batch.

Four rendered scenes are stacked to a batch, objects of each are pasted into the others, and a report says what became
of every try. Scenes stand for any dataset of `DenseSample`s of one size.

    python examples/01_first_paste.py
    python examples/01_first_paste.py --out pictures
"""

# %%
import argparse
from pathlib import Path

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, BatchedDenseSample
from segpaste.datasets.scenes import SceneDataset
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A batch
#
# A sample is one image with its labels. `to_padded` gives every image the same number of instance slots, so that the
# batch has fixed shapes. Leave room for pastes: each needs a free slot.

# %%
scenes = SceneDataset(num_scenes=4, seed=0)
samples = [scenes[i] for i in range(len(scenes))]
batch = BatchedDenseSample.from_samples(samples).to_padded(max_instances=24)
print("images", list(batch.images.shape), "with", ", ".join(sorted(m.value for m in batch.modalities)))

# %% [markdown]
# ## The paste
#
# Instance masks say what can be pasted. All other fields of the batch follow: boxes, labels, maps, depth, normals.
# The input stays as it is. With `grouping="instance"` each of up to four objects has a size and a place of its own;
# without it, objects of one image are moved as a group. Scenes have depth, so a target that is nearer stays in front.
# By default half of the images get no paste; with `paste_prob` 1 all of them get one.

# %%
placement = {"grouping": "instance", "layers": 4, "k_range": (2, 4), "scale_range": (0.5, 1.2), "max_attempts": 8}
placement |= {"paste_prob": 1.0}
augment = BatchCopyPaste(BatchCopyPasteConfig(placement=placement))
augmented, report = augment(batch, return_report=True)
print("placed", int(report.num_placed.sum()), "of", int(report.num_tried.sum()), "objects:", report)

# %% [markdown]
# ## The picture
#
# Each row is an image before and after. Slots whose `slot_layer` is not negative hold pasted objects, which get a
# bright outline.

# %%
names, rows = scenes.class_names, []
for b, after in enumerate(augmented.to_batched().to_samples()):
    pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
    views = draw_instances(samples[b], class_names=names), draw_instances(after, class_names=names, pasted=pasted)
    rows.append(views)
picture = gallery_png(args.out / "01_first_paste.png", rows, columns=("before", "after"), note="pasted objects")
print("picture", picture)
