"""Paste as a transform of one sample, inside any dataset and its loader's workers.

`CopyPaste` stands among the transforms of torchvision: after those that move the image, before normalisation. Use it
where the training loop cannot be changed; pasting whole batches costs less.

    python examples/16_per_sample_transform.py
    python examples/16_per_sample_transform.py --workers 2
"""

# %%
import argparse
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

from segpaste import BatchCopyPasteConfig
from segpaste.augmentation import SourceConfig
from segpaste.bank import DatasetBank
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.experimental import CopyPaste
from segpaste.viz import show

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--workers", type=int, default=0, help="worker processes, default: 0")
parser.add_argument("--out", type=Path, default="example_out", help="folder of the picture")
args = parser.parse_args()

# %% [markdown]
# ## A detection dataset
#
# It stands for `wrap_dataset_for_transforms_v2(CocoDetection(...))`, whose classes are ids of its own: here 1 to 13.

# %%
scenes = SceneDataset(16, SceneConfig(height=160, width=192), seed=0, modalities=["image", "instance"])


class Detection(Dataset):
    """Images with boxes, labels and masks, as torchvision's own datasets give them."""

    def __init__(self, transforms: v2.Transform) -> None:
        self.transforms = transforms

    def __len__(self) -> int:
        return len(scenes)

    def __getitem__(self, index: int) -> Any:
        sample = scenes[index]
        masks = tv_tensors.Mask(sample.instance_masks)
        return self.transforms(sample.image, {"boxes": sample.boxes, "labels": sample.labels + 1, "masks": masks})


# %% [markdown]
# ## The transforms
#
# Objects come from the whole dataset, up to three for each image. `label_map=1` says that class 0 of the pool is 1 in
# the targets. Seeds come from torch, which seeds each worker and each epoch differently.

# %%
torch.manual_seed(0)
config = BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=3))
transforms = v2.Compose(
    [
        v2.RandomHorizontalFlip(),
        CopyPaste(DatasetBank(scenes, crop_size=(96, 96)), config, label_map=1),
        v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
    ]
)
loader = DataLoader(Detection(transforms), batch_size=4, collate_fn=list, num_workers=args.workers)
pages = list(loader)
before = sum(scenes[index].num_instances for index in range(len(scenes)))
after = sum(len(target["labels"]) for page in pages for _, target in page)
print(f"{before} objects in {len(scenes)} images, {after} after the pastes")

# %% [markdown]
# ## The picture
#
# `show` takes the images and targets as they are.

# %%
images, targets = zip(*pages[0], strict=True)
picture = args.out / "16_per_sample_transform.png"
show((list(images), list(targets)), class_names=["background", *scenes.class_names], path=picture)
print("picture", picture)
