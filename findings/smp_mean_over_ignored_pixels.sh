#!/usr/bin/env bash
# Two losses of segmentation_models_pytorch with `ignore_index` get smaller the more pixels are ignored.
#
# Most expect: `ignore_index` leaves pixels out of the loss and out of its mean, as in PyTorch's own cross entropy, which the
# SoftCrossEntropyLoss without smoothing then equals.
# What happens: SoftCrossEntropyLoss and SoftBCEWithLogitsLoss set the loss of ignored pixels to 0 and divide by the number
# of all pixels. With nine of ten pixels ignored the loss, and its gradient, is a tenth. DiceLoss, LovaszLoss and
# FocalLoss of the same library leave the pixels out.
#
# Why it matters: with sparse labels, padding or void borders an image counts the less, the less of it is labelled. The weight
# of such a loss beside Dice shifts with the share of void, and learning rates that were found with PyTorch's loss do
# not carry over. A loss that falls when padding grows says nothing.
#
# Prints versions and losses, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.15.0 numpy==2.4.6 pillow==13.0.0 huggingface-hub==2.4.0 safetensors==0.8.0 tqdm==4.70.1
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2 timm==1.0.31 \
    segmentation-models-pytorch==0.6.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import torch

import segmentation_models_pytorch as smp
from segmentation_models_pytorch import losses
from torch.nn import functional
from torch.nn.functional import binary_cross_entropy_with_logits as binary_entropy

print(f"torch {torch.__version__}, segmentation_models_pytorch {smp.__version__}")
torch.manual_seed(0)
logits, binary_logits = torch.randn(2, 3, 64, 64), torch.randn(2, 1, 64, 64)
classes, binary = torch.randint(0, 3, (2, 64, 64)), torch.randint(0, 2, (2, 1, 64, 64)).float()
place = torch.rand(2, 64, 64)
found = {}
for ignored in (0.0, 0.5, 0.9):
    labels = torch.where(place < ignored, 255, classes)
    binary_labels = torch.where((place < ignored)[:, None], 255.0, binary)
    valid = binary_labels != 255
    found[ignored] = {
        "PyTorch, cross entropy": functional.cross_entropy(logits, labels, ignore_index=255),
        "SoftCrossEntropyLoss": losses.SoftCrossEntropyLoss(smooth_factor=0.0, ignore_index=255)(logits, labels),
        "PyTorch, binary, valid pixels": binary_entropy(binary_logits[valid], binary_labels[valid]),
        "SoftBCEWithLogitsLoss": losses.SoftBCEWithLogitsLoss(ignore_index=255)(binary_logits, binary_labels),
        "FocalLoss": losses.FocalLoss("multiclass", ignore_index=255)(logits, labels),
        "DiceLoss": losses.DiceLoss("multiclass", ignore_index=255)(logits, labels),
    }
print("share of pixels that are ignored:", *found)
as_described = True
for name in found[0.0]:
    values = [float(found[ignored][name]) for ignored in found]
    print(f"  {name}: {', '.join(f'{value:.3f}' for value in values)}")
    ratio = values[2] / values[0]
    as_described &= 0.08 < ratio < 0.12 if name.startswith("Soft") else 0.9 < ratio < 1.1
sys.exit(0 if as_described else 1)
PYTHON
