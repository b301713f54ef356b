"""Further keys of the data YAML of a converted YOLO dataset: which are still true, and which are lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.format import WrittenTask
from segpaste.datasets.formats.text_files import read_text
from segpaste.datasets.formats.yolo.data import YAML_SUFFIXES, read_yaml
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.format import Losses
from segpaste.types import KeypointSchema

_HELD = frozenset({"path", "train", "val", "validation", "test", "nc", "names", "task"})
"""Keys whose content any format has in another form."""
_OF_POINTS = frozenset({"kpt_shape", "kpt_names"})
"""The same if the dataset has keypoints; the classes of other formats name them."""
_EMPTY: tuple[object, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class YamlKeys:
    """Keys of the data YAML of a dataset.

    Attributes:
        document: all keys.
        root: folder of its paths.
        schema: schema of the keypoints that are read; None without.
        read: names of classes that YAML does not read as text, such as ``no``, and the name that each of them is.
    """

    document: JsonRow
    root: Path
    schema: KeypointSchema | None
    read: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, photos: AnnotatedDataset) -> YamlKeys | None:
        """Read the keys again; None if the dataset has no YAML."""
        if not isinstance(photos, YoloDataset):
            return None
        file = photos.data.file
        if not file.is_file() or file.suffix.lower() not in YAML_SUFFIXES:
            return None
        return cls(read_yaml(file), photos.data.root, photos.keypoint_schema, _changed_names(file))

    def kept(self, task: WrittenTask) -> dict[str, Any]:
        """Return the keys that a written data YAML has besides those of its own: all but paths, with its own task.

        ``flip_idx`` is among them, since a YAML without it must not claim that no points swap.
        """
        further = {key: value for key, value in self.document.items() if key not in {*_HELD, *_OF_POINTS}}
        kept = {key: value for key, value in further.items() if not self._names_files(value)}
        return {**kept, **({"task": task} if "task" in self.document else {})}

    def lost(self, to: str, task: WrittenTask, *, has_points: bool) -> Losses:
        """Count the keys that a format does not hold.

        Args:
            to: the format.
            task: task of written YOLO labels.
            has_points: True if the format has keypoints.
        """
        held = _HELD if self.schema is None else _HELD | _OF_POINTS
        further = {key: value for key, value in self.document.items() if key not in held and value not in _EMPTY}
        is_held = {*self.kept(task)} - {"flip_idx"} if to == "yolo" else set[str]()
        if self.schema is not None and has_points:
            is_named = KeypointSchema.of_sides(self.schema.names).flip_pairs == self.schema.flip_pairs
            is_held |= {"flip_idx"} if to == "yolo" or is_named else set()
        names = {
            f"name {text!r} of a class of the data YAML, which YAML reads as {name!r}": 1 for text, name in self.read
        }
        return Losses({f"key '{key}' of the data YAML": 1 for key in further if key not in is_held} | names)

    def _names_files(self, value: object) -> bool:
        """Return whether a value is the path of a file or folder of the dataset, or a list of them."""
        names = value if isinstance(value, list) else [value]
        return bool(names) and all(isinstance(name, str) and self._is_there(name) for name in names)

    def _is_there(self, name: str) -> bool:
        return bool(name) and os.path.exists(self.root / name)


def _changed_names(path: Path) -> list[tuple[str, str]]:
    """Return the names of classes that YAML does not read as text, as written, each with the name that it is.

    Trainers read ``no`` as False and ``010`` as 8, too; quotes make a text of them.
    """
    import yaml

    root = yaml.compose(read_text(path), Loader=yaml.SafeLoader)
    table = next((value for key, value in root.value if key.value == "names"), None) if root is not None else None
    nodes = [node[1] if isinstance(node, tuple) else node for node in ([] if table is None else table.value)]
    names = [(str(node.value), str(yaml.SafeLoader("").construct_object(node))) for node in nodes if node.style is None]
    return [pair for pair in names if pair[0] != pair[1]]
