"""Verified writing of augmented datasets: the facts of each image for the ledger, and the views that are compared."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.cli._inputs import Inputs
from segpaste.cli._layouts import has_semantic_maps
from segpaste.datasets.contract import AnnotatedDataset, Crowd, JsonRow
from segpaste.datasets.formats.coco.dataset import open_instances
from segpaste.datasets.formats.coco.folders import PANOPTIC_FILE
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.coco_writer import Crowds, SampleRows
from segpaste.datasets.formats.format import NO_SPLIT
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.layouts import WrittenLayout
from segpaste.datasets.writers.annotations import open_split
from segpaste.datasets.writers.expected_maps import geometry_values, label_maps
from segpaste.datasets.writers.ledger import (
    ExpectedImage,
    View,
    checksum,
    extent_of,
    sample_regions,
    stem_of,
)
from segpaste.datasets.writers.readback import WrittenView, is_decoded
from segpaste.types import DenseSample
from segpaste.workspace import Content

_TABLES_ONLY = ("coco", "coco-panoptic", "roboflow")


@dataclass(frozen=True, slots=True)
class AugmentedLedger:
    """Maker of the facts of augmented images, and of the views as which they are read again.

    Attributes:
        inputs: the dataset that is augmented.
        layout: layout of the written dataset.
    """

    inputs: Inputs
    layout: WrittenLayout

    def expect(
        self,
        sample: DenseSample,
        crowds: Crowds,
        origins: Sequence[JsonRow],
        rows: SampleRows,
        files: Mapping[str, Content],
        kept: Sequence[KeptShape] = (),
    ) -> ExpectedImage:
        """Return what an augmented image must hold.

        Args:
            sample: the image.
            crowds: crowd and ignored regions before the paste, each with its further keys.
            origins: further keys of each instance.
            rows: its written entries.
            files: contents of its written files.
            kept: the given numbers of each instance.

        Raises:
            KeyError: its image is not among them.
        """
        name, number = str(rows.image["file_name"]), int(rows.image["id"]) - 1
        path = f"{self.layout.images}/{name}"
        image = files[path]
        assert isinstance(image, bytes)
        expected = ExpectedImage(path, sample.canvas_size, len(image), zlib.crc32(image))
        if path.endswith(".png") and is_decoded(number):
            expected.pixels = checksum(sample.image.as_subclass(Tensor).permute(1, 2, 0).numpy())
        expected.values = geometry_values(stem_of(name), sample)
        left = _left(sample, crowds)
        regions, keys = [crowd for crowd, _ in left], [row for _, row in left]
        for view in self._views(sample.semantic_map is not None, sample.panoptic_map is not None):
            maps = label_maps(view, stem_of(name), sample, regions)
            found = list(maps.regions) or sample_regions(view, sample, regions, origins, keys, kept)
            expected.views[view.format] = found
            expected.values |= {file: checksum(values) for file, values in maps.files.items()}
            expected.seen = maps.seen or expected.seen
            if maps.segments is not None:
                expected.segments = checksum(maps.segments)
        return expected

    def written_views(self, folder: Path, images: Callable[[], Iterable[ExpectedImage]]) -> Iterator[WrittenView]:
        """Yield the views of a written dataset, for the comparison."""
        of_images, file = folder / self.layout.images, folder / PANOPTIC_FILE
        for view in self._views(has_semantic_maps(self.inputs), file.is_file()):
            open_view: Callable[[], AnnotatedDataset] = partial(open_split, folder, view)
            if view.format == "coco":
                open_view = partial(open_instances, of_images, folder / self.layout.tables, None)
            elif view.format == "coco-panoptic":
                open_view = partial(CocoPanoptic, of_images, file, file.with_suffix(""))
            yield WrittenView(view, open_view, images)

    def _views(self, has_maps: bool, is_panoptic: bool) -> Iterator[View]:
        """Yield the formats as which a sample is read again: the label files of the layout, and COCO's tables."""
        by_label, layout = self.inputs.by_label, self.layout
        names = tuple(str(row["name"]) for row in by_label)
        with_points = frozenset(label for label, row in enumerate(by_label) if row.get("keypoints"))
        stuff = frozenset(label for label, row in enumerate(by_label) if not row.get("isthing", 1))
        facts = layout.task, layout.point_size, with_points, has_maps, stuff
        if layout.name not in _TABLES_ONLY:
            yield View(layout.name, layout.split, names, *facts)
        yield View("coco", NO_SPLIT, names, *facts)
        if is_panoptic:
            yield View("coco-panoptic", NO_SPLIT, names, *facts)


def _left(sample: DenseSample, crowds: Crowds) -> Crowds:
    """Return the visible regions; `segpaste.datasets.formats.coco_writer` says which ones are written."""
    if sample.crowd_mask is None:
        return []
    seen = sample.crowd_mask.as_subclass(Tensor)[0].numpy()
    cut = [(_cut(crowd, seen), row) for crowd, row in crowds]
    return [(crowd, row) for crowd, row in cut if crowd.mask.any()]


def _cut(crowd: Crowd, seen: NDArray[np.bool_]) -> Crowd:
    """Return the visible part of a region, or of an object without a mask, whose box is cut if pixels are hidden."""
    mask = crowd.mask & seen
    if crowd.box is None or np.array_equal(mask, crowd.mask):
        return crowd._replace(mask=mask)
    x, y, width, height = extent_of(mask)
    x1, y1, x2, y2 = crowd.box
    return crowd._replace(mask=mask, box=(max(x1, x), max(y1, y), min(x2, x + width), min(y2, y + height)))


def keys_of(provenance: Mapping[str, object], carried: Mapping[str, object] | None) -> JsonRow:
    """Return the further keys of a row of an augmented dataset."""
    return {**(carried or {}), "segpaste": provenance}
