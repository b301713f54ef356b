"""The dataset that a command works on, COCO, YOLO, Roboflow's folders or synthetic scenes, seen the same way."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from segpaste.bank import Photos
from segpaste.cli._errors import CommandError
from segpaste.datasets import (
    CocoDetectionV2,
    CocoPanoptic,
    FederatedLabels,
    FoundDataset,
    SceneConfig,
    SceneDataset,
    YoloDataset,
    find_dataset,
)
from segpaste.datasets.formats.folders import layout_at
from segpaste.datasets.formats.records import Crowd, read_tables
from segpaste.datasets.formats.yolo.labels import Task
from segpaste.types import PanopticSchema

NUM_SCENES = 100_000
"""Distinct scenes of one seed; more output images than this show some of them again, with other pastes."""


class ReadPhotos(Photos, Protocol):
    """A map-style dataset whose samples know where they come from, and what else was in their photos."""

    def file_name(self, index: int) -> str:
        """Return the name of the photo."""
        ...

    def annotation_ids(self, index: int) -> Sequence[int]:
        """The dataset's id of each instance; instance id i + 1 is at position i."""
        ...

    def left_out(self, index: int) -> Mapping[str, int]:
        """How many annotations of a photo that was read are no instances, by reason."""
        ...

    def crowds(self, index: int) -> Sequence[Crowd]:
        """The crowd and ignored regions of a photo that samples carry as their crowd mask."""
        ...

    def federated(self, index: int) -> FederatedLabels | None:
        """Which classes were looked for in the photo; None where the dataset does not say."""
        ...


@dataclass(frozen=True, slots=True)
class Inputs:
    """A dataset, opened.

    Attributes:
        photos: the samples.
        categories: the table of that name, in file order.
        schema: things and stuff, where the dataset is panoptic.
        name: what the dataset is called, without folders.
        digest: of the annotations; two datasets with the same digest have the same labels.
        found: the folder that it is a split of; None for annotations beside a folder of photos, and for scenes.
        split: of the folder.
    """

    photos: ReadPhotos
    categories: list[dict[str, Any]]
    schema: PanopticSchema | None
    name: str
    digest: str
    found: FoundDataset | None = None
    split: str = "train"

    @property
    def by_label(self) -> list[dict[str, Any]]:
        """The category of each class: classes are numbered by ascending category id."""
        return sorted(self.categories, key=lambda row: int(row["id"]))

    @property
    def class_names(self) -> list[str]:
        """The name of each class."""
        return [str(row["name"]) for row in self.by_label]


class Scenes(SceneDataset):
    """Synthetic scenes with ids, as `ReadPhotos`."""

    def file_name(self, index: int) -> str:
        return f"scene {index}"

    def crowds(self, index: int) -> Sequence[Crowd]:
        return ()

    def federated(self, index: int) -> FederatedLabels | None:
        return None


def open_dataset(args: argparse.Namespace, seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """The dataset that ``dataset`` and the options of its files name; the numbers are of scenes."""
    path = Path(args.dataset)
    is_folder = args.dataset != "scenes" and (path.is_dir() or layout_at(path) is not None)
    if (args.dataset == "scenes" or is_folder) and (args.images or args.panoptic_dir):
        raise CommandError(f"{args.dataset}: expected neither --images nor --panoptic-dir; leave them out")
    if is_folder:
        return open_folder(Path(args.dataset), args.split, args.task)
    if args.split is not None or (args.task is not None and getattr(args, "layout", None) != "yolo"):
        raise CommandError(
            f"--split, --task: expected them with a folder or a data YAML, got {args.dataset}; leave them out"
        )
    if args.dataset == "scenes":
        return open_scenes(seed, size_px, num)
    if args.images is None:
        raise CommandError("expected --images, the folder of the photos; give it")
    return open_coco(Path(args.dataset), args.images, args.panoptic_dir)


def open_scenes(seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """Square scenes with all modalities."""
    config = SceneConfig(height=size_px, width=size_px)
    scenes = Scenes(num, config, seed)
    categories = [
        {"id": label + 1, "name": name, "supercategory": kind, "isthing": int(kind == "thing")}
        for (label, kind), name in zip(scenes.schema.classes.items(), scenes.class_names, strict=True)
    ]
    digest = hashlib.sha256(f"{config} {seed}".encode()).hexdigest()
    return Inputs(scenes, categories, scenes.schema, "scenes", digest)


def open_folder(path: Path, split: str | None, task: Task | None) -> Inputs:
    """A split of a dataset in a folder, or of a data YAML.

    Raises:
        DatasetError: it is broken, or has no such split, or without a name none to train on.
        CommandError: it has no photo.
    """
    found = find_dataset(path)
    name = found.chosen_split(split)
    photos = found.open(name, task=task)
    called = f"{path.resolve().name}/{name}"
    if isinstance(photos, YoloDataset):
        return Inputs(photos, photos.categories, None, called, photos.digest, found, name)
    inputs = open_coco(photos.annotations_file, photos.images_dir, None)
    return replace(inputs, name=called, found=found, split=name)


def open_coco(annotations_file: Path, images_dir: Path, panoptic_dir: Path | None) -> Inputs:
    """COCO annotations of either form; which one, the file's content tells.

    Args:
        annotations_file: instances or panoptic segments in JSON.
        images_dir: the folder of the photos.
        panoptic_dir: the folder of the panoptic PNG files; by default the one beside the file that has its name.

    Raises:
        DatasetError: a file or folder is missing, broken, or lacks what it must hold.
        CommandError: no photo, or ``panoptic_dir`` does not fit the form.
    """
    tables = read_tables(annotations_file, {"annotations": {}, "categories": {"id": int, "name": str}})
    is_panoptic = any("segments_info" in row for row in tables["annotations"])
    photos: CocoDetectionV2 | CocoPanoptic
    if is_panoptic:
        folder = panoptic_dir or annotations_file.with_suffix("")
        if panoptic_dir is None and not folder.is_dir():
            raise CommandError(
                f"{annotations_file} holds panoptic segments: expected --panoptic-dir with their PNG files"
            )
        photos = CocoPanoptic(images_dir, annotations_file, folder)
    elif panoptic_dir is not None:
        raise CommandError(f"{annotations_file}: expected panoptic segments because of --panoptic-dir, got instances")
    else:
        photos = CocoDetectionV2(images_dir, annotations_file)
    if not len(photos):
        raise CommandError(f"{annotations_file}: expected at least one image, got none")
    schema = photos.schema if isinstance(photos, CocoPanoptic) else None
    with annotations_file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Inputs(photos, tables["categories"], schema, annotations_file.name, digest)
