"""Depth and normals of a dataset: of its samples, or of the files beside its annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from segpaste._pixels import Size
from segpaste.datasets.annotations import Annotations
from segpaste.datasets.checking.listings.findings import Spread, SurfaceHealth
from segpaste.datasets.checking.listings.image_files import kind_of, named_file
from segpaste.datasets.checking.listings.listing import Listing
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import read_head

if TYPE_CHECKING:
    from torch import Tensor

    from segpaste.types import DenseSample


@dataclass
class _Surface:
    """Counts of one of the two fields."""

    num_images: int = 0
    num_pixels: int = 0
    num_valid: int = 0
    num_without: int = 0
    lows: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)

    def add(self, valid: Tensor, values: Tensor | None) -> bool:
        """Add the validity and the values of an image; return whether a pixel is valid."""
        count = int(valid.sum())
        self.num_images += 1
        self.num_pixels += valid.numel()
        self.num_valid += count
        self.num_without += not count
        if values is not None and count:
            shown = values[valid].float()
            self.lows.append(float(shown.min()))
            self.medians.append(float(shown.median()))
            self.highs.append(float(shown.max()))
        return count > 0

    def health(self, unit: str | None) -> SurfaceHealth:
        """Return the description."""
        spread = Spread()
        if self.medians:
            medians = sorted(self.medians)
            spread = Spread(min(self.lows), medians[len(medians) // 2], max(self.highs))
        invalid = 1 - self.num_valid / self.num_pixels if self.num_pixels else None
        return SurfaceHealth(unit, self.num_images, spread, invalid, self.num_without)


class Surfaces:
    """Depth and normals of the samples of a dataset, added image by image.

    Args:
        in_metres: True if depth is known to be in metres also without a camera.
    """

    def __init__(self, *, in_metres: bool = False) -> None:
        self._in_metres = in_metres
        self._depth, self._normals = _Surface(), _Surface()

    def add(self, sample: DenseSample) -> list[str]:
        """Add a sample, and return the names of its fields without a valid pixel."""
        without = []
        if sample.depth is not None and sample.depth_valid is not None:
            self._in_metres |= sample.metric_depth
            valid = sample.depth_valid & sample.depth.isfinite()
            if not self._depth.add(valid, sample.depth):
                without.append("depth")
        if sample.normals is not None and not self._normals.add((sample.normals != 0).any(0), None):
            without.append("normals")
        return without

    def depth(self, is_declared: bool) -> SurfaceHealth | None:
        """Return the description of depth; None if neither a sample nor a declaration has any."""
        is_there = is_declared or self._depth.num_images
        return self._depth.health("m" if self._in_metres else None) if is_there else None

    def normals(self, is_declared: bool) -> SurfaceHealth | None:
        """Return the description of normals; None if neither a sample nor a declaration has any."""
        return self._normals.health(None) if is_declared or self._normals.num_images else None


def describe_beside(listing: Listing, dataset: Annotations, *, decode: bool) -> None:
    """Add what is known about the files beside a dataset to its listing; only with ``decode`` they are read."""
    beside = dataset.beside
    if beside is None:
        return
    surfaces = Surfaces(in_metres=True)
    for index in range(len(dataset) if decode else 0):
        name, (path, size) = dataset.file_name(index), dataset.photo_file(index) or (None, None)
        try:
            height, width = size or read_head(dataset.path_of(index)).upright_size
        except DatasetError:
            continue  # found when its image was looked at
        try:
            without = surfaces.add(beside(_bare_sample((height, width)), name, dataset.image_row(index)))
        except DatasetError as error:
            file = named_file(error)
            kind = "broken_map" if file is None else kind_of(error, file)
            listing.find(kind, str(error), name, file=path if file is None else file)
            continue
        for surface in without:
            listing.find("invalid_surface", f"{name}: {surface} without a valid pixel", name, file=path)
    listing.depth = surfaces.depth(bool(getattr(beside, "has_depth", False)))
    listing.normals = surfaces.normals(bool(getattr(beside, "has_normals", False)))


def _bare_sample(size: Size) -> DenseSample:
    """Return a sample of an image of (H, W) without objects."""
    import torch  # only here, since most datasets have neither depth nor normals

    from segpaste.datasets.formats.instances import sample_of_boxes

    return sample_of_boxes(torch.zeros(1, *size, dtype=torch.uint8, device="cpu"), [])
