"""One small dataset in the formats of labelling tools, written by hand. Nothing here shares code with the package."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from PIL import Image

from on_disk import Mask, noise, rectangle

SIZE = (20, 40)
"""(H, W) of the photos, so that tenths of a side are whole pixels."""
ELL: Mask = rectangle(SIZE, 2, 4, 12, 8) | rectangle(SIZE, 8, 8, 12, 16)
ELL_POINTS = [(4, 2), (8, 2), (8, 8), (16, 8), (16, 12), (4, 12)]
"""An L of a cup: rows 2 to 11 of columns 4 to 7, and rows 8 to 11 of columns 8 to 15."""
BAR: Mask = rectangle(SIZE, 4, 20, 10, 38)
BAR_POINTS = [(20, 4), (38, 4), (38, 10), (20, 10)]
BAR_BOX = (20, 4, 38, 10)
"""A zebra: rows 4 to 9, columns 20 to 37, (x1, y1, x2, y2)."""
SPOT: Mask = rectangle(SIZE, 14, 30, 18, 34)
"""A second part of the zebra."""
SPOT_POINTS = [(30, 14), (34, 14), (34, 18), (30, 18)]


def photo(path: Path, seed: int = 0, size: tuple[int, int] = SIZE) -> Path:
    """Write a photo of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(size, seed)).save(path)
    return path


def labelme_shape(label: str, points: Any, kind: str = "polygon", **more: Any) -> dict[str, Any]:
    points = [list(map(float, point)) for point in points]
    return {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}, **more}


def labelme_mask(label: str, mask: Mask, **more: Any) -> dict[str, Any]:
    """A mask as labelme keeps it: the part inside its bounds, as a PNG, and its first and last pixel."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    top, left, bottom, right = rows[0], cols[0], rows[-1], cols[-1]
    file = io.BytesIO()
    Image.fromarray(mask[top : bottom + 1, left : right + 1]).save(file, "PNG")
    encoded = base64.b64encode(file.getvalue()).decode()
    return labelme_shape(label, [(left, top), (right, bottom)], "mask", mask=encoded, **more)


def write_labelme(folder: Path, shapes: dict[str, list[Any]] | None = None, **facts: Any) -> Path:
    """Write a photo with its JSON for each name, and return the folder."""
    if shapes is None:
        zebra = labelme_shape("zebra", BAR_POINTS, group_id=7, flags={"striped": True}, description="left one")
        shapes = {
            "a": [labelme_shape("cup", ELL_POINTS), zebra, labelme_mask("zebra", SPOT, group_id=7)],
            "b": [labelme_shape("cup", BAR_POINTS)],
            "c": [],
        }
    for i, (name, own) in enumerate(shapes.items()):
        photo(folder / f"{name}.png", i)
        known = {"version": "5.5.0", "flags": {}, "shapes": own, "imagePath": f"{name}.png", "imageData": None}
        document = {**known, "imageHeight": SIZE[0], "imageWidth": SIZE[1], **facts}
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def cvat_points(points: Any) -> str:
    return ";".join(f"{x:.2f},{y:.2f}" for x, y in points)


def element(tag: str, inside: str = "", **attributes: Any) -> str:
    said = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"<{tag}{said}>{inside}</{tag}>"


def cvat_mask(label: str, mask: Mask, **more: Any) -> str:
    """A mask as CVAT keeps it: run lengths along the rows inside its bounds, background first."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    top, left = int(rows[0]), int(cols[0])
    cut = mask[top : rows[-1] + 1, left : cols[-1] + 1]
    counts, last = [0], False
    for pixel in cut.reshape(-1).tolist():
        if pixel != last:
            counts.append(0)
            last = pixel
        counts[-1] += 1
    place = {"left": left, "top": top, "width": cut.shape[1], "height": cut.shape[0]}
    return element("mask", label=label, rle=", ".join(map(str, counts)), **place, **more)


CVAT_LABELS = "".join(
    element("label", f"<name>{name}</name><type>any</type><attributes>{attributes}</attributes>")
    for name, attributes in (
        ("zebra", "<attribute><name>striped</name><input_type>checkbox</input_type></attribute>"),
        ("cup", "<attribute><name>rim</name><input_type>number</input_type></attribute>"),
    )
)


def write_cvat(folder: Path, images: dict[str, str] | None = None, labels: str = CVAT_LABELS, **facts: Any) -> Path:
    """Write ``annotations.xml`` and the photos in ``images``, and return the folder."""
    if images is None:
        striped = element("attribute", "true", name="striped")
        cup = element("polygon", element("attribute", "1.5", name="rim"), label="cup", points=cvat_points(ELL_POINTS))
        bar = element("polygon", striped, label="zebra", occluded=1, points=cvat_points(BAR_POINTS), group_id=7)
        images = {
            "a": cup + bar + cvat_mask("zebra", SPOT, group_id=7) + element("tag", label="outdoors"),
            "b": element("polygon", label="cup", points=cvat_points(BAR_POINTS)),
            "c": "",
        }
    texts = []
    for i, (name, inside) in enumerate(images.items()):
        photo(folder / "images" / f"{name}.png", i)
        texts.append(element("image", inside, id=i, name=f"{name}.png", width=SIZE[1], height=SIZE[0], **facts))
    meta = f"<meta><task><id>5</id><labels>{labels}</labels></task></meta>"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>{meta}{"".join(texts)}'
    (folder / "annotations.xml").write_text(f"{text}</annotations>\n")
    return folder


