"""Depth and normals in files beside the annotations of a dataset whose tables are listed."""

from __future__ import annotations

import torch
from torchvision import tv_tensors

from segpaste.datasets.formats.photo_head import read_head
from segpaste.datasets.formats.records import AnnotatedPhotos, DatasetError
from segpaste.datasets.health.listing import Listing
from segpaste.datasets.health.reasons import kind_of, named_file
from segpaste.datasets.health.surfaces import Surfaces
from segpaste.types import DenseSample


def describe_beside(listing: Listing, photos: AnnotatedPhotos, *, decode: bool) -> None:
    """Add what is known about the files beside a dataset to its listing; only with ``decode`` they are read."""
    beside = photos.beside
    if beside is None:
        return
    surfaces = Surfaces(in_metres=True)
    for index in range(len(photos) if decode else 0):
        name, (path, size) = photos.file_name(index), photos.photo_file(index)
        try:
            height, width = size or read_head(path).upright_size
        except DatasetError:
            continue  # found when its image was looked at
        image = tv_tensors.Image(torch.zeros(1, height, width, dtype=torch.uint8))
        boxes = tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=(height, width))
        bare = DenseSample(image=image, boxes=boxes, labels=torch.zeros(0, dtype=torch.int64))
        try:
            without = surfaces.add(beside(bare, name, photos.image_row(index)))
        except DatasetError as error:
            file = named_file(error)
            kind = "broken_map" if file is None else kind_of(error, file)
            listing.find(kind, str(error), name, file=path if file is None else file)
            continue
        for field in without:
            listing.find("invalid_surface", f"{name}: {field} without a valid pixel", name, file=path)
    listing.depth = surfaces.depth(bool(getattr(beside, "has_depth", False)))
    listing.normals = surfaces.normals(bool(getattr(beside, "has_normals", False)))
