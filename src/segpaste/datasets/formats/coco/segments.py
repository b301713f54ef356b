"""Reader of the annotations of COCO panoptic segmentation: https://cocodataset.org/#format-data.

The id of a segment is stored in the colours of a PNG, R + 256 G + 65536 B, or as the value of a grey one, and described
in the JSON. Segment ids exist only in these files; a sample has class ids and instance ids.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from segpaste._pixels import IGNORE_INDEX, Size
from segpaste._reprs import counted
from segpaste.datasets.entries import Categories, JsonRow, Segment
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.annotations import IndexedAnnotations, IndexedRecords, image_columns
from segpaste.datasets.formats.folders import IMAGE_SUFFIXES, files_below
from segpaste.datasets.formats.image_annotations import Transforms, expect_folder
from segpaste.datasets.formats.stored_pixels import read_colors, read_stored
from segpaste.datasets.large_json.file import AnnotationFile
from segpaste.datasets.large_json.index import Index, firsts_of, id_column, narrow
from segpaste.datasets.tables import IMAGE_COLUMNS, SEGMENTS, AnnotationTables


def read_segment_ids(path: Path, size: Size) -> NDArray[np.int64]:
    """Read the segment id of each pixel.

    Args:
        path: an image in RGB, in RGBA, whose alpha is not read, with a palette, or in grey of up to 16 bits.
        size: (H, W) of the image.

    Returns:
        [H, W] int64; 0 is no segment.

    Raises:
        DatasetError: the file is missing or broken, or has other channels or another size.
    """
    stored = read_stored(path)
    values = stored.values if stored.palette is None else read_colors(path)
    if values.shape[:2] != size:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {values.shape[1]} x "
            f"{values.shape[0]}; use the map of this image"
        )
    if values.ndim == 3 and values.shape[2] == 2:  # grey with alpha
        values = values[..., 0]
    if values.dtype.kind not in "iu" or (values.ndim == 3 and values.dtype != np.uint8):
        raise DatasetError(
            f"{path}: expected segment ids in colours of 8 bits per channel, or in grey, got {values.dtype} "
            f"{list(values.shape)}; convert it"
        )
    if values.ndim == 2:
        return values.astype(np.int64)
    ids = np.zeros(size, "<i8")
    for channel in range(3):
        ids.view(np.uint8).reshape(*size, 8)[..., channel] = values[..., channel]
    return ids.astype(np.int64, copy=False)


def segment_positions(ids: NDArray[np.int64], listed: Sequence[int]) -> NDArray[np.uint16]:
    """Return the position of each pixel's segment in a list, from 1; 0 for other ids.

    Runs of equal pixels are looked up, since there are a hundred times fewer of them than pixels.
    """
    flat = ids.reshape(-1)
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])[: flat.size]
    position_of = {number: position for position, number in enumerate(listed, start=1)}
    positions = [position_of.get(number, 0) for number in flat[starts].tolist()]
    lengths = np.diff(starts, append=flat.size)
    return np.repeat(np.array(positions, np.uint16), lengths).reshape(ids.shape)


@dataclass(frozen=True, slots=True)
class CocoPanopticSchema:
    """Classes of a panoptic dataset, a `segpaste.types.PanopticSchema`.

    Attributes:
        class_names: the name of each class.
        class_is_thing: for each class, True if it has instances.
        ignore_index: the semantic class of unlabelled pixels.
        max_instances_per_image: more instances than this in one image are an error.
    """

    class_names: tuple[str, ...]
    class_is_thing: tuple[bool, ...]
    ignore_index: int = IGNORE_INDEX
    max_instances_per_image: int = 1000

    @property
    def classes(self) -> Mapping[int, Literal["thing", "stuff"]]:
        """Class id to ``"thing"`` or ``"stuff"``."""
        return MappingProxyType({i: "thing" if thing else "stuff" for i, thing in enumerate(self.class_is_thing)})


class SegmentAnnotations(IndexedAnnotations):
    """Annotations of a file of panoptic segments; `CocoPanoptic` has the samples, too.

    Args:
        images_dir: the folder of the images.
        panoptic_json: the JSON file.
        panoptic_dir: the folder of the PNG files.
        transforms: function that changes each sample.
        max_instances_per_image: more things than this in one image are an error.

    Attributes:
        schema: thing and stuff classes.
        category_ids: the id of each class in the file, ascending; these may have gaps, classes have none.
        has_crowds: True if the file has crowd segments.

    Raises:
        DatasetError: a folder is missing, the file is missing, broken or incomplete, no image has an annotation, or
            there are more than 255 classes.
    """

    schema: CocoPanopticSchema
    has_semantic_maps = True
    category_ids: tuple[int, ...]
    has_crowds: bool

    def __init__(
        self,
        images_dir: str | PathLike[str],
        panoptic_json: str | PathLike[str],
        panoptic_dir: str | PathLike[str],
        *,
        transforms: Transforms | None = None,
        max_instances_per_image: int = 1000,
    ) -> None:
        self.panoptic_dir = expect_folder(panoptic_dir)
        self.max_instances_per_image = max_instances_per_image
        super().__init__(images_dir, panoptic_json, transforms=transforms)
        if num := self.num_unannotated_images:
            warnings.warn(
                f"{self.annotations_file}: left out {counted(num, 'image')} without an annotation, first image "
                f"{self._records.first_unannotated}",
                stacklevel=2,
            )

    def left_out_files(self) -> Counter[str]:
        """Count the images without an annotation."""
        return Counter({"images without an annotation": self.num_unannotated_images})

    def unread_paths(self) -> Mapping[Path, str]:
        """Return the files that belong to no image, with the PNG files of segments that no entry names."""
        found = super().unread_paths()
        names = [name for name in files_below(self.panoptic_dir) if Path(name).suffix.lower() in IMAGE_SUFFIXES]
        if self.around is None or len(names) <= len(self):  # a missing map is an error of its image
            return found
        named = {os.path.normpath(self.map_row(index)["file_name"]) for index in range(len(self))}
        strays = (self.panoptic_dir / name for name in names if name not in named)
        return {**found, **dict.fromkeys(strays, "maps of segments that the annotations do not list")}

    @property
    def num_unannotated_images(self) -> int:
        """Number of images of the file that are left out because they have no annotation."""
        return self._records.num_unannotated

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each thing, from the file alone; no image or map is read."""
        return tuple(self._records.labels(index))

    def map_row(self, index: int) -> JsonRow:
        """Return the entry of an image's segment map as in the file, without its ``segments_info``."""
        row = self._records.map_row(index)
        return {key: value for key, value in row.items() if key != "segments_info"}

    @cached_property
    def _records(self) -> PanopticRecords:
        return self._read_records()

    def _read_records(self) -> PanopticRecords:
        index, categories = self._index("panoptic", SEGMENTS, check_num_classes, make_index)
        self.category_ids, self.class_names = categories.ids, categories.names
        are_things = tuple(bool(row["isthing"]) for row in categories.rows)
        self.schema = CocoPanopticSchema(
            categories.names, are_things, max_instances_per_image=self.max_instances_per_image
        )
        self.has_crowds = index.facts["has_crowds"]
        records = PanopticRecords(self._file, index, categories)
        records.check_num_things(self.max_instances_per_image)
        return records


