"""The presets of Ultralytics beside the ``CopyPaste`` of Ultralytics, on the same draws; run by `test_trainers`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pairs_of_images import drawn_slots, pair, pasted
from ultralytics.data.augment import CopyPaste
from ultralytics.utils.instance import Instances
from ultralytics.utils.metrics import bbox_ioa

from segpaste.types import PaddedBatchedDenseSample


class Entries:
    """One image as a dataset."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry

    def __len__(self) -> int:
        return 1

    def get_image_and_label(self, index: int) -> dict[str, Any]:
        return self.entry


def labels_of(batch: PaddedBatchedDenseSample, b: int) -> dict[str, Any]:
    """Boxes with polygons through the centres of their outer pixels, which fill just these pixels, mirrored or not."""
    valid = batch.instance_valid[b]
    boxes = batch.boxes[b][valid].numpy()
    x1, y1, x2, y2 = boxes.T + np.array([[0.5], [0.5], [-0.5], [-0.5]], np.float32)
    corners = np.stack([np.stack([x1, y1], 1), np.stack([x2, y1], 1), np.stack([x2, y2], 1), np.stack([x1, y2], 1)], 1)
    instances = Instances(boxes.copy(), segments=corners.astype(np.float32), bbox_format="xyxy", normalized=False)
    image = np.ascontiguousarray(batch.images[b].permute(1, 2, 0).numpy())
    return {"img": image, "cls": batch.labels[b][valid].numpy()[:, None], "instances": instances}


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize("frac", [0.5, 0.3, 1.0])
@pytest.mark.parametrize("mode", ["flip", "mixup"])
def test_the_same_objects_in_the_same_place(mode: str, frac: float) -> None:
    num_pasted = num_left_out = num_alike = 0
    for seed in range(40):
        batch = pair(seed, 9, filled=True)
        out, report = pasted(batch, f"ultralytics_{mode}", placement={"candidate_frac": frac, "paste_prob": 1.0})
        assert out.instance_masks is not None
        for b in range(2):
            dataset = Entries(labels_of(batch, 1 - b))
            transform, own = CopyPaste(dataset, p=frac, mode=mode), labels_of(batch, b)
            chosen = transform.get_params(own)
            slots, num = drawn_slots(report, b), int(batch.instance_valid[b].sum())
            cover = bbox_ioa(chosen["instances2"].bboxes, chosen["instances"].bboxes).max(1)
            assert sorted(cover[slots]) == sorted(cover[chosen["selected"]])
            num_alike += sorted(slots) == sorted(chosen["selected"])
            chosen["selected"] = np.array(slots, dtype=np.int64)  # which of equal ones it takes is up to its sort
            result = transform.apply_instances(transform.apply_image(own, chosen), chosen)
            assert np.array_equal(out.images[b].permute(1, 2, 0).numpy(), result["img"])
            new = report.slot_layer[b] >= 0
            assert np.array_equal(out.boxes[b][new].numpy(), result["instances"].bboxes[num:])
            assert np.array_equal(out.labels[b][new].numpy(), result["cls"][num:, 0])
            assert np.array_equal(out.instance_masks[b][new].any(0).numpy(), chosen["im_new"] > 0)
            left = batch.instance_masks[b] & ~out.instance_masks[b][new].any(0)  # which Ultralytics keeps whole
            stays = out.instance_valid[b] & ~new
            assert (out.instance_masks[b][stays] == left[stays]).all()
            assert not left[~stays & batch.instance_valid[b]].any()
            num_pasted += len(slots)
            num_left_out += num - len(slots) if mode == "flip" else 0
    assert num_pasted > 40
    assert num_alike > 60  # of 80
    assert mode == "mixup" or num_left_out > 40
