#!/usr/bin/env python3
"""Draw what pastes do with void of VOC and with holes of a depth sensor, each with the option off and on.

    python scripts/draw_void_and_holes.py --out pictures

The images are those of data sets in the folder that ``SEGPASTE_TEST_DATA`` names: VOC as labelme exports it, with the
contours of five pixels that VOC's own maps have and labelme's lack; a frame of ClearGrasp (transparent objects before a
D435) and one of RGB-D frames of a Kinect. Their pictures are for looking at, not for the documentation. The columns
are: without the option, with it; the rows of the second picture are colour, depth (black: invalid) and the visible
mask.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn.functional import max_pool2d
from torchvision.transforms import v2

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets import open_dataset
from segpaste.types import (
    IGNORE_INDEX,
    BatchedDenseSample,
    CameraIntrinsics,
    DenseSample,
    PaddedBatchedDenseSample,
    SemanticMap,
)
from segpaste.types.depth_holes import fill_holes
from segpaste.viz import draw_semantic

_SIZE = (366, 500)
_FRAME, _CORNER = (480, 640), (120, 320)
_FARTHEST_M = 3.0


def main(argv: Sequence[str] | None = None) -> int:
    """Draw both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ["SEGPASTE_TEST_DATA"])
    for name, picture in (("void", _void(data)), ("holes", _holes(data))):
        Image.fromarray(picture).save(options.out / f"{name}.png")
        print(options.out / f"{name}.png")
    return 0


def _void(data: Path) -> NDArray[np.uint8]:
    photos = open_dataset(data / "labelme_voc" / "instance_segmentation" / "data_dataset_voc")
    crop = v2.Compose([v2.Resize(_SIZE[0]), v2.CenterCrop(_SIZE)])
    samples = [_with_contours(DenseSample.from_dict(crop(photos[index].to_dict()))) for index in range(len(photos))]
    placement = {"paste_prob": 1.0, "layers": 2, "scale_range": (0.6, 0.9)}
    columns = []
    for cover_void in (False, True):
        config = BatchCopyPasteConfig(placement={**placement, "cover_void": cover_void}, source={"whole_only": False})
        out = BatchCopyPaste(config)(_padded(samples)).to_batched().to_samples()
        names = photos.class_names
        rows = [np.concatenate([_pixels(one), np.asarray(draw_semantic(one, class_names=names))], 1) for one in out]
        columns.append(np.concatenate(rows))
    return np.concatenate(columns, 1)


def _with_contours(sample: DenseSample) -> DenseSample:
    """Make pixels within two of the edge of an object void."""
    assert sample.instance_masks is not None
    assert sample.semantic_map is not None
    masks = sample.instance_masks.as_subclass(torch.Tensor).float()
    grown, shrunk = max_pool2d(masks, 5, 1, 2), -max_pool2d(-masks, 5, 1, 2)
    contour = (grown != shrunk).any(0)
    void = sample.semantic_map.as_subclass(torch.Tensor).masked_fill(contour, IGNORE_INDEX)
    return replace(sample, semantic_map=SemanticMap(void))


def _holes(data: Path) -> NDArray[np.uint8]:
    target, source = _kinect(data / "rgbd_tsdf"), _cleargrasp(data / "cleargrasp" / "real-val" / "d435")
    columns = []
    for samples, order in (((target, source), "valid"), ((target, fill_holes(source)), "value")):
        placement = {"paste_prob": 1.0, "position": "keep", "hflip_probability": 0.0}
        config = BatchCopyPasteConfig(placement=placement, depth_order=order, source={"whole_only": False})
        out, report = BatchCopyPaste(config)(_padded(samples), return_report=True)
        one = out.to_batched().to_samples()[0]
        shown = np.repeat((report.visible_layer[0] >= 0).numpy()[..., None], 3, 2).astype(np.uint8) * 255
        columns.append(np.concatenate([_pixels(one), _depth_pixels(one), shown]))
    return np.concatenate(columns, 1)


def _padded(samples: Sequence[DenseSample]) -> PaddedBatchedDenseSample:
    seeds = torch.arange(len(samples)) + 7
    return BatchedDenseSample.from_samples(list(samples)).to_padded(16, sample_seeds=seeds)


def _kinect(folder: Path) -> DenseSample:
    color = sorted((folder / "rgbd-frames").glob("*.color.png"))[0]
    stored = np.array(Image.open(str(color).replace("color", "depth"))).astype(np.float32) / 1000
    depth = torch.from_numpy(np.where((stored > 0) & (stored < 65), stored, 0))[None]
    camera = np.loadtxt(folder / "camera-intrinsics.txt")
    return _sample(np.array(Image.open(color).convert("RGB")), depth, [], (camera[0, 0], camera[1, 1]))


def _cleargrasp(folder: Path) -> DenseSample:
    """Read the frame that has transparent objects, cut to the size of the other frame; each part of its mask."""
    top, left = _CORNER
    window = slice(top, top + _FRAME[0]), slice(left, left + _FRAME[1])
    color = np.array(Image.open(folder / "000000130-transparent-rgb-img.jpg").convert("RGB"))[window]
    mask = np.array(Image.open(folder / "000000130-mask.png").convert("L"))[window] > 127
    stored = np.load(folder / "000000130.npz")["depth_transparent"].astype(np.float32)[window]
    depth = torch.from_numpy(np.where(np.isfinite(stored) & (stored > 0), stored, 0))[None]
    return _sample(color, depth, [mask], (900.0, 900.0))


def _sample(
    color: NDArray[np.uint8], depth: torch.Tensor, masks: list[NDArray[np.bool_]], focal: tuple[float, float]
) -> DenseSample:
    height, width = color.shape[:2]
    image = torch.from_numpy(color.copy()).permute(2, 0, 1)
    stacked = torch.from_numpy(np.array(masks, bool).reshape(-1, height, width))
    plain = DenseSample.from_masks(image, stacked, torch.zeros(len(masks), dtype=torch.int64))
    camera = CameraIntrinsics(float(focal[0]), float(focal[1]), width / 2, height / 2)
    return replace(plain, depth=depth, depth_valid=depth > 0, metric_depth=True, camera_intrinsics=camera)


def _pixels(sample: DenseSample) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.asarray(sample.image).transpose(1, 2, 0))


def _depth_pixels(sample: DenseSample) -> NDArray[np.uint8]:
    """Near is bright, invalid black."""
    assert sample.depth is not None
    assert sample.depth_valid is not None
    depth, valid = np.asarray(sample.depth)[0], np.asarray(sample.depth_valid)[0]
    grey = np.where(valid, 255 - np.clip(depth / _FARTHEST_M, 0, 0.9) * 255, 0).astype(np.uint8)
    return np.repeat(grey[..., None], 3, 2)


if __name__ == "__main__":
    raise SystemExit(main())
