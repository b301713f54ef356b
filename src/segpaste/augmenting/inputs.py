"""The input of a command behind one interface: a dataset in any format that can be read, or synthetic scenes."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.augmentation import PanopticTaxonomy
from segpaste.augmenting.box_masks import WithBoxMasks
from segpaste.augmenting.errors import AugmentError
from segpaste.bank import open_bank
from segpaste.bank.building.listing import first_readable
from segpaste.datasets import (
    BackgroundImages,
    FoundDataset,
    JoinedPhotos,
    SceneConfig,
    SceneDataset,
    find_dataset,
)
from segpaste.datasets._common_fields import MOST_TRIES
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.formats.format import ReadOptions
from segpaste.types import PanopticSchema

NUM_SCENES = 100_000
"""Number of distinct scenes of one seed; more output images than this repeat scenes, with other pastes."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """An open dataset.

    Attributes:
        photos: the samples, backgrounds last.
        categories: the table of categories, in file order.
        schema: things and stuff, if the dataset is panoptic.
        name: name of the dataset, without folders.
        digest: digest of the annotations; two datasets with the same digest have the same labels.
        found: the recognised format and files; None for scenes.
        split: split of the folder.
    """

    photos: AnnotatedDataset
    categories: list[dict[str, Any]]
    schema: PanopticSchema | None
    name: str
    digest: str
    found: FoundDataset | None = None
    split: str = "train"

    @property
    def annotated(self) -> AnnotatedDataset:
        """The samples of the dataset, without backgrounds."""
        return self.photos.datasets[0] if isinstance(self.photos, JoinedPhotos) else self.photos

    @property
    def void_is_contour(self) -> bool:
        """True if void of its semantic maps is only a contour around objects."""
        return self.found is not None and self.found.format.void_is_contour and self.annotated.has_masks

    @property
    def fills_depth(self) -> bool:
        """True if holes in the depth of objects have values."""
        return self.photos.depth_fill

    @property
    def by_label(self) -> list[dict[str, Any]]:
        """The category of each class: classes are numbered by ascending category id."""
        return sorted(self.categories, key=lambda row: int(row["id"]))

    def schema_of_objects(self, *, single: bool) -> PanopticSchema | None:
        """Return things and stuff for a paste.

        Without a schema, all classes of a dataset with semantic maps are things if single objects are pasted: crops
        have no map, so their pixels get the class of the object.

        Args:
            single: True if objects are drawn one by one, of a bank or of the dataset.
        """
        if self.schema is not None or not (single and self.photos.has_semantic_maps):
            return self.schema
        return PanopticTaxonomy(classes=dict.fromkeys(range(len(self.categories)), "thing"))

    @property
    def class_names(self) -> list[str]:
        """The name of each class."""
        return [str(row["name"]) for row in self.by_label]


def open_dataset(args: argparse.Namespace, seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """Open the dataset that ``dataset`` and the options of its files name; the numbers are for scenes.

    The images of ``backgrounds``, if any, are joined to it, or are the only images without a dataset. Without a
    dataset, or with one without classes, the classes are those of the ``bank``. With a bank, samples of a dataset
    without objects have empty masks.

    Raises:
        DatasetError, AugmentError: as `open_annotated`; or there are no backgrounds, or they do not fit the dataset as
            targets, or neither a dataset nor a bank has objects.
    """
    folder = getattr(args, "backgrounds", None)
    if args.dataset is not None:
        inputs = _for_bank(open_annotated(args, seed, size_px, num), getattr(args, "bank", None))
        return inputs if folder is None else _with_backgrounds(inputs, folder)
    if folder is None or getattr(args, "bank", None) is None:
        raise AugmentError("expected a dataset, or --backgrounds and --bank, from which objects are pasted; see --help")
    photos, categories = BackgroundImages(folder), _categories_of(args.bank)
    digest = hashlib.sha256(f"{photos.digest} {categories}".encode()).hexdigest()
    return Inputs(photos, categories, None, folder.resolve().name, digest)


def _for_bank(inputs: Inputs, bank: str | None) -> Inputs:
    """Return a dataset without objects as targets for the objects of a bank."""
    given = inputs.photos
    if bank is None or given.has_masks or given.has_semantic_maps or has_objects(given):
        return inputs
    photos = WithBoxMasks(given)
    if inputs.categories:
        return replace(inputs, photos=photos)
    categories = _categories_of(bank)
    digest = hashlib.sha256(f"{inputs.digest} {categories}".encode()).hexdigest()
    return replace(inputs, photos=photos, categories=categories, digest=digest)


def has_objects(photos: AnnotatedDataset) -> bool:
    """Return whether a dataset has annotated objects; True if it does not list its labels."""
    return not photos.lists_labels or any(photos.instance_labels(index) for index in range(len(photos)))


def _categories_of(bank: str) -> list[dict[str, Any]]:
    """Return the classes of a bank as categories."""
    return [{"id": label, "name": name} for label, name in enumerate(open_bank(bank).class_names, start=1)]


def _with_backgrounds(inputs: Inputs, folder: Path) -> Inputs:
    backgrounds = BackgroundImages(folder)
    if inputs.schema is not None or inputs.photos.has_semantic_maps:
        raise AugmentError(
            f"--backgrounds: expected a dataset without semantic maps, got {inputs.name} with them: all pixels of an "
            "image without a map are ignored, and nothing is pasted over ignored pixels; leave it out"
        )
    if first_readable(inputs.photos, np.arange(min(MOST_TRIES, len(inputs.photos))), {}).metric_depth:
        raise AugmentError(
            f"--backgrounds: expected a dataset without cameras, got {inputs.name} with metric depth, which needs the "
            "camera of every image; leave it out, or leave camera out of the declaration"
        )
    photos = JoinedPhotos([inputs.photos, backgrounds], names=[inputs.name, folder.resolve().name])
    digest = hashlib.sha256(f"{inputs.digest} {backgrounds.digest}".encode()).hexdigest()
    return replace(inputs, photos=photos, digest=digest)


def open_annotated(args: argparse.Namespace, seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """Open the dataset without backgrounds; see `open_dataset`.

    Raises:
        DatasetError: it is unknown or broken, has no such split, or no split to train on if none is named, or an option
            does not apply to it.
        AugmentError: it has no image.
    """
    given = {"--images": args.images, "--panoptic-dir": args.panoptic_dir, "--split": args.split, "--from": args.from_}
    if args.dataset == "scenes":
        if names := [name for name, value in given.items() if value is not None]:
            raise AugmentError(f"scenes: expected no {' and no '.join(names)}; leave it out")
        return open_scenes(seed, size_px, num)
    found = find_dataset(args.dataset, args.from_)
    is_of_output = "task" not in found.format.takes and getattr(args, "layout", None) == "yolo"
    task = None if is_of_output or args.task == "obb" else args.task
    depth_fill = bool(getattr(args, "depth_fill", False))
    options = ReadOptions(images_dir=args.images, panoptic_dir=args.panoptic_dir, task=task, depth_fill=depth_fill)
    split = found.chosen_split(args.split)
    photos = found.open(args.split, options)
    if not len(photos):
        raise AugmentError(f"{found.path}: expected at least one image, got none")
    called = f"{found.path.resolve().name}/{split}" if split else found.path.name
    return Inputs(photos, photos.categories, photos.schema, called, photos.digest, found, split or "train")


def open_scenes(seed: int, size_px: int, num: int = NUM_SCENES) -> Inputs:
    """Open square scenes with all modalities."""
    config = SceneConfig(height=size_px, width=size_px)
    scenes = SceneDataset(num, config, seed)
    categories = [
        {"id": label + 1, "name": name, "supercategory": kind, "isthing": int(kind == "thing")}
        for (label, kind), name in zip(scenes.schema.classes.items(), scenes.class_names, strict=True)
    ]
    digest = hashlib.sha256(f"{config} {seed}".encode()).hexdigest()
    return Inputs(scenes, categories, scenes.schema, "scenes", digest)
