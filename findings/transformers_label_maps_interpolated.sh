#!/usr/bin/env bash
# The processors of BEiT and DPT resize label maps smoothly, and so invent classes.
#
# Most expect: a processor that takes `segmentation_maps` resizes the image smoothly and the map with "nearest", as those of
# SegFormer, MobileViT and MaskFormer do.
# What happens: BeitImageProcessor and DPTImageProcessor resize the map as they resize the image, with bicubic sampling. Where
# classes 0 and 100 meet, the map gets values between, and some beyond: dozens of classes that nobody drew. It is the same with
# the processors that use Pillow and with those that use torchvision, for arrays, tensors and images.
#
# Why it matters: each border in each label is surrounded by wrong classes, and void (255) runs through all classes down to its
# neighbour. All labels stay within the range of an index, so the loss takes them; thin objects consist of nothing else.
# Resize the maps yourself and pass do_resize=False.
#
# Prints versions and classes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check transformers==5.24.0 pillow==13.0.0 numpy==2.4.6
cd "$folder"
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import PIL
import transformers

print(f"transformers {transformers.__version__}, Pillow {PIL.__version__}")
classes = np.zeros((64, 64), np.uint8)
classes[10:50, 10:50] = 100
classes[30, :] = 7  # a line of one pixel
classes[:4] = 255  # void
photo = np.zeros((64, 64, 3), np.uint8)
print(f"  the map: classes {np.unique(classes).tolist()}")
found = {}
for name in ("Segformer", "MobileViT", "Beit", "DPT"):
    processor = getattr(transformers, f"{name}ImageProcessorPil")(size={"height": 100, "width": 100}, do_center_crop=False)
    labels = np.asarray(processor(photo, segmentation_maps=classes, return_tensors="np")["labels"][0])
    found[name] = set(np.unique(labels).tolist()) - {0, 7, 100, 255}
    wrong = np.isin(labels, list(found[name])).mean()
    print(f"  {name}: {labels.shape}, {len(found[name])} other classes on {wrong:.1%} of the pixels, {sorted(found[name])[:10]}")
sys.exit(0 if not found["Segformer"] | found["MobileViT"] and min(len(found["Beit"]), len(found["DPT"])) > 20 else 1)
PYTHON
