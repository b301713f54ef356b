"""segmentation_models_pytorch: its losses with ``ignore_index=255``, given maps as its dataset reads them.

A model has as many channels as there are classes. The gradient of the loss says which class each pixel trains.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from judge import ReadImage, ReadObject
from map_probes import GROUND
from PIL import Image
from segmentation_models_pytorch import losses

PACKAGES = {"smp": "segmentation-models-pytorch"}
VOID = 255
SIZE = (256, 256)
LOSSES = {
    "cross-entropy": lambda: losses.SoftCrossEntropyLoss(ignore_index=VOID, smooth_factor=0.0),
    "dice": lambda: losses.DiceLoss("multiclass", ignore_index=VOID),
}


def read(folder: Path) -> list[ReadImage]:
    """Read images and maps as its ``SimpleOxfordPetDataset`` does, and ask its losses for the class of each pixel."""
    if (folder / "classes.json").exists():
        names = json.loads((folder / "classes.json").read_text())["names"]
    else:
        names = (folder / "classes.txt").read_text().split("\n")[:-1]
    truth = json.loads((folder / "truth.json").read_text())
    return [_read_one(folder, image["name"], names) for image in truth]


def _read_one(folder: Path, name: str, names: list[str]) -> ReadImage:
    image = np.array(Image.open(folder / "images" / name).convert("RGB"))
    image = np.array(Image.fromarray(image).resize(SIZE, Image.NEAREST))  # smooth edges would be other colours
    values = np.array(Image.open(next((folder / "semantic").rglob(f"{Path(name).stem}.png"))))
    values = np.array(Image.fromarray(values).resize(SIZE, Image.NEAREST))
    target = torch.from_numpy(values).long()[None]
    masks = [_trained(loss(), target, len(names)) for loss in LOSSES.values()]
    if not torch.equal(*masks):
        raise AssertionError("the losses train other classes")
    objects = [ReadObject(of, mask.numpy()) for of, mask in zip(names, masks[0], strict=True) if mask.any()]
    return ReadImage(name, image, [found for found in objects if found.name not in (GROUND, "background")])


def _trained(loss: torch.nn.Module, target: torch.Tensor, num_classes: int) -> torch.Tensor:
    """Return for each class the pixels [C, H, W] of which the loss wants more of it."""
    logits = torch.zeros(1, num_classes, *target.shape[1:], requires_grad=True)
    loss(logits, target).backward()
    return logits.grad[0] < -1e-9


READS = {"smp": {"maps": read}}
