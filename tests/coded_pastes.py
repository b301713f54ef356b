"""A bank whose crops have distinct colours, photos without those colours, and a slow check of pastes.

Pixels of `CODE` and above come from a crop, and say from which; so labels can be compared with the image alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from on_disk import Mask, rectangle, runs
from segpaste import BatchCopyPasteConfig
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.bank import Crop, Layout, MemmapBank, MemmapWriter
from segpaste.datasets.scenes import SceneConfig, SceneDataset

CODE = 200
CLASSES = (0, 1, 2, 1)
"""The class of each crop; that of colour ``CODE + i`` is at position i."""

IDS = tuple(range(3, 31, 2))
"""The category id of each class of a written dataset."""

SIZES = ((48, 64), (61, 53), (33, 97), (47, 47))


def coded_bank(path: Path, crop_size: tuple[int, int] = (13, 17)) -> MemmapBank:
    """A crop of one colour for each of `CLASSES`, of a random shape with holes."""
    rng, (height, width) = np.random.default_rng(3), crop_size
    with MemmapWriter(path, Layout(crop_size, ()), ["car", "cup", "zebra"]) as writer:
        for index, label in enumerate(CLASSES):
            alpha = np.zeros((1, height, width), bool)
            alpha[:, 1 : height - index, 2 : width - index] = True
            alpha &= rng.random(alpha.shape) < 0.9
            writer.add(
                Crop(
                    image=np.full((3, height, width), CODE + index, np.uint8),
                    alpha=alpha,
                    class_id=label,
                    content_box=np.array([0, 0, width, height], np.int32),
                    source_size=np.array([100, 100], np.int32),
                )
            )
        return MemmapBank(writer.finish())


def coded_config(num_crops: int = 2, **source: str) -> BatchCopyPasteConfig:
    """Options that leave the colours of crops as they are."""
    return BatchCopyPasteConfig(
        placement=PlacementConfig(paste_prob=1.0, scale_range=(1.0, 1.0)),
        source=SourceConfig(kind="bank", crops_per_target=num_crops, **source),
    )


class Row(NamedTuple):
    """An annotation: its class id in the dataset, its mask [H, W], and whether it is a crowd."""

    label: int
    mask: Mask
    is_crowd: bool = False


class Photo(NamedTuple):
    """A photo [H, W, 3] and its annotations."""

    pixels: NDArray[np.uint8]
    rows: list[Row]


def coded_photo(index: int) -> Photo:
    """A scene in colours below `CODE`: of four sizes; each fifth is empty, each third has a crowd among its rows."""
    height, width = SIZES[index % len(SIZES)]
    sample = SceneDataset(1, SceneConfig(height=height, width=width), seed=index, modalities=["image", "instance"])[0]
    assert sample.instance_masks is not None
    pixels = sample.image.permute(1, 2, 0).numpy().clip(max=CODE - 1)
    masks = sample.instance_masks.numpy()
    rows = [Row(IDS[label], np.array(mask)) for label, mask in zip(sample.labels.tolist(), masks, strict=True)]
    if index % 3 == 0:
        rows.insert(1, Row(IDS[0], rectangle((height, width), 3, 5, height - 7, 20), is_crowd=True))
    return Photo(pixels, [] if index % 5 == 4 else [row for row in rows if row.mask.any()])


def box_of(mask: Mask) -> list[int]:
    """The box xyxy of a mask, by looking at every row and column."""
    rows = [y for y in range(mask.shape[0]) if mask[y].any()]
    columns = [x for x in range(mask.shape[1]) if mask[:, x].any()]
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]


def write_photos(folder: Path, num: int) -> tuple[Path, Path]:
    """Write ``num`` coded photos as a COCO dataset; return the folder of photos and the annotation file."""
    photos = folder / "photos"
    photos.mkdir()
    images, annotations = [], []
    for i in range(num):
        pixels, rows = coded_photo(i)
        Image.fromarray(pixels).save(photos / f"{i}.png")
        images.append({"id": 100 + i, "file_name": f"{i}.png", "height": pixels.shape[0], "width": pixels.shape[1]})
        for row in rows:
            x1, y1, x2, y2 = box_of(row.mask)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": 100 + i,
                    "category_id": row.label,
                    "segmentation": runs(row.mask),
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": float(row.mask.sum()),
                    "iscrowd": int(row.is_crowd),
                }
            )
    categories = [{"id": class_id, "name": f"class {class_id}"} for class_id in IDS]
    path = folder / "annotations.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return photos, path


def expect_true(
    photo: Photo,
    pixels: NDArray[np.uint8],
    labels: Sequence[object],
    boxes: NDArray[np.float64],
    masks: Mask,
    *,
    ids: Sequence[object],
    is_crowd: Sequence[int] | None = None,
    areas: Sequence[float] | None = None,
) -> int:
    """Compare the annotations after a paste with the pixels alone, one by one; return how many are pasted.

    Args:
        photo: the photo before it.
        pixels: [H, W, 3] after it.
        labels: of the M annotations.
        boxes: [M, 4] xyxy.
        masks: [M, H, W].
        ids: the label of each class of the bank.
        is_crowd: of the annotations, if known.
        areas: likewise.
    """
    pasted = pixels[..., 0] >= CODE
    assert (pixels[~pasted] == photo.pixels[~pasted]).all()
    expected: list[tuple[object, Mask, bool]] = []
    for row in photo.rows:
        left = row.mask & ~pasted
        enough = left.any() if row.is_crowd else left.any() and left.sum() * 10 >= row.mask.sum()
        if enough:
            expected.append((row.label, left, row.is_crowd))
    num_own = len(expected)
    union = np.zeros_like(pasted)
    for mask in masks[num_own:]:
        (colour,) = set(pixels[mask].reshape(-1).tolist())
        expected.append((ids[CLASSES[colour - CODE]], mask, False))
        assert not (union & mask).any()
        union |= mask
    assert (union == pasted).all()
    assert len(labels) == len(boxes) == len(masks) == len(expected)
    for m, (label, mask, crowd) in enumerate(expected):
        assert labels[m] == label
        assert (masks[m] == mask).all()
        assert list(boxes[m]) == box_of(mask)
        assert is_crowd is None or bool(is_crowd[m]) is crowd
        assert areas is None or areas[m] == mask.sum()
    return len(expected) - num_own
