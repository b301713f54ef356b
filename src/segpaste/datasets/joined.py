"""Join of several datasets with one list of classes, for banks, loaders and `segpaste augment`.

    photos = JoinedPhotos([coco, own, BackgroundImages("rooms")], class_map={"automobile": "car", "misc": None})

Classes are joined by name. `torch.utils.data.ConcatDataset` suffices where all datasets have the same classes and ids
are not needed. Class maps rename, merge and drop classes.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from segpaste._reprs import counted, described
from segpaste.datasets._common_fields import CommonFields
from segpaste.datasets.contract import AnnotatedDataset, Crowd, DatasetView, FederatedLabels
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import file_digest
from segpaste.datasets.formats.text_files import is_background, read_yaml_or_json
from segpaste.datasets.views import Samples, annotated
from segpaste.types import DenseSample, SemanticMap
from segpaste.types.instances import select_instances
from segpaste.types.tensors import IGNORE_INDEX

ClassMap = Mapping[str, str | None]
"""Class name to its new name, or to None to drop the class. Other classes keep their names."""


def maps_of(class_map: ClassMap | Sequence[ClassMap | None] | None, num: int) -> list[ClassMap]:
    """Return a class map for each of ``num`` datasets; raise `ValueError` if their number differs."""
    if class_map is None or isinstance(class_map, Mapping):
        return [class_map or {}] * num
    if len(class_map) != num:
        raise ValueError(f"class_map: expected one for all datasets, or {num}, one for each, got {len(class_map)}")
    return [of_one or {} for of_one in class_map]


def class_names_of(dataset: AnnotatedDataset, name: str, kind: str) -> tuple[str, ...]:
    """Return the class names of the dataset ``name``; raise `DatasetError` if there are none, or one repeats."""
    if not dataset.names_classes:
        raise DatasetError(f"{name}: expected a dataset with class_names, to join classes by name, got a {kind}")
    names = dataset.class_names
    if repeated := [one for one in dict.fromkeys(names) if tuple(names).count(one) > 1]:
        raise DatasetError(f"{name}: expected a unique name for each class, got {', '.join(repeated):.200} twice")
    return tuple(names)


def check_known(maps: Sequence[ClassMap], own: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Raise `DatasetError` if a map names a class that none of its datasets has."""
    is_shared = all(of_one is maps[0] for of_one in maps)
    groups = [(maps[0], {name for part in own for name in part}, "the datasets")] if is_shared else []
    groups += [] if is_shared else [(m, set(part), name) for m, part, name in zip(maps, own, names, strict=True)]
    for of_one, known, where in groups:
        if unknown := [name for name in of_one if name not in known]:
            raise DatasetError(
                f"class map: expected classes of {where} ({', '.join(sorted(known)):.200}), got "
                f"{', '.join(unknown):.200}; correct or remove them"
            )


def read_class_map(path: str | PathLike[str]) -> ClassMap | list[ClassMap | None]:
    """Read a class map from YAML or JSON: ``name: name``, ``name: null`` to drop a class, or a list of such maps.

    Raises:
        DatasetError: the file is missing or malformed.
    """
    document = read_yaml_or_json(path, "a class map")
    if isinstance(document, list):
        return [None if one is None else _checked(path, one) for one in document]
    return _checked(path, document)


def _checked(path: str | PathLike[str], document: object) -> ClassMap:
    if not isinstance(document, Mapping):
        raise DatasetError(f"{path}: expected class names and their new names, got {document!r:.60}")
    for name, new in document.items():
        if not isinstance(name, str) or not (new is None or (isinstance(new, str) and new)):
            raise DatasetError(
                f"{path}: expected a name, or null to drop the class, for each class name, got {name!r:.40}: "
                f"{new!r:.40}; put numbers and words such as 'no' in quotes"
            )
    return dict(document)


DROPPED = -1


