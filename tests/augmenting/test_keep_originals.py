"""Originals and augmented images in one dataset: the originals as they were, all of them replayable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from on_disk import noise, rectangle, runs, tree
from segpaste import augment_dataset, convert_dataset, replay_dataset
from segpaste.augmenting import AugmentError
from segpaste.cli import main
from segpaste.datasets import open_dataset

SIZE = (48, 64)
NAMES = ("a/0.jpg", "a/1.png", "b/0.jpeg", "turned.jpg")
NUM = 3


def write(folder: Path) -> tuple[Path, Path]:
    """Write images in two formats, one with an EXIF orientation; objects with keys, and links between images."""
    images, rows = [], []
    for number, name in enumerate(NAMES):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        if name == "turned.jpg":
            exif[0x0112] = 3
        Image.fromarray(noise(SIZE, number)).save(path, quality=90, exif=exif)
        image = {"id": 10 + number, "file_name": name, "height": SIZE[0], "width": SIZE[1], "license": 4}
        images.append({**image, "prev_image_id": 10 + number - 1} if number else image)
        polygon = [[12.25, 10, 40, 10, 40, 30.5, 12.25, 30.5]]
        row = {"id": 100 + number, "image_id": 10 + number, "category_id": 5, "segmentation": polygon}
        rows.append(row | {"bbox": [12.25, 10, 27.75, 20.5], "area": 568.9, "iscrowd": 0, "score": number / 8})
    crowd = runs(rectangle(SIZE, 40, 0, 48, 20))
    rows.append({"id": 900, "image_id": 10, "category_id": 5, "segmentation": crowd, "iscrowd": 1, "area": 160})
    rows[-1]["bbox"] = [0, 40, 20, 8]
    tables = {"licenses": [{"id": 4, "name": "CC0"}], "images": images, "annotations": rows}
    (folder / "instances.json").write_text(json.dumps(tables | {"categories": [{"id": 5, "name": "cup"}]}))
    return folder / "instances.json", folder / "photos"


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_files_entries_and_links_are_those_of_the_dataset(tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    out = tmp_path / "out"
    summary = augment_dataset(file, out, num=NUM, images_dir=photos, keep_originals=True, gallery=1)
    assert (summary.num_images, summary.num_originals, summary.verified.images) == (NUM, len(NAMES), NUM + len(NAMES))
    assert "kept     4 originals, unchanged" in list(summary.lines())
    assert summary.left_out["files of images, which are encoded again as PNG: EXIF orientation"] == 1
    given, made = read_json(file), read_json(out / "annotations.json")
    kept = [image for image in made["images"] if "original" in image["segpaste"]]
    assert [image["id"] for image in kept] == [4, 5, 6, 7]
    assert [image["file_name"] for image in kept] == ["000004.jpg", "000005.png", "000006.jpg", "000007.png"]
    for name, image, source in zip(NAMES[:3], kept, given["images"], strict=False):
        assert (out / "images" / image["file_name"]).read_bytes() == (photos / name).read_bytes()
        assert image["license"] == source["license"]
    stored = np.array(Image.open(photos / "turned.jpg"))  # COCO's labels are drawn on these
    assert np.array_equal(np.array(Image.open(out / "images/000007.png")), stored)
    assert [image.get("prev_image_id") for image in kept] == [None, 4, 5, 6]
    own = ("id", "image_id", "segpaste", "bbox", "area")
    for image, source in zip(kept, given["images"], strict=True):
        there = [row for row in made["annotations"] if row["image_id"] == image["id"]]
        wanted = [row for row in given["annotations"] if row["image_id"] == source["id"]]
        assert [row["segpaste"]["source_annotation_id"] for row in there] == [row["id"] for row in wanted]
        for row, expected in zip(there, wanted, strict=True):
            assert row["bbox"] == ([0, 40, 20, 8] if row["iscrowd"] else [12, 10, 28, 21])  # those of the masks
            keys = row.keys() - {*own, *(["segmentation"] if row["iscrowd"] else [])}  # run lengths are compressed
            assert keys >= {"category_id", "iscrowd"} | ({"score", "segmentation"} if not row["iscrowd"] else set())
            assert {key: row[key] for key in keys} == {key: expected[key] for key in keys}
    assert len((out / "replay.jsonl").read_text().splitlines()) == NUM


def test_links_of_augmented_images_are_among_these(tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    augment_dataset(file, tmp_path / "out", num=4, images_dir=photos, keep_originals=True, gallery=0)
    images = read_json(tmp_path / "out/annotations.json")["images"]
    new = {image["segpaste"]["source_image_id"]: image["id"] for image in images[:4]}
    assert {*new} == {10, 11, 12, 13}
    for image in images[:4]:
        source = image["segpaste"]["source_image_id"]
        assert image.get("prev_image_id") == (None if source == 10 else new[source - 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["yolo", "voc", "label-maps", "lvis", "roboflow"])
def test_samples_are_those_of_the_dataset_in_every_layout(layout: str, tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    convert_dataset(file, tmp_path / "given", layout, images_dir=photos)
    given: Any = open_dataset(tmp_path / "given")
    summary = augment_dataset(tmp_path / "given", tmp_path / "out", num=NUM, keep_originals=True, gallery=0)
    assert summary.num_originals == len(given)
    made: Any = open_dataset(tmp_path / "out")
    names = [made.file_name(index).split("/")[-1] for index in range(len(made))]
    for index in range(len(given)):
        there = next(i for i, name in enumerate(names) if name.startswith(f"{NUM + index + 1:06d}."))
        assert made.path_of(there).read_bytes() == given.path_of(index).read_bytes()
        one, other = given[index], made[there]
        for field in ("image", "boxes", "labels", "instance_masks", "semantic_map", "crowd_mask"):
            ours, theirs = getattr(one, field), getattr(other, field)
            assert (ours is None) == (theirs is None), field
            assert ours is None or bool((ours == theirs).all()), field
    assert replay_dataset(tmp_path / "out", tmp_path / "given", check=tmp_path / "out").is_identical


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("image", "images/000004.jpg differs"),
        ("box", "its annotations differ"),
        ("key", "its row in annotations.json differs"),
        ("name", "is an original of other.jpg, which instances.json does not have"),
    ],
)
def test_replay_finds_a_changed_original(change: str, said: str, tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    out = tmp_path / "out"
    augment_dataset(file, out, num=NUM, images_dir=photos, keep_originals=True, gallery=0)
    check = {"images_dir": photos, "check": out}
    found = replay_dataset(out, file, **check)
    assert (found.num_images, found.is_identical) == (NUM + len(NAMES), True)
    document = read_json(out / "annotations.json")
    if change == "image":
        Image.fromarray(noise(SIZE, 9)).save(out / "images/000004.jpg")
    elif change == "box":
        next(row for row in document["annotations"] if row["image_id"] == 4)["bbox"][0] += 1
    elif change == "key":
        document["images"][NUM]["license"] = 5
    else:
        document["images"][NUM]["segpaste"]["source_file_name"] = "other.jpg"
    (out / "annotations.json").write_text(json.dumps(document))
    found = replay_dataset(out, file, **check)
    assert not found.is_identical
    assert said in str(found)


def test_workers_shards_and_interrupts_write_the_same_bytes(tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    options: dict[str, Any] = {"num": 7, "images_dir": photos, "keep_originals": True, "gallery": 0}
    augment_dataset(file, tmp_path / "one", **options)
    for number in (2, 1):
        augment_dataset(file, tmp_path / "shards", **options, shard=(number, 2))

    def stop(what: str, done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        augment_dataset(file, tmp_path / "resumed", **options, progress=stop)
    with pytest.raises(AugmentError, match="with other arguments: --keep-originals"):
        augment_dataset(file, tmp_path / "resumed", **{**options, "num": 9})
    with pytest.raises(AugmentError, match="with other arguments: --keep-originals"):
        augment_dataset(file, tmp_path / "resumed", **{**options, "keep_originals": False})
    augment_dataset(file, tmp_path / "resumed", **options)
    assert tree(tmp_path / "one") == tree(tmp_path / "shards") == tree(tmp_path / "resumed")
    assert augment_dataset(file, tmp_path / "one", **options).state == "there"


def test_originals_are_not_jittered_and_backgrounds_are_none(tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    (tmp_path / "sky").mkdir()
    Image.fromarray(noise(SIZE, 7)).save(tmp_path / "sky/sky.png")
    words = ["--images", str(photos), "--num", "5", "--size", "40", "--gallery", "0", "--keep-originals"]
    words += ["--backgrounds", str(tmp_path / "sky")]
    assert main(["augment", str(file), "--out", f"{tmp_path}/out", *words]) == 0
    images = read_json(tmp_path / "out/annotations.json")["images"]
    assert [(row["height"], row["width"]) for row in images] == [(40, 40)] * 5 + [SIZE] * len(NAMES)


def test_scenes_have_no_originals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["augment", "scenes", "--out", f"{tmp_path}/out", "--num", "2", "--keep-originals"]) == 2
    assert "--keep-originals: expected a dataset, got scenes; leave it out" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["yolo", "voc", "label-maps", "coco-panoptic", "lvis", "roboflow"])
def test_every_layout_of_entries_with_fractions_passes_its_comparison(layout: str, tmp_path: Path) -> None:
    file, photos = write(tmp_path)
    options: dict[str, Any] = {"images_dir": photos, "keep_originals": True, "gallery": 0}
    if layout == "coco-panoptic":
        convert_dataset(file, tmp_path / "given", layout, images_dir=photos)
        file, options["images_dir"] = tmp_path / "given", None
    summary = augment_dataset(file, tmp_path / "out", num=NUM, layout=layout, verify="full", **options)
    assert summary.verified.images == NUM + len(NAMES)
