"""Starts of tools: the splits that a tool needs, and the call that starts it.

Right labels are not enough: a tool's own entry point searches for folders, keys and splits of certain names. What each
needs was seen by running that entry point on written datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.formats.yolo.data import SPLIT_KEYS
from segpaste.datasets.formats.yolo.format import split_keys

OWN_FILES = frozenset({("libreyolo", "coco"), ("lightly-train", "coco"), ("lightly-train", "yolo")})
"""Packages and formats that are started from a file of their own, see `segpaste.datasets.conversion.starting`."""
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
    found = splits.single() if (tool.package, splits.to) in OWN_FILES else splits.of_key()
    missing = [key for key in tool.needs if key not in found]
    return Start(call, _lacks(tool, splits, missing) if missing else "")


def lacks_of(found: FoundDataset, splits: Sequence[str], tool: Tool) -> str:
    """Return which splits of a dataset a tool needs and does not find; empty if it starts, or from other files."""
    own, reads = WrittenSplits(found.format.name, splits, ()), found.format.name in tool.starts
    missing = [key for key in tool.needs if key not in own.of_key()]
    return _lacks(tool, own, missing) if reads and missing and (tool.package, own.to) not in OWN_FILES else ""


def _lacks(tool: Tool, splits: WrittenSplits, missing: Sequence[str]) -> str:
    """Return what is missing, what there is, and what to do."""
    named = _ROBOFLOW if splits.to == "roboflow" else dict(zip(SPLIT_KEYS, SPLIT_KEYS, strict=True))
    names, roles = " and ".join(named[key] for key in missing), " and ".join(_ROLES[key] for key in missing)
    wanted, them = ("a split", "it") if len(missing) == 1 else ("splits", "them")
    file = f"{tool.package}.yaml" if (tool.package, splits.to) in OWN_FILES else "data.yaml"
    way = f"add {them} to {file}"
    if splits.to == "roboflow":
        way = f"put {'a folder' if len(missing) == 1 else 'folders'} of this name beside the others"
    way += f"; segpaste convert OTHER --for {tool.name} --out DIR writes other images"
    got = ", ".join(splits.names) if any(splits.names) else "none with a name"
    return (
        f"{tool.title} needs {wanted} named {names}, to {roles}, and stops without {them}; got {got}. "
        f"Give a dataset that has {them}, or {way}"
    )
