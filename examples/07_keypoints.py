"""Paste objects with keypoints, whose visibility stays true.

Keypoints move with their object. A point that is pasted over is no longer visible, and in a mirrored object left and
right points swap. Here the points are the corners of boxes; the joints of people work in the same way.

    python examples/07_keypoints.py
"""

# %%
import argparse
from pathlib import Path

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import scene_batch
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A batch with keypoints
#
# `keypoints` is [B, K, P, 3]: x and y in pixels, and v, which is 0 for a point without a label, 1 for a hidden one
# and 2 for a visible one. The schema names the points and says which swap in a mirror. Readers of COCO and YOLO files
# give both.

# %%
batch = scene_batch(4, max_instances=24, seed=2, keypoints=True)
schema = batch.keypoint_schema
print(len(schema.names), "points:", ", ".join(schema.names[:3]), "...")
print("swapped in a mirror:", " | ".join(f"{schema.names[i]} and {schema.names[j]}" for i, j in schema.flip_pairs[:2]))

# %% [markdown]
# ## The paste
#
# Depth is left out with `emit_depth=False`, so that pastes lie in front of everything.

# %%
placement = {"paste_prob": 1.0, "grouping": "instance", "layers": 4, "scale_range": (0.7, 1.2), "max_attempts": 2}
augment = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, emit_depth=False))
augmented, report = augment(batch, return_report=True)
is_pasted = report.slot_layer >= 0
survivors = augmented.instance_valid & ~is_pasted
was_visible = batch.keypoints[survivors][..., 2] == 2
hidden = was_visible & (augmented.keypoints[survivors][..., 2] == 1)
print("survivors:", int(hidden.sum()), "of", int(was_visible.sum()), "visible points are hidden by a paste")
print(
    "pasted objects:",
    int(is_pasted.sum()),
    "with",
    int((augmented.keypoints[is_pasted][..., 2] == 2).sum()),
    "visible points",
)

# %% [markdown]
# ## The picture
#
# A disc is a visible point, a ring any other that has a label.

# %%
rows = []
for before, after, b in zip(
    batch.to_batched().to_samples(), augmented.to_batched().to_samples(), range(2), strict=False
):
    pasted = is_pasted[b][augmented.instance_valid[b]]
    rows.append([draw_instances(before, show_labels=False), draw_instances(after, pasted=pasted, show_labels=False)])
picture = gallery_png(args.out / "07_keypoints.png", rows, columns=("before", "after"), note="pasted objects")
print("picture", picture)
