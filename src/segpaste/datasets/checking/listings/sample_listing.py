"""Listing of any dataset of samples, for formats without a listing of their files.

Annotations are taken from the samples, whose pixels must be read for this; otherwise only images are listed. The user's
code may make the samples, so any exception is a finding, and so is a sample that cannot share a batch with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from segpaste._pixels import Size
from segpaste.datasets.checking.listings.findings import Finding
from segpaste.datasets.checking.listings.image_files import kind_of, named_file, pixel_problem
from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject, Listing, MapValues
from segpaste.datasets.checking.listings.surfaces import Surfaces
from segpaste.datasets.contract import AnnotatedDataset, Crowd
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_scan import scan_images
from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.types import IGNORE_INDEX, DenseSample
from segpaste.types.fields import SAMPLE_FIELDS, flags_of

_COMPARED = tuple(field.name for field in SAMPLE_FIELDS if field.name != "padding_mask")
"""Fields that all samples have or none; the jitter of loaders gives each sample a padding mask."""


def list_samples(dataset: Any, num_threads: int, *, decode: bool) -> Listing:
    """List a dataset of samples.

    Args:
        dataset: the dataset; with ``file_name``, ``images_dir`` and ``class_names`` if it has files, see
            `AnnotatedDataset`.
        num_threads: number of images read in parallel.
        decode: read all samples; else no annotation is listed.
    """
    return _SampleListing(dataset, num_threads, decode).read()


class _SampleListing:
    """Listing of one dataset in progress."""

    def __init__(self, dataset: AnnotatedDataset, num_threads: int, decode: bool) -> None:
        self.dataset, self.decode = dataset, decode
        names, file = list(map(str, dataset.class_names)), dataset.annotations_file
        self.listing = Listing(class_names=names, has_annotations=decode, file=None if file is None else Path(file))
        self.broken = {problem.index for problem in scan_images(dataset, num_threads).problems}
        self.declared = frozenset[str]().union(*(part.declared_maps or () for part in _parts(dataset)))
        self.has_depth = not self.declared.isdisjoint(("depth", "disparity"))
        self.surfaces = Surfaces(in_metres=self.has_depth)
        self.first: tuple[str, DenseSample] | None = None

    def read(self) -> Listing:
        """List all images."""
        for part in _parts(self.dataset):
            for name, role in part.incomplete_images().items():
                self._find("left_out", f"{name} has no file of '{role}'", name, part.images_dir / name)
            for path, kind in part.stray_files().items():
                self.listing.findings.append(Finding.at(path, "stray_labels", f"one of the {kind}"))
        for index in range(len(self.dataset)):
            self._add(index)
        if isinstance(self.dataset, MapPhotos):
            _add_maps(self.listing, self.dataset)
        if self.declared and not self.declared & {"semantic", "instances"} and not self.listing.objects:
            self.listing.has_annotations = False  # depth or normals alone
        self.listing.depth = self.surfaces.depth(self.has_depth)
        self.listing.normals = self.surfaces.normals("normals" in self.declared)
        return self.listing

    def _add(self, index: int) -> None:
        images = self.dataset
        name, (path, size) = str(images.file_name(index)), images.photo_file(index) or (None, None)
        is_cutout = images.place_of(index)[0].any_mode
        image = ListedImage(
            name,
            path,
            size,
            any_mode=is_cutout,
            drawn_upright=images.is_drawn_upright(index),
            other_paths=images.map_files(index),
            label_file=images.label_file(index),
        )
        self.listing.images.append(image)
        if not self.decode or (index in self.broken and not is_cutout):
            return
        sample = self._read(index)
        self.listing.images[index] = self.listing.images[index]._replace(was_decoded=True)
        if sample is not None:
            self._compare(name, sample, path)
            for field in self.surfaces.add(sample):
                self.listing.find("invalid_surface", f"{name}: {field} without a valid pixel", name, file=path)

    def _compare(self, name: str, sample: DenseSample, path: Path | None) -> None:
        self.first = self.first or (name, sample)
        if differences := _differences(sample, self.first[1]):
            text = f"{name} differs from {self.first[0]}: {'; '.join(differences)}"
            self._find("sample_mismatch", text, name, path)

    def _read(self, index: int) -> DenseSample | None:
        """List the annotations of one sample, and return it; None, with a finding, if it cannot be read."""
        listing, images, image = self.listing, self.dataset, self.listing.images[index]
        crowds: Sequence[Crowd] = ()
        try:
            sample = images[index]
            if isinstance(sample, DenseSample):
                ids = _ids(images, index, sample)
                crowds = images.crowds(index)
        except Exception as error:
            self._find_error(image, error)
            return None
        if not isinstance(sample, DenseSample):
            got = type(sample).__name__
            text = f"{image.name}: expected a DenseSample, got {got}; convert it in the dataset"
            self._find("unreadable", text, image.name, image.path)
            return None
        listing.images[index] = image._replace(sample_size=sample.canvas_size, sample_form=_form(sample))
        if sample.semantic_map is not None:
            for label in sample.semantic_map.as_subclass(Tensor).unique().tolist():
                if label != IGNORE_INDEX:
                    listing.mapped[label].add(index)
        has_points = _has_points(sample)
        for i, annotation_id in enumerate(ids):
            segmentation = None
            if sample.instance_masks is not None:
                segmentation = _coded(sample.instance_masks[i])
            x1, y1, x2, y2 = sample.boxes[i].tolist()
            label, edges = int(sample.labels[i]), (x1, y1, x2, y2)
            listing.objects.append(ListedObject(annotation_id, index, label, segmentation, edges, False, has_points[i]))
        for crowd in crowds:
            listing.objects.append(ListedObject(crowd.annotation_id, index, crowd.label, is_crowd=True))
        if not crowds and sample.crowd_mask is not None and bool(sample.crowd_mask.any()):
            listing.objects.append(ListedObject(0, index, None, is_crowd=True))
        return sample

    def _find_error(self, image: ListedImage, error: Exception) -> None:
        """Add the finding of an error of a sample: of the image, of the file that the error names, or of the code."""
        text = _text_of(error, image.name)
        if not isinstance(error, DatasetError):
            self._find("unreadable", text, image.name, image.path)
            return
        maps = {*image.other_paths, *([image.label_file] if image.label_file is not None else [])}
        file = named_file(error, [*maps, *([image.path] if image.path is not None else [])])
        if file is None or (file == image.path and file not in maps):
            problem = None if image.path is None else pixel_problem(image.path, image.size)
            text = text if problem is None else str(problem)
            kind = "broken_file" if problem is not None else kind_of(error, None)
            self._find(kind, text, image.name, image.path)
        else:
            self._find(kind_of(error, file, is_map=file in maps), text, image.name, file)

    def _find(self, kind: str, text: str, image: str, file: Path | None) -> None:
        """Add a finding about an image, in a file or in none."""
        self.listing.findings.append(Finding.at(file, kind, text, image))


def _add_maps(listing: Listing, dataset: MapPhotos) -> None:
    """Add what tools need to know about maps of classes, if there are any."""
    if (files := dataset.declared.semantic) is None:
        return
    listing.format, is_coloured = "maps", files.encoding == "color"
    void = frozenset(value for value in files.void if isinstance(value, int))
    listing.map_values = MapValues(tuple(dataset.classes.ids), void, is_coloured)
    listing.images = [
        image._replace(semantic_path=dataset.semantic_file(index)) for index, image in enumerate(listing.images)
    ]


def _parts(dataset: AnnotatedDataset) -> list[AnnotatedDataset]:
    """Return the datasets that are joined in a dataset, or the dataset itself."""
    return [found for part in dataset.joined() for found in _parts(part)] or [dataset]


def _text_of(error: Exception, name: str) -> str:
    """Return the type and message of an error in one line; that of a reader names its file already."""
    text = " ".join(str(error).split())
    if isinstance(error, DatasetError):
        return text
    return f"{name}: {type(error).__name__}{': ' * bool(text)}{text}"


def _form(sample: DenseSample) -> str:
    return f"{str(sample.image.dtype).removeprefix('torch.')} [{sample.image.shape[0]}, H, W]"


def _differences(sample: DenseSample, first: DenseSample) -> list[str]:
    """Return why a sample cannot share a batch with the first one, as `segpaste.types.dense.check_uniform` tests it.

    Sizes are not compared: loaders resize images.
    """
    found = []
    if (form := _form(sample)) != (expected := _form(first)):
        found.append(f"expected an image of {expected}, got {form}")
    for name in _COMPARED:
        if (is_there := getattr(sample, name) is not None) != (getattr(first, name) is not None):
            found.append(f"expected no {name}, got some" if is_there else f"expected {name}, got none")
    of_first = flags_of(first)
    for name, value in flags_of(sample).items():
        wanted = of_first[name]
        if None not in (value, wanted) and value != wanted:  # without a schema there are no keypoints, found above
            found.append(f"expected {name}={wanted}, got {value}")
    return found


def _ids(dataset: AnnotatedDataset, index: int, sample: DenseSample) -> list[int]:
    """Return the id of each instance in its file, or without ids its number in the sample."""
    numbers: list[int] = list(range(1, sample.num_instances + 1))
    if sample.instance_ids is not None:
        numbers = sample.instance_ids.tolist()
    ids = dataset.annotation_ids(index)
    return [int(ids[number - 1]) for number in numbers]


def _has_points(sample: DenseSample) -> list[bool]:
    if sample.keypoints is None:
        return [False] * sample.num_instances
    found: list[bool] = (sample.keypoints[..., 2] > 0).any(1).tolist()
    return found


def _coded(mask: Tensor) -> Callable[[Size], object]:
    """Return a function that returns the compressed run lengths of a mask [H, W] bool, and does not hold the mask."""
    from pycocotools import mask as coco_mask

    coded = coco_mask.encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
    runs = {"size": list(mask.shape), "counts": coded["counts"].decode()}
    return lambda size: runs
