#!/usr/bin/env bash
# After PyTorch's default collate, torchvision's v2 transforms flip the images and leave the masks and boxes as they are.
#
# Most expect: samples that hold tv_tensors (Image, Mask, BoundingBoxes) can be augmented after they were put into a batch,
# on the GPU for instance. The transforms take batches, and with a sample by itself they move image, mask and boxes together.
# What happens: `default_collate` stacks tv_tensors into plain tensors. Of plain tensors a v2 transform takes the first for
# the image and passes all others through. The images of the batch are flipped, rotated and cropped; their masks are not.
# There is no error and no warning.
#
# Why it matters: training runs on labels that belong to other pixels in every augmented batch. Wrap the tensors again
# (`tv_tensors.Mask(batch["mask"])`) before the transform, or collate lists of samples.
#
# Prints versions and rows of pixels, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6 pillow==13.0.0
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import torch

import torchvision
from torch.utils.data import DataLoader
from torchvision import tv_tensors
from torchvision.transforms import v2

print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
row = torch.arange(4.0)
sample = {
    "image": tv_tensors.Image(row.expand(3, 4, 4).clone()),
    "mask": tv_tensors.Mask(row.expand(1, 4, 4).clone()),
    "boxes": tv_tensors.BoundingBoxes([[0, 0, 1, 1]], format="XYXY", canvas_size=(4, 4)),
}
flip = v2.RandomHorizontalFlip(p=1)
alone = flip(sample)
batch = next(iter(DataLoader([sample, sample], batch_size=2)))
together = flip(batch)
wrapped = flip({"image": tv_tensors.Image(batch["image"]), "mask": tv_tensors.Mask(batch["mask"])})
kinds = {key: type(value).__name__ for key, value in batch.items()}
print(f"kinds in a sample: {({key: type(value).__name__ for key, value in sample.items()})}; in a batch: {kinds}")
for name, found in {"a sample": alone, "a batch": together, "a batch, wrapped again": wrapped}.items():
    image, mask = (found[key].flatten()[:4].tolist() for key in ("image", "mask"))
    print(f"  {name} flipped: first row of the image {image}, of the mask {mask}", end="")
    print(f", box {found['boxes'].flatten()[:4].tolist()}" if "boxes" in found else "")
flipped = row.flip(0)
is_as_described = (
    set(kinds.values()) == {"Tensor"}
    and torch.equal(together["image"][0, 0, 0], flipped)
    and torch.equal(together["mask"][0, 0, 0], row)
    and torch.equal(alone["mask"][0, 0], flipped)
    and torch.equal(wrapped["mask"][0, 0, 0], flipped)
)
sys.exit(0 if is_as_described else 1)
PYTHON
