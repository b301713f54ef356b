"""What is the same in every format: damaged files, copies for workers, digests and batches."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from health_files import FORMATS, NUM, write
from PIL import Image

from samples import assert_same
from segpaste import augment_dataset, convert_dataset, create_coco_dataloader
from segpaste.augmenting import AugmentError
from segpaste.datasets import DatasetError, check_dataset, open_dataset
from segpaste.datasets.checking.check import check_unopened

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a dataset in every format into a folder of its name."""
    folder = tmp_path_factory.mktemp("formats")
    for name in FORMATS:
        write(folder / name, name)
    return folder


@pytest.fixture
def root(name: str, originals: Path, tmp_path: Path) -> Path:
    """Return a copy that may be changed."""
    return Path(shutil.copytree(originals / name, tmp_path / "dataset"))


def read(root: Path) -> None:
    photos = open_dataset(root)
    for index in range(len(photos)):
        photos[index]


def found_by_check(root: Path) -> str:
    """Return the messages of the errors that a check finds, or its error."""
    try:
        report = check_dataset(open_dataset(root), decode=True)
    except DatasetError as error:
        try:
            report = check_unopened(root, error, decode=True)
        except DatasetError as unreadable:
            return str(unreadable)
    return "\n".join(found.message for kind in report.counts("error") for found in report.of_kind(kind))


def assert_refused(root: Path, place: str, words: str) -> None:
    """Read, check, convert and augment: the error is one line and names the file, and no output has its name."""
    converted, augmented = root.with_name("converted"), root.with_name("augmented")
    overrides = {"source.mask_from": "boxes"} if (root / "Annotations").exists() else {}
    at_place = f"{root}/{place}: .*{words}"
    for make, message in (
        (lambda: read(root), f"^{at_place}"),
        (lambda: convert_dataset(root, converted, "coco"), words),  # it may have copied the file, and name its copy
        (lambda: augment_dataset(root, augmented, num=NUM, gallery=0, overrides=overrides), f"^{at_place}"),
    ):
        with pytest.raises((DatasetError, AugmentError), match=message) as error:
            make()
        assert "\n" not in str(error.value)
    assert re.search(f"(?m)^{at_place}", found_by_check(root))
    assert not converted.exists()
    assert not augmented.exists()


IMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "expected an image, found no such file"),
    "of text": (lambda path: path.write_text("none"), "expected an image, got another file; replace it"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:900]), "expected an image, could not decode it"),
    "of another size": (
        lambda path: Image.new("RGB", (32, 24)).save(path),
        "expected 64 x 48 pixels as in the annotation file, got 32 x 24",
    ),
}
OTHERWISE = {
    ("yolo", "missing"): "expected (the path of )?an image",  # which its list names
    ("yolo", "of another size"): "",  # its labels say no size
    ("via", "of another size"): "",
    ("label-maps", "missing"): "",  # its images are those of the folder
}


@pytest.mark.parametrize("damage", IMAGES)
@pytest.mark.parametrize("name", FORMATS)
def test_an_image(name: str, damage: str, root: Path) -> None:
    change, words = IMAGES[damage]
    file, _ = open_dataset(root).photo_file(1)
    change(file)
    place = r"(.*/)?(1\.\w+|train\.txt)" if damage == "missing" else re.escape(str(file.relative_to(root)))
    if expected := OTHERWISE.get((name, damage), words):
        assert_refused(root, place, expected)
    else:
        read(root)


CUT_JSON, CUT_XML, CUT_MAP = "expected JSON", "expected XML, got truncated or malformed text", "could not decode it"
ANNOTATIONS: dict[str, tuple[str, str]] = {
    "coco": ("annotations/instances_train.json", CUT_JSON),
    "lvis": ("annotations/lvis_train.json", CUT_JSON),
    "panoptic": ("annotations/panoptic_train/1.png", CUT_MAP),
    "yolo": ("labels/1.txt", "expected a class and a box"),
    "voc": ("Annotations/1.xml", CUT_XML),
    "voc masks": ("SegmentationObject/1.png", CUT_MAP),
    "cvat": ("annotations.xml", CUT_XML),
    "labelme": ("1.json", CUT_JSON),
    "label-studio": ("project.json", CUT_JSON),
    "via": ("via_region_data.json", CUT_JSON),
    "ndjson": ("cups.ndjson", CUT_JSON),
    "label-maps": ("semantic/train/1.png", CUT_MAP),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations_that_are_cut_off(name: str, root: Path) -> None:
    file, words = ANNOTATIONS[name]
    content = (root / file).read_bytes()
    (root / file).write_bytes(content[: len(content) * 3 // 4])
    assert_refused(root, re.escape(file), words)


@pytest.mark.parametrize("name", FORMATS)
def test_copies_for_workers_read_the_files_again(name: str, root: Path) -> None:
    photos: Any = open_dataset(root)
    pickled = pickle.dumps(photos)
    assert len(pickled) < 4000
    again = pickle.loads(pickled)
    assert (again.digest, again.class_names, len(again)) == (photos.digest, photos.class_names, NUM)
    assert_same(again[1], photos[1])


@pytest.mark.parametrize("name", FORMATS)
def test_the_digest_follows_the_annotations_and_not_the_place(name: str, root: Path, originals: Path) -> None:
    before = open_dataset(originals / name).digest
    assert open_dataset(root).digest == before
    for path in root.rglob("*.*"):
        if path.suffix in (".json", ".ndjson", ".xml", ".yaml", ".txt"):
            path.write_text(path.read_text().replace("cup", "mug"))
    photos = open_dataset(root)
    assert "mug" in photos.class_names
    assert photos.digest != before


@pytest.mark.parametrize("name", FORMATS)
def test_batches(name: str, originals: Path) -> None:
    photos = open_dataset(originals / name)
    batch = next(iter(create_coco_dataloader(dataset=photos, batch_size=NUM, size=32, num_workers=0)))
    assert (len(batch.images), len(photos)) == (NUM, NUM)
