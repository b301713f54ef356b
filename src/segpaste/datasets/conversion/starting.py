"""What a tool is started from: the splits that it needs, the call that starts it, a file of its own if it needs one.

Right labels are not enough: a tool's own entry point searches for folders, keys and splits of certain names. What each
needs was seen by running that entry point on written datasets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.formats.yolo.data import SPLIT_KEYS
from segpaste.datasets.writers.coco import CocoInstances
from segpaste.datasets.writers.yolo import YoloLabels, split_keys

_ROBOFLOW = {"train": "train", "val": "valid", "test": "test"}
_ROLES = {"train": "train on", "val": "validate on"}


@dataclass(frozen=True, slots=True)
class Start:
    """How a tool is started from a written dataset.

    Attributes:
        call: the command, or the call in Python; empty if the tool does not start from datasets of this format.
        lacks: what the tool needs and does not find, with what to do; empty if it starts.
    """

    call: str
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class WrittenSplits:
    """The splits of a written dataset, as tools find them.

    Attributes:
        to: name of the format.
        names: names of the splits.
        class_names: names of the classes.
        trained: name of the split to train on, beside which others are copied; None if all are written.
    """

    to: str
    names: Sequence[str]
    class_names: Sequence[str]
    trained: str | None = None

    def of_key(self) -> dict[str, list[str]]:
        """Return the names of the splits of each key of `SPLIT_KEYS`."""
        if self.to == "roboflow":
            return {key: [name] for key, name in _ROBOFLOW.items() if name in self.names}
        keys = split_keys(self.names, self.trained)
        found = {key: [name for name in self.names if keys[name] == key] for key in SPLIT_KEYS}
        return {key: names for key, names in found.items() if names}

    def single(self) -> dict[str, str]:
        """Return the split of each key that has one only."""
        return {key: names[0] for key, names in self.of_key().items() if len(names) == 1}


def start_of(tool: Tool, splits: WrittenSplits, out: Path) -> Start | None:
    """Return how a tool is started from a written dataset; None if that is up to the code of its user."""
    if not tool.starts:
        return None
    if splits.to not in tool.starts:
        return Start("", f"{tool.title} does not start from folders of the format {splits.to}; leave --to out")
    call = tool.starts[splits.to].format(out=out)
    found = splits.single() if (tool.package, splits.to) in _DOCUMENTS else splits.of_key()
    missing = [key for key in tool.needs if key not in found]
    return Start(call, _lacks(tool, splits, missing) if missing else "")


def lacks_of(found: FoundDataset, splits: Sequence[str], tool: Tool) -> str:
    """Return which splits of a dataset a tool needs and does not find; empty if it starts, or from other files."""
    own, reads = WrittenSplits(found.format.name, splits, ()), found.format.name in tool.starts
    missing = [key for key in tool.needs if key not in own.of_key()]
    return _lacks(tool, own, missing) if reads and missing and (tool.package, own.to) not in _DOCUMENTS else ""


def _lacks(tool: Tool, splits: WrittenSplits, missing: Sequence[str]) -> str:
    """Return what is missing, what there is, and what to do."""
    named = _ROBOFLOW if splits.to == "roboflow" else dict(zip(SPLIT_KEYS, SPLIT_KEYS, strict=True))
    names, roles = " and ".join(named[key] for key in missing), " and ".join(_ROLES[key] for key in missing)
    wanted, them = ("a split", "it") if len(missing) == 1 else ("splits", "them")
    file = f"{tool.package}.yaml" if (tool.package, splits.to) in _DOCUMENTS else "data.yaml"
    way = f"add {them} to {file}"
    if splits.to == "roboflow":
        way = f"put {'a folder' if len(missing) == 1 else 'folders'} of this name beside the others"
    way += f"; segpaste convert OTHER --for {tool.name} --out DIR writes other images"
    got = ", ".join(splits.names) if any(splits.names) else "none with a name"
    return (
        f"{tool.title} needs {wanted} named {names}, to {roles}, and stops without {them}; got {got}. "
        f"Give a dataset that has {them}, or {way}"
    )


def start_file(tool: Tool, splits: WrittenSplits) -> tuple[str, bytes] | None:
    """Return the name and the content of the file that a tool is started from; None if it needs no file of its own."""
    import yaml

    if (document := _DOCUMENTS.get((tool.package, splits.to))) is None:
        return None
    options: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": 120, "allow_unicode": True}
    text: str = yaml.safe_dump(document(splits), **options)
    return f"{tool.package}.yaml", text.encode()


def _libreyolo(splits: WrittenSplits) -> Mapping[str, Any]:
    """Return the data YAML of COCO's files; classes are found by their names."""
    form, names = CocoInstances(), list(dict.fromkeys(splits.class_names))
    found = splits.single()
    folders = {key: form.photos_dir(name) for key, name in found.items()}
    tables = {key: form.tables(name) for key, name in found.items()}
    return {**folders, "nc": len(names), "names": dict(enumerate(names)), "annotations": tables}


def _lightly_coco(splits: WrittenSplits) -> Mapping[str, Any]:
    """Return the data of COCO's files; folders of images are relative to the file."""
    form, of_key = CocoInstances(), dict[str, Any]()
    for key in ("train", "val"):
        if (name := splits.single().get(key)) is not None:
            table = form.tables(name)
            images = os.path.relpath(form.photos_dir(name), os.path.dirname(table) or ".")
            of_key[key] = {"annotations": table, "images": images}
    return {"format": "coco", **of_key}


def _lightly_yolo(splits: WrittenSplits) -> Mapping[str, Any]:
    """Return the keys of a data YAML with its folder, which other tools would search in the folder they run in."""
    folders = {key: YoloLabels().photos_dir(name) for key, name in splits.single().items()}
    return {"path": ".", **folders, "names": dict(enumerate(splits.class_names))}


_DOCUMENTS: Mapping[tuple[str, str], Callable[[WrittenSplits], Mapping[str, Any]]] = {
    ("libreyolo", "coco"): _libreyolo,
    ("lightly-train", "coco"): _lightly_coco,
    ("lightly-train", "yolo"): _lightly_yolo,
}
"""What the file of a tool holds, by package and written format."""
