"""Probes whose labels are maps: panoptic COCO, and maps of classes.

Formats: ``panoptic`` (``images/``, ``panoptic.json``, ``panoptic/``) and ``maps`` (``images/``, ``semantic/``,
``segpaste.yaml``, and ``classes.json`` with the names and ids for the programs). What is not painted is a class too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from painted import HEIGHT, ORDINARY, WIDTH, Object, Picture, Probe
from PIL import Image

GROUND = "ground"
"""Class of what is not painted."""
_PLAIN, _SECOND = ORDINARY
_CROWDS = (
    replace(_PLAIN, is_crowd=True),
    Object(((4, 60, 40, 90),), is_crowd=True),
    Object(((80, 40, 116, 84),), 1),
)
_COLOURS = ((128, 64, 128), (220, 20, 60), (0, 0, 142), (70, 130, 180))


@dataclass(frozen=True)
class MapProbe(Probe):
    """Probe whose labels are maps.

    Attributes:
        map_mode: mode in Pillow of the maps of images with the trait: ``RGB``, ``RGBA``, ``P``, ``L`` or ``I;16``.
        void: value of crowd regions in maps of classes.
        ground: value of what is not painted in maps of classes.
        has_segments: False if what is not painted on images with the trait is void in panoptic maps, and no segment.
    """

    map_mode: str = "RGB"
    void: int = 255
    ground: int = 0
    has_segments: bool = True


def _with(first: Object, **options: Any) -> MapProbe:
    return MapProbe((Picture(objects=(first, _SECOND)),), **options)


def _drawn(shared: Mapping[str, Probe], leave_out: tuple[str, ...], **options: Any) -> dict[str, Probe]:
    found = {name: probe for name, probe in shared.items() if name not in leave_out}
    return {name: MapProbe(probe.pictures, **options) for name, probe in found.items()}


def panoptic_probes(shared: Mapping[str, Probe]) -> dict[str, Probe]:
    """Return the probes of panoptic maps, given those of images of all formats."""
    special = Picture()
    return {
        **_drawn(shared, ("box_only", "thin", "outside")),
        "crowd": _with(replace(_PLAIN, is_crowd=True)),
        "crowd_twice": MapProbe((Picture(objects=_CROWDS),)),
        "no_area": _with(replace(_PLAIN, entry={"area": None})),
        "no_box": _with(replace(_PLAIN, entry={"bbox": None})),
        "no_iscrowd": _with(replace(_PLAIN, entry={"iscrowd": None})),
        "other_area": _with(replace(_PLAIN, entry={"area": 4 * 40 * 34})),
        "no_segments": MapProbe((Picture(objects=()),), has_segments=False),
        "image_negative": MapProbe((special,), image_ids=(1, -1)),
        "category_negative": MapProbe((special,), ids=(-1, 1, 2)),
        "map_alpha": MapProbe((special,), map_mode="RGBA"),
        "map_palette": MapProbe((special,), map_mode="P"),
        "map_grey": MapProbe((special,), map_mode="L"),
        "category_zero": MapProbe((special,), ids=(0, 1, 2)),
        "category_gaps": MapProbe((special,), ids=(1, 5, 9)),
        "names_alike": MapProbe((special,), names=("cat", "cat", "bird")),
    }


def class_map_probes(shared: Mapping[str, Probe]) -> dict[str, Probe]:
    """Return the probes of maps of classes, given those of images of all formats."""
    special, grey = Picture(), {"map_mode": "L"}
    return {
        **_drawn(shared, ("box_only", "thin", "outside", "no_objects", "same_stem", "subfolder", "same_name"), **grey),
        "void": _with(replace(_PLAIN, is_crowd=True), **grey),
        "other_void": _with(replace(_PLAIN, is_crowd=True), void=254, **grey),
        "map_palette": MapProbe((special,), map_mode="P"),
        "map_colours": MapProbe((special,), map_mode="RGB"),
        "map_wide": MapProbe((special,), map_mode="I;16"),
        "class_255": MapProbe((special,), ids=(255, 1, 2), **grey),
        "class_gaps": MapProbe((special,), ids=(1, 5, 9), **grey),
    }


def write_panoptic(probe: Probe, folder: Path) -> None:
    """Write the table of segments, and a PNG of their ids for each image."""
    assert isinstance(probe, MapProbe)
    ground = max(probe.ids) + 1
    rows, images = list[dict[str, Any]](), list[dict[str, Any]]()
    for image_id, picture in zip(probe.image_ids or range(1, 9), probe.images, strict=False):
        name, has_ground = _map_name(picture), probe.has_segments or picture not in probe.pictures
        ids, segments = np.full((HEIGHT, WIDTH), int(has_ground)), list[dict[str, Any]]()
        for number, found in enumerate(picture.objects, start=2):
            ids[found.mask()] = number
            own = _segment(found.mask(), number, probe.ids[found.label], picture)
            segments.append({**own, "iscrowd": int(found.is_crowd), **found.entry})
        if has_ground:
            segments.insert(0, _segment(ids == 1, 1, ground, picture))
        segments = [{key: value for key, value in row.items() if value is not None} for row in segments]
        images.append({"id": image_id, "file_name": picture.name, "height": picture.height, "width": WIDTH})
        rows.append({"image_id": image_id, "file_name": name, "segments_info": segments})
        colours = np.stack([ids, np.zeros_like(ids), np.zeros_like(ids)], 2).astype(np.uint8)
        mode = probe.map_mode if picture in probe.pictures else "RGB"
        _save(folder / "panoptic" / name, colours, ids, mode, picture.height)
    categories = [{"id": i, "name": name, "isthing": 1} for i, name in zip(probe.ids, probe.names, strict=True)]
    tables = {"images": images, "annotations": rows}
    tables["categories"] = [*categories, {"id": ground, "name": GROUND, "isthing": 0}]
    (folder / "panoptic.json").write_text(json.dumps(tables))


def _segment(mask: NDArray[np.bool_], number: int, category: int, picture: Picture) -> dict[str, Any]:
    rows, columns = np.nonzero(mask[: picture.height])
    x, y = int(columns.min()), int(rows.min())
    box = [x, y, int(columns.max()) + 1 - x, int(rows.max()) + 1 - y]
    return {"id": number, "category_id": category, "iscrowd": 0, "bbox": box, "area": len(rows)}


def _map_name(picture: Picture) -> str:
    """Return the name of a map, which is another one for each image."""
    path = Path(picture.name)
    suffix = "" if path.suffix.lower() == ".png" else f"_{path.suffix[1:]}"
    return path.with_name(f"{path.stem}{suffix}.png").as_posix()


def write_class_maps(probe: Probe, folder: Path) -> None:
    """Write a map of classes for each image, and their declaration."""
    assert isinstance(probe, MapProbe)
    ids, names = zip(*sorted(zip((probe.ground, *probe.ids), (GROUND, *probe.names), strict=True)), strict=True)
    for picture in probe.images:
        values = np.full((HEIGHT, WIDTH), probe.ground)
        for found in picture.objects:
            values[found.mask()] = probe.void if found.is_crowd else probe.ids[found.label]
        table = dict(zip(ids, _COLOURS, strict=True))
        coloured = np.array([table.get(value, (0, 0, 0)) for value in range(256)], np.uint8)[values]
        path = (folder / "semantic" / picture.name).with_suffix(".png")
        mode = probe.map_mode if picture in probe.pictures or probe.map_mode == "RGB" else "L"
        _save(path, coloured, values, mode, picture.height)
    files: dict[str, Any] = {"files": "semantic/{name}.png", "void": [probe.void]}
    entries: list[Any] = [{"id": i, "name": name} for i, name in zip(ids, names, strict=True)]
    if probe.map_mode == "RGB":
        files |= {"encoding": "color", "void": [[0, 0, 0]]}
        entries = [{**row, "color": list(colour)} for row, colour in zip(entries, _COLOURS, strict=True)]
    declared = {"photos": "images/{name}.*", "classes": entries, "semantic": files}
    (folder / "segpaste.yaml").write_text(json.dumps(declared))  # JSON is YAML
    (folder / "classes.json").write_text(json.dumps({"names": names, "ids": ids}))


def _save(path: Path, colours: NDArray[Any], values: NDArray[Any], mode: str, height: int) -> None:
    """Write a map in a mode: its colours, or its values, which a palette may colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values[:height].astype(np.uint16 if mode == "I;16" else np.uint8))
    if mode in ("RGB", "RGBA"):
        image = Image.fromarray(colours[:height])
        if mode == "RGBA":
            image.putalpha(255)
    elif mode == "P":
        palette = np.zeros((256, 3), np.uint8)
        palette[values] = colours
        image.putpalette(palette.tobytes())
    image.save(path)