class PanopticRecords(IndexedRecords):
    """Annotated images of a file of panoptic segments.

    A record has the keys of the ``images`` table, ``map``, the file name of its PNG, and ``segments`` with ``id``,
    ``class``, ``crowd``, ``ignored`` and ``instance_id``, which is 0 for segments that are no instance. Of crowds, this
    package writes ignored regions with the key ``ignore``.
    """

    def __init__(self, file: AnnotationFile, index: Index, categories: Categories) -> None:
        super().__init__(file, index)
        self._categories = categories
        self.num_unannotated: int = index.facts["num_unannotated"]
        self.first_unannotated: int = index.facts["first_unannotated"]

    def __len__(self) -> int:
        return len(self._columns["places"])

    def __getitem__(self, index: Any) -> Any:
        annotation, image = self.map_row(index), self.image_row(index)
        return {
            **{key: image[key] for key in IMAGE_COLUMNS},
            "map": annotation["file_name"],
            "segments": self._segments(annotation),
        }

    def _segments(self, annotation: JsonRow) -> list[JsonRow]:
        num_things, segments = 0, []
        for found in self._categories.segments(annotation):
            is_instance = is_thing(self._categories, found)
            num_things += is_instance
            facts = {"id": found.row["id"], "class": found.label, "crowd": found.is_crowd}
            facts["ignored"] = found.is_crowd and bool(found.row.get("ignore"))
            segments.append({**facts, "instance_id": num_things if is_instance else 0})
        return segments

    def map_row(self, index: int) -> JsonRow:
        """Decode the entry of an image's segment map."""
        position = range(len(self))[index]
        start, stop = int(self._columns["starts"][position]), int(self._columns["stops"][position])
        return self._file.row(start, stop, self.image_id(index), "image_id")

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Decode the entries of an image's segments."""
        rows: list[JsonRow] = self.map_row(index)["segments_info"]
        return rows

    def labels(self, index: int) -> list[int]:
        """Return the classes of an image's things."""
        firsts, place = self._columns["firsts"], self._place(index)
        found: list[int] = self._columns["things"][int(firsts[place]) : int(firsts[place + 1])].tolist()
        return found

    def check_num_things(self, most: int) -> None:
        """Raise `DatasetError` if an image has more things than this."""
        counts = np.diff(self._columns["firsts"].astype(np.int64))
        if (too_many := np.flatnonzero(counts > most)).size:
            place = int(too_many[0])
            raise DatasetError(
                f"{self._file.path}: expected at most {most} things in the annotation of image "
                f"{int(self._columns['image_ids'][place])}, got {counts[place]}; raise max_instances_per_image"
            )

    def _place(self, index: int) -> int:
        return int(self._columns["places"][range(len(self))[index]])


