"""The recipe for Detectron2, run with classes that have the attributes which Detectron2's documentation gives them.

Detectron2 is in no package index, so this shows what the recipe does with segpaste, not that Detectron2 takes it.
"""

from __future__ import annotations

import re
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from samples import make_batch
from segpaste.integrations.torchvision import to_detection

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "detectron2.md"


class Instances:
    """Fields of the objects of an image."""

    def __init__(self, image_size: tuple[int, int]) -> None:
        self.image_size = image_size

    def has(self, name: str) -> bool:
        return hasattr(self, name)

    def to(self, device: str) -> Instances:
        assert device == "cpu"
        return self


def holder(tensor: torch.Tensor) -> Any:
    """Return a stand-in for ``Boxes`` and ``BitMasks``."""
    return SimpleNamespace(tensor=tensor)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names that the code of the page defines."""
    structures, engine = ModuleType("detectron2.structures"), ModuleType("detectron2.engine")
    vars(structures).update(Instances=Instances, Boxes=holder, BitMasks=holder)
    vars(engine).update(DefaultTrainer=object)
    for name, module in (("", ModuleType("detectron2")), (".structures", structures), (".engine", engine)):
        monkeypatch.setitem(sys.modules, f"detectron2{name}", module)
    found = re.search(r"```py\n(.*?)```", PAGE.read_text(), re.S)
    assert found is not None
    defined: dict[str, Any] = {}
    exec(found.group(1), defined)
    return defined


def test_a_batch_of_its_mapper(recipe: dict[str, Any]) -> None:
    """Images stay whole numbers of 0..255, and what is not pasted over stays as it is; one image has no objects."""
    batch = make_batch(3, size=(40, 48), num_instances=[4, 0, 3], max_instances=8, modalities={"instance"})
    samples = []
    for b, target in enumerate(to_detection(batch, label_map=0)[1]):
        instances = Instances((40, 48))
        instances.gt_boxes, instances.gt_classes = holder(target["boxes"]), target["labels"]  # type: ignore[attr-defined]
        if len(target["boxes"]):
            instances.gt_masks = holder(target["masks"].bool())  # type: ignore[attr-defined]
        samples.append({"image": batch.images[b], "instances": instances, "file_name": f"{b}.jpg"})
    loader = recipe["PastedLoader"]([samples] * 4, max_instances=16, device="cpu")
    torch.manual_seed(0)
    pasted = list(chain.from_iterable(loader))
    assert [sample["file_name"] for sample in pasted] == ["0.jpg", "1.jpg", "2.jpg"] * 4
    changed = 0
    for sample, own in zip(pasted, samples * 4, strict=True):
        image, found = sample["image"], sample["instances"]
        assert torch.equal(image, image.round())
        masks = found.gt_masks.tensor
        assert masks.shape == (len(found.gt_classes), 40, 48) == (len(found.gt_boxes.tensor), 40, 48)
        assert masks.dtype == torch.bool
        differs = (image != own["image"]).any(0)
        assert not (differs & ~masks.any(0)).any()
        changed += int(differs.any())
    assert changed
