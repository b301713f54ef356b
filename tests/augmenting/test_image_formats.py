"""The format of augmented images: by default that of the image that is read, whatever its suffix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from on_disk import noise, rectangle, runs
from segpaste import augment_dataset, replay_dataset
from segpaste.augmenting import AugmentError
from segpaste.cli import main

SIZE = (48, 64)
SHOWN = {"jpg": b"\xff\xd8\xff", "png": b"\x89PN"}
NAMES = ("0.jpg", "1.png", "2.JPEG", "3.jpg")
"""The last is a PNG."""


def write(folder: Path, names: Sequence[str] = NAMES) -> tuple[Path, Path]:
    """Write an image of each name with an object; return the annotations and the folder."""
    (folder / "photos").mkdir(parents=True)
    images, rows = [], []
    for number, name in enumerate(names):
        kind = "JPEG" if name in ("0.jpg", "2.JPEG") else "PNG"
        Image.fromarray(noise(SIZE, number)).save(folder / "photos" / name, kind)
        images.append({"id": number, "file_name": name, "height": SIZE[0], "width": SIZE[1]})
        mask = runs(rectangle(SIZE, 10, 12, 30, 40))
        row = {"id": number + 1, "image_id": number, "category_id": 1, "segmentation": mask}
        rows.append(row | {"bbox": [12, 10, 28, 20], "area": 560, "iscrowd": 0, "score": number / 8})
    document = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    (folder / "instances.json").write_text(json.dumps(document))
    return folder / "instances.json", folder / "photos"


def test_jpeg_of_jpeg_by_default(tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    summary = augment_dataset(file, tmp_path / "out", num=8, images_dir=photos, gallery=0)
    assert summary.verified.images == 8
    images = json.loads((tmp_path / "out/annotations.json").read_text())["images"]
    assert {image["segpaste"]["source_file_name"] for image in images} == {*NAMES}
    for image in images:
        is_jpeg = image["segpaste"]["source_file_name"] in ("0.jpg", "2.JPEG")
        suffix = "jpg" if is_jpeg else "png"
        assert image["file_name"] == f"{image['id']:06d}.{suffix}"
        assert (tmp_path / "out/images" / image["file_name"]).read_bytes()[:3] == SHOWN[suffix]
    assert replay_dataset(tmp_path / "out", file, images_dir=photos, check=tmp_path / "out").is_identical
    replay_dataset(tmp_path / "out", file, images_dir=photos, out=tmp_path / "again")
    for path in (tmp_path / "out/images").iterdir():
        assert (tmp_path / "again/images" / path.name).read_bytes() == path.read_bytes()
    assert augment_dataset(file, tmp_path / "out", num=8, images_dir=photos, gallery=0).state == "there"
    gone = next((tmp_path / "out/images").glob("*.jpg"))
    gone.unlink()
    with pytest.raises(AugmentError, match=f"of this finished run, 1 missing, such as images/{gone.stem}"):
        augment_dataset(file, tmp_path / "out", num=8, images_dir=photos, gallery=0)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_format_that_is_asked_for(suffix: str, tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    words = ["--images", str(photos), "--num", "4", "--gallery", "0", "--format", suffix]
    assert main(["augment", str(file), "--out", f"{tmp_path}/out", *words]) == 0
    assert {path.suffix for path in (tmp_path / "out/images").iterdir()} == {f".{suffix}"}


def test_a_changed_jpeg_is_found(tmp_path: Path) -> None:
    file, photos = write(tmp_path, ("0.jpg", "2.JPEG"))
    augment_dataset(file, tmp_path / "out", num=2, images_dir=photos, gallery=0)
    path = tmp_path / "out/images/000001.jpg"
    pixels = np.array(Image.open(path))
    pixels[20:30, 20:30] = 255
    Image.fromarray(pixels).save(path, quality=95, subsampling=0)
    summary = replay_dataset(tmp_path / "out", file, images_dir=photos, check=tmp_path / "out")
    assert not summary.is_identical
    assert "images/000001.jpg differs" in str(summary)
