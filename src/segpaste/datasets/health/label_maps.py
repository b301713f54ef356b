"""Segments of panoptic maps: their areas and boxes, and mismatches between table and map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from segpaste.datasets.formats.photo import read_rgb
from segpaste.datasets.health.listing import ListedObject, ListedPhoto
from segpaste.datasets.health.regions import Region
from segpaste.datasets.health.report import Finding
from segpaste.types.sampling import Size

_MAX_NAMED = 3


def map_regions(path: Path, size: Size) -> dict[int, Region]:
    """Return the area and box of each segment of a map, by id; the regions have no run lengths.

    Args:
        path: PNG with the id of each pixel in its colors, R + 256 G + 65536 B; 0 is no segment.
        size: (H, W) of the image.

    Raises:
        DatasetError: the file cannot be read.
    """
    red, green, blue = read_rgb(path, size).numpy().astype(np.int64)
    ids, places = np.unique(red + 256 * green + 65536 * blue, return_inverse=True)
    places = places.reshape(size)
    regions = {}
    for place, segment_id in enumerate(ids.tolist()):
        if segment_id:
            rows, columns = np.nonzero(places == place)
            box = float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1)
            regions[segment_id] = Region(size, b"", len(rows), box)
    return regions


def mismatches(photo: ListedPhoto, objects: Sequence[ListedObject], regions: dict[int, Region]) -> list[Finding]:
    """Return a finding if the table and the map of an image have different segments."""
    listed = {found.id for found in objects}
    sides = {"the map": sorted(regions.keys() - listed), "the table": sorted(listed - regions.keys())}
    parts = [f"{len(ids)} only in {where} ({_named(ids)})" for where, ids in sides.items() if ids]
    text = f"segments of {photo.name}: {', '.join(parts)}"
    return [Finding.at(photo.map_path, "map_mismatch", text, photo.name)] if parts else []


def _named(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:_MAX_NAMED])) + (", ..." if len(ids) > _MAX_NAMED else "")
