"""Small datasets of maps on disk, made of synthetic scenes; writers that share no code with the package."""

from __future__ import annotations

import json
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste.datasets import SceneConfig, SceneDataset
from segpaste.types import DenseSample

Array = NDArray[Any]
SIZE = (29, 43)
NUM = 3
SCENES = SceneDataset(NUM, SceneConfig(height=SIZE[0], width=SIZE[1]), seed=5)
NAMES = SCENES.class_names
NUM_THINGS = 8
THINGS = NAMES[:NUM_THINGS]
CITY_IDS = (24, 25, 26, 27, 28, 31, 32, 33, 7, 8, 11, 12, 13)
"""The ids of Cityscapes that the classes of scenes take."""


@cache
def scene(index: int) -> DenseSample:
    return SCENES[index]


def maps_of(sample: DenseSample) -> tuple[Array, Array]:
    """The class and the instance number, 0 for stuff, of each pixel."""
    return np.asarray(sample.semantic_map), np.asarray(sample.panoptic_map)


def save(path: Path, values: Array) -> None:
    """Write a picture, or a file of NumPy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, values)
    elif values.ndim == 3 and values.dtype == np.uint16:
        path.write_bytes(png_of_16_bits(values))
    else:
        Image.fromarray(values).save(path)


def save_photo(path: Path, sample: DenseSample) -> None:
    save(path, np.asarray(sample.image).transpose(1, 2, 0))


def png_of_16_bits(values: Array) -> bytes:
    """A PNG of [H, W, 3] uint16, which Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def city_ids(sample: DenseSample) -> tuple[Array, Array]:
    """Cityscapes' label ids and instance ids of a scene; 0, unlabelled, where it is void."""
    semantic, panoptic = maps_of(sample)
    table = np.array([*CITY_IDS, *[0] * 243])
    label_ids = table[semantic]
    instance_ids = label_ids.copy()
    for label in range(NUM_THINGS):
        numbers = [n for n, own in enumerate(sample.labels.tolist(), start=1) if own == label]
        for k, number in enumerate(numbers):
            instance_ids[panoptic == number] = CITY_IDS[label] * 1000 + k
    return label_ids, instance_ids


def write_cityscapes(root: Path, ending: str, *, disparity: bool = False) -> Path:
    """Write the scenes as Cityscapes; ``ending`` says which of its files."""
    for index in range(NUM):
        sample, city = scene(index), ("aachen", "ulm")[index % 2]
        name = f"{city}_00000{index}_000019"
        save_photo(root / "leftImg8bit" / "train" / city / f"{name}_leftImg8bit.png", sample)
        label_ids, instance_ids = city_ids(sample)
        path = root / "gtFine" / "train" / city / f"{name}_gtFine_{ending}"
        if ending == "instanceIds.png":
            save(path, instance_ids.astype(np.uint16))
        elif ending == "labelIds.png":
            save(path, label_ids.astype(np.uint8))
        elif ending == "labelTrainIds.png":
            train = {number: i for i, number in enumerate([7, 8, 11, 12, 13, 17, *range(19, 29), 31, 32, 33])}
            save(path, np.vectorize(lambda v, ids=train: ids.get(v, 255))(label_ids).astype(np.uint8))
        if disparity:
            save(root / "disparity" / "train" / city / f"{name}_disparity.png", disparities(sample))
            camera = {"extrinsic": {"baseline": 0.25}, "intrinsic": {"fx": 90.0, "fy": 91.0, "u0": 21.5, "v0": 14.0}}
            path = root / "camera" / "train" / city / f"{name}_camera.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(camera))
    return root


def disparities(sample: DenseSample) -> Array:
    """Disparity times 256, plus 1, as Cityscapes stores it, 0 where depth is invalid."""
    depth, valid = np.asarray(sample.depth)[0], np.asarray(sample.depth_valid)[0]
    stored = np.round(90.0 * 0.25 / np.where(valid, depth, 1) * 256) + 1
    return np.where(valid, stored, 0).astype(np.uint16)


def millimetres(sample: DenseSample) -> Array:
    depth, valid = np.asarray(sample.depth)[0], np.asarray(sample.depth_valid)[0]
    return np.where(valid, np.round(depth * 1000), 0).astype(np.uint16)


def write_yaml(root: Path, text: str, name: str = "segpaste.yaml") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root / name
