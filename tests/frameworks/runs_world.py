"""The data, the loaders and the records of the runs under Lightning, Accelerate and DistributedDataParallel.

The runs are processes of their own. Each writes what its training steps saw; `runs_checks` compares that with what
loaders of an explicit rank give in the test's process, where no framework is.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, create_coco_dataloader
from segpaste.augmentation import SourceConfig
from segpaste.bank import open_bank, zip_loaders
from segpaste.datasets import EpochDataLoader
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.seeding import keys_of
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample, StagedCrops
from small_bank import small_bank

NUM_RANKS, NUM_EPOCHS, BATCH_SIZE, MAX_INSTANCES = 2, 3, 2, 16
NUM_SAMPLES = 15
"""Odd, so that the ranks repeat one sample. The scenes are two more, of which drop_last leaves out one."""
STEPS = 4
"""Of an epoch on each rank: ceil(15 / 2) samples in batches of two."""
MID_STEPS = STEPS + STEPS // 2
"""Training steps until the middle of epoch 1."""

CROPS = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=2))


class Record(NamedTuple):
    """Record of one training step.

    Attributes:
        step: steps of the run before it.
        samples: indices in the dataset, of the rows of the batch.
        epochs: the epoch in the key of each row.
        ranks: likewise.
        digest: of the augmented batch.
    """

    step: int
    samples: list[int]
    epochs: list[int]
    ranks: list[int]
    digest: str


def record(step: int, batch: PaddedBatchedDenseSample) -> Record:
    assert batch.sample_keys is not None
    keys = keys_of(batch.sample_keys)
    return Record(step, [k.sample_idx for k in keys], [k.epoch for k in keys], [k.rank for k in keys], digest(batch))


def digest(batch: PaddedBatchedDenseSample) -> str:
    """Return a digest of every field that a model trains on, and of the seeds."""
    assert batch.instance_masks is not None
    made = hashlib.sha256()
    for field in (batch.images, batch.instance_masks, batch.labels, batch.boxes, batch.sample_seeds):
        assert field is not None
        made.update(str((field.dtype, tuple(field.shape))).encode() + field.contiguous().numpy().tobytes())
    return made.hexdigest()


def write_world(folder: Path) -> None:
    """A COCO dataset of photos with two or three rectangles each, and a bank."""
    (folder / "photos").mkdir(parents=True)
    rng = np.random.default_rng(0)
    images, annotations = [], []
    for i in range(NUM_SAMPLES):
        height, width = (int(n) for n in rng.integers(40, 60, 2))
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(folder / "photos" / f"{i}.png")
        images.append({"id": i + 1, "file_name": f"{i}.png", "height": height, "width": width})
        for _ in range(2 + i % 2):
            (y1, x1), (h, w) = rng.integers(0, 20, 2).tolist(), rng.integers(8, 20, 2).tolist()
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": i + 1,
                    "category_id": 1 + i % 3,
                    "iscrowd": 0,
                    "bbox": [x1, y1, w, h],
                    "segmentation": [[x1, y1, x1 + w, y1, x1 + w, y1 + h, x1, y1 + h]],
                }
            )
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(("car", "cup", "zebra"))]
    tables = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(tables))
    small_bank(folder / "bank", [0, 1, 2] * 5)


def coco_loader(folder: Path, num_workers: int, **place: int) -> EpochDataLoader:
    return create_coco_dataloader(
        folder / "photos",
        folder / "annotations.json",
        batch_size=BATCH_SIZE,
        size=48,
        scale_range=(0.5, 1.5),
        max_instances=MAX_INSTANCES,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **place,
    )


def scene_loader(num_workers: int, **place: int) -> EpochDataLoader:
    scenes = SceneDataset(NUM_SAMPLES + 2, SceneConfig(height=48, width=64), modalities=["image", "instance"])
    return create_coco_dataloader(
        dataset=scenes,
        batch_size=BATCH_SIZE,
        size=48,
        max_instances=MAX_INSTANCES,
        drop_last=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **place,
    )


def bank_loader(folder: Path, num_workers: int, **place: int) -> Any:
    return create_bank_dataloader(
        open_bank(folder / "bank"),
        batch_size=BATCH_SIZE,
        crops_per_target=2,
        steps=STEPS,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **place,
    )


def make_loader(variant: str, folder: Path, num_workers: int = 0, **place: int) -> Any:
    """One way to write a training's loader.

    Args:
        variant: ``padded``, batches that the step augments; ``scenes``, likewise, of a dataset in Python, with
            drop_last; ``augmented``, of `from_dataloader`; ``bank``, likewise, with crops of a bank's loader;
            ``pool``, with crops of a bank; ``dict``, two loaders under names; ``pairs``, two loaders by `zip_loaders`.
        folder: of `write_world`.
        num_workers: of each loader.
        place: rank and num_replicas, or nothing where a framework has them.
    """
    if variant == "scenes":
        return scene_loader(num_workers, **place)
    targets = coco_loader(folder, num_workers, **place)
    if variant == "padded":
        return targets
    if variant == "augmented":
        return BatchCopyPaste.from_dataloader(targets, MAX_INSTANCES)
    if variant == "pool":
        pool = open_bank(folder / "bank")
        return BatchCopyPaste.from_dataloader(targets, MAX_INSTANCES, CROPS, source_pool=pool)
    crops = bank_loader(folder, num_workers, **place)
    if variant == "bank":
        return BatchCopyPaste.from_dataloader(targets, MAX_INSTANCES, CROPS, source_pool=crops)
    if variant == "dict":
        return {"targets": targets, "crops": crops}
    assert variant == "pairs", variant
    return zip_loaders(targets, crops)


def make_early(variant: str, folder: Path, num_workers: int) -> Any:
    """The loader, made before there is a process group; or the error, so that the process's other runs go on."""
    try:
        return make_loader(variant, folder, num_workers)
    except Exception as error:
        return error


