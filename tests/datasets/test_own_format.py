"""The page on own formats: its samples equal those of the COCO reader for the file that it writes, and its targets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from segpaste.datasets import CocoDetectionV2
from segpaste.datasets.formats.rle import decode_segmentation

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "own-format.md"


def run(*lines: str) -> dict[str, Any]:
    """Run the first snippet of the page, then the snippets with these lines; return their names."""
    bodies = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for body in [bodies[0], *(next(body for body in bodies if line in body) for line in lines)]:
        exec(body, names)
    return names


def test_both_routes_give_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own, read = run('Path("instances.json").write_text')["MyDataset"](), CocoDetectionV2("photos", "instances.json")
    assert [*read.class_names] == own.class_names
    for index in range(len(own)):
        for field in ("image", "instance_masks", "crowd_mask", "labels", "boxes"):
            assert torch.equal(getattr(own[index], field), getattr(read[index], field)), field
        assert own[index].crowd_mask.any()


def test_run_lengths_of_a_mask() -> None:
    names = run("coco_mask.encode")
    np.testing.assert_array_equal(decode_segmentation(names["segmentation"], names["mask"].shape), names["mask"])
    assert isinstance(names["segmentation"]["counts"], str)


def test_targets_and_scores() -> None:
    """The target of a pixel is a class, background or ignored; the scores are the IoU of each class."""
    names = run("loader = create_coco_dataloader", "def target_of", "validation = create_coco_dataloader")
    both, either = torch.zeros(2, 3)
    for batch in names["validation"]:
        target, found = names["target_of"](batch), names["model"](batch.images.float() / 255).argmax(1)
        for b, label in enumerate(batch.labels[:, 0].tolist()):  # each image has one object
            expected = torch.where(batch.padding_mask[b, 0] | batch.crowd_mask[b, 0], 255, 0)
            expected[batch.instance_masks[b, 0]] = label + 1
            assert torch.equal(target[b], expected)
            assert expected.unique().tolist() == [0, label + 1, 255]
        for value in range(3):
            ours, theirs = (found == value) & (target != 255), target == value
            both[value] += (ours & theirs).sum()
            either[value] += (ours | theirs).sum()
    assert names["counts"].sum() > 0
    torch.testing.assert_close(names["iou"], both / either, equal_nan=True)
