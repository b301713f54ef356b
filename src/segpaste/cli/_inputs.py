"""The dataset that a command works on, of any format that is read, or synthetic scenes, seen the same way."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from segpaste.bank import Photos
from segpaste.cli._errors import CommandError
from segpaste.datasets import FederatedLabels, FoundDataset, SceneConfig, SceneDataset, find_dataset
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.records import Crowd
from segpaste.types import KeypointSchema, PanopticSchema

NUM_SCENES = 100_000
"""Distinct scenes of one seed; more output images than this show some of them again, with other pastes."""


class ReadPhotos(Photos, Protocol):
    """A map-style dataset whose samples know where they come from, and what else was in their photos."""

    @property
    def has_masks(self) -> bool:
        """Whether samples have instance masks, and not boxes alone."""
        ...

    @property
    def keypoint_schema(self) -> KeypointSchema | None:
        """Names of the keypoints, if there are any."""
        ...

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
        categories: the category of each class.
        schema: things and stuff, where the dataset is panoptic.
        name: what the dataset is called, without folders.
        digest: of the annotations; two datasets with the same digest have the same labels.
        found: what it was recognised as; None for scenes.
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

    has_masks = True
    keypoint_schema: KeypointSchema | None = None

    def file_name(self, index: int) -> str:
        return f"scene {index}"

    def crowds(self, index: int) -> Sequence[Crowd]:
        return ()

    def federated(self, index: int) -> FederatedLabels | None:
        return None


def open_dataset(args: argparse.Namespace, seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """Open the dataset that ``dataset`` and the options of its files name; the numbers are of scenes.

    Raises:
        DatasetError: it is unknown or broken, has no such split, or without a name none to train on, or has no use for
            an option.
        CommandError: it has no photo.
    """
    given = {"--images": args.images, "--panoptic-dir": args.panoptic_dir, "--split": args.split, "--from": args.from_}
    if args.dataset == "scenes":
        if names := [name for name, value in given.items() if value is not None]:
            raise CommandError(f"scenes: expected no {' and no '.join(names)}; leave it out")
        return open_scenes(seed, size_px, num)
    found = find_dataset(args.dataset, args.from_)
    is_of_output = "task" not in found.format.takes and getattr(args, "layout", None) == "yolo"
    task = None if is_of_output or args.task == "obb" else args.task
    options = ReadOptions(images_dir=args.images, panoptic_dir=args.panoptic_dir, task=task)
    split = found.chosen_split(args.split)
    photos = found.open(args.split, options)
    if not len(photos):
        raise CommandError(f"{found.path}: expected at least one image, got none")
    called = f"{found.path.resolve().name}/{split}" if split else found.path.name
    return Inputs(photos, photos.categories, photos.schema, called, photos.digest, found, split or "train")


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