class LightningRun(NamedTuple):
    """One training by Lightning.

    Attributes:
        variant: see `make_loader`.
        num_workers: of each loader, persistent.
        inside: whether the loader is made by the module's ``train_dataloader``; else before any process group.
        resumes_at: steps of the checkpoint that a second process resumes.
    """

    variant: str
    num_workers: int
    inside: bool
    resumes_at: int = 6


LIGHTNING_RUNS = {
    "padded": LightningRun("padded", 0, inside=False),
    "padded_inside": LightningRun("padded", 2, inside=True),
    "augmented": LightningRun("augmented", 2, inside=False),
    "augmented_inside": LightningRun("augmented", 0, inside=True, resumes_at=4),
    "bank": LightningRun("bank", 2, inside=False),
    "bank_inside": LightningRun("bank", 0, inside=True),
    "pool": LightningRun("pool", 0, inside=False),
    "dict": LightningRun("dict", 0, inside=False),
    "dict_inside": LightningRun("dict", 2, inside=True),
    "pairs": LightningRun("pairs", 0, inside=False),
}


class TorchRun(NamedTuple):
    """One training by DistributedDataParallel or Accelerate.

    Attributes:
        variant: see `make_loader`.
        num_workers: of each loader, persistent.
    """

    variant: str
    num_workers: int


TORCH_RUNS = {
    "padded": TorchRun("padded", 0),
    "scenes": TorchRun("scenes", 2),
    "bank": TorchRun("bank", 2),
    "pairs": TorchRun("pairs", 0),
}
CONTAINERS: dict[str, Any] = {"list": list, "ragged": BatchedDenseSample.from_samples}


class Model(nn.Module):
    """One weight, and the augmentation in front of it, which does nothing to batches that are augmented already."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, batch: PaddedBatchedDenseSample) -> Tensor:
        return (self.weight * batch.images.float() / 255).mean()


class Step(nn.Module):
    """Turns the output of a variant's loader into the augmented batch."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.augment = BatchCopyPaste(CROPS if variant in ("dict", "pairs") else None)

    def forward(self, item: Any) -> PaddedBatchedDenseSample:
        if self.variant in ("padded", "scenes"):
            batch = self.augment(item)
        elif self.variant in ("dict", "pairs"):
            targets, crops = (item["targets"], item["crops"]) if self.variant == "dict" else item
            assert isinstance(crops, StagedCrops)
            batch = self.augment(targets, staged=crops.first(targets.batch_size))
        else:
            batch = item
        assert isinstance(batch, PaddedBatchedDenseSample)
        return batch


class Written:
    """File of the records of one rank in one run, kept even if the run fails.

    Args:
        folder: of the world.
        run: its name.
        rank: of this process.
    """

    def __init__(self, folder: Path, run: str, rank: int) -> None:
        self.path = folder / "records" / f"{run}-{rank}.json"
        self.records: list[Record] = []
        self.facts: dict[str, Any] = {}
        self._caught = warnings.catch_warnings(record=True)

    def __enter__(self) -> Written:
        self._warnings = self._caught.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        self._caught.__exit__(kind, error, traceback)
        assert self._warnings is not None
        told = [str(w.message) for w in self._warnings if "segpaste" in w.filename or "set_epoch" in str(w.message)]
        failure = f"{type(error).__name__}: {error}" if error is not None else None
        content = {"records": self.records, "facts": self.facts, "warnings": told, "error": failure}
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(content))
        return isinstance(error, Exception)  # the other runs of the process go on
