"""Whole datasets in the layout of a probe, with what is right about each image: troubled, clean, public or written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joined import join
from judge import ReadImage, ReadObject
from observe import FORMAT
from PIL import Image
from probes import COCO, YOLO, write

from segpaste.datasets import AnnotatedDataset, open_dataset
from segpaste.datasets.formats.yolo.dataset import YoloDataset

FILES = {"coco": "instances.json", "yolo": "data.yaml"}
NUM_PUBLIC = 8
"""Images of each public dataset, the first ones."""
PUBLIC: Mapping[str, tuple[str, str, str]] = {
    "tiny_coco": ("coco", "tiny_coco/train2017", "tiny_coco/annotations/instances_train2017.json"),
    "fruits_nuts": ("coco", "fruits_nuts/images", "fruits_nuts/trainval.json"),
    "coco128_seg": ("yolo", "coco128_seg", ""),
}
"""Public datasets: format, folder of the images, and annotation file below the folder of data."""


@dataclass
class Given:
    """A dataset in the layout of a probe, with ``truth.json``.

    Attributes:
        name: its name.
        format: its format.
        folder: its folder.
        copies: folders with its images of one long side each, by that side in pixels.
    """

    name: str
    format: str
    folder: Path
    copies: dict[int, Path] = field(default_factory=dict)


def store(folder: Path, rows: list[dict[str, Any]], name: str, objects: Any, masks: Any, pixels: Any) -> None:
    """Keep what is right about an image, beside the dataset."""
    place = folder / "truth" / f"{len(rows)}.npz"
    place.parent.mkdir(exist_ok=True)
    stacked = np.array(masks, bool).reshape(-1, *pixels.shape[:2])
    np.savez(place, masks=np.packbits(stacked, axis=-1), pixels=pixels)
    rows.append({"name": name, "objects": objects, "file": str(place)})


def troubled(format: str, folder: Path, leave_out: frozenset[str] = frozenset()) -> Given:
    """Write the dataset with one of each trouble."""
    rows = list[dict[str, Any]]()
    for image in join(format, folder, leave_out):
        store(folder, rows, image.name, image.objects(), image.masks(), image.picture.pixels())
    (folder / "truth.json").write_text(json.dumps(rows))
    return _grouped(Given(f"trouble {format}", format, folder))


def clean(format: str, folder: Path) -> Given:
    """Write a dataset without any trouble."""
    probe, rows = (COCO if format == "coco" else YOLO)["ordinary"], list[dict[str, Any]]()
    write(probe, format, folder)
    truth = json.loads((folder / "truth.json").read_text())
    for image, picture in zip(truth, probe.images, strict=True):
        objects = [
            {**of, "is_painted": True, "boxes": [[x, y, x + width, y + height]]}
            for of, (x, y, width, height) in zip(image["objects"], (o.box() for o in picture.objects), strict=True)
        ]
        store(folder, rows, picture.name, objects, [found.mask() for found in picture.objects], picture.pixels())
    (folder / "truth.json").write_text(json.dumps(rows))
    return _grouped(Given(f"clean {format}", format, folder))


def public(name: str, data: Path, folder: Path) -> Given:
    """Lay a public dataset out as a probe, and keep what segpaste reads of it."""
    format, images, file = PUBLIC[name]
    folder.mkdir(parents=True)
    if format == "coco":
        (folder / "images").symlink_to(data / images)
        tables = json.loads((data / file).read_text())
        kept = {row["id"] for row in tables["images"][:NUM_PUBLIC]}
        of_kept = {"images": tables["images"][:NUM_PUBLIC]}
        of_kept["annotations"] = [row for row in tables["annotations"] if row["image_id"] in kept]
        (folder / "instances.json").write_text(json.dumps({**tables, **of_kept}))
        dataset = open_dataset(folder / "instances.json", images_dir=data / images)
    else:
        source = open_dataset(data / images)
        stems = {Path(source.file_name(index)).stem for index in range(NUM_PUBLIC)}
        for part in ("images", "labels"):
            (place,) = (data / images / part).iterdir()
            (folder / part).mkdir()
            for path in sorted(place.iterdir()):
                if path.stem in stems:
                    shutil.copyfile(path, folder / part / path.name)
        names = "".join(f"  {i}: {json.dumps(each)}\n" for i, each in enumerate(source.class_names))
        (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n{names}")
        dataset = open_dataset(folder / "data.yaml", split="train")
    return as_read(Given(name, format, folder), dataset, is_painted=False)


def as_read(given: Given, dataset: AnnotatedDataset, *, is_painted: bool) -> Given:
    """Keep what segpaste reads of a dataset."""
    rows = list[dict[str, Any]]()
    for image in read_by_segpaste(dataset, given.folder / "images"):
        objects = [
            {
                "class": of.name,
                "is_crowd": of.is_crowd,
                "has_mask": of.mask is not None,
                "is_painted": is_painted,
                "boxes": of.box,
            }
            for of in image.objects
        ]
        empty = np.zeros(image.pixels.shape[:2], bool)
        masks = [empty if of.mask is None else of.mask for of in image.objects]
        store(given.folder, rows, image.name, objects, masks, image.pixels)
    (given.folder / "truth.json").write_text(json.dumps(rows))
    return _grouped(given)


def read_by_segpaste(dataset: AnnotatedDataset, images: Path) -> Iterator[ReadImage]:
    """Yield the images of a dataset as segpaste reads them; an object has its own box, and that of its file."""
    names = dataset.class_names
    for index in range(len(dataset)):
        sample = dataset[index]
        found = dataset.photo_file(index)
        name = found[0].relative_to(images).as_posix() if found and found[0].is_relative_to(images) else ""
        rows = {row.get("id"): row for row in dataset.annotation_rows(index)}
        masks = [None] * len(sample.labels) if sample.instance_masks is None else sample.instance_masks.numpy()
        outlines = {}
        if isinstance(dataset, YoloDataset):
            outlines = {line: _extent(of) for line, of in dataset.polygons(index, sample.canvas_size).items()}
        ids = dataset.annotation_ids(index) if rows or outlines else [None] * len(masks)
        fields = zip(sample.labels.tolist(), masks, sample.boxes.tolist(), ids, strict=True)
        objects = [
            ReadObject(names[label], mask, _boxes(box, rows.get(i), outlines.get(i))) for label, mask, box, i in fields
        ]
        for crowd in dataset.crowds(index):
            box = [] if crowd.box is None else [crowd.box]
            objects.append(ReadObject(names[crowd.label], None if box else crowd.mask, box, not box))
        pixels = sample.image.numpy().transpose(1, 2, 0)
        pixels = pixels if pixels.dtype == np.uint8 else (pixels * 255).round().astype(np.uint8)
        yield ReadImage(name or dataset.file_name(index), pixels, objects)


def _boxes(box: list[float], row: dict[str, Any] | None, extent: list[float] | None) -> list[list[float]]:
    """Return the box of an object, that of its outline, and that in its file.

    There is none if that has no area, which no tool can give back.
    """
    found = [box] if extent is None else [box, extent]
    if not row or not row.get("bbox"):
        return found
    x, y, width, height = row["bbox"]
    return [*found, [x, y, x + width, y + height]] if width and height else []


def _extent(polygon: list[float]) -> list[float]:
    points = np.reshape(polygon, (-1, 2))
    return [*points.min(0).tolist(), *points.max(0).tolist()]


def _grouped(given: Given) -> Given:
    """Add copies of a dataset with the images of one long side each, which tools read at their stored size."""
    truth = {row["name"]: row for row in json.loads((given.folder / "truth.json").read_text())}
    of_side: dict[int, list[str]] = {}
    for name in truth:
        with Image.open(given.folder / "images" / name) as image:
            of_side.setdefault(max(image.size), []).append(name)
    for side, names in of_side.items():
        place = given.folder.with_name(f"{given.folder.name}@{side}")
        place.mkdir()
        (place / "truth.json").write_text(json.dumps([truth[name] for name in names]))
        (place / FORMAT).write_text(f"{given.format} {side}")
        _copy(given, set(names), place)
        given.copies[side] = place
    return given


def _copy(given: Given, names: set[str], place: Path) -> None:
    """Copy images of a dataset, with their labels."""
    if given.format == "coco":
        (place / "images").symlink_to((given.folder / "images").resolve())
        tables = json.loads((given.folder / "instances.json").read_text())
        images = [row for row in tables["images"] if row["file_name"] in names]
        ids = {row["id"] for row in images}
        rows = [row for row in tables["annotations"] if row["image_id"] in ids]
        (place / "instances.json").write_text(json.dumps({**tables, "images": images, "annotations": rows}))
        return
    for name in names:
        source, label = given.folder / "images" / name, (given.folder / "labels" / name).with_suffix("")
        for file in (source, *label.parent.glob(f"{label.name}.[tT][xX][tT]")):
            copy = place / file.relative_to(given.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    keys = [line for line in (given.folder / "data.yaml").read_text().splitlines() if not line.startswith("path:")]
    lines = ["train: images" if line.startswith("train:") else line for line in keys]
    lines = ["val: images" if line.startswith("val:") else line for line in lines]
    (place / "data.yaml").write_text("\n".join([f"path: {place}", *lines, ""]))
