#!/usr/bin/env python3
"""Draw the picture of a paste from a bank for the documentation: a target, the crops staged for it, the result.

python scripts/draw_bank.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import Crop, Layout, MemmapWriter, open_bank, stage_bank_batch
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.types import DenseSample, StagedCrops
from segpaste.viz import draw_image, draw_instances

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "bank" / "training.jpg"
SCENES = SceneConfig(height=200, width=260)
SIDE, NUM_CROPS, GAP = 97, 4, 6

UInt8Image = NDArray[np.uint8]


def write_bank(folder: Path) -> None:
    """The objects of some scenes that fit a crop, each in the middle of its own."""
    scenes = SceneDataset(12, SCENES, seed=7)
    with MemmapWriter(folder, Layout((SIDE, SIDE)), scenes.config.thing_names) as writer:
        for i in range(len(scenes)):
            sample = scenes[i]
            for n, box in enumerate(sample.boxes.int().tolist()):
                if 32 <= max(box[2] - box[0], box[3] - box[1]) <= SIDE:
                    writer.add(crop_of(sample, n, box))
        writer.finish()


def crop_of(sample: DenseSample, n: int, box: list[int]) -> Crop:
    """One object, its box's edge going on to the sides of the crop."""
    x1, y1, x2, y2 = box
    left, top = (SIDE - (x2 - x1)) // 2, (SIDE - (y2 - y1)) // 2
    pads = ((0, 0), (top, SIDE - top - (y2 - y1)), (left, SIDE - left - (x2 - x1)))
    assert sample.instance_masks is not None
    return Crop(
        image=np.pad(sample.image[:, y1:y2, x1:x2].numpy(), pads, mode="edge"),
        alpha=np.pad(sample.instance_masks[n : n + 1, y1:y2, x1:x2].numpy(), pads),
        class_id=int(sample.labels[n]),
        content_box=np.array([left, top, left + x2 - x1, top + y2 - y1], np.int32),
    )


def crop_sheet(staged: StagedCrops) -> UInt8Image:
    """The crops of the first target, two by two, on a checkerboard where there is no object."""
    rows, columns = np.indices((SIDE, SIDE)) // 8
    board = np.where((rows + columns) % 2, 205, 235).astype(np.uint8)[..., None]
    tiles = [
        np.where(alpha.permute(1, 2, 0).numpy(), image.permute(1, 2, 0).numpy(), board)
        for image, alpha in zip(staged.images[0], staged.alphas[0], strict=True)
    ]
    pairs = [beside(tiles[i : i + 2]) for i in range(0, len(tiles), 2)]
    return beside([pair.transpose(1, 0, 2) for pair in pairs]).transpose(1, 0, 2)


def beside(pictures: list[UInt8Image]) -> UInt8Image:
    """Side by side, white between them; lower ones are filled up."""
    height = max(len(picture) for picture in pictures)
    last = len(pictures) - 1
    pads = [((0, height - len(p)), (0, GAP * (i < last)), (0, 0)) for i, p in enumerate(pictures)]
    return np.concatenate([np.pad(p, pad, constant_values=255) for p, pad in zip(pictures, pads, strict=True)], axis=1)


def main() -> None:
    """Write it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    batch = scene_batch(1, 24, SCENES, seed=1).derived(sample_seeds=torch.tensor([5]))
    with tempfile.TemporaryDirectory() as folder:
        write_bank(Path(folder) / "objects")
        with open_bank(Path(folder) / "objects") as bank:
            chosen = np.random.default_rng(4).choice(len(bank), (1, NUM_CROPS), replace=False)
            staged = stage_bank_batch(bank, chosen)
    config = BatchCopyPasteConfig(
        source=SourceConfig(kind="bank", crops_per_target=NUM_CROPS),
        placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.2), max_attempts=8),
        emit_depth=False,
    )
    out, report = BatchCopyPaste(config)(batch, staged=staged, return_report=True)
    before, after = batch.to_batched().to_samples()[0], out.to_batched().to_samples()[0]
    pasted = (report.slot_layer[0] >= 0)[out.instance_valid[0]]
    result = draw_instances(after, pasted=pasted, show_labels=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(beside([draw_image(before), crop_sheet(staged), result])).save(PICTURE, quality=85)
    print(PICTURE)


if __name__ == "__main__":
    main()
