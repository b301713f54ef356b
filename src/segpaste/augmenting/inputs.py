"""Inputs of an augmented dataset: a dataset in any format that can be read, one of Python, or synthetic scenes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from segpaste._pixels import outward_box
from segpaste.augmentation import BatchCopyPasteConfig, PanopticTaxonomy, SourceConfig, prepare
from segpaste.augmenting.options import AnyPath, AugmentError, InputOptions, option
from segpaste.bank import open_bank
from segpaste.bank.building.listing import first_readable
from segpaste.datasets import (
    BackgroundImages,
    CutOuts,
    FoundDataset,
    JoinedPhotos,
    SceneConfig,
    SceneDataset,
    find_dataset,
)
from segpaste.datasets._common_fields import MOST_TRIES
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.datasets.conversion.photos import written_categories
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.sidecar_maps import unread_beside
from segpaste.datasets.identity import digests_of
from segpaste.datasets.joined import ClassMap
from segpaste.datasets.views import Samples, annotated
from segpaste.datasets.writers.coco_panoptic import CocoSegments
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask, PanopticSchema
from segpaste.types.tensors import IGNORE_INDEX

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
        digest: digest of the annotations; two datasets with the same digest have the same labels. Of a dataset of
            Python without its own, it is a digest of facts and of some samples.
        known_as: digest of the facts alone, by which records may know it, too; empty if there is no other.
        found: the recognised format and files; None for scenes.
        split: split of the folder.
        num_backgrounds: number of backgrounds that were joined to the dataset.
        backgrounds_are_void: True if they have semantic maps without a class.
    """

    photos: AnnotatedDataset
    categories: list[dict[str, Any]]
    schema: PanopticSchema | None
    name: str
    digest: str
    known_as: str = ""
    found: FoundDataset | None = None
    split: str = "train"
    num_backgrounds: int = 0
    backgrounds_are_void: bool = False

    @property
    def annotated(self) -> AnnotatedDataset:
        """The samples of the dataset, without backgrounds."""
        return (
            self.photos.datasets[0] if self.num_backgrounds and isinstance(self.photos, JoinedPhotos) else self.photos
        )

    @property
    def unread(self) -> Counter[str]:
        """Number of files and folders beside the annotations that are not read, by description."""
        return Counter() if self.found is None else unread_beside(self.found.path, [self.annotated])

    @property
    def void_is_contour(self) -> bool:
        """True if void of its semantic maps is only a contour around objects."""
        return self.found is not None and self.found.format.void_is_contour and self.annotated.has_masks

    @property
    def fills_depth(self) -> bool:
        """True if holes in the depth of objects have values."""
        return self.photos.depth_fill

    @property
    def has_semantic_maps(self) -> bool:
        """True if samples have semantic maps."""
        return self.schema is not None or self.photos.has_semantic_maps

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


def open_dataset(
    options: InputOptions, seed: int, size_px: int, num: int = NUM_SCENES, layout: str | None = None
) -> Inputs:
    """Open the dataset that ``dataset`` and the options of its files name; the numbers are for scenes.

    The images of ``backgrounds``, if any, are joined to it, or are the only images without a dataset. Without a
    dataset, or with one without classes, the classes are those of the ``bank``. With a bank, samples of a dataset
    without objects have empty masks.

    Raises:
        DatasetError, AugmentError: as `open_annotated`; or there are no backgrounds, or they do not fit the dataset as
            targets, or neither a dataset nor a bank has objects.
    """
    folder = None if options.backgrounds is None else Path(options.backgrounds)
    if options.dataset is not None:
        inputs = _for_bank(open_annotated(options, seed, size_px, num, layout), options.bank)
        return inputs if folder is None else _with_backgrounds(inputs, folder)
    if folder is None or options.bank is None:
        wanted = f"{option('backgrounds')} and {option('bank')}"
        raise AugmentError(f"expected a dataset, or {wanted}, from which objects are pasted; give one of them")
    photos, categories = BackgroundImages(folder), _categories(open_bank(options.bank).class_names)
    digest = hashlib.sha256(f"{photos.digest} {categories}".encode()).hexdigest()
    return Inputs(photos, categories, None, folder.resolve().name, digest)


def _for_bank(inputs: Inputs, bank: AnyPath | None) -> Inputs:
    """Return a dataset without objects as targets for the objects of a bank."""
    given = inputs.photos
    if bank is None or given.has_masks or given.has_semantic_maps or has_objects(given):
        return inputs
    photos = WithBoxMasks(given)
    if inputs.categories:
        return replace(inputs, photos=photos)
    categories = _categories(open_bank(bank).class_names)
    digest = hashlib.sha256(f"{inputs.digest} {categories}".encode()).hexdigest()
    return replace(inputs, photos=photos, categories=categories, digest=digest)


def has_objects(photos: AnnotatedDataset) -> bool:
    """Return whether a dataset has annotated objects; True if it does not list its labels."""
    return not photos.lists_labels or any(photos.instance_labels(index) for index in range(len(photos)))


def _with_backgrounds(inputs: Inputs, folder: Path) -> Inputs:
    backgrounds = BackgroundImages(folder)
    if first_readable(inputs.photos, np.arange(min(MOST_TRIES, len(inputs.photos))), {}).metric_depth:
        raise AugmentError(
            f"{option('backgrounds')}: expected a dataset without cameras, got {inputs.name} with metric "
            "depth, which needs the camera of every image; leave it out, or leave camera out of the declaration"
        )
    photos = JoinedPhotos([inputs.photos, backgrounds], names=[inputs.name, folder.resolve().name])
    digest = hashlib.sha256(f"{inputs.digest} {backgrounds.digest}".encode()).hexdigest()
    made = replace(inputs, photos=photos, digest=digest, num_backgrounds=len(backgrounds))
    return replace(made, backgrounds_are_void=photos.has_semantic_maps and photos.background_label == IGNORE_INDEX)


