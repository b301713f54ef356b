"""Class maps: they rename, merge and drop classes of joined datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.text_files import read_yaml_or_json

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
