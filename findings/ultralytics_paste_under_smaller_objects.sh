#!/usr/bin/env bash
# Ultralytics' CopyPaste puts objects over others, and its loader gives the covered pixels to the object below.
#
# Most expect: where a pasted object covers another, the pixels belong to the mask of the pasted one, and box and polygon of
# the object below shrink to what is seen.
# What happens: an object is pasted if it covers at most 30 percent of the box of each object that is there. Boxes and polygons
# of those stay as they were. The loader then draws all polygons into one map, the smaller over the larger (overlap_mask=True, the
# standard): a pasted object that is larger than the one below loses the pixels in which it is seen to the one that is not.
# With overlap_mask=False both masks have them.
# Why it matters: up to a third of an object's labelled pixels show another object, in every image that was pasted into.
#
# Prints versions and counts, and exits with 1 if the library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q ultralytics==8.4.190 torch==2.13.0 torchvision==0.28.0 numpy==2.3.5
cd "$work"
YOLO_CONFIG_DIR="$work" YOLO_OFFLINE=true "$work/venv/bin/python" - <<'PY'
import copy
import importlib.metadata as metadata
import random
import sys

import numpy as np
from ultralytics.data.augment import CopyPaste, Format
from ultralytics.utils.instance import Instances
from ultralytics.utils.ops import resample_segments

for name in ("ultralytics", "torch", "numpy"):
    print(name, metadata.version(name))


def scene(value, left, top, right, bottom):
    """A photo with one rectangle, whose pixels have the number of its class, and its labels as the loader holds them."""
    image = np.zeros((64, 128, 3), np.uint8)
    image[top:bottom, left:right] = value
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
    box = np.array([[left, top, right, bottom]], np.float32)
    segments = np.stack(resample_segments([corners], n=400))
    return {"img": image, "cls": np.array([[value]], np.float32), "instances": Instances(box, segments, bbox_format="xyxy", normalized=False)}


class Photos(list):
    def get_image_and_label(self, index):
        return copy.deepcopy(self[index])


SMALL, LARGE = 1, 2
random.seed(0)
paste = CopyPaste(dataset=Photos([scene(LARGE, 50, 12, 110, 62)]), p=1.0, mode="mixup")
out = paste(scene(SMALL, 20, 16, 60, 56))
seen = out["img"][..., 0]
covered = np.zeros(seen.shape, bool)
covered[16:56, 50:60] = True
boxes = dict(zip(out["cls"][:, 0].astype(int).tolist(), out["instances"].bboxes.tolist(), strict=True))
print(f"{covered.sum()} pixels of the smaller object are covered; there the photo shows class {np.unique(seen[covered]).tolist()}")
print(f"its box: {boxes[SMALL]}, of which [20, 16, 50, 56] is seen")
print(f"its polygon reaches x = {out['instances'].segments[list(boxes).index(SMALL)][:, 0].max():.0f}")

labels = Format(bbox_format="xywh", normalize=True, return_mask=True, mask_ratio=1, mask_overlap=True)(copy.deepcopy(out))
order = labels["cls"].numpy()[:, 0].astype(int).tolist()
classes = np.array([0, *order])[labels["masks"].numpy()[0].astype(int)]
to_small = int((classes[covered] == SMALL).sum())
print(f"overlap_mask=True: {to_small} of {covered.sum()} covered pixels are labelled as the object that is not seen there")
labels = Format(bbox_format="xywh", normalize=True, return_mask=True, mask_ratio=1, mask_overlap=False)(copy.deepcopy(out))
both = int((labels["masks"].numpy().astype(bool).sum(0) == 2)[covered].sum())
print(f"overlap_mask=False: {both} of {covered.sum()} covered pixels are in both masks")
as_described = (
    (seen[covered] == LARGE).all() and boxes[SMALL] == [20, 16, 60, 56] and to_small == covered.sum() and both == covered.sum()
)
sys.exit(0 if as_described else 1)
PY
