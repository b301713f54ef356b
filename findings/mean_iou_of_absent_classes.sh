#!/usr/bin/env bash
# A prediction that is wrong everywhere has a mean IoU of 0.98 in two libraries, and of 0 in a third.
#
# Most expect: the mean IoU over classes is taken over the classes that occur. A class that is neither in the image nor in
# the prediction says nothing, as in the benchmarks that made this metric known.
# What happens: segmentation_models_pytorch ("macro" and "macro-imagewise") and Kornia's mean_iou count an absent class
# as 1.0, a perfect one. With 150 classes of which three occur in an image, 147 are perfect, whatever was predicted.
# torchmetrics leaves absent classes out. segmentation_models_pytorch gives 0 with `zero_division=0`, but then counts
# absent classes as failures.
#
# Why it matters: image by image, which is how validation is often logged, each model looks nearly perfect, the more so the
# more classes there are, and the small differences between models are divided by the number of classes.
#
# Prints versions and values, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.15.0 numpy==2.4.6 pillow==13.0.0 huggingface-hub==2.4.0 safetensors==0.8.0 \
    tqdm==4.70.1 kornia==0.9.0 torchmetrics==1.9.0
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2 timm==1.0.31 \
    segmentation-models-pytorch==0.6.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import torch

import kornia
import segmentation_models_pytorch as smp
import torchmetrics

CLASSES = 150
print(f"torch {torch.__version__}, segmentation_models_pytorch {smp.__version__}, ", end="")
print(f"Kornia {kornia.__version__}, torchmetrics {torchmetrics.__version__}")
labels = torch.zeros(4, 32, 32, dtype=torch.long)
for index in range(4):
    labels[index, :, 16:] = index + 1  # two classes in each image
found = {}
for name, predicted in {"wrong everywhere": torch.full_like(labels, 100), "right everywhere": labels}.items():
    stats = smp.metrics.get_stats(predicted, labels, mode="multiclass", num_classes=CLASSES)
    values = {f"smp, {r}": float(smp.metrics.iou_score(*stats, reduction=r)) for r in ("macro", "macro-imagewise")}
    zero = smp.metrics.iou_score(*stats, reduction="macro", zero_division=0)
    values["smp, macro, zero_division=0"] = float(zero)
    values["Kornia, mean_iou"] = float(kornia.metrics.mean_iou(predicted, labels, CLASSES).mean())
    jaccard = torchmetrics.JaccardIndex("multiclass", num_classes=CLASSES)
    values["torchmetrics, JaccardIndex"] = float(jaccard(predicted, labels))
    found[name] = values
for key in found["wrong everywhere"]:
    print(f"  {key}: {', '.join(f'{name} {values[key]:.3f}' for name, values in found.items())}")
wrong, right = found.values()
is_as_described = (
    min(wrong["smp, macro"], wrong["smp, macro-imagewise"], wrong["Kornia, mean_iou"]) > 0.95
    and wrong["torchmetrics, JaccardIndex"] == 0
    and right["torchmetrics, JaccardIndex"] == 1
    and right["smp, macro, zero_division=0"] < 0.05
)
sys.exit(0 if is_as_described else 1)
PYTHON
