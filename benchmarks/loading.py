"""Time loading JPEG files into a padded batch, with decoding and jitter, compared with torchvision's transforms.

    python -m benchmarks.loading --quick

Both read the same photos and COCO annotations in this process, without workers, so the rate is that of one core (of
``--threads`` for what torch does with more). Scenes are rendered into a temporary folder first.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from segpaste import augment_dataset
from segpaste.datasets import SceneConfig, SceneDataset, create_coco_dataloader
from segpaste.types import Modality

from . import timing
from .plan import Loading, Plan
from .timing import Contender

OURS, REDUCED, THEIRS = "segpaste", "segpaste, reduced decoding", "torchvision v2"
MAX_INSTANCES = 32

Epoch = Callable[[], int]
"""Reads all photos once; how many there were."""


def measure(plan: Plan, threads: int = 1, device: str = "cpu") -> dict[str, Any]:
    """All pipelines in turn, an epoch each, on small photos and on large ones; always on the CPU."""
    torch.set_num_threads(threads)
    return {**measure_photos(plan.loading, threads), "large": measure_photos(plan.large_loading, threads)}


def measure_photos(loading: Loading, threads: int) -> dict[str, Any]:
    """All pipelines in turn on photos of one size."""
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as folder:
        photos, annotations = write_scenes(Path(folder), loading)
        epochs = {
            OURS: ours(photos, annotations, loading),
            REDUCED: ours(photos, annotations, loading, decode_reduced=True),
            THEIRS: theirs(photos, annotations, loading),
        }
        contenders = {name: contender(epoch) for name, epoch in epochs.items()}
        times = timing.summaries(timing.in_turns(contenders, loading.rounds, warm_up=1))
    height, width = loading.photo_size
    return {
        "threads": threads,
        "photos": f"{loading.photos} JPEG of {height} × {width}, to {loading.batch_size} × {loading.size}²",
        "times": times,
        "images_per_second": {name: rate(loading.photos, times[name], threads) for name in times},
    }


def contender(epoch: Epoch) -> Contender:
    """Return what times an epoch."""
    return Contender(lambda read: read(), lambda: epoch)


def rate(num_images: int, times: timing.Summary, threads: int) -> float:
    """Images per second and core."""
    return num_images / times["median_ms"] * 1e3 / threads


def write_scenes(folder: Path, loading: Loading) -> tuple[Path, Path]:
    """The photos' folder and the annotations, COCO instances."""
    height, width = loading.photo_size
    scenes = SceneDataset(loading.photos, SceneConfig(height=height, width=width), modalities=(Modality.INSTANCE,))
    options: dict[str, Any] = {"overrides": {"placement.paste_prob": 0.0}, "image_format": "jpg", "gallery": 0}
    augment_dataset(scenes, folder / "scenes", num=loading.photos, verify="off", **options)
    return folder / "scenes" / "images", folder / "scenes" / "annotations.json"


def ours(photos: Path, annotations: Path, loading: Loading, *, decode_reduced: bool = False) -> Epoch:
    """This project's loader; every epoch draws anew."""
    loader = create_coco_dataloader(
        photos,
        annotations,
        batch_size=loading.batch_size,
        size=loading.size,
        max_instances=MAX_INSTANCES,
        decode_reduced=decode_reduced,
    )
    number = 0

    def epoch() -> int:
        nonlocal number
        number += 1
        loader.set_epoch(number)
        return sum(batch.batch_size for batch in loader)

    return epoch


def theirs(photos: Path, annotations: Path, loading: Loading) -> Epoch:
    """The same pipeline of torchvision's own parts; the padding is not marked."""
    size = (loading.size, loading.size)
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.ScaleJitter(size, (0.1, 2.0), antialias=True),
            v2.RandomHorizontalFlip(0.5),
            v2.RandomCrop(size, pad_if_needed=True),
            v2.SanitizeBoundingBoxes(min_size=1, labels_getter=_of_instances),
        ]
    )
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools tells of its progress
        photos_with_targets = CocoDetection(str(photos), str(annotations), transforms=transform)
    dataset = wrap_dataset_for_transforms_v2(photos_with_targets, ("boxes", "labels", "masks"))
    loader = DataLoader(dataset, batch_size=loading.batch_size, shuffle=True, collate_fn=_padded)
    return lambda: sum(len(batch["images"]) for batch in loader)


def _of_instances(sample: tuple[Tensor, dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the labels and masks that go with the boxes."""
    return sample[1]["labels"], sample[1]["masks"]


def _padded(samples: list[tuple[Tensor, dict[str, Tensor]]]) -> dict[str, Tensor]:
    """Stacked images, and boxes, labels and masks in slots."""
    images = torch.stack([image for image, _ in samples])
    batch = {
        "images": images,
        "boxes": torch.zeros(len(samples), MAX_INSTANCES, 4),
        "labels": torch.zeros(len(samples), MAX_INSTANCES, dtype=torch.int64),
        "masks": torch.zeros(len(samples), MAX_INSTANCES, *images.shape[-2:], dtype=torch.bool),
    }
    for b, (_, target) in enumerate(samples):
        for name in ("boxes", "labels", "masks"):
            values = target[name][:MAX_INSTANCES]
            batch[name][b, : len(values)] = values
    return batch


if __name__ == "__main__":
    from .programs import main

    main("loading", __doc__, measure)
