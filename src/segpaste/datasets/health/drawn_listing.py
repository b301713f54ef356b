"""Listing of datasets of labelling tools, from the shapes in their files: CVAT, labelme, Label Studio, boxes of VOC."""

from __future__ import annotations

from typing import Any

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.outlined import OutlinedPhotos
from segpaste.datasets.health.coco_listing import edges_of
from segpaste.datasets.health.listing import ListedObject, ListedPhoto, Listing
from segpaste.types.sampling import Size


def list_drawn(photos: OutlinedPhotos) -> Listing:
    """List a dataset of shapes; maps that a dataset also has are not read."""
    listing = Listing(class_names=list(photos.class_names), has_masks=photos.has_masks, file=photos.annotations_file)
    for kind, num in photos.not_objects.items():
        listing.find("left_out", f"{num:,} shapes of the kind '{kind}' enclose nothing, so they are not objects")
    rows = _Rows(photos)
    for index in range(len(photos)):
        path, size = photos.photo_file(index)
        listing.photos.append(
            ListedPhoto(
                photos.file_name(index),
                path,
                size,
                label_file=photos.label_file(index),
                drawn_upright=photos.drawn_upright,
            )
        )
        for i, (row, where) in enumerate(zip(rows.of(index), photos.places(index), strict=True)):
            listing.objects.append(
                ListedObject(
                    row["id"],
                    index,
                    row["category_id"] - 1,
                    rows.segmentation(index, i) if row["segmentation"] else None,
                    edges_of(row),
                    bool(row.get("ignore")),
                    any((row.get("keypoints") or ())[2::3]),
                    where=where,
                )
            )
    return listing


class _Rows:
    """Entries of a dataset, decoded image by image: memory holds the outlines of one image."""

    def __init__(self, photos: OutlinedPhotos) -> None:
        self._photos, self._last = photos, (-1, list[JsonRow]())

    def of(self, index: int) -> list[JsonRow]:
        """Return the entries of an image."""
        if self._last[0] != index:
            self._last = index, self._photos.annotation_rows(index)
        return self._last[1]

    def segmentation(self, index: int, number: int) -> Any:
        """Return a function that reads the mask of an entry."""

        def read(size: Size) -> object:
            return self.of(index)[number]["segmentation"]

        return read
