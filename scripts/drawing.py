"""Batches and tiles for the pictures of the documentation, shared by the scripts that draw them.

Photographs are those of the data set *fruits_nuts* (MIT licence), in the folder that ``SEGPASTE_TEST_DATA`` names; the
other batches are rendered scenes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PasteReport
from segpaste.datasets import open_dataset
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.viz import draw_instances, draw_panoptic, draw_semantic

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCENE_SEED = 10
_MAX_INSTANCES = 40


@dataclass(frozen=True)
class Subject:
    """A batch to paste in, and what to show of it.

    Attributes:
        batch: padded batch with a seed for each row.
        row: row that is shown.
        class_names: name of each class id.
    """

    batch: PaddedBatchedDenseSample
    row: int
    class_names: Sequence[str]

    def pasted(self, config: BatchCopyPasteConfig) -> tuple[DenseSample, torch.Tensor, PasteReport]:
        """Return the row after a paste with a configuration, which of its objects are pasted, and the report."""
        out, report = BatchCopyPaste(config)(self.batch, return_report=True)
        valid = out.instance_valid[self.row]
        return samples(out)[self.row], (report.slot_layer[self.row] >= 0)[valid], report

    @property
    def before(self) -> DenseSample:
        """The row before the paste."""
        return samples(self.batch)[self.row]


def samples(batch: PaddedBatchedDenseSample) -> list[DenseSample]:
    """Return the images of a batch."""
    return batch.to_batched().to_samples()


def fruits(width: int | None = None) -> AnnotatedImages:
    """Return the data set *fruits_nuts*, at a width in pixels or at its own of 800.

    Raises:
        SystemExit: ``SEGPASTE_TEST_DATA`` does not name a folder with the data set.
    """
    folder = Path(os.environ.get("SEGPASTE_TEST_DATA", "")) / "fruits_nuts"
    if not (folder / "trainval.json").is_file():
        raise SystemExit(f"SEGPASTE_TEST_DATA: expected a folder with fruits_nuts/trainval.json, got {folder.parent}")
    resize = None if width is None else v2.Resize((width * 3 // 4, width))
    return open_dataset(folder / "trainval.json", images_dir=folder / "images", transforms=resize)


def photographs(indices: Sequence[int], *, row: int = 0, seed: int = 0, width: int = 400) -> Subject:
    """Return a batch of photographs of *fruits_nuts* at a width of ``width`` pixels."""
    dataset = fruits(width)
    batch = BatchedDenseSample.from_samples([dataset[i] for i in indices]).to_padded(_MAX_INSTANCES)
    seeds = torch.arange(len(indices)) + 100 * seed
    return Subject(batch.derived(sample_seeds=seeds), row, dataset.class_names)


def scenes(*, row: int = 1, seed: int = SCENE_SEED, height: int = 200, width: int = 260) -> Subject:
    """Return four rendered scenes, with panoptic maps, depth and normals."""
    batch = scene_batch(4, 24, SceneConfig(height=height, width=width))
    return Subject(batch.derived(sample_seeds=torch.arange(4) + seed), row, SceneDataset(1).class_names)


def drawn(
    subject: Subject, view: Callable[..., np.ndarray], sample: DenseSample, pasted: torch.Tensor | None = None
) -> np.ndarray:
    """Draw a sample by a function of `segpaste.viz`, with class names and without boxes."""
    if view is draw_instances:
        return view(sample, pasted=pasted, class_names=subject.class_names, show_boxes=False)
    return view(sample, class_names=subject.class_names) if view in (draw_panoptic, draw_semantic) else view(sample)


def save_jpeg(picture: np.ndarray, name: str, quality: int = 80) -> None:
    """Save a picture under ``docs/images`` and say so."""
    path = IMAGES / f"{name}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path, quality=quality, optimize=True)
    print(f"{name}.jpg {path.stat().st_size // 1000} kB")