def percents(points: Any) -> list[list[float]]:
    return [[100 * x / SIZE[1], 100 * y / SIZE[0]] for x, y in points]


def region(key: str, kind: str, label: str, **more: Any) -> dict[str, Any]:
    """A result of Label Studio."""
    facts = {"original_width": SIZE[1], "original_height": SIZE[0], "image_rotation": 0}
    value = {**more.pop("value"), kind: [label]}
    return {"id": key, "type": kind, "from_name": "label", "to_name": "image", **facts, "value": value, **more}


def pack_brush(mask: Mask) -> list[int]:
    """The bytes of a mask painted in one colour: repeated values where four or more are equal, else single ones."""
    values = [channel for pixel in mask.reshape(-1).tolist() for channel in ((9, 8, 7, 255) if pixel else (0, 0, 0, 0))]
    widths = [3, 4, 8, 16]
    bits = f"{len(values):032b}{8 - 1:05b}" + "".join(f"{width - 1:04b}" for width in widths)
    i = 0
    while i < len(values):
        end = i + 1
        while end < len(values) and values[end] == values[i]:
            end += 1
        is_repeated = end - i >= 4
        length = end - i if is_repeated else min(4, len(values) - i)
        kind = next(k for k, width in enumerate(widths) if length - 1 < 1 << width)
        bits += f"{int(is_repeated)}{kind:02b}{length - 1:0{widths[kind]}b}"
        bits += "".join(f"{value:08b}" for value in ([values[i]] if is_repeated else values[i : i + length]))
        i += length
    bits += "0" * (-len(bits) % 8)
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]


def task(number: int, name: str, results: list[Any], **more: Any) -> dict[str, Any]:
    annotation = {"id": 100 + number, "completed_by": 3, "was_cancelled": False, "result": results}
    data = {"image": f"/data/upload/1/0a1b2c3d-{name}", "weather": "dry"}
    return {"id": number, "annotations": [annotation], "data": data, "meta": {}, **more}


def write_label_studio(folder: Path, tasks: list[Any] | None = None, name: str = "project-1.json") -> Path:
    """Write the export beside ``images``, whose names lack the prefix of uploads, and return the folder."""
    if tasks is None:
        striped = {
            "id": "z",
            "type": "choices",
            "from_name": "striped",
            "to_name": "image",
            "value": {"choices": ["yes"]},
        }
        results = [
            region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS), "closed": True}),
            region("z", "brushlabels", "zebra", value={"format": "rle", "rle": pack_brush(BAR | SPOT)}),
            striped,
        ]
        cup = region("b", "polygonlabels", "cup", value={"points": percents(BAR_POINTS)})
        tasks = [task(1, "a.png", results), task(2, "b.png", [cup]), task(3, "c.png", [])]
    for i, letter in enumerate("abc"):
        photo(folder / "images" / f"{letter}.png", i)
    (folder / name).write_text(json.dumps(tasks))
    return folder


BRIDGED_POINTS = [(20, 4), (38, 4), (38, 10), (34, 10), (34, 18), (30, 18), (30, 14), (34, 14), (34, 10), (20, 10)]
"""The outline of both parts of the zebra as one polygon, for tools without groups: a line leads to the second."""


def via_region(name: str, values: dict[str, Any] | None = None, **numbers: Any) -> dict[str, Any]:
    """A region of VGG Image Annotator."""
    return {"shape_attributes": {"name": name, **numbers}, "region_attributes": values or {}}


def via_polygon(points: Any, values: dict[str, Any] | None = None, name: str = "polygon") -> dict[str, Any]:
    lists = {"all_points_x": [x for x, _ in points], "all_points_y": [y for _, y in points]}
    return via_region(name, values, **lists)


VIA_ATTRIBUTES = {
    "class": {"type": "dropdown", "description": "", "options": {"zebra": "", "cup": ""}, "default_options": {}},
    "striped": {"type": "text", "description": "", "default_value": ""},
}


def via_entries(folder: Path, regions: dict[str, list[Any]]) -> dict[str, Any]:
    """Write a photo for each name, and return its entry by its key, the name and size of the file."""
    entries = {}
    for i, (name, own) in enumerate(regions.items()):
        size = photo(folder / f"{name}.png", i).stat().st_size
        entry = {
            "filename": f"{name}.png",
            "size": size,
            "regions": own,
            "file_attributes": {"caption": "", "light": "dim"},
        }
        entries[f"{name}.png{size}"] = entry
    return entries