class JoinedPhotos(DatasetView):
    """Concatenation of several datasets with joined classes.

    Classes of the same name after ``class_map`` are one class. Instances of dropped classes are left out. Their pixels
    stay in the image and are ignored in semantic maps. Ids stay those of the datasets, so image ids are unique only
    within a dataset; `dataset_idx` returns the dataset.

    Samples must have the same modalities, because a batch requires it. Missing fields are filled in some cases: a crowd
    mask is False for datasets without crowds, keypoints are not labelled where a dataset has none, and datasets without
    classes, such as `BackgroundImages`, have masks if the others have some, depth and normals that are valid nowhere,
    and semantic maps of the class `background_label`. Datasets without classes cannot be joined with datasets that have
    metric depth, which needs a camera.

    Args:
        datasets: at least one map-style dataset with ``class_names``, such as a reader of segpaste. One sample of each
            is read at construction.
        class_map: one for all datasets, or a list with one, or None, for each.
        names: names of the datasets; by default ``annotations_file`` without folders, or the name of the class.
        fields: ``"same"`` rejects datasets whose modalities differ from the first; ``"common"`` leaves out fields that
            some datasets lack.

    Attributes:
        class_names: the joined classes, in the order in which the datasets name them; labels index it.
        background_label: class of all pixels of datasets without classes, in semantic maps: 0 if the first class is
            named background and is no thing, else 255, which is void. Pastes cover void only with
            ``placement.cover_void``.
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
        datasets = tuple(datasets)
        if not datasets:
            raise ValueError("JoinedPhotos: expected at least one dataset, got none")
        self.datasets: tuple[AnnotatedDataset, ...] = tuple(map(annotated, datasets))
        kinds = [type(dataset).__name__ for dataset in datasets]
        self.names = _names(self.datasets, kinds, names)
        maps = maps_of(class_map, len(self.datasets))
        own = [class_names_of(*pair) for pair in zip(self.datasets, self.names, kinds, strict=True)]
        check_known(maps, own, self.names)
        renamed = [[of_one.get(name, name) for name in part] for part, of_one in zip(own, maps, strict=True)]
        self.class_names = tuple(dict.fromkeys(name for part in renamed for name in part if name is not None))
        label_of = {name: label for label, name in enumerate(self.class_names)}
        self._tables = tuple(tuple(DROPPED if n is None else label_of[n] for n in part) for part in renamed)
        self._ends = list(accumulate(len(dataset) for dataset in self.datasets))
        self._only = self._only_one()
        self.schema = None if self._only is None else self._only.schema
        self.background_label = self._background()
        self._common = CommonFields.of(self.datasets, self.names, fields, self.background_label)
        self.keypoint_schema = self._common.keypoint_schema
        self.has_crowds: bool = self._common.has_crowds
        self.has_masks = "instance_masks" in self._common.present
        self.depth_fill = any(dataset.depth_fill for dataset in self.datasets)
        self.lists_labels = all(dataset.lists_labels for dataset in self.datasets)
        self.num_datasets = len(self.datasets)
        self.has_semantic_maps = "semantic_map" in self._common.present
        facts = [[kind, len(one), digest_of(one)] for kind, one in zip(kinds, self.datasets, strict=True)]
        self.digest = hashlib.sha256(json.dumps([facts, self._tables, self.class_names]).encode()).hexdigest()

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
        sample = self.datasets[part][own]
        return self._relabelled(self._common.fitted(sample, part), self._tables[part])

    def dataset_idx(self, index: int) -> int:
        """Return the position of the dataset of a sample."""
        return self._place(index)[0]

    def place(self, index: int) -> tuple[AnnotatedDataset, int]:
        """Return the dataset of a sample, and the index of the sample in it."""
        part, own = self._place(index)
        return self.datasets[part], own

    def file_name(self, index: int) -> str:
        """Return the file name of the image, prefixed by its dataset's name unless only this dataset has classes."""
        part, own = self._place(index)
        name = self.datasets[part].file_name(own)
        return name if self.datasets[part] is self._only else f"{self.names[part]}/{name}"

    @property
    def categories(self) -> list[JsonRow]:
        """Entries of the classes: those of the file if only one dataset has classes and keeps them, else new ones."""
        return super().categories if self._only is None else list(self._only.categories)

    def tables(self) -> JsonRow:
        """Return the other keys of the file, such as licenses, if only one dataset has classes and keeps them."""
        return {} if self._only is None else dict(self._only.tables())

    def image_row(self, index: int) -> JsonRow:
        """Return the entry of an image in its dataset, without its license if the licenses are not in `tables`."""
        row = dict(super().image_row(index))
        if self._only is None:
            row.pop("license", None)
        return row

    def annotation_rows(self, index: int) -> list[JsonRow]:
        """Return the entries of an image's annotations in its dataset, with the ids of the joined `categories`."""
        part, own = self._place(index)
        rows = self.datasets[part].annotation_rows(own)
        if self._only is not None or not rows:
            return rows
        ids = sorted(row["id"] for row in self.datasets[part].categories)
        label_of = dict(zip(ids, self._tables[part], strict=True))
        found = ({**row, "category_id": label_of[row["category_id"]] + 1} for row in rows)
        return [row for row in found if row["category_id"] != DROPPED + 1]

    def joined(self) -> tuple[AnnotatedDataset, ...]:
        """Return the datasets."""
        return self.datasets

    def searched_folders(self) -> tuple[Path, ...]:
        """Return all folders that are searched for images of the datasets."""
        return tuple(folder for dataset in self.datasets for folder in dataset.searched_folders())

    def _only_one(self) -> AnnotatedDataset | None:
        """Return the only dataset with classes if it keeps all of them unchanged, else None."""
        having = [n for n, table in enumerate(self._tables) if table]
        is_kept = len(having) == 1 and self.class_names == tuple(self.datasets[having[0]].class_names)
        return self.datasets[having[0]] if is_kept else None

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of each annotation whose class is kept; see `CocoDetectionV2.instance_labels`."""
        part, own = self._place(index)
        labels = self._mapped(part, self.datasets[part].instance_labels(own))
        return tuple(label for label in labels if label != DROPPED)

    def left_out(self, index: int) -> dict[str, int]:
        """Count the annotations of a read image that are not instances; ``unmapped`` are of dropped classes."""
        part, own = self._place(index)
        found = dict(self.datasets[part].left_out(own))
        if DROPPED in self._tables[part]:
            found["unmapped"] = self._mapped(part, self.datasets[part].instance_labels(own)).count(DROPPED)
        return found

    def crowds(self, index: int) -> list[Crowd]:
        """Return the crowd and ignored regions of an image whose classes are kept."""
        part, own = self._place(index)
        table = self._tables[part]
        crowds = [crowd._replace(label=table[crowd.label]) for crowd in self.datasets[part].crowds(own)]
        return [crowd for crowd in crowds if crowd.label != DROPPED]

    def federated(self, index: int) -> FederatedLabels | None:
        """Return the classes that were annotated in the image, or None if its dataset does not say.

        A joined class is absent if all its source classes are absent, and not exhaustive if one of them is not.
        """
        part, own = self._place(index)
        lists = self.datasets[part].federated(own)
        if lists is None:
            return None
        table = self._tables[part]
        negative = {
            n for n in set(table) - {DROPPED} if all(i in lists.negative for i, t in enumerate(table) if t == n)
        }
        positive, partly = (set(self._mapped(part, ids)) - {DROPPED} for ids in (lists.positive, lists.not_exhaustive))
        return FederatedLabels(*(tuple(sorted(labels)) for labels in (positive, negative, partly)))

    def _background(self) -> int:
        """Return the class of the pixels of datasets without classes."""
        is_thing = self.schema is not None and self.schema.classes.get(0) == "thing"
        return 0 if self.class_names and is_background(self.class_names[0]) and not is_thing else IGNORE_INDEX

    def _place(self, index: int) -> tuple[int, int]:
        """Return the dataset of a sample and the index in it."""
        place = range(len(self))[index]
        part = bisect_right(self._ends, place)
        return part, place - (self._ends[part - 1] if part else 0)

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


def _names(datasets: Sequence[AnnotatedDataset], kinds: Sequence[str], given: Sequence[str] | None) -> tuple[str, ...]:
    """Return a unique name for each dataset; equal names are numbered."""
    if given is None:
        files = [dataset.annotations_file for dataset in datasets]
        given = [kind if file is None else Path(file).name for kind, file in zip(kinds, files, strict=True)]
    if len(given) != len(datasets):
        raise ValueError(f"names: expected {len(datasets)}, one for each dataset, got {len(given)}")
    return tuple(f"{name} {n + 1}" if list(given).count(name) > 1 else name for n, name in enumerate(given))


def digest_of(dataset: AnnotatedDataset) -> str:
    """Return the digest of a dataset or of its annotation file; empty if it has neither."""
    path = dataset.annotations_file
    if dataset.digest or path is None or not Path(path).is_file():
        return str(dataset.digest)
    return file_digest(Path(path))
