"""Files of their own from which some tools are started, beside a written dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.checking.tools.starts import WrittenSplits
from segpaste.datasets.writers.coco import CocoInstances
from segpaste.datasets.writers.yolo import YoloLabels


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
"""What the file of a tool holds, by package and written format, those of `OWN_FILES`."""
