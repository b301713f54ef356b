"""Join of several datasets with one list of classes, for banks, loaders and `segpaste augment`.

    photos = JoinedPhotos([coco, own, BackgroundImages("rooms")], class_map={"automobile": "car", "misc": None})

Classes are joined by name. `torch.utils.data.ConcatDataset` suffices where all datasets have the same classes and ids
are not needed.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils.data import Dataset

from segpaste._reprs import counted, described
from segpaste.datasets._class_maps import ClassMap, check_known, class_names_of, maps_of
from segpaste.datasets._common_fields import CommonFields
from segpaste.datasets.formats.federated import FederatedLabels
from segpaste.datasets.formats.records import Crowd, JsonRow
from segpaste.types import DenseSample, KeypointSchema, PanopticSchema, SemanticMap
from segpaste.types.instances import select_instances
from segpaste.types.tensors import IGNORE_INDEX

DROPPED = -1


class Samples(Protocol):
    """Map-style dataset of samples; see `JoinedPhotos` for optional members."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> DenseSample: ...


class JoinedPhotos(Dataset[DenseSample]):
    """Concatenation of several datasets with joined classes.

    Classes of the same name after ``class_map`` are one class. Instances of dropped classes are left out. Their pixels
    stay in the image and are ignored in semantic maps. Ids stay those of the datasets, so image ids are unique only
    within a dataset; `dataset_idx` returns the dataset.

    Samples must have the same modalities, because a batch requires it. Missing fields are filled in some cases: a crowd
    mask is False for datasets without crowds, keypoints are not labelled where a dataset has none, and datasets without
    classes, such as `BackgroundImages`, have masks if the others have some, and depth and normals that are valid
    nowhere. Datasets without classes cannot be joined with datasets that have metric depth, which needs a camera, or
    semantic maps, which need classes.

    Args:
        datasets: at least one map-style dataset with ``class_names``, such as a reader of segpaste. One sample of each
            is read at construction.
        class_map: one for all datasets, or a list with one, or None, for each.
        names: names of the datasets; by default ``annotations_file`` without folders, or the name of the class.
        fields: ``"same"`` rejects datasets whose modalities differ from the first; ``"common"`` leaves out fields that
            some datasets lack.

    Attributes:
        class_names: the joined classes, in the order in which the datasets name them; labels index it.
        names: unique names of the datasets.
        keypoint_schema: names of the keypoints; None without keypoints.
        has_crowds: True if samples have a crowd mask.
        digest: digest of the datasets, in this order, and of the class map.

    Raises:
        ValueError: there is no dataset, or ``class_map`` or ``names`` has the wrong length.
        DatasetError: a dataset has no class names, the class map names an unknown class, or the modalities differ.
    """

    def __init__(
        self,
        datasets: Sequence[Samples],
        *,
        class_map: ClassMap | Sequence[ClassMap | None] | None = None,
        names: Sequence[str] | None = None,
        fields: Literal["same", "common"] = "same",
    ) -> None:
        self.datasets: tuple[Any, ...] = tuple(datasets)
        if not self.datasets:
            raise ValueError("JoinedPhotos: expected at least one dataset, got none")
        self.names = _names(self.datasets, names)
        maps = maps_of(class_map, len(self.datasets))
        own = [class_names_of(dataset, name) for dataset, name in zip(self.datasets, self.names, strict=True)]
        check_known(maps, own, self.names)
        renamed = [[of_one.get(name, name) for name in part] for part, of_one in zip(own, maps, strict=True)]
        self.class_names = tuple(dict.fromkeys(name for part in renamed for name in part if name is not None))
        label_of = {name: label for label, name in enumerate(self.class_names)}
        self._tables = tuple(tuple(DROPPED if n is None else label_of[n] for n in part) for part in renamed)
        self._ends = list(accumulate(len(dataset) for dataset in self.datasets))
        self._common = CommonFields.of(self.datasets, self.names, fields)
        self.keypoint_schema: KeypointSchema | None = self._common.keypoint_schema
        self.has_crowds: bool = self._common.has_crowds
        self.has_masks: bool = "instance_masks" in self._common.present
        self.depth_fill = any(getattr(photos, "depth_fill", False) for photos in self.datasets)
        self.has_semantic_maps: bool = "semantic_map" in self._common.present
        self.digest = _digest(self.datasets, self._tables, self.class_names)

    def __len__(self) -> int:
        return self._ends[-1]

    def __repr__(self) -> str:
        return described(
            self,
            lambda: " + ".join(self.names),
            lambda: counted(len(self), "image"),
            lambda: counted(len(self.class_names), "class", "classes"),
        )

    def __getitem__(self, index: int) -> DenseSample:
        """Read one sample; raise the errors of its dataset, or `DatasetError` if its modalities differ."""
        part, own = self._place(index)
        sample: DenseSample = self.datasets[part][own]
        return self._relabelled(self._common.fitted(sample, part), self._tables[part])

    def dataset_idx(self, index: int) -> int:
        """Return the position of the dataset of a sample."""
        return self._place(index)[0]

    def place_of(self, index: int) -> tuple[Any, int]:
        """Return the dataset of a sample, and the index of the sample in it."""
        part, own = self._place(index)
        return self.datasets[part], own

    def image_id(self, index: int) -> int:
        """Return the id of the image in its dataset, or its index there if the dataset has no ids."""
        part, own = self._place(index)
        image_id = getattr(self.datasets[part], "image_id", None)
        return own if image_id is None else int(image_id(own))

    def file_name(self, index: int) -> str:
        """Return the file name of the image, prefixed by its dataset's name unless only this dataset has classes."""
        part, own = self._place(index)
        name = str(self._asked(part, "file_name", own, own))
        return name if self.datasets[part] is self._only else f"{self.names[part]}/{name}"

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes: those of the file if only one dataset has classes and keeps them, else new ones."""
        if (rows := getattr(self._only, "categories", None)) is not None:
            return list(rows)
        return [{"id": label, "name": name} for label, name in enumerate(self.class_names, start=1)]

    @property
    def schema(self) -> PanopticSchema | None:
        """Things and stuff of the only dataset with classes, if it keeps them and has a schema."""
        return getattr(self._only, "schema", None)

    def tables(self) -> JsonRow:
        """Return the other keys of the file, such as licenses, if only one dataset has classes and keeps them."""
        tables = getattr(self._only, "tables", None)
        return {} if tables is None else dict(tables())

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image in its dataset, without its license if the licenses are not in `tables`."""
        part, own = self._place(index)
        row = dict(self._asked(part, "image_row", own, {"id": self.image_id(index)}))
        if self._only is None:
            row.pop("license", None)
        return row

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations in its dataset, with the ids of the joined `categories`."""
        part, own = self._place(index)
        rows: list[JsonRow] = self._asked(part, "annotation_rows", own, [])
        if self._only is not None or not rows:
            return rows
        ids = sorted(row["id"] for row in self.datasets[part].categories)
        label_of = dict(zip(ids, self._tables[part], strict=True))
        found = ({**row, "category_id": label_of[row["category_id"]] + 1} for row in rows)
        return [row for row in found if row["category_id"] != DROPPED + 1]

    def photo_file(self, index: int) -> tuple[Path, tuple[int, int] | None]:
        """Return the path of an image, and its (H, W) in the annotations, or None; see `AnnotatedPhotos`."""
        part, own = self._place(index)
        found: tuple[Path, tuple[int, int] | None] = self.datasets[part].photo_file(own)
        return found

    def is_drawn_upright(self, index: int) -> bool:
        """Return whether the annotations of an image follow its EXIF orientation; see `AnnotatedPhotos`."""
        return bool(getattr(self.datasets[self._place(index)[0]], "drawn_upright", False))

    def searched_folders(self) -> tuple[Path, ...]:
        """Return all folders that are searched for images of the datasets; see `AnnotatedPhotos`."""
        searched = (getattr(dataset, "searched_folders", tuple[Path, ...])() for dataset in self.datasets)
        return tuple(folder for folders in searched for folder in folders)

    @property
    def _only(self) -> Any:
        """Only dataset with classes if it keeps all of them unchanged, else None."""
        having = [n for n, table in enumerate(self._tables) if table]
        is_kept = len(having) == 1 and self.class_names == tuple(self.datasets[having[0]].class_names)
        return self.datasets[having[0]] if is_kept else None

    def annotation_ids(self, index: int) -> Sequence[int]:
        """Return the dataset's id of each instance, including dropped ones; instance id i + 1 is at position i."""
        part, own = self._place(index)
        annotation_ids = getattr(self.datasets[part], "annotation_ids", None)
        ids: Sequence[int] = (
            range(self.datasets[part][own].num_instances) if annotation_ids is None else annotation_ids(own)
        )
        return ids

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation whose class is kept; see `CocoDetectionV2.instance_labels`."""
        part, own = self._place(index)
        return tuple(label for label in self._mapped(part, self._own_labels(part, own)) if label != DROPPED)

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances; ``unmapped`` are of dropped classes."""
        part, own = self._place(index)
        found = dict(self._asked(part, "left_out", own, {}))
        if DROPPED in self._tables[part]:
            found["unmapped"] = self._mapped(part, self._own_labels(part, own)).count(DROPPED)
        return found

    def crowds(self, index: int) -> list[Crowd]:
        """Return the crowd and ignored regions of an image whose classes are kept."""
        part, own = self._place(index)
        crowds = [
            crowd._replace(label=self._tables[part][crowd.label]) for crowd in self._asked(part, "crowds", own, ())
        ]
        return [crowd for crowd in crowds if crowd.label != DROPPED]

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if its dataset does not say.

        A joined class is absent if all its source classes are absent, and not exhaustive if one of them is not.
        """
        part, own = self._place(index)
        lists: FederatedLabels | None = self._asked(part, "federated", own, None)
        if lists is None:
            return None
        table = self._tables[part]
        negative = {
            n for n in set(table) - {DROPPED} if all(i in lists.negative for i, t in enumerate(table) if t == n)
        }
        positive, partly = (set(self._mapped(part, ids)) - {DROPPED} for ids in (lists.positive, lists.not_exhaustive))
        return FederatedLabels(*(tuple(sorted(labels)) for labels in (positive, negative, partly)))

    def photo_frame(self, index: int, box: tuple[int, int, int, int]) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the original image size that a cut-out stands for; see `segpaste.datasets.CutOuts.photo_frame`."""
        part, own = self._place(index)
        photo_frame = getattr(self.datasets[part], "photo_frame", None)
        return None if photo_frame is None else photo_frame(own, box)

    def _place(self, index: int) -> tuple[int, int]:
        """Return the dataset of a sample and the index in it."""
        place = range(len(self))[index]
        part = bisect_right(self._ends, place)
        return part, place - (self._ends[part - 1] if part else 0)

    def _asked(self, part: int, method: str, own: int, default: Any) -> Any:
        found = getattr(self.datasets[part], method, None)
        return default if found is None else found(own)

    def _own_labels(self, part: int, own: int) -> Iterable[int]:
        labels: Iterable[int] | None = self._asked(part, "instance_labels", own, None)
        return self.datasets[part][own].labels.tolist() if labels is None else labels

    def _mapped(self, part: int, labels: Iterable[int]) -> list[int]:
        return [self._tables[part][label] for label in labels]

    def _relabelled(self, sample: DenseSample, table: Sequence[int]) -> DenseSample:
        """Return a sample with joined classes and without the instances of dropped classes."""
        if list(table) == list(range(len(table))):
            return sample
        labels = torch.tensor(self._of_table(sample.labels, table), dtype=torch.int64, device="cpu")
        semantic = sample.semantic_map
        if semantic is not None:
            lookup = torch.arange(max(IGNORE_INDEX + 1, len(table)), device="cpu")
            lookup[: len(table)] = lookup.new_tensor([IGNORE_INDEX if t == DROPPED else t for t in table])
            semantic = SemanticMap(lookup[semantic.as_subclass(Tensor)])
        keep = torch.nonzero(labels != DROPPED)[:, 0]
        relabelled = replace(sample, labels=labels.clamp(min=0), semantic_map=semantic)
        return relabelled if len(keep) == len(labels) else select_instances(relabelled, keep)

    @staticmethod
    def _of_table(labels: Tensor, table: Sequence[int]) -> list[int]:
        return [table[label] for label in labels.tolist()]


def _names(datasets: Sequence[Any], given: Sequence[str] | None) -> tuple[str, ...]:
    """Return a unique name for each dataset; equal names are numbered."""
    if given is None:
        paths = (getattr(dataset, "annotations_file", None) for dataset in datasets)
        given = [type(d).__name__ if p is None else Path(p).name for d, p in zip(datasets, paths, strict=True)]
    if len(given) != len(datasets):
        raise ValueError(f"names: expected {len(datasets)}, one for each dataset, got {len(given)}")
    return tuple(f"{name} {n + 1}" if list(given).count(name) > 1 else name for n, name in enumerate(given))


def _digest(datasets: Sequence[Any], tables: Sequence[Sequence[int]], class_names: Sequence[str]) -> str:
    facts = [[type(dataset).__name__, len(dataset), digest_of(dataset)] for dataset in datasets]
    return hashlib.sha256(json.dumps([facts, tables, class_names]).encode()).hexdigest()


def digest_of(dataset: Any) -> str:
    """Return the digest of a dataset or of its annotation file; empty if it has neither."""
    if (digest := getattr(dataset, "digest", None)) is not None:
        return str(digest)
    path = getattr(dataset, "annotations_file", None)
    if path is None or not Path(path).is_file():
        return ""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
