"""Open a COCO, YOLO or Roboflow folder and load batches with pasted objects.

The loader reads photos, jitters their scale, stacks them to batches of one size, and pastes. Without an argument a
small COCO folder of rendered scenes is written first, so that there is something to read.

    python examples/02_own_dataset.py
    python examples/02_own_dataset.py data.yaml
    python examples/02_own_dataset.py roboflow_export
    python examples/02_own_dataset.py instances.json --images photos
"""

# %%
import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image
from pycocotools import mask as coco_masks

from segpaste import BatchCopyPaste, create_coco_dataloader, get_preset
from segpaste.augmentation import PasteSummary
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneDataset
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder, data.yaml or COCO file; by default scenes are written and read")
parser.add_argument("--images", help="the folder of the photos, with a COCO file")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A COCO folder
#
# `images/` and `annotations.json`: this is what is read below. With a dataset of your own you can skip this part.

# %%


def write_coco(scenes: SceneDataset, folder: Path) -> Path:
    """Write scenes as photos and COCO annotations with run-length masks; return the folder."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for i in range(len(scenes)):
        sample = scenes[i]
        height, width = sample.canvas_size
        images.append({"id": i, "file_name": f"{i}.png", "height": height, "width": width})
        Image.fromarray(sample.image.permute(1, 2, 0).numpy()).save(folder / "images" / f"{i}.png")
        for mask, label in zip(sample.instance_masks.numpy(), sample.labels.tolist(), strict=True):
            run_lengths = coco_masks.encode(np.asfortranarray(mask))
            segmentation = {**run_lengths, "counts": run_lengths["counts"].decode()}
            box = coco_masks.toBbox(run_lengths).tolist()
            row = {"id": len(annotations) + 1, "image_id": i, "category_id": label, "iscrowd": 0}
            annotations.append({**row, "bbox": box, "area": int(mask.sum()), "segmentation": segmentation})
    categories = [{"id": c, "name": name} for c, name in enumerate(scenes.config.thing_names)]
    tables = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(tables))
    return folder


path = args.data or write_coco(SceneDataset(num_scenes=8, seed=0), args.out / "scenes_coco")

# %% [markdown]
# ## The dataset and its loader
#
# `open_dataset` finds out what lies at the path, and opens the split to train on. The loader resizes each photo by a
# random factor and cuts or pads it to one size. Its batches are padded, so the augmentation takes them as they are.
# The preset pastes up to ten objects of another image. Reports add up.

# %%
dataset = open_dataset(path, images_dir=args.images)
print(type(dataset).__name__, "with", len(dataset), "photos of", len(dataset.class_names), "classes")
loader = create_coco_dataloader(dataset=dataset, batch_size=4, size=256, scale_range=(0.8, 1.25), max_instances=32)
augment = BatchCopyPaste(get_preset("simple_copy_paste").config)
summary = 0
for batch in loader:
    augmented, report = augment(batch, return_report=True)
    summary = PasteSummary.of(report) + summary
print("an epoch:", summary)

# %% [markdown]
# ## The picture
#
# The last batch, with an outline around pasted objects. Padding is black.

# %%
views = []
for b, sample in enumerate(augmented.to_batched().to_samples()):
    pasted = (report.slot_layer[b] >= 0)[augmented.instance_valid[b]]
    views.append(draw_instances(sample, class_names=dataset.class_names, pasted=pasted))
picture = gallery_png(args.out / "02_own_dataset.png", [views], note="pasted objects")
print("picture", picture)
