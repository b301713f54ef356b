"""Reader of images with maps of classes, objects, depth and normals, described by a declaration.

Not for annotations in tables, such as COCO's. Formats with a known layout are declarations, too: see
`segpaste.datasets.formats.maps.formats`.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import count, takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.annotations import Surfaces
from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.coco.segments import CocoPanopticSchema
from segpaste.datasets.formats.folders import files_with
from segpaste.datasets.formats.image_annotations import PackedRecords
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.image_pixels import read_rgb
from segpaste.datasets.formats.instances import sample_of_boxes
from segpaste.datasets.formats.maps.declaration import MapDeclaration
from segpaste.datasets.formats.maps.decoding import OF_STUFF, Classes, Ids, Objects, ade20k_objects, read_class_list
from segpaste.datasets.formats.maps.files import MapFiles, roles_of
from segpaste.datasets.formats.maps.reading import MapReader
from segpaste.datasets.formats.text_files import read_lines
from segpaste.types import IGNORE_INDEX, DenseSample, SemanticMap

_REMEMBERED = 4096
_Told = tuple[tuple[int, ...], tuple[int, ...], dict[str, int], Mapping[str, int]]


class MapPhotos(AnnotatedImages):
    """One split of a dataset of maps, one `DenseSample` for each image, sorted by path.

    The declaration determines the fields of a sample:

    - ``semantic``: a semantic map, 255 for void. With more than 255 classes it only gives the classes of objects.
    - ``instances``: masks, boxes and labels. Samples are panoptic if the declaration names ``things`` and the maps
      give the class of each pixel; pixels of things without an object are then ignored and a crowd.
    - ``depth`` or ``disparity``: depth in metres, and the intrinsics if there is a ``camera``.
    - ``normals``: unit vectors right-down-forward.

    Images with missing files are left out with a warning. Maps are decoded when a sample is read.

    Args:
        declared: declaration of the files.
        folder: the folder of the declaration; its ``root`` starts there.
        split: name of the split; empty if the dataset has no splits.
        transforms: called with each `DenseSample`; its result replaces the sample.
        where: text at the start of errors in the declaration, by default the folder.

    Attributes:
        declared: declaration of the files.
        split: name of the split.
        classes: names, ids and colours of the classes.
        has_semantic_maps: True if samples have semantic maps.
        incomplete: kind of the missing file of each image that is left out because of it, by file name.
        num_incomplete: number of these images by the kind of file.

    Raises:
        DatasetError: there is no image with all its files, or a class is unknown.
    """

    incomplete: dict[str, str]
    num_incomplete: dict[str, int]

    def __init__(
        self,
        declared: MapDeclaration,
        folder: str | PathLike[str],
        split: str = "",
        *,
        transforms: Callable[[DenseSample], DenseSample] | None = None,
        where: str | PathLike[str] | None = None,
    ) -> None:
        self.declared, self.split, place = declared, split, str(where or folder)
        root, given = Path(folder) / declared.root, declared.classes
        entries = read_class_list(root / given) if isinstance(given, str) else given
        self.classes = Classes.of_entries(entries, place)
        self.class_names = self.classes.names
        self.declared_maps = frozenset(roles_of(declared))
        self.has_masks = declared.instances is not None
        fits = len(self.class_names) <= IGNORE_INDEX
        self.has_semantic_maps = fits and (declared.semantic is not None or bool(declared.things))
        self._things = frozenset(self.classes.label_named(name, f"{place}: things") for name in declared.things)
        self.schema = self._schema(place)
        self._files = MapFiles(root, declared)
        self._reader = MapReader(self._files, self.classes)
        super().__init__(root, folder, transforms=transforms)
        if self.num_incomplete:
            counts = ", ".join(f"{num} without {role}" for role, num in self.num_incomplete.items())
            warnings.warn(f"{root}: left out {sum(self.num_incomplete.values())} images: {counts}", stacklevel=2)

    @property
    def categories(self) -> list[JsonRow]:
        """Classes in COCO's form; the id is the value in the files."""
        rows = []
        for label, (number, name) in enumerate(zip(self.classes.ids, self.classes.names, strict=True)):
            row: JsonRow = {"id": number, "name": name}
            if self.classes.colors is not None:
                row["color"] = list(self.classes.colors[label])
            rows.append(row if self.schema is None else {**row, "isthing": int(label in self._things)})
        return rows

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each object, from its map; no image is read."""
        return self._told(index)[1]

    def searched_folders(self) -> tuple[Path, ...]:
        """Return the folder before the first placeholder of the images' pattern, if images are in subfolders of it."""
        return self._files.searched_folders()

    def photo_file(self, index: int) -> tuple[Path, tuple[int, int] | None]:
        """Return the path of an image, and the (H, W) of its first map in an image file; see `AnnotatedImages`."""
        record = self._records[index]
        return self.images_dir / record["file_name"], self._files.map_size(record)

    def stray_files(self) -> dict[Path, str]:
        """Return the maps of the split whose image is missing, with their roles."""
        return {self._files.root / path: f"files of '{role}'" for path, role in self._files.strays(self.split).items()}

    def incomplete_images(self) -> dict[str, str]:
        """Return ``incomplete``."""
        return self.incomplete

    def map_files(self, index: int) -> tuple[Path, ...]:
        """Return the paths of the maps of an image."""
        return tuple(self.images_dir / path for _, path, _ in self._files.paths(self._records[index]))

    def label_file(self, index: int) -> Path | None:
        """Return the map of the objects of an image, or without objects that of its classes; None if there are many."""
        found = {role: path for role, path, _ in self._files.paths(self._records[index])}
        name = found.get("instances", found.get("semantic"))
        return None if name is None else self.images_dir / name

    def semantic_file(self, index: int) -> Path | None:
        """Return the map of the classes of an image; None without one."""
        found = {role: path for role, path, _ in self._files.paths(self._records[index])}
        return self.images_dir / found["semantic"] if "semantic" in found else None

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the value of each instance in its map, or the number of its file, from 1."""
        return self._told(index)[0]

    def left_out(self, index: int) -> dict[str, int]:
        """Count the ``crowd`` regions of an image and its ``empty`` masks, which are not instances."""
        return dict(self._told(index)[2])

    def unread(self, index: int) -> dict[str, int]:
        """Count the objects of an image's map that are no objects, or others, because of its semantic map."""
        return dict(self._told(index)[3])

    def void(self, index: int) -> NDArray[np.bool_] | None:
        """Return the pixels without a class and an object, if there are too many classes for a semantic map."""
        if self.has_semantic_maps or self.declared.semantic is None or not self.has_masks:
            return None
        objects = self._labels(self._records[index])[1]
        return None if objects is None or objects.void is None or not objects.void.any() else objects.void

    def stored_surfaces(self, index: int) -> Surfaces:
        """Return those of the declared files."""
        return self._reader.stored(self._records[index])

    def crowds(self, index: int) -> list[Crowd]:
        """Return, for each thing class, the pixels without an object, before ``transforms``."""
        if self.schema is None:
            return []
        semantic, objects = self._labels(self._records[index])
        assert semantic is not None
        assert objects is not None
        return [Crowd(self.classes.ids[label], label, False, mask) for label, mask in self._loose(semantic, objects)]

    def image_row(self, index: int) -> JsonRow:
        """Return ``id``, ``file_name``, and the placeholders' texts in the image's path, such as ``city``."""
        record = self._records[index]
        words = {word: text for word, text in record["words"].items() if word != "name" and text}
        return {"id": record["id"], "file_name": record["file_name"], **words}

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return ``id``, ``image_id`` and ``category_id`` of each instance, and of each crowd."""
        ids, labels, *_ = self._told(index)
        found = [(number, self.classes.ids[label], 0) for number, label in zip(ids, labels, strict=True)]
        found += [(crowd.annotation_id, crowd.annotation_id, 1) for crowd in self.crowds(index)]
        image_id = self.image_id(index)
        return [
            {"id": number, "image_id": image_id, "category_id": category, "iscrowd": crowd}
            for number, category, crowd in found
        ]

    def tables(self) -> JsonRow:
        """Return an ``info`` with the declaration."""
        return {"info": {"declaration": self.declared.model_dump(mode="json", by_alias=True, exclude_none=True)}}

    @cached_property
    def digest(self) -> str:  # type: ignore[override]
        """Digest of the declaration, file names, all maps of classes and objects, and the sizes of other files."""
        said = self.declared.model_dump_json(exclude={"root"})
        found = hashlib.sha256(repr((said, self.classes, self.split)).encode())
        for record in self._records:
            found.update(f"\n{record['file_name']}".encode())
            for role, name, _ in self._files.paths(record):
                path = self.images_dir / name
                is_label = role in ("semantic", "instances")
                content = path.read_bytes() if is_label else str(path.stat().st_size).encode()
                found.update(f"\n{role} {name}".encode() + hashlib.sha256(content).digest())
        return found.hexdigest()

    @cached_property
    def _known(self) -> dict[int, _Told]:
        """Contents of the maps of the last images that this process read, by image id."""
        return {}

    def _told(self, index: int) -> _Told:
        """Return the ids and labels of the instances of an image, and the counts of other annotations."""
        record = self._records[index]
        if not self.has_masks:
            return (), (), {}, {}
        if record["id"] not in self._known:
            self._labels(record)
        return self._known[record["id"]]

    def _labels(self, record: JsonRow) -> tuple[Ids | None, Objects | None]:
        """Read the maps of classes and objects, and cache their contents."""
        semantic, objects = self._reader.labels(record)
        if objects is not None:
            if semantic is not None and self.schema is not None:
                objects = self._of_things(record, semantic, objects)
                counts = {"crowd": len(self._loose(semantic, objects))}
            else:
                counts = {"empty": objects.num_empty}
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[record["id"]] = objects.ids, objects.labels, counts, objects.unread
        return semantic, objects

    def _of_things(self, record: JsonRow, semantic: Ids, objects: Objects) -> Objects:
        """Leave out objects of stuff.

        Raises:
            DatasetError: the two maps disagree.
        """
        assert objects.owner is not None
        if semantic.shape == objects.owner.shape:
            of_object = np.array([IGNORE_INDEX, *objects.labels], np.int64)[objects.owner]
            wrong = (objects.owner > 0) & (of_object != semantic)
            if wrong.any():
                row, column = (int(axis[0]) for axis in np.nonzero(wrong))
                raise DatasetError(
                    f"{self.images_dir / record['file_name']}: expected maps of classes and of objects that agree, got "
                    f"{int(wrong.sum())} pixels of another class, the first in row {row}, column {column}; use maps "
                    "that belong together, or leave 'things' out"
                )
        kept = [label in self._things for label in objects.labels]
        return replace(objects.only(kept), unread={**objects.unread, OF_STUFF: len(kept) - sum(kept)})

    def _loose(self, semantic: Ids, objects: Objects) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return the classes of things with pixels of no object, and those pixels."""
        assert objects.owner is not None
        free = np.where(objects.owner == 0, semantic, IGNORE_INDEX)
        return [(label, mask) for label in sorted(self._things) if (mask := free == label).any()]

    def _schema(self, place: str) -> CocoPanopticSchema | None:
        """Return the schema of things and stuff, if there are things."""
        found, num = self.declared.instances, len(self.class_names)
        if num > IGNORE_INDEX and (self._things or (self.declared.semantic is not None and found is None)):
            raise DatasetError(
                f"{place}: expected at most {IGNORE_INDEX} classes in semantic maps, got {num}; merge some"
            )
        if found is None or not self._things:
            return None
        if found.encoding in ("mask", "ade20k") or (found.encoding == "number" and self.declared.semantic is None):
            raise DatasetError(
                f"{place}: expected maps with the class of every pixel and one object at most for 'things', got "
                f"instances by '{found.encoding}'; leave 'things' out"
            )
        return CocoPanopticSchema(self.class_names, tuple(label in self._things for label in range(num)))

    def _read_records(self) -> PackedRecords:
        records, lacking = self._files.records(self.split)
        self.incomplete = lacking
        self.num_incomplete = dict(Counter(lacking.values()))
        return PackedRecords(records)

    def _read_sample(self, record: JsonRow) -> DenseSample:
        path = self.images_dir / record["file_name"]
        semantic, objects = self._labels(record)
        fields, sizes = self._reader.geometry(record)
        sizes |= {(map_.shape[0], map_.shape[1]) for map_ in _maps(semantic, objects)}
        if len(sizes) > 1:
            raise DatasetError(
                f"{path}: expected maps of one size, got {', '.join(f'{w} x {h}' for h, w in sorted(sizes))}; resize "
                "them to the image, labels and depth without interpolation"
            )
        size = next(iter(sizes)) if sizes else upright_size(path)
        image = read_rgb(path, size)
        if semantic is not None and (self.schema is None or objects is None):
            fields["semantic_map"] = SemanticMap(torch.from_numpy(semantic))
        elif semantic is not None and objects is not None:
            fields |= self._panoptic(semantic, objects)
        if objects is None:
            return sample_of_boxes(image, [], **fields)
        masks = (
            torch.from_numpy(objects.masks)
            if objects.masks.size
            else torch.zeros(0, *size, dtype=torch.bool, device="cpu")
        )
        return DenseSample.from_masks(
            image, masks, torch.tensor(objects.labels, dtype=torch.int64, device="cpu"), **fields
        )

    def _panoptic(self, semantic: Ids, objects: Objects) -> dict[str, Tensor]:
        """Return the maps of a panoptic sample."""
        crowd = np.zeros(semantic.shape, bool)
        for _, mask in self._loose(semantic, objects):
            crowd |= mask
        return {
            "semantic_map": torch.from_numpy(np.where(crowd, IGNORE_INDEX, semantic)),
            "panoptic_map": torch.from_numpy(objects.owner),
            "crowd_mask": torch.from_numpy(crowd[None]),
        }


