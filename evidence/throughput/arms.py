"""Places where a paste can run: nowhere, on each sample in a worker, on the batch in a worker, or in the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import build_bank, open_bank
from segpaste.datasets import make_large_scale_jittering
from segpaste.datasets.jitter import SampleTransform
from segpaste.experimental import CopyPaste
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

from .encoded import EncodedScenes
from .peers import Albumentations, Ultralytics, torchvision_rule

PerSample = Callable[[DenseSample], DenseSample]
PerBatch = Callable[[PaddedBatchedDenseSample], PaddedBatchedDenseSample]

NONE, AGAIN = "none", "none_again"
_SCALES = (0.5, 1.0)
_JITTER = (1.0, 1.5)  # no padding: every window is inside of the image
_SLOTS = 24


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        per_sample: paste into a sample, in a worker.
        per_batch: paste into a batch, in a worker.
        in_step: paste into a batch, in the process that trains.
    """

    per_sample: PerSample | None = None
    per_batch: PerBatch | None = None
    in_step: PerBatch | None = None


@dataclass(frozen=True)
class Jittered:
    """Jitter that leaves out the padding mask, since there is no padding.

    Attributes:
        jitter: gives samples without padding.
    """

    jitter: SampleTransform

    def __call__(self, sample: DenseSample, seed: int) -> DenseSample:
        """Return the jittered sample."""
        return replace(self.jitter(sample, seed), padding_mask=None)


@dataclass(frozen=True)
class Loading:
    """Components that all arms share: images, jitter and collation.

    Attributes:
        images: the dataset.
        jitter: of each sample.
        slots: instance slots of an image.
    """

    images: EncodedScenes
    jitter: Jittered
    slots: int = _SLOTS

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Loading:
        """Return the loading that settings describe."""
        side, (low, high) = settings["side"], settings["num_objects"]
        images = EncodedScenes(settings["num_images"], (side * 5 // 4, side * 5 // 4), (low, high))
        return cls(images, Jittered(make_large_scale_jittering((side, side), scale_range=_JITTER)))

    def collate(self, samples: list[DenseSample]) -> PaddedBatchedDenseSample:
        """Return a padded batch."""
        return BatchedDenseSample.from_samples(samples).to_padded(self.slots, overflow="largest")


def prepare(loading: Loading, settings: Mapping[str, Any], folder: Path) -> tuple[dict[str, Arm], dict[str, str]]:
    """Return the arms by name, and the reason for each that is left out.

    Args:
        loading: what they share.
        settings: of the measurement.
        folder: where a bank of the images' objects is written.
    """
    num, scenes, crop_side = settings["pasted"], loading.images.scenes, settings["side"] // 2
    build_bank(scenes, folder / "bank", class_names=scenes.class_names, crop_size=(crop_side, crop_side))
    bank = open_bank(folder / "bank")
    placement = PlacementConfig(
        paste_prob=1.0, scale_range=_SCALES, layers=num, grouping="instance", k_range=(num, num)
    )
    of_bank = BatchCopyPasteConfig(
        placement=PlacementConfig(paste_prob=1.0, scale_range=_SCALES),
        source=SourceConfig(kind="bank", crops_per_target=num),
    )
    of_batch = BatchCopyPasteConfig(placement=placement)
    makers: dict[str, Callable[[], Arm]] = {
        NONE: Arm,
        AGAIN: Arm,
        "segpaste_sample": lambda: Arm(per_sample=CopyPaste(bank, of_bank, max_instances=loading.slots)),
        "segpaste_batch": lambda: Arm(per_batch=BatchCopyPaste(of_batch)),
        "segpaste_step": lambda: Arm(in_step=BatchCopyPaste(of_batch)),
        "segpaste_step_bank": lambda: Arm(in_step=BatchCopyPaste(of_bank, source_pool=bank)),
        "segpaste_compiled": lambda: Arm(in_step=torch.compile(BatchCopyPaste(of_batch), fullgraph=True)),
        "albumentationsx": lambda: Arm(per_sample=Albumentations(bank, num, _SCALES)),
        "ultralytics": lambda: Arm(per_sample=Ultralytics(loading.images, loading.jitter)),
        "torchvision": lambda: Arm(per_batch=torchvision_rule),
    }
    arms, skipped = {}, {}
    for name in settings["arms"]:
        try:
            arms[name] = makers[name]()
        except ImportError as error:
            skipped[name] = f"not installed: {error.name}"
    return arms, skipped
