"""Listing of any dataset of samples, for formats without a listing of their files.

Annotations are taken from the samples, whose pixels must be read for this; otherwise only images are listed. The user's
code may make the samples, so any exception is a finding, and so is a sample that cannot share a batch with the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.datasets.formats.photo_scan import is_drawn_upright, scan_photos
from segpaste.datasets.formats.records import Crowd, DatasetError
from segpaste.datasets.health.listing import ListedObject, ListedPhoto, Listing
from segpaste.types import DenseSample
from segpaste.types.fields import SAMPLE_FIELDS, flags_of

_COMPARED = tuple(field.name for field in SAMPLE_FIELDS if field.name != "padding_mask")
"""Fields that all samples have or none; the jitter of loaders gives each sample a padding mask."""


def list_samples(photos: Any, num_threads: int, *, decode: bool) -> Listing:
    """List a dataset of samples.

    Args:
        photos: the dataset; with ``file_name``, ``images_dir`` and ``class_names`` if it has files, see
            `AnnotatedPhotos`.
        num_threads: number of images read in parallel.
        decode: read all samples; else no annotation is listed.
    """
    names = [str(name) for name in getattr(photos, "class_names", ())]
    listing = Listing(class_names=names, has_annotations=decode)
    folder = getattr(photos, "images_dir", None) if hasattr(photos, "file_name") else None
    broken = {} if folder is None else {found.index: found for found in scan_photos(photos, num_threads).problems}
    first: tuple[str, DenseSample] | None = None
    for index in range(len(photos)):
        name = str(photos.file_name(index)) if hasattr(photos, "file_name") else f"sample {index}"
        path = None if folder is None else Path(folder, name)
        size = photos.photo_file(index)[1] if hasattr(photos, "photo_file") else None
        if (problem := broken.get(index)) is not None:
            kind = "unreadable" if os.path.exists(problem.path) else "missing_file"
            listing.find(kind, problem.reason, name)
            path = None
        is_upright = is_drawn_upright(photos, index)
        others = photos.map_files(index) if isinstance(photos, MapPhotos) else ()
        listing.photos.append(
            ListedPhoto(name, path, size, any_mode=True, drawn_upright=is_upright, other_paths=others)
        )
        sample = _read(listing, photos, index) if problem is None and decode else None
        if sample is not None:
            first = first or (name, sample)
            if differences := _differences(sample, first[1]):
                text = f"{name} differs from {first[0]}: {'; '.join(differences)}"
                listing.find("sample_mismatch", text, name)
    return listing


def _read(listing: Listing, photos: Any, index: int) -> DenseSample | None:
    """List the annotations of one sample, and return it; None, with a finding, if it cannot be read."""
    name = listing.photos[index].name
    crowds: list[Crowd] | None = None
    try:
        sample = photos[index]
        if isinstance(sample, DenseSample):
            ids = _ids(photos, index, sample)
            crowds = photos.crowds(index) if hasattr(photos, "crowds") else None
    except Exception as error:
        listing.find("unreadable", _text_of(error, name), name)
        return None
    if not isinstance(sample, DenseSample):
        got = type(sample).__name__
        listing.find("unreadable", f"{name}: expected a DenseSample, got {got}; convert it in the dataset", name)
        return None
    listing.photos[index] = listing.photos[index]._replace(sample_size=sample.canvas_size, sample_form=_form(sample))
    has_points = _has_points(sample)
    for i, annotation_id in enumerate(ids):
        segmentation = None
        if sample.instance_masks is not None:
            segmentation = _always(_coded(sample.instance_masks[i]))
        box = _always(tuple(float(edge) for edge in sample.boxes[i]))
        label = int(sample.labels[i])
        listing.objects.append(ListedObject(annotation_id, index, label, segmentation, box, False, has_points[i]))
    for crowd in crowds or ():
        listing.objects.append(ListedObject(crowd.annotation_id, index, crowd.label, is_crowd=True))
    if crowds is None and sample.crowd_mask is not None and bool(sample.crowd_mask.any()):
        listing.objects.append(ListedObject(0, index, None, is_crowd=True))
    return sample


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


def _ids(photos: Any, index: int, sample: DenseSample) -> list[int]:
    """Return the id of each instance in its file, or without ids its number in the sample."""
    numbers: list[int] = list(range(1, sample.num_instances + 1))
    if sample.instance_ids is not None:
        numbers = sample.instance_ids.tolist()
    if not hasattr(photos, "annotation_ids"):
        return numbers
    ids = photos.annotation_ids(index)
    return [int(ids[number - 1]) for number in numbers]


def _has_points(sample: DenseSample) -> list[bool]:
    if sample.keypoints is None:
        return [False] * sample.num_instances
    found: list[bool] = (sample.keypoints[..., 2] > 0).any(1).tolist()
    return found


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda size: value


def _coded(mask: Tensor) -> dict[str, Any]:
    """Return compressed run lengths of a mask [H, W] bool."""
    from pycocotools import mask as coco_mask

    coded = coco_mask.encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
    return {"size": list(mask.shape), "counts": coded["counts"].decode()}
