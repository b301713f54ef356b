"""A dataset with one of each trouble: the images of all probes of a format that differ by themselves, in one folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from all_probes import PROBES, write
from painted import CLASSES, Mask, Object, Picture
from yolo_layouts import WHOLE_LAYOUTS

_OF_THE_WHOLE = {
    "coco": {
        *("category_zero", "category_gaps", "category_negative", "names_alike", "image_negative", "flat_boxes"),
        *("other_points", "no_num_keypoints", "no_class_lists", "first_object", "any_object", "keypoints"),
        "some_keypoints",
    },
    "yolo": {
        *WHOLE_LAYOUTS,
        *("images_above", "missing_test", "no_points", "pose_pairs", "pose_odd", "names_alike", "flat_boxes"),
        *("first_object", "any_object"),
    },
}
"""Probes whose trait is one of the dataset: its ids, names, keypoints, or files; they are tried one by one."""


@dataclass(frozen=True)
class Joined:
    """Image of the joined dataset: its name, and what is painted on it."""

    name: str
    picture: Picture

    def masks(self) -> list[Mask]:
        """Return the mask [H, W] of each object."""
        return [found.mask()[: self.picture.height] for found in self.picture.objects]

    def objects(self) -> list[dict[str, Any]]:
        """Return what each object is."""
        return [_object(found) for found in self.picture.objects]


def join(format: str, folder: Path, leave_out: frozenset[str] = frozenset()) -> list[Joined]:
    """Write the dataset in the layout of a probe, without some images, and return its images."""
    work, found = folder / "probes", list[Joined]()
    tables: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
    for trait, probe in PROBES[format].items():
        if trait in _OF_THE_WHOLE[format]:
            continue
        source = write(probe, format, work / trait)
        kept = [picture for picture in probe.pictures or (probe.ordinary,) if _name(trait, picture) not in leave_out]
        for picture in kept:
            name = _name(trait, picture)
            _move(source, folder, picture.name, name, format)
            found.append(Joined(name, picture))
        if format == "coco":
            _add(tables, json.loads((source / "instances.json").read_text()), trait, kept)
    names = [{"id": i, "name": name, "frequency": "f"} for i, name in enumerate(CLASSES, start=1)]
    if format == "coco":
        (folder / "instances.json").write_text(json.dumps({**tables, "categories": names}))
    else:
        rows = "".join(f"  {i}: {name}\n" for i, name in enumerate(CLASSES))
        (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n{rows}")
    shutil.rmtree(work)
    return found


def _name(trait: str, picture: Picture) -> str:
    name = PurePosixPath(picture.name)
    return str(name.with_name(f"{trait}_{name.name}"))


def _move(source: Path, folder: Path, old: str, new: str, format: str) -> None:
    (folder / "images" / new).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "images" / old, folder / "images" / new)
    for file in (source / "labels" / old).parent.glob(f"{Path(old).stem}.*") if format == "yolo" else ():
        place = (folder / "labels" / new).with_suffix(file.suffix)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def _add(tables: dict[str, Any], own: dict[str, Any], trait: str, kept: list[Picture]) -> None:
    """Add the images of a probe, with the next free ids; ids below 1 of annotations stay."""
    for image in own["images"]:
        picture = next((picture for picture in kept if picture.name == image["file_name"]), None)
        if picture is None:
            continue
        number = len(tables["images"]) + 1
        tables["images"].append({**image, "id": number, "file_name": _name(trait, picture)})
        for row in own["annotations"]:
            if row["image_id"] == image["id"]:
                own_id = row["id"] if row["id"] < 1 else len(tables["annotations"]) + 1
                tables["annotations"].append({**row, "id": own_id, "image_id": number})


def _object(found: Object) -> dict[str, Any]:
    x, y, width, height = found.box()
    return {
        "class": CLASSES[found.label],
        "is_crowd": found.is_crowd or "ignore" in found.entry,
        "has_mask": found.form != "box",
        "is_painted": True,
        "boxes": [] if 0.0 in (found.entry.get("bbox") or ()) else [[x, y, x + width, y + height]],
    }
