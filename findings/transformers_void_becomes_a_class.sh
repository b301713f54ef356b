#!/usr/bin/env bash
# The processors of MaskFormer, Mask2Former and EoMT make a class 254 of void, and EoMT's shifts all classes unasked.
#
# Most expect: `do_reduce_labels` takes 1 from each class and leaves void: 0 becomes 255, and 255 stays, as with SegFormer and
# BEiT. `ignore_index=255` by itself leaves 255 out and changes no class.
# What happens: in the processors of MaskFormer, Mask2Former and EoMT void is reduced, too. Its pixels become an object of
# class 254 with a mask of its own. And EomtImageProcessor reduces the labels whenever `ignore_index` is given: class 0 is
# dropped, all others are one too small, void is class 254. `do_reduce_labels=False` does not change that.
#
# Why it matters: with 150 classes, a target of class 254 is an index error on a CPU and an assertion on a GPU, far from its
# cause; with more than 254 classes, it is learned. That all classes are one too small fails nowhere: metrics
# that pass the same processor agree, and names of classes are wrong in use.
#
# Prints versions and classes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 pillow==13.0.0 numpy==2.4.6
cd "$folder"
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import torch
import transformers

print(f"transformers {transformers.__version__}, torch {torch.__version__}")
classes = np.array([[0, 1, 2, 150, 255, 255]] * 6, np.uint8)
photo = np.zeros((6, 6, 3), np.uint8)
print(f"  the map: classes {np.unique(classes).tolist()}, 255 is void")
found = {}
for options in ({"ignore_index": 255}, {"ignore_index": 255, "do_reduce_labels": True}):
    for name in ("Segformer", "MaskFormer", "Mask2Former", "Eomt"):
        processor = getattr(transformers, f"{name}ImageProcessorPil")(do_resize=False, **options)
        result = processor(photo, segmentation_maps=classes, return_tensors="pt")
        values = result["class_labels"][0] if "class_labels" in result else torch.unique(result["labels"][0])
        found[name, len(options)] = values.tolist()
        print(f"  {name}, {options}: classes {values.tolist()}")
shifted, reduced = [0, 1, 149, 254], [0, 1, 149, 255]
is_as_described = (
    found["Segformer", 2] == reduced
    and all(found[name, 2] == shifted for name in ("MaskFormer", "Mask2Former", "Eomt"))
    and found["MaskFormer", 1] == found["Mask2Former", 1] == [0, 1, 2, 150]
    and found["Eomt", 1] == shifted
)
sys.exit(0 if is_as_described else 1)
PYTHON
