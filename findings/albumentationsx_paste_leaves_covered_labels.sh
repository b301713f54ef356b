#!/usr/bin/env bash
# AlbumentationsX' CopyAndPaste keeps the labels of pixels, boxes and keypoints that a pasted object covers.
#
# Most expect: objects that are pasted later lie on top, so each pixel belongs to the mask of the object that is seen there, a box
# holds what is still seen of its object, and a keypoint under a pasted object is no longer told as visible. The documentation
# of the transform says that it updates all annotations.
# What happens: the masks of the image's own objects are cut, but their boxes stay as they were, up to the 5 percent of the
# object at which it is dropped. The masks of pasted objects are not cut by those that are pasted after them: several masks claim
# one pixel, and those of the lower objects show another object. Keypoints of the image that are covered are still there.
# Why it matters: detectors are trained on boxes around what cannot be seen, masks on pixels of other objects, without a word.
#
# Prints versions and counts, and exits with 1 if the library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q albumentationsx==2.5.1 torch==2.13.0 numpy==2.2.6 opencv-python-headless==4.12.0.88
cd "$work"
NO_ALBUMENTATIONS_UPDATE=1 "$work/venv/bin/python" - <<'PY'
import importlib.metadata as metadata
import sys

import albumentations as A
import numpy as np

for name in ("albumentationsx", "numpy", "opencv-python-headless"):
    print(name, metadata.version(name))
RUNS, DONORS = 50, 4


def tight(pixels):
    ys, xs = np.nonzero(pixels)
    return [int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1] if len(xs) else None


# One wide object whose pixels have the value 1; each pasted object has a value of its own and covers all rows.
image = np.zeros((60, 120, 3), np.uint8)
image[10:50, 10:110] = 1
mask = (image[..., 0] == 1).astype(np.uint8)
keypoints = np.array([[x, 30] for x in range(15, 110, 10)], np.float32)
donors = [
    {"image": np.full((60, 30, 3), value, np.uint8), "mask": np.ones((60, 30), np.uint8), "bbox_labels": {"value": value}, "keypoint_labels": {"of": value}}
    for value in range(2, 2 + DONORS)
]
boxes_kept = boxes_right = keypoints_covered = keypoints_kept = own_wrong = own_pixels = pasted_wrong = pasted_pixels = twice = 0
for seed in range(RUNS):
    transform = A.Compose(
        [A.CopyAndPaste(p=1.0)],
        bbox_params=A.BboxParams(coord_format="pascal_voc", label_fields=["value"]),
        keypoint_params=A.KeypointParams(coord_format="xy", label_fields=["of"], remove_invisible=True),
        telemetry=False,
        seed=seed,
    )
    out = transform(
        image=image, masks=mask[None], bboxes=np.array([[10, 10, 110, 50]], np.float32), value=[1],
        keypoints=keypoints, of=[1] * len(keypoints), copy_paste_metadata=donors,
    )
    seen = out["image"][..., 0]
    masks = np.asarray(out["masks"]).astype(bool)
    twice += int((masks.sum(0) > 1).sum())
    for value, own, box in zip(out["value"], masks, out["bboxes"], strict=True):
        wrong = int((seen[own] != value).sum())
        if value == 1:
            own_wrong, own_pixels = own_wrong + wrong, own_pixels + int(own.sum())
            visible = tight(seen == 1)
            boxes_kept += np.allclose(box, [10, 10, 110, 50], atol=0.01) and visible != [10, 10, 110, 50]
            boxes_right += visible is not None and np.allclose(box, visible, atol=0.01)
        else:
            pasted_wrong, pasted_pixels = pasted_wrong + wrong, pasted_pixels + int(own.sum())
    for (x, y), of in zip(out["keypoints"], out["of"], strict=True):
        if of == 1 and seen[int(y), int(x)] != 1:
            keypoints_kept += 1
    keypoints_covered += sum(int(seen[int(y), int(x)] != 1) for x, y in keypoints)
print(f"{RUNS} images with one object of their own and {DONORS} pasted ones")
print(f"masks of the own objects: {own_wrong} of {own_pixels} pixels show another object")
print(f"masks of pasted objects: {pasted_wrong} of {pasted_pixels} pixels show another object; {twice} pixels are in several masks")
print(f"boxes of own objects that are smaller now: {boxes_kept} as before, of {RUNS}; around what is seen: {boxes_right}")
print(f"covered keypoints of own objects: {keypoints_covered}, still there {keypoints_kept}")
as_described = own_wrong == 0 and pasted_wrong > 0 and twice > 0 and boxes_kept > 0 and keypoints_kept == keypoints_covered > 0
sys.exit(0 if as_described else 1)
PY
