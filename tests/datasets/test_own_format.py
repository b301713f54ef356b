"""The page on own formats: its samples equal those of the COCO reader for the file that it writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from segpaste.datasets import CocoDetectionV2

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "own-format.md"


def test_both_routes_give_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bodies = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for body in (bodies[0], bodies[-1]):
        exec(body, names)
    own, read = names["MyDataset"](), CocoDetectionV2("photos", "instances.json")
    assert [*read.class_names] == own.class_names
    for index in range(len(own)):
        for field in ("image", "instance_masks", "crowd_mask", "labels", "boxes"):
            assert torch.equal(getattr(own[index], field), getattr(read[index], field)), field
        assert own[index].crowd_mask.any()
