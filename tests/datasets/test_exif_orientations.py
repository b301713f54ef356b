"""EXIF orientations: the pixels that annotations refer to in each format, the warning, and conversions that keep it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import labelme_shape, voc_object
from PIL import Image, ImageOps

from map_files import write_yaml
from on_disk import noise
from segpaste.datasets import check_dataset, convert_dataset, open_dataset
from segpaste.types import DenseSample

SIZE = (24, 36)
"""(H, W) as stored."""

APPLIED, IGNORED = "orientation_applied", "orientation_ignored"
KINDS = {
    # tool, whose annotations have the size of the photo as stored or as shown, orientation: what is done with it
    ("labelme", "stored", 3): APPLIED,  # labelme shows photos as EXIF says; the size does not tell
    ("labelme", "shown", 6): APPLIED,
    ("labelme", "stored", 6): IGNORED,  # so another tool has drawn it
    ("labelme", "stored", 2): APPLIED,
    ("cvat", "stored", 3): APPLIED,
    ("cvat", "shown", 6): APPLIED,
    ("voc", "stored", 3): IGNORED,
    ("voc", "shown", 6): APPLIED,
    ("voc", "stored", 6): IGNORED,
    ("coco", "stored", 3): IGNORED,
    ("coco", "stored", 6): IGNORED,
    ("coco", "stored", 8): IGNORED,
    ("coco", "shown", 6): APPLIED,
    ("coco", "shown", 8): APPLIED,
    ("yolo", "shown", 3): APPLIED,
    ("yolo", "shown", 6): APPLIED,
    ("maps", "stored", 3): IGNORED,
    ("maps", "shown", 6): APPLIED,
    ("maps", "stored", 6): IGNORED,
}
TURNED_BACK = {
    # the same for a TIFF, whose orientation almost all readers apply: it is applied unless only the stored size fits
    **dict.fromkeys([(tool, "stored", 6) for tool in ("labelme", "voc", "coco", "maps")], IGNORED),
    **dict.fromkeys([("coco", "stored", orientation) for orientation in (5, 7, 8)], IGNORED),
    **dict.fromkeys([(tool, "shown", 6) for tool in ("labelme", "cvat", "voc", "coco", "yolo", "maps")], APPLIED),
    **dict.fromkeys([(tool, "stored", 3) for tool in ("labelme", "voc", "coco", "yolo", "maps")], APPLIED),
}
CASES = [*((*case, ".png", kind) for case, kind in KINDS.items())]
CASES += ((*case, ".tif", kind) for case, kind in TURNED_BACK.items())


def write(folder: Path, tool: str, size: tuple[int, int], orientation: int, suffix: str) -> None:
    """Write a photo of this orientation, with one box from (2, 3) to (12, 9) for (H, W)."""
    height, width = size
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = {"yolo": f"images/train/a{suffix}", "cvat": f"images/a{suffix}", "coco": f"images/a{suffix}"}.get(
        tool, f"a{suffix}"
    )
    (folder / photo).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(SIZE, 3)).save(folder / photo, exif=exif)
    corners = [(2, 3), (12, 3), (12, 9), (2, 9)]
    if tool == "labelme":
        facts = {
            "version": "5.5.0",
            "imagePath": f"a{suffix}",
            "imageData": None,
            "imageHeight": height,
            "imageWidth": width,
        }
        (folder / "a.json").write_text(json.dumps({**facts, "shapes": [labelme_shape("cup", corners)]}))
    elif tool == "cvat":
        points = ";".join(f"{x},{y}" for x, y in corners)
        polygon = f'<polygon label="cup" points="{points}"/>'
        image = f'<image id="0" name="a{suffix}" width="{width}" height="{height}">{polygon}</image>'
        (folder / "annotations.xml").write_text(f"<annotations><version>1.1</version>{image}</annotations>")
    elif tool == "voc":
        sizes = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
        parts = f"<filename>a{suffix}</filename>{sizes}{voc_object('cup', (2, 3, 12, 9))}"
        (folder / "a.xml").write_text(f"<annotation>{parts}</annotation>")
    elif tool == "coco":
        row = {"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "bbox": [2, 3, 10, 6], "area": 60}
        row["segmentation"] = [[number for corner in corners for number in corner]]
        image = {"id": 1, "file_name": f"a{suffix}", "height": height, "width": width}
        tables = {"images": [image], "annotations": [row], "categories": [{"id": 1, "name": "cup"}]}
        (folder / "annotations.json").write_text(json.dumps(tables))
    elif tool == "yolo":
        (folder / "labels/train").mkdir(parents=True)
        outline = " ".join(f"{x / width} {y / height}" for x, y in corners)
        (folder / "labels/train/a.txt").write_text(f"0 {outline}\n")
        (folder / "data.yaml").write_text("train: images/train\nnames: [cup]\n")
    else:
        mask = np.zeros(size, np.uint8)
        mask[3:9, 2:12] = 1
        (folder / "masks").mkdir()
        Image.fromarray(mask).save(folder / "masks/a.png")
        instances = "{files: 'masks/{name}.png', encoding: number, class: cup}"
        write_yaml(folder, f"photos: '{{name}}{suffix}'\nclasses: [cup]\ninstances: {instances}\n")


def pixels_of(sample: DenseSample) -> Any:
    return sample.image.permute(1, 2, 0).numpy()


@pytest.mark.parametrize(("tool", "annotated", "orientation", "suffix", "kind"), CASES)
def test_pixels_said_and_converted(
    tmp_path: Path, tool: str, annotated: str, orientation: int, suffix: str, kind: str
) -> None:
    size = SIZE[::-1] if annotated == "shown" and orientation >= 5 else SIZE
    write(tmp_path / "in", tool, size, orientation, suffix)
    photos = open_dataset(tmp_path / "in")
    sample = photos[0]
    stored = Image.fromarray(noise(SIZE, 3))
    stored.getexif()[0x0112] = orientation
    np.testing.assert_array_equal(pixels_of(sample), ImageOps.exif_transpose(stored) if kind == APPLIED else stored)
    np.testing.assert_allclose(sample.boxes, [[2, 3, 12, 9]], atol=1e-4)
    for decode in (False, True):
        said = [found.kind for found in check_dataset(photos, decode=decode).findings if "orientation" in found.kind]
        assert said == [kind]
    for to in ("coco", "yolo"):
        with warnings.catch_warnings(action="ignore"):
            convert_dataset(tmp_path / "in", tmp_path / to, to)
            again = open_dataset(tmp_path / to)[0]
        np.testing.assert_array_equal(pixels_of(again), pixels_of(sample))
        np.testing.assert_allclose(again.boxes, [[2, 3, 12, 9]], atol=1e-4)