def open_annotated(
    options: InputOptions, seed: int, size_px: int, num: int = NUM_SCENES, layout: str | None = None
) -> Inputs:
    """Open the dataset without backgrounds; see `open_dataset`.

    Args:
        options: names the dataset.
        seed: seed of scenes.
        size_px: their side.
        num: their number.
        layout: the layout that is written, if one was asked for.

    Raises:
        DatasetError: it is unknown or broken, has no such split, or no split to train on if none is named, or an option
            does not apply to it.
        AugmentError: it has no image.
    """
    dataset, names = options.dataset, ("images_dir", "panoptic_dir", "split", "format")
    if dataset == "scenes" or not isinstance(dataset, str | PathLike):
        if given := [option(name) for name in names if getattr(options, name) is not None]:
            name = dataset if isinstance(dataset, str) else type(dataset).__name__
            raise AugmentError(f"{name}: expected no {' and no '.join(given)}; leave it out")
        return open_scenes(seed, size_px, num) if isinstance(dataset, str) else of_samples(cast(Samples, dataset))
    found = find_dataset(dataset, options.format)
    is_of_output = "task" not in found.format.takes and layout == "yolo"
    read = ReadOptions(
        images_dir=None if options.images_dir is None else Path(options.images_dir),
        panoptic_dir=None if options.panoptic_dir is None else Path(options.panoptic_dir),
        task=None if is_of_output or options.task == "obb" else options.task,
        depth_fill=options.depth_fill,
    )
    split = found.chosen_split(options.split)
    photos = found.open(options.split, read)
    if not len(photos):
        raise AugmentError(f"{found.path}: expected at least one image, got none")
    called = f"{found.path.resolve().name}/{split}" if split else found.path.name
    return Inputs(photos, photos.categories, photos.schema, called, photos.digest, found=found, split=split or "train")


def of_samples(samples: Samples) -> Inputs:
    """Return the input of a dataset of Python, see `segpaste.datasets.identity` for its digest.

    Raises:
        AugmentError: it has no image, or no class.
    """
    photos, name = annotated(samples), type(samples).__name__
    if not len(photos) or not photos.class_names:
        missing = "sample" if not len(photos) else "class name (class_names of a segpaste.datasets.AnnotatedDataset)"
        raise AugmentError(f"{name}: expected at least one {missing}, got none")
    digest, known_as = digests_of(photos)
    categories = photos.categories if photos.schema is None else written_categories(photos, CocoSegments())
    return Inputs(photos, categories, photos.schema, name, digest, known_as)


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


def join_inputs(
    parts: Sequence[Inputs], class_map: ClassMap | Sequence[ClassMap | None] | None = None
) -> tuple[Inputs, JsonRow]:
    """Join several datasets, with the fields that all of them have; see `segpaste.datasets.JoinedPhotos`.

    Returns:
        The joined dataset, and facts that identify its parts, such as for the meta of a bank.
    """
    names = [part.name for part in parts]
    photos = JoinedPhotos([part.photos for part in parts], class_map=class_map, names=names, fields="common")
    named = zip(photos.names, parts, strict=True)
    facts = {
        "datasets": [{"name": name, "annotations_sha256": part.digest} for name, part in named],
        "class_map": dict(class_map) if isinstance(class_map, Mapping) else class_map,
    }
    return Inputs(photos, _categories(photos.class_names), None, " + ".join(photos.names), photos.digest), facts


def of_cutouts(photos: CutOuts) -> Inputs:
    """Return the input of a folder of cut-outs."""
    return Inputs(photos, _categories(photos.class_names), None, photos.images_dir.resolve().name, photos.digest)


def _categories(class_names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"id": label, "name": name} for label, name in enumerate(class_names, start=1)]


class WithBoxMasks(DatasetWrapper):
    """A dataset of boxes whose samples have masks made from them; for a dataset without objects these are empty.

    Args:
        dataset: the dataset.
        mask_from: the masks, see ``source.mask_from``.
    """

    def __init__(self, dataset: AnnotatedDataset, mask_from: str = "boxes") -> None:
        super().__init__(dataset)
        self.mask_from, self.has_masks = mask_from, True

    def place_of(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return this dataset, since the samples of the other have no masks."""
        return self, index

    def __getitem__(self, index: int) -> DenseSample:
        return with_box_masks(self.dataset[index], self.mask_from)


def with_box_masks(sample: DenseSample, mask_from: str) -> DenseSample:
    """Return a sample with masks: its own, or those that ``source.mask_from`` makes of its boxes."""
    if sample.instance_masks is not None:
        return sample
    if mask_from != "boxes":
        batch = BatchedDenseSample.from_samples([sample]).to_padded(sample.num_instances)
        config = BatchCopyPasteConfig(source=SourceConfig(mask_from=mask_from))
        return prepare.with_masks(batch, config).to_batched().to_samples()[0]
    masks = torch.zeros(sample.num_instances, *sample.canvas_size, dtype=torch.bool, device="cpu")
    for mask, box in zip(masks, sample.boxes.as_subclass(Tensor).tolist(), strict=True):
        x1, y1, x2, y2 = outward_box(box, sample.canvas_size)
        mask[y1:y2, x1:x2] = True
    ids = torch.arange(1, sample.num_instances + 1, dtype=torch.int32, device="cpu")
    return replace(sample, instance_masks=InstanceMask(masks), instance_ids=ids)