def write_via(
    folder: Path, regions: dict[str, list[Any]] | None = None, attributes: Any = None, **settings: Any
) -> Path:
    """Write a project as VIA 2 saves it, beside the photos, and return the folder."""
    if regions is None:
        zebra = via_polygon(BRIDGED_POINTS, {"class": "zebra", "striped": "yes"})
        regions = {
            "a": [via_polygon(ELL_POINTS, {"class": "cup"}), zebra],
            "b": [via_polygon(BAR_POINTS, {"class": "cup", "striped": ""})],
            "c": [],
        }
    entries = via_entries(folder, regions)
    declared = VIA_ATTRIBUTES if attributes is None else attributes
    core = {"buffer_size": 18, "filepath": {}, "default_filepath": "", **settings}
    project = {
        "_via_settings": {"ui": {"annotation_editor_height": 25}, "core": core, "project": {"name": "five"}},
        "_via_img_metadata": entries,
        "_via_attributes": {"region": declared, "file": {}},
        "_via_data_format_version": "2.0.10",
        "_via_image_id_list": [*entries],
    }
    (folder / "via_project.json").write_text(json.dumps(project))
    return folder


def via_csv(entries: dict[str, Any]) -> str:
    """The annotations as VIA exports them as CSV."""
    file = io.StringIO()
    columns = ("filename", "file_size", "file_attributes", "region_count", "region_id")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*columns, "region_shape_attributes", "region_attributes"])
    for entry in entries.values():
        start = [entry["filename"], entry["size"], json.dumps(entry["file_attributes"]), len(entry["regions"])]
        for i, of_image in enumerate(entry["regions"]):
            writer.writerow([*start, i, *(json.dumps(of_image[f"{key}_attributes"]) for key in ("shape", "region"))])
        if not entry["regions"]:
            writer.writerow([*start, 0, "{}", "{}"])
    return file.getvalue()


def voc_object(name: str, box: Any, **more: Any) -> str:
    """An object whose box (x1, y1, x2, y2) in pixel edges is written as VOC does: from 1, ends included."""
    x1, y1, x2, y2 = box
    bounds = f"<bndbox><xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox>"
    return element("object", f"<name>{name}</name>" + "".join(element(k, str(v)) for k, v in more.items()) + bounds)


def voc_xml(name: str, *objects: str) -> str:
    size = f"<size><width>{SIZE[1]}</width><height>{SIZE[0]}</height><depth>3</depth></size>"
    source = "<source><database>hand</database></source>"
    return (
        f"<annotation><filename>{name}</filename>{source}{size}<segmented>1</segmented>{''.join(objects)}</annotation>"
    )


def indexed(path: Path, *parts: tuple[Mask, int]) -> Path:
    """Write a map whose later parts lie over earlier ones."""
    values = np.zeros(SIZE, np.uint8)
    for mask, index in parts:
        values[mask] = index
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(values, "P")
    picture.putpalette([channel for index in range(256) for channel in (index, 255 - index, index // 2)])
    picture.save(path)
    return path


VOID: Mask = rectangle(SIZE, 2, 16, 12, 18)


def write_voc(folder: Path, *, xml: bool = True) -> Path:
    """Write the folders of VOC with the class list of labelme: a cup is 1, a zebra 2."""
    for i, name in enumerate("abc"):
        photo(folder / "JPEGImages" / f"{name}.png", i)
    zebra = BAR | SPOT
    indexed(folder / "SegmentationObject" / "a.png", (ELL, 1), (zebra, 2), (VOID, 255))
    indexed(folder / "SegmentationClass" / "a.png", (ELL, 1), (zebra, 2), (VOID, 255))
    indexed(folder / "SegmentationObject" / "b.png", (BAR, 1))
    indexed(folder / "SegmentationClass" / "b.png", (BAR, 1))
    for kind in ("Object", "Class"):
        indexed(folder / f"Segmentation{kind}" / "c.png")
    (folder / "class_names.txt").write_text("_background_\ncup\nzebra\n")
    if xml:
        (folder / "Annotations").mkdir()
        zebra_object = voc_object("zebra", (20, 4, 38, 18), pose="Left", truncated=1, difficult=0)
        texts = {"a": [voc_object("cup", (4, 2, 16, 12)), zebra_object], "b": [voc_object("cup", BAR_BOX)], "c": []}
        for name, objects in texts.items():
            (folder / "Annotations" / f"{name}.xml").write_text(voc_xml(f"{name}.png", *objects))
    return folder


WRITERS: dict[str, Callable[[Path], Path]] = {
    "labelme": write_labelme,
    "cvat": write_cvat,
    "label-studio": write_label_studio,
    "via": write_via,
    "voc": write_voc,
}
"""Each writes the same three photos: a cup and a zebra of two parts, a cup, and nothing."""
