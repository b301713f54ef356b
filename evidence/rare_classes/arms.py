"""Arms of the comparison for rare classes: the draws, pastes and loss weights of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader
from segpaste.augmentation import PanopticConfig, PanopticTaxonomy, SourceConfig
from segpaste.bank import DatasetBank, zip_loaders
from segpaste.bank.read.class_draws import DrawMode
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering
from segpaste.datasets.scenes import SceneDataset
from segpaste.types import DenseSample, PaddedBatchedDenseSample

from ..samples import Memory, WithCrops, shuffled_order
from ..scenes import NUM_CLASSES, SIZE, STUFF_NAMES, instance_counts, without_objects

Batches = Iterable[PaddedBatchedDenseSample]

PLACEBO = 100
"""Class of placebo objects; its pixels are background."""

_CLASSES: dict[int, Literal["thing", "stuff"]] = {
    **dict.fromkeys((*range(NUM_CLASSES), PLACEBO), "thing"),
    **dict.fromkeys(range(NUM_CLASSES, NUM_CLASSES + len(STUFF_NAMES)), "stuff"),
}
_MAX_INSTANCES = 24


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        name: as in tables and in the settings of a run.
        kind: ``plain``, ``intra_batch`` or ``bank``: where pasted objects come from.
        mode: how the classes of a bank are drawn, see `segpaste.BankSampler`.
        is_placebo: pastes background in the shape of objects.
    """

    name: str
    kind: str = "plain"
    mode: DrawMode = "natural"
    is_placebo: bool = False


ARMS = {
    arm.name: arm
    for arm in (
        Arm("none"),
        Arm("repeat_factor"),
        Arm("weighted_loss"),
        Arm("intra_batch", "intra_batch"),
        Arm("bank_natural", "bank"),
        Arm("bank_tempered", "bank", "tempered"),
        Arm("bank_uniform", "bank", "class_uniform"),
        Arm("placebo", "bank", "class_uniform", is_placebo=True),
    )
}


def batches(settings: Mapping[str, Any], scenes: SceneDataset, samples: list[DenseSample]) -> Batches:
    """Return the augmented batches of a run, one for each step."""
    arm, seed = ARMS[settings["arm"]], settings["seed"]
    num = settings["steps"] * settings["batch_size"]
    if arm.name == "repeat_factor":
        weights, generator = repeat_factors(samples, settings["strength"]), torch.Generator().manual_seed(seed)
        order = torch.multinomial(weights, num, replacement=True, generator=generator)
    else:
        order = shuffled_order(len(samples), num, seed)
    targets = EpochDataLoader(
        Memory(samples, scenes.class_names, order),
        batch_size=settings["batch_size"],
        max_instances=_MAX_INSTANCES,
        jitter=make_large_scale_jittering(SIZE, scale_range=(0.8, 1.25)),
        base_seed=seed,
        shuffle=False,
    )
    if arm.kind == "plain":
        return targets
    objects = without_objects(scenes, samples) if arm.is_placebo else samples
    return _pasted(arm, settings, targets, Memory(objects, scenes.config.thing_names))


def repeat_factors(samples: list[DenseSample], threshold: float) -> Tensor:
    """Return the repeat factor of each image, [N]: of its classes the largest max(1, sqrt(threshold / f)).

    f is the share of the images that show a class. After Gupta et al., https://arxiv.org/abs/1908.03195.
    """
    shows = torch.stack([sample.labels.bincount(minlength=NUM_CLASSES) > 0 for sample in samples])
    of_class = (threshold / shows.float().mean(0)).sqrt().clamp(min=1)
    return torch.where(shows, of_class, 1.0).amax(1)


def class_weights(settings: Mapping[str, Any], samples: list[DenseSample]) -> Tensor | None:
    """Return the weight of background and of each class in the loss; None where all are alike.

    A class has (n_max / n) ** strength, n its instances; the background has 1.
    """
    if settings["arm"] != "weighted_loss":
        return None
    counts = instance_counts(samples).float()
    return torch.cat([torch.ones(1), (counts.max() / counts) ** settings["strength"]])


def _pasted(arm: Arm, settings: Mapping[str, Any], targets: EpochDataLoader, objects: Memory) -> Batches:
    """Return the targets with objects pasted in; a bank cuts them out of ``objects``."""
    paste, num = settings["paste"], settings["paste"]["objects"]
    config: dict[str, Any] = {
        "placement": {**paste["placement"], "paste_prob": settings["strength"]},
        "panoptic": PanopticConfig(taxonomy=PanopticTaxonomy(classes=_CLASSES), tau_stuff_frac=0.0, tau_stuff_px=0),
    }
    if arm.kind == "intra_batch":
        config["placement"] |= {"layers": num, "grouping": "instance"}
        return BatchCopyPaste.from_dataloader(targets, _MAX_INSTANCES, BatchCopyPasteConfig(**config))
    source = SourceConfig(kind="bank", crops_per_target=num)
    augment = BatchCopyPaste(BatchCopyPasteConfig(source=source, **config))
    crops = create_bank_dataloader(
        DatasetBank(objects, crop_size=SIZE),
        batch_size=settings["batch_size"],
        crops_per_target=num,
        steps=settings["steps"],
        mode=arm.mode,
        base_seed=settings["seed"],
        class_map=[PLACEBO] * NUM_CLASSES if arm.is_placebo else None,
    )
    return WithCrops(lambda: zip_loaders(targets, crops), augment)
