#!/usr/bin/env bash
# Binary masks of 0 and 255: segmentation_models_pytorch counts each object pixel 255 times, and an IoU is 255.
#
# Most expect: a mask as image editors and labelling tools save it, 0 and 255, is binary, or is refused as not binary.
# What happens: `get_stats` multiplies prediction and mask, so a perfect prediction has an IoU of 255 and an accuracy of
# 128. A prediction that finds half of the object has an IoU of 0.996 and an F1 of 0.998, where 0.5 and 0.667 are right:
# a bad model looks excellent. DiceLoss and JaccardLoss are 0.99 for the perfect prediction, and 1 for the opposite.
# There is no error and no warning. SoftBCEWithLogitsLoss gets a large negative number.
#
# Why it matters: nothing looks broken, for 0.996 is a plausible score, and the loss hardly moves, so one tunes the
# learning rate. Divide by 255, or compare with 0, before the mask becomes a tensor.
#
# Prints versions and scores, and exits with 1 if the behaviour has changed.
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

import segmentation_models_pytorch as smp
import torch

print(f"segmentation_models_pytorch {smp.__version__}, PyTorch {torch.__version__}")
whole = torch.zeros(1, 1, 64, 64, dtype=torch.long)
whole[..., :32, :] = 1  # the object
half = whole.clone()
half[..., :32] = 0
scores, losses = {}, {}
for value in (1, 255):
    mask = whole * value
    for name, found in {"perfect": whole, "half found": half}.items():
        counts = smp.metrics.get_stats(found, mask, mode="binary")
        iou, f1 = (float(of(*counts, reduction="micro")) for of in (smp.metrics.iou_score, smp.metrics.f1_score))
        scores[value, name] = round(iou, 3)
        print(f"mask of 0 and {value}, {name}: IoU {iou:.3f}, F1 {f1:.3f}")
    for name, found in {"perfect": whole, "opposite": 1 - whole}.items():
        logits = (found.float() * 2 - 1) * 20
        of = (smp.losses.DiceLoss("binary"), smp.losses.JaccardLoss("binary"), smp.losses.SoftBCEWithLogitsLoss())
        losses[value, name] = [round(float(loss(logits, mask.float())), 3) for loss in of]
        print(f"mask of 0 and {value}, {name}: Dice {losses[value, name][0]}, Jaccard {losses[value, name][1]}, ", end="")
        print(f"binary cross-entropy {losses[value, name][2]}")
is_as_described = scores[1, "perfect"] == 1 and scores[1, "half found"] == 0.5 and losses[1, "perfect"][:2] == [0, 0]
is_as_described &= scores[255, "perfect"] == 255 and scores[255, "half found"] == 0.996
is_as_described &= min(losses[255, "perfect"][:2]) > 0.99 and losses[255, "perfect"][2] < 0
sys.exit(0 if is_as_described else 1)
PYTHON
