"""Content of a dataset for a check: all images and annotations that its files list, valid or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from segpaste._pixels import Size
from segpaste.datasets.checking.listings.findings import Finding, SurfaceHealth
from segpaste.datasets.entries import Box

COCO_KEYS = ("area", "bbox", "iscrowd", "keypoints", "num_keypoints")
"""Keys of COCO's annotations that some tools expect, and others not."""


class ListedImage(NamedTuple):
    """Listed image of a dataset.

    Attributes:
        name: name in the dataset.
        path: path of its file; None if samples do not come from files.
        size: (H, W) of its annotations; None if these follow the image, rotated by its EXIF orientation.
        map_path: path of its label map; None without a map.
        any_mode: True if its reader accepts more than 8 bits per channel.
        drawn_upright: see `AnnotatedDataset`.
        sample_size: (H, W) of its sample, if the sample was read.
        sample_form: dtype and channels of its sample, such as ``uint8 [3, H, W]``, if the sample was read.
        other_paths: further maps, such as depth, which may be in the folder of the images.
        label_file: the file with its annotations; None if samples do not come from files.
        entry: what an annotation is called in this file, such as ``line``.
        was_decoded: True if its pixels were read while it was listed.
        in_subfolder: True if it is in a folder below one that its split names, and not in such a one.
        semantic_path: path of its map of classes, in a dataset of maps; None without one.
        image_id: its id in a file of COCO; None in other formats.
    """

    name: str
    path: Path | None
    size: Size | None
    map_path: Path | None = None
    any_mode: bool = False
    drawn_upright: bool = False
    sample_size: Size | None = None
    sample_form: str | None = None
    other_paths: tuple[Path, ...] = ()
    label_file: Path | None = None
    entry: str = "annotation"
    was_decoded: bool = False
    in_subfolder: bool = False
    semantic_path: Path | None = None
    image_id: int | None = None

    @property
    def file(self) -> Path | None:
        """The file to name in findings about its annotations."""
        return self.path if self.label_file is None else self.label_file


class ListedObject(NamedTuple):
    """Annotation of a listed image.

    Attributes:
        id: id in its file, or line of its label file.
        image: position of its image.
        label: its class; None if the category is unknown.
        segmentation: function of (H, W) that returns a segmentation for `segpaste.datasets.formats.rle`; None without
            a mask.
        box: the box in the file, (x1, y1, x2, y2) in pixels, or a function of (H, W) that returns it; None without one.
        is_crowd: True for a crowd or ignored region.
        has_keypoints: True if a keypoint is labelled.
        is_stuff: True for a segment of stuff.
        where: its file and entry, such as ``a.json: shape 3``; by default they are made of its image and ``id``.
        area: the area in its file; None without a number.
        lacks: the keys of `COCO_KEYS` that its entry in a COCO file does not have.
        is_ignored: True for a region that its file marks as ignored, and not as a crowd.
        has_float_class: True if its class is written with a point or an exponent in a label file.
        num_points: number of its keypoints in a file of COCO, labelled or not.
        is_segment: True for a segment of a panoptic map, which has its pixels.
    """

    id: int
    image: int
    label: int | None
    segmentation: Callable[[Size], object] | None = None
    box: Box | Callable[[Size], Box] | None = None
    is_crowd: bool = False
    has_keypoints: bool = False
    is_stuff: bool = False
    where: str | None = None
    area: float | None = None
    lacks: tuple[str, ...] = ()
    is_ignored: bool = False
    has_float_class: bool = False
    is_segment: bool = False
    num_points: int = 0

    def box_px(self, size: Size) -> Box | None:
        """Return its box in an image of (H, W); None without a box."""
        return self.box(size) if callable(self.box) else self.box

    def place(self, image: ListedImage) -> str:
        """Return its place in the file of its image."""
        return self.where or f"{image.entry} {self.id} of {image.name}"


class MapValues(NamedTuple):
    """Meaning of the values of maps of classes.

    Attributes:
        ids: ids of the classes.
        void: values without a class; empty if maps have colours.
        is_coloured: True if maps have a colour for each class.
    """

    ids: tuple[int, ...]
    void: frozenset[int]
    is_coloured: bool


@dataclass
class Listing:
    """Images and annotations of a dataset, and the problems found while listing them.

    Attributes:
        images: images in the order of the dataset.
        objects: annotations in the order of the dataset.
        class_names: names of the classes.
        findings: problems of the tables.
        has_masks: True if annotations are expected to have masks.
        has_annotations: True if annotations were listed; else ``objects`` is empty.
        file: the file of the tables, or of the class names; None if samples do not come from files.
        category_ids: id of each class in the file; by default classes are numbered from 0.
        depth: depth of the images; None without depth.
        normals: normals of the images; None without normals.
        mapped: for each class the images whose semantic maps show it, by index.
        unlisted: image files of the dataset that no split lists.
        format: ``coco``, ``panoptic``, ``yolo`` or ``maps``, as tools read it; empty for any other.
        keypoint_shape: (P, D) of YOLO's rows, if its file has it: P keypoints of D numbers each.
        split: name of the split of a YOLO dataset; empty for any other.
        map_values: what the values of maps of classes mean; None for other formats.
    """

    images: list[ListedImage] = field(default_factory=list)
    objects: list[ListedObject] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    has_masks: bool = True
    has_annotations: bool = True
    file: Path | None = None
    category_ids: list[int] | None = None
    depth: SurfaceHealth | None = None
    normals: SurfaceHealth | None = None
    mapped: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    unlisted: list[Path] = field(default_factory=list)
    format: str = ""
    keypoint_shape: tuple[int, int] | None = None
    split: str = ""
    map_values: MapValues | None = None

    def find(
        self, kind: str, text: str, image: str | None = None, annotation: int | None = None, *, file: Path | None = None
    ) -> None:
        """Add a finding in a file, by default that of the tables."""
        self.findings.append(Finding.at(self.file if file is None else file, kind, text, image, annotation))
