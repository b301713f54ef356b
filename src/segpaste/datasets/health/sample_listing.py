"""Listing of any dataset of samples, for formats without a listing of their files.

Annotations are taken from the samples, whose pixels must be read for this; otherwise only images are listed.
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
from segpaste.datasets.health.listing import ListedObject, ListedPhoto, Listing
from segpaste.types import DenseSample


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
    folder = getattr(photos, "images_dir", None)
    broken = {} if folder is None else {found.index: found for found in scan_photos(photos, num_threads).problems}
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
        if problem is None and decode:
            _read(listing, photos, index)
    return listing


def _read(listing: Listing, photos: Any, index: int) -> None:
    """List the annotations of one sample."""
    name = listing.photos[index].name
    try:
        sample: DenseSample = photos[index]
    except (ValueError, OSError) as error:
        listing.find("unreadable", str(error), name)
        return
    form = f"{str(sample.image.dtype).removeprefix('torch.')} [{sample.image.shape[0]}, H, W]"
    listing.photos[index] = listing.photos[index]._replace(sample_size=sample.canvas_size, sample_form=form)
    ids = _ids(photos, index, sample)
    has_points = _has_points(sample)
    for i, annotation_id in enumerate(ids):
        segmentation = None
        if sample.instance_masks is not None:
            segmentation = _always(_coded(sample.instance_masks[i]))
        box = _always(tuple(float(edge) for edge in sample.boxes[i]))
        label = int(sample.labels[i])
        listing.objects.append(ListedObject(annotation_id, index, label, segmentation, box, False, has_points[i]))
    if hasattr(photos, "crowds"):
        for crowd in photos.crowds(index):
            listing.objects.append(ListedObject(crowd.annotation_id, index, crowd.label, is_crowd=True))
    elif sample.crowd_mask is not None and bool(sample.crowd_mask.any()):
        listing.objects.append(ListedObject(0, index, None, is_crowd=True))


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