def is_thing(categories: Categories, segment: Segment) -> bool:
    """Return whether a segment is an instance: of a thing class, and no crowd."""
    return bool(categories.rows[segment.label]["isthing"]) and not segment.is_crowd


def check_num_classes(categories: Categories) -> None:
    """Raise `DatasetError` if there are too many classes."""
    if (num := len(categories.rows)) > IGNORE_INDEX:
        raise DatasetError(
            f"{categories.path}: expected at most {IGNORE_INDEX} categories, because {IGNORE_INDEX} means ignore, got "
            f"{num}; merge or remove some"
        )


def make_index(tables: AnnotationTables) -> Index:
    """Read all images and segments.

    Raises:
        DatasetError: an entry is broken, an image has two annotations, or no image has an annotation.
    """
    images, categories = tables.images(), tables.categories
    image_ids, things, num_things = list[int](), [], []
    has_crowds = False
    for image_id, _, found in tables.maps():
        image_ids.append(image_id)
        segments = [*found]
        has_crowds = has_crowds or any(segment.is_crowd for segment in segments)
        labels = [segment.label for segment in segments if is_thing(categories, segment)]
        things.append(np.array(labels, np.uint8))
        num_things.append(len(labels))
    positions = tables.place_maps(id_column(image_ids), images)
    num_images, order = len(images.ids), np.argsort(positions, kind="stable")
    if num_images and not len(positions):
        raise DatasetError(
            f"{tables.path}: expected an annotation of at least one image, none of {num_images} has one; are the "
            "annotations those of another file?"
        )
    marks = tables.json.marks("annotations")
    is_annotated = np.zeros(num_images, bool)
    is_annotated[positions] = True
    missing = np.flatnonzero(~is_annotated)
    facts = {
        "has_crowds": has_crowds,
        "num_unannotated": len(missing),
        "first_unannotated": int(images.ids[missing[0]]) if len(missing) else 0,
    }
    arrays = {
        **image_columns(tables, images),
        "places": narrow(positions[order]),
        "starts": narrow(marks[:-1][order] + 1),
        "stops": narrow(marks[1:][order]),
        "firsts": narrow(firsts_of(np.repeat(positions, num_things), num_images)),
        "things": np.concatenate([things[i] for i in order.tolist()]) if things else np.zeros(0, np.uint8),
    }
    return Index(facts, arrays)
