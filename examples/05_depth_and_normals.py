"""Paste into batches with metric depth and surface normals.

At each pixel the nearer surface is visible, so pasted objects hide and are hidden. Metric depth is corrected for the
focal lengths of the two cameras and for the size that an object is drawn at; normals are mirrored with their object.

    python examples/05_depth_and_normals.py
"""

# %%
import argparse
from pathlib import Path

from segpaste import BatchCopyPaste, get_preset
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.viz import before_after_sheet, png_bytes

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A batch with depth
#
# `depth` is in metres because `metric_depth` is True; each image then has a camera, (fx, fy, cx, cy) in pixels. Where
# `depth_valid` is False nothing was measured. Normals are unit vectors, x to the right, y down, z away from the
# camera. For files of other units and frames see `segpaste.datasets.convert_depth` and `convert_normals`.

# %%
config = SceneConfig(focal_frac_range=(0.6, 1.2), window_prob=0, mirror_prob=0)
batch = scene_batch(4, max_instances=24, config=config, seed=6)
print("metric:", batch.metric_depth, "| focal lengths:", [round(f) for f in batch.camera_intrinsics[:, 0].tolist()])

# %% [markdown]
# ## The paste
#
# The preset `depth_aware` gives each object a size and place of its own and sets `perspective_depth`: an object that
# is drawn twice as large is half as far away.

# %%
augment = BatchCopyPaste(get_preset("depth_aware").config)
augmented, report = augment(batch, return_report=True)
print(report)

# %% [markdown]
# ## How far away a pasted object is
#
# Its depth times the ratio of the focal lengths, over its scale. The median of what is seen agrees with it, up to
# what is hidden of an object.


# %%
def median_depth(data, b, slot):
    """Return the median depth of the object in a slot, metres."""
    seen = data.instance_masks[b, slot] & data.depth_valid[b, 0]
    return float(data.depth[b, 0][seen].median())


print("image  in its scene  focal ratio  scale  expected  pasted")
place, focal = report.placement, batch.camera_intrinsics[:, 0]
for b, slot in (report.slot_layer >= 0).nonzero().tolist():
    layer = report.slot_layer[b, slot]
    row, scale = place.source_idx[b, layer], float(place.scale_num[b, layer, 0] / place.scale_den[b, layer, 0])
    depth, ratio = median_depth(batch, row, report.slot_source[b, slot]), float(focal[b] / focal[row])
    values = depth, ratio, scale, depth * ratio / scale, median_depth(augmented, b, slot)
    print("{:5d}  {:10.2f} m  {:11.2f}  {:5.2f}  {:6.2f} m  {:4.2f} m".format(b, *values))

# %% [markdown]
# ## The picture
#
# The image with the most pastes, in all modalities. Both depth maps have one scale; hatched pixels are not valid.

# %%
b = int(report.num_placed.argmax())
before, after = batch.to_batched().to_samples()[b], augmented.to_batched().to_samples()[b]
pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
names = SceneDataset(1, config).class_names
picture = args.out / "05_depth_and_normals.png"
picture.parent.mkdir(parents=True, exist_ok=True)
picture.write_bytes(png_bytes(before_after_sheet(before, after, pasted, names, tile_px=256)))
print("picture", picture)
