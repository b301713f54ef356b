"""Small datasets, one for each trait that a tool may treat in its own way, whose images tell what is right.

Each object is painted in a colour of its own, so wherever a tool moves the pixels, its label must follow. A probe has
an ordinary image and one with the trait. Formats: ``coco`` (``images/``, ``instances.json``) and ``yolo`` (``images/``,
``labels/``, ``data.yaml``); those of maps are in `map_probes`, of VOC in `voc_probes`. Nothing
here needs more than NumPy and Pillow, for each tool has an environment of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from map_probes import class_map_probes, panoptic_probes, write_class_maps, write_panoptic
from painted import COLOURS, GREYS, HEIGHT, ORDINARY, WIDTH, Mask, Object, Picture, Probe
from voc_probes import voc_probes, write_voc

_RING = Object(((20, 16, 60, 56),), hole=(32, 28, 48, 44), form="runs")
_TWO = Object(((12, 16, 36, 50), (48, 20, 70, 60)))
_ANGLE = Object(((20, 16, 60, 30), (20, 30, 36, 56)))
_SECOND = ORDINARY[1]


def _with(first: Object, **options: Any) -> Probe:
    return Probe((Picture(objects=(first, _SECOND), **options),))


def _boxes(first: Object) -> Probe:
    """Return a probe of boxes alone."""
    others = tuple(replace(of, form="box") for of in ORDINARY)
    return Probe((Picture(objects=(replace(first, form="box"), others[1])),), ordinary=Picture("ordinary.png", others))


def _posed(num: int, **others: Any) -> Probe:
    """Return a probe whose objects all have so many keypoints, and other values in their entries."""
    entries = [{"keypoints": _points(of, num), "num_keypoints": num, **others} for of in ORDINARY]
    objects = tuple(replace(of, entry=entry) for of, entry in zip(ORDINARY, entries, strict=True))
    return Probe((Picture(objects=objects),), ordinary=Picture("ordinary.png", objects))


def _points(found: Object, num: int) -> list[float]:
    """Return visible keypoints on the diagonal of an object, as COCO writes them."""
    x, y, width, height = found.box()
    steps = [(i + 1) / (num + 1) for i in range(num)]
    return [value for step in steps for value in (x + step * width, y + step * height, 2)]


_PLAIN = ORDINARY[0]
_POSE = {"keypoints": [22, 18, 2, 58, 48, 2, 40, 33, 2], "num_keypoints": 3}
_TIFF = Picture("special.tif", orientation=6)
TIFFS: Mapping[str, Probe] = {
    "tiff_oriented": Probe((_TIFF,)),
    "tiff_as_stored": Probe((replace(_TIFF, as_stored=True),)),
    "tiff_mapped": Probe((replace(_TIFF, mode="L"),)),
}
SHARED: Mapping[str, Probe] = {
    "ordinary": Probe(),
    "box_only": _with(replace(_PLAIN, form="box")),
    "thin": _with(Object(((20, 30, 60, 31),))),
    "outside": _with(Object(((100, 10, 128, 34),), beyond=6)),
    "oriented": Probe((Picture("special.jpg", orientation=6),)),
    "oriented_as_stored": Probe((Picture("special.jpg", orientation=6, as_stored=True),)),
    "grey": Probe((Picture(mode="L"),)),
    "palette": Probe((Picture(mode="P"),)),
    "alpha": Probe((Picture(mode="RGBA"),)),
    "wide": Probe((Picture(mode="I;16"),)),
    "small_image": Probe((Picture(objects=(Object(((20, 1, 60, 8),)),), height=9),)),
    "low_image": Probe((Picture(objects=(Object(((20, 4, 60, 24),)),), height=31),)),
    "cmyk": Probe((Picture("special.jpg", mode="CMYK"),)),
    "no_objects": Probe((Picture(objects=()),)),
    "upper_suffix": Probe((Picture("special.PNG"),)),
    "same_stem": Probe((Picture("special.png"), Picture("special.jpg", objects=(_SECOND,)))),
    "subfolder": Probe((Picture("a/special.png"),)),
    "same_name": Probe((Picture("a/special.png"), Picture("b/special.png", objects=(_SECOND,)))),
}
COCO: Mapping[str, Probe] = {
    **SHARED,
    **TIFFS,
    "id_zero": _with(replace(_PLAIN, id=0)),
    "run_lengths": _with(replace(_ANGLE, form="runs")),
    "compressed": _with(replace(_ANGLE, form="compressed")),
    "keypoints": _with(replace(_PLAIN, entry=_POSE)),
    "hole": _with(replace(_RING, form="polygons")),
    "hole_runs": _with(_RING),
    "thin_runs": _with(Object(((20, 30, 36, 31), (44, 30, 60, 31)), form="runs")),
    "box_among_masks": _with(replace(_PLAIN, form="box")),
    "empty_outline": _with(replace(_PLAIN, form="box", entry={"segmentation": []})),
    "id_negative": _with(replace(_PLAIN, id=-1)),
    "crowd_polygons": _with(replace(_PLAIN, is_crowd=True)),
    "crowd_compressed": _with(replace(_PLAIN, form="compressed", is_crowd=True)),
    "parts": _with(_TWO),
    "crowd": _with(replace(_PLAIN, form="runs", is_crowd=True)),
    "ignored": _with(replace(_PLAIN, entry={"ignore": 1})),
    "only_crowds": Probe((Picture(objects=(replace(_PLAIN, form="runs", is_crowd=True),)),)),
    "few_points": replace(_with(_PLAIN), polygons=[[20.0, 16.0, 60.0, 50.0], *_PLAIN.polygons()]),
    "no_class_lists": replace(Probe((Picture(),)), class_lists=False),
    "category_zero": replace(Probe((Picture(),)), ids=(0, 1, 2)),
    "category_gaps": replace(Probe((Picture(),)), ids=(1, 5, 9)),
    "names_alike": replace(Probe((Picture(),)), names=("cat", "cat", "bird")),
    "listed_twice": Probe((Picture(),), is_twice=True),
    "some_keypoints": _with(
        replace(_PLAIN, entry={"keypoints": [22, 18, 2, 58, 48, 2, 40, 33, 2], "num_keypoints": 3})
    ),
    "flat_box": _with(replace(_PLAIN, entry={"bbox": [20.0, 16.0, 0.0, 34.0]})),
    "flat_boxes": _boxes(replace(_PLAIN, entry={"bbox": [20.0, 16.0, 0.0, 34.0]})),
    "no_pixel": replace(_with(Object(((20, 16, 21, 17),))), polygons=[[20.0, 16.0, 20.2, 16.0, 20.2, 16.2]]),
    "image_negative": replace(_with(_PLAIN), image_ids=(1, -1)),
    "category_negative": replace(Probe((Picture(),)), ids=(-1, 1, 2)),
    "other_points": _posed(5),
    "no_num_keypoints": _posed(17, num_keypoints=None),
    "no_area": _with(replace(_PLAIN, entry={"area": None})),
    "area_zero": _with(replace(_PLAIN, entry={"area": 0.0})),
    "no_iscrowd": _with(replace(_PLAIN, entry={"iscrowd": None})),
    "no_box": _with(replace(_PLAIN, entry={"bbox": None})),
    "first_object": Probe((Picture(),)),
    "any_object": Probe((Picture(),)),
}
_NOT_OF_YOLO = ("box_only", "oriented_as_stored", "tiff_as_stored")
YOLO: Mapping[str, Probe] = {
    # Labels of YOLO are always drawn on the image as its orientation turns it.
    **{name: probe for name, probe in {**SHARED, **TIFFS}.items() if name not in _NOT_OF_YOLO},
    "hole": _with(replace(_RING, form="polygons")),
    "hole_from_first": _with(replace(_RING, form="polygons", bridge_at_first=True)),
    "mixed_rows": _with(replace(_PLAIN, form="box")),
    "box_rows": Probe((Picture(objects=tuple(replace(of, form="box") for of in ORDINARY)),)),
    "byte_order_mark": Probe((Picture(),), byte_order_mark=True),
    "float_class": _with(replace(_PLAIN, float_class=True)),
    "mixed_suffix": Probe((Picture("special.Png"),)),
    "no_points": Probe((Picture(),)),
    "pose_pairs": Probe((Picture(),), pose=(2, 3)),
    "pose_odd": Probe((Picture(),), pose=(3, 3)),
    "repeated": _with(replace(_PLAIN, times=2)),
    "names_alike": replace(Probe((Picture(),)), names=("cat", "cat", "bird")),
    "first_object": Probe((Picture(),)),
    "any_object": Probe((Picture(),)),
}
PROBES: Mapping[str, Mapping[str, Probe]] = {
    "coco": COCO,
    "yolo": YOLO,
    "panoptic": panoptic_probes(SHARED),
    "maps": class_map_probes(SHARED),
    "voc": voc_probes({**SHARED, "tiff_oriented": TIFFS["tiff_oriented"]}),
}
IMAGES: Mapping[str, str] = {"voc": "JPEGImages"}
"""The folder of the images of formats that do not call it ``images``."""
FILES: Mapping[str, str] = {
    "coco": "instances.json",
    "yolo": "data.yaml",
    "panoptic": "panoptic.json",
    "maps": "segpaste.yaml",
}
"""The file of each format that tells where the others are."""


def write(probe: Probe, format: str, folder: Path) -> None:
    """Write a probe, and ``truth.json`` beside it, which says what must be read."""
    for picture in probe.images:
        picture.save(folder / IMAGES.get(format, "images") / picture.name)
    _WRITERS[format](probe, folder)
    (folder / "truth.json").write_text(json.dumps([_truth(probe, picture) for picture in probe.images], indent=1))


def _truth(probe: Probe, picture: Picture) -> dict[str, Any]:
    """Return what must be read of an image: for each object its colour, its class, and what it is."""
    objects = [
        {
            "colour": list(COLOURS[number] if picture.mode in ("RGB", "P", "RGBA", "CMYK") else [GREYS[number]] * 3),
            "class": probe.names[found.label],
            "is_crowd": found.is_crowd or "ignore" in found.entry,
            "has_box": 0.0 not in (found.entry.get("bbox") or ()),
            "has_mask": found.form != "box" and probe.pose is None,
            "num_points": len(found.entry.get("keypoints", ())) // 3 if probe.pose is None else probe.pose[0],
        }
        for number, found in enumerate(picture.objects)
    ]
    return {"name": picture.name, "objects": objects}


def _write_coco(probe: Probe, folder: Path) -> None:
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    pictures = [*probe.images, *(probe.pictures if probe.is_twice else ())]
    for image_id, picture in zip(probe.image_ids or range(1, 9), pictures, strict=False):
        row: dict[str, Any] = {"id": image_id, "file_name": picture.name, "height": picture.height, "width": WIDTH}
        if probe.class_lists or picture not in probe.pictures:
            shown = {probe.ids[found.label] for found in picture.objects}
            row |= {"neg_category_ids": sorted({*probe.ids} - shown), "not_exhaustive_category_ids": []}
        images.append(row)
        for number, found in enumerate(picture.objects):
            annotations.append(_coco_row(probe, found, image_id, len(annotations) + 1))
            if probe.polygons is not None and picture in probe.pictures and number == 0:
                annotations[-1]["segmentation"] = probe.polygons
    categories = [{"id": i, "name": name, "frequency": "f"} for i, name in zip(probe.ids, probe.names, strict=True)]
    entries = [found.entry for picture in probe.images for found in picture.objects]
    if posed := [len(entry["keypoints"]) // 3 for entry in entries if "keypoints" in entry]:
        names = ["head", "tail", "middle", *(f"point {i}" for i in range(3, posed[0]))]
        categories = [{**row, "keypoints": names, "skeleton": [[1, 3], [3, 2]]} for row in categories]
    tables = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(tables))


def _coco_row(probe: Probe, found: Object, image_id: int, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": number if found.id is None else found.id,
        "image_id": image_id,
        "category_id": probe.ids[found.label],
        "iscrowd": int(found.is_crowd),
        "bbox": found.box(),
        "area": float(found.mask().sum()),
    }
    if found.form == "polygons":
        row["segmentation"] = found.polygons()
    elif found.form == "runs":
        row["segmentation"] = run_lengths(found.mask())
    elif found.form == "compressed":
        runs = run_lengths(found.mask())
        row["segmentation"] = {**runs, "counts": compressed(runs["counts"])}
    return {key: value for key, value in {**row, **found.entry}.items() if value is not None}


def run_lengths(mask: Mask) -> dict[str, Any]:
    """Return the uncompressed run lengths of a mask, column by column, background first."""
    flat = np.concatenate([[False], mask.T.reshape(-1), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    counts = np.diff(np.concatenate([[0], edges, [mask.size]])).tolist()
    return {"size": list(mask.shape), "counts": counts if edges.size % 2 or counts[-1] else counts[:-1]}


def compressed(counts: list[int]) -> str:
    """Return run lengths as the text of COCO: differences to the run before the last, six bits a letter."""
    letters = bytearray()
    for i, count in enumerate(counts):
        rest, is_open = count - counts[i - 2] if i > 2 else count, True
        while is_open:
            bits, rest = rest & 31, rest >> 5
            is_open = rest != (-1 if bits & 16 else 0)
            letters.append(48 + bits + 32 * is_open)
    return letters.decode()


def _write_yolo(probe: Probe, folder: Path) -> None:
    for picture in probe.images:
        objects = [found for found in picture.objects for _ in range(found.times)]
        rows = [pose_row(found, *probe.pose) if probe.pose else _yolo_row(found, picture.height) for found in objects]
        file = (folder / "labels" / picture.name).with_suffix(".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        has_mark = probe.byte_order_mark and picture in probe.pictures
        file.write_text("\ufeff" * has_mark + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    names = "".join(f"  {i}: {name}\n" for i, name in enumerate(probe.names))
    shape = "" if probe.pose is None else f"kpt_shape: {list(probe.pose)}\n"
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images\nval: images\n{shape}names:\n{names}")


def pose_row(found: Object, num: int, size: int) -> str:
    """Return a row with keypoints on the diagonal of the object, all visible."""
    x, y, width, height = found.box()
    steps = [(i + 1) / (num + 1) for i in range(num)]
    points = [[(x + step * width) / WIDTH, (y + step * height) / HEIGHT, 2][:size] for step in steps]
    return " ".join(
        [_yolo_row(replace(found, form="box"), HEIGHT), *(str(value) for point in points for value in point)]
    )


def _yolo_row(found: Object, rows: int) -> str:
    if found.form == "box":
        x, y, width, height = found.box()
        values = [(x + width / 2) / WIDTH, (y + height / 2) / rows, width / WIDTH, height / rows]
    else:
        (outline,) = found.polygons()
        values = (np.reshape(outline, (-1, 2)) / (WIDTH, rows)).reshape(-1).tolist()
    return " ".join(map(str, [float(found.label) if found.float_class else found.label, *values]))


_WRITERS: Mapping[str, Callable[[Probe, Path], None]] = {
    "coco": _write_coco,
    "yolo": _write_yolo,
    "panoptic": write_panoptic,
    "maps": write_class_maps,
    "voc": write_voc,
}
