"""Train torchvision's Mask R-CNN on pasted batches.

`to_detection` makes the lists of images and targets that torchvision's detection models take. The weights here are
random and the images small, so that it runs in seconds on a CPU.

    python examples/11_torchvision_mask_rcnn.py
    python examples/11_torchvision_mask_rcnn.py data.yaml --steps 1000
"""

# %%
import argparse
from itertools import islice
from pathlib import Path

import torch
from torchvision.models.detection import maskrcnn_resnet50_fpn

from segpaste import BatchCopyPaste, create_coco_dataloader
from segpaste.datasets import open_dataset
from segpaste.datasets.scenes import SceneDataset
from segpaste.integrations.torchvision import to_detection
from segpaste.viz import draw_instances, gallery_png

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data", nargs="?", help="a folder or a data.yaml; by default scenes")
parser.add_argument("--steps", type=int, default=4, help="training steps, default: 4")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## Data and model
#
# The model counts the background as class 0, so it has one class more than the dataset. It resizes images by itself:
# without `min_size` to 800 pixels.

# %%
torch.manual_seed(0)
dataset = open_dataset(args.data) if args.data else SceneDataset(args.steps * 2, seed=0, modalities=["instance"])
loader = create_coco_dataloader(dataset=dataset, batch_size=2, size=128, max_instances=32, scale_range=(0.5, 1.0))
num_classes = 1 + len(dataset.class_names)
small = {"min_size": 128, "rpn_post_nms_top_n_train": 100, "box_batch_size_per_image": 32}
model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=num_classes, **small)
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)

# %% [markdown]
# ## Training
#
# `label_map=1` adds 1 to every class id, for heads that are trained from scratch. For weights of COCO give the list
# of the category ids of the classes.

# %%
batches = BatchCopyPaste.from_dataloader(loader, max_instances=32)
for step, batch in enumerate(islice(batches, args.steps), start=1):
    images, targets = to_detection(batch, label_map=1)
    losses = model(images, targets)
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}, {sum(len(target['boxes']) for target in targets)} objects")

# %% [markdown]
# ## The picture
#
# The last batch.

# %%
samples = batch.to_batched().to_samples()
views = [draw_instances(sample, class_names=dataset.class_names, show_labels=False) for sample in samples]
picture = gallery_png(args.out / "11_torchvision_mask_rcnn.png", [views])
print("picture", picture)
