"""A single run with few real photos: a U-Net for instances, trained and tested with the settings of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, get_preset
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import DatasetBank, zip_loaders
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering
from segpaste.types import DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from ..samples import Memory, Paste, WithCrops, shuffled_order
from ..training import fit
from ..unet import UNet
from .instances import Found, average_precision, decoded, loss_of, num_outputs
from .photos import NUM_CLASSES, TEST_SIZE, TRAIN_SIZE, resized, split

METHODS = ("none", "bank", "albumentationsx", "ultralytics")

_CLASS_NAMES = ("date", "fig", "hazelnut")
_MAX_INSTANCES = 40
_CROP_SIZE = (96, 96)
_JITTER = (1.07, 1.5)  # no padding: every window is inside of the photo

Batches = Iterable[PaddedBatchedDenseSample]


def train(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train by the settings of a run, and return what was found."""
    training, validation, test = split(settings["seed"], settings["photos"])
    torch.manual_seed(settings["seed"])
    model = UNet(num_outputs(NUM_CLASSES), tuple(settings["widths"])).to(memory_format=torch.channels_last)

    def check(model: nn.Module) -> dict[str, Any]:
        return {"validation": tested(model, validation)}

    fitted = fit(model, batches(settings, training), loss_of, check, steps=settings["steps"], lr=settings["lr"])
    return {
        "instances": sum(len(sample.labels) for sample in training),
        "cpu_seconds": fitted.cpu_seconds,
        "curve": fitted.curve,
        "validation": fitted.curve[-1]["validation"],
        "test": tested(model, test),
        "training": tested(model, training),
    }


def tested(model: nn.Module, samples: Sequence[DenseSample]) -> dict[str, float]:
    """Return the average precision on whole photos."""
    small = [resized(sample, TEST_SIZE) for sample in samples]
    truth = [Found(not_none(s.instance_masks).as_subclass(Tensor), s.labels, torch.ones(len(s.labels))) for s in small]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = [decoded(model(sample.image.as_subclass(Tensor)[None].float() / 255)[0]) for sample in small]
    model.train(was_training)
    return average_precision(truth, found, NUM_CLASSES)


def batches(settings: Mapping[str, Any], samples: list[DenseSample]) -> Batches:
    """Return the augmented batches of a run, one for each step."""
    method, seed = settings["method"], settings["seed"]
    num = settings["steps"] * settings["batch_size"]
    targets = EpochDataLoader(
        Memory(samples, _CLASS_NAMES, shuffled_order(len(samples), num, seed)),
        batch_size=settings["batch_size"],
        max_instances=_MAX_INSTANCES,
        jitter=make_large_scale_jittering(TRAIN_SIZE, scale_range=_JITTER),
        base_seed=seed,
        shuffle=False,
    )
    if method == "none":
        return targets
    if method == "ultralytics":
        return BatchCopyPaste.from_dataloader(targets, _MAX_INSTANCES, get_preset("ultralytics_mixup").config)
    objects = [resized(sample, TEST_SIZE) for sample in samples]
    crops = create_bank_dataloader(
        DatasetBank(Memory(objects, _CLASS_NAMES), crop_size=_CROP_SIZE),
        batch_size=settings["batch_size"],
        crops_per_target=settings["objects"],
        steps=settings["steps"],
        mode="natural",
        base_seed=seed,
    )
    return WithCrops(lambda: zip_loaders(targets, crops), _paste(settings))


def _paste(settings: Mapping[str, Any]) -> Paste:
    """Return the paste of staged crops."""
    low, high = settings["scale_range"]
    if settings["method"] == "albumentationsx":
        from .peer_paste import PeerPaste  # needs a package that the other arms do not

        return PeerPaste(settings["paste_prob"], (low, high), settings["seed"])
    source = SourceConfig(kind="bank", crops_per_target=settings["objects"])
    placement = PlacementConfig(
        scale_range=(low, high), paste_prob=settings["paste_prob"], max_attempts=settings["max_attempts"]
    )
    return BatchCopyPaste(BatchCopyPasteConfig(source=source, placement=placement))
