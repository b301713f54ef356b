"""Align pasted objects with the patches of a vision transformer.

A token that shows two objects has no right answer in a loss on tokens. Padding gives the canvas whole patches, and
aligned pastes put the edges of each pasted box on the patch grid.

    python examples/06_vit_patches.py
    python examples/06_vit_patches.py --patch 32
"""

# %%
import argparse
from pathlib import Path

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, BatchedDenseSample
from segpaste.augmentation import num_mixed_tokens
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--patch", type=int, default=16, help="side of a patch in pixels, default: 16")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## Padding
#
# `pad_to_multiple` pads to the right and below. The image goes on as in a mirror; maps are ignored there, and
# `padding_mask` is True.

# %%
scenes = SceneDataset(8, SceneConfig(height=250, width=330), seed=4, modalities=["instance"])
batch = BatchedDenseSample.from_samples([scenes[i] for i in range(len(scenes))]).to_padded(max_instances=24)
placement = {"paste_prob": 1.0, "grouping": "instance", "layers": 5, "scale_range": (0.5, 1.5), "max_attempts": 4}
free = BatchCopyPaste(BatchCopyPasteConfig(placement={**placement, "pad_to_multiple": args.patch}))
free_batch, free_report = free(batch, return_report=True)
print("canvas", batch.canvas_size, "becomes", free_batch.canvas_size)

# %% [markdown]
# ## Aligned pastes
#
# `patch_aligned_paste` with `align="instance"` scales the box of each object to whole patches and places it on the
# grid. A mask that does not fill its box still mixes tokens along its own edge.

# %%
aligned_placement = {**placement, "pad_to_multiple": args.patch, "patch_aligned_paste": True, "align": "instance"}
aligned = BatchCopyPaste(BatchCopyPasteConfig(placement=aligned_placement))
aligned_batch, aligned_report = aligned(batch, return_report=True)
for name, report in (("free", free_report), ("aligned", aligned_report)):
    mixed, placed = int(num_mixed_tokens(report.visible_layer, args.patch).sum()), int(report.num_placed.sum())
    print(f"{name:8}{placed:3} pastes, {mixed / placed:.1f} mixed tokens a paste")

# %% [markdown]
# ## The picture
#
# The first two images with the patch grid, without and with alignment.

# %%
rows = []
for b in range(2):
    views = []
    for data, report in ((free_batch, free_report), (aligned_batch, aligned_report)):
        pasted = (report.slot_layer[b] >= 0)[data.instance_valid[b]]
        view = draw_instances(data.to_batched().to_samples()[b], pasted=pasted, show_labels=False)
        view[:: args.patch], view[:, :: args.patch] = 255, 255
        views.append(view)
    rows.append(views)
picture = gallery_png(args.out / "06_vit_patches.png", rows, columns=("free", "aligned"), note="pasted objects")
print("picture", picture)