def _maps(semantic: Ids | None, objects: Objects | None) -> Iterator[NDArray[Any]]:
    """Yield an array of the size of each map."""
    if semantic is not None:
        yield semantic
    if objects is not None and objects.owner is not None:
        yield objects.owner
    elif objects is not None and len(objects.masks):
        yield objects.masks[0]


class FullAde20kPhotos(MapPhotos):
    """Images of the full ADE20K, which know their files that are not read."""

    def unread(self, index: int) -> dict[str, int]:
        """Count these files, by what they say."""
        stem = self.path_of(index).with_suffix("")
        parts = takewhile(Path.is_file, (stem.with_name(f"{stem.name}_parts_{level}.png") for level in count(1)))
        return {
            **super().unread(index),
            "maps of parts of objects (NAME_parts_1.png)": len([*parts]),
            "masks of whole objects (NAME/*.png)": len(files_with(stem, ".png")),
            "objects with attributes (NAME.json, NAME_atr.txt)": self._num_with_attributes(stem),
        }

    def _num_with_attributes(self, stem: Path) -> int:
        try:
            return sum(bool(row.get("attributes")) for row in ade20k_objects(stem.with_name(f"{stem.name}.json")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            file = stem.with_name(f"{stem.name}_atr.txt")
            return (
                sum(line.rpartition("#")[2].strip(' \t"') != "" for line in read_lines(file)) if file.is_file() else 0
            )
