"""Small datasets, one for each trait that a tool may treat in its own way, whose images tell what is right.

Each object is painted in a colour of its own, so wherever a tool moves the pixels, its label must follow. A probe has
an ordinary image and one with the trait. Formats: ``coco`` (``images/``, ``instances.json``) and ``yolo`` (``images/``,
``labels/``, ``data.yaml``). Nothing here needs more than NumPy and Pillow, for each tool has an environment of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Mask = NDArray[np.bool_]
HEIGHT, WIDTH = 96, 128
BACKGROUND = (118, 118, 118)
COLOURS = ((225, 30, 30), (30, 190, 40), (30, 50, 225), (235, 215, 20), (200, 30, 215))
GREYS = (10, 60, 180, 220, 245)
CLASSES = ("cat", "dog", "bird")


@dataclass(frozen=True)
class Object:
    """Painted object of a probe.

    Attributes:
        corners: (x1, y1, x2, y2) of its rectangles in pixels.
        label: its class.
        hole: (x1, y1, x2, y2) that is cut out; None without a hole.
        form: ``polygons``, ``runs``, ``compressed`` (run lengths as text) or ``box``.
        is_crowd: True for a crowd region.
        id: id of its annotation; by default annotations are numbered from 1.
        beyond: pixels by which its outline goes beyond the right border of the image.
        float_class: True if its class in YOLO's format has a decimal point.
        bridge_at_first: True if the bridge to the hole starts at the first point of the outline.
        times: how often its row is written in YOLO's format.
        entry: values of its entry in COCO's format that are others; None leaves a key out.
    """

    corners: tuple[tuple[int, int, int, int], ...]
    label: int = 0
    hole: tuple[int, int, int, int] | None = None
    form: str = "polygons"
    is_crowd: bool = False
    id: int | None = None
    beyond: int = 0
    float_class: bool = False
    bridge_at_first: bool = False
    times: int = 1
    entry: Mapping[str, Any] = field(default_factory=dict)

    def mask(self) -> Mask:
        """Return its pixels [H, W]."""
        mask = np.zeros((HEIGHT, WIDTH), bool)
        for x1, y1, x2, y2 in self.corners:
            mask[y1:y2, x1:x2] = True
        if self.hole is not None:
            x1, y1, x2, y2 = self.hole
            mask[y1:y2, x1:x2] = False
        return mask

    def polygons(self) -> list[list[float]]:
        """Return its outlines in pixels, a rectangle each; a hole is joined to the outline by a bridge."""
        if self.hole is not None:
            (x1, y1, x2, y2), (left, top, right, bottom) = self.corners[0], self.hole
            inner = (left, top, left, bottom, right, bottom, right, top, left, top, x1, y1)
            outer = (x2, y1, x2, y2, x1, y2, x1, y1)
            return [[float(v) for v in (*((x1, y1) if self.bridge_at_first else ()), *outer, *inner)]]
        return [
            [float(v) for v in (x1, y1, x2 + self.beyond, y1, x2 + self.beyond, y2, x1, y2)]
            for x1, y1, x2, y2 in self.corners
        ]

    def box(self) -> list[float]:
        """Return its box [x, y, width, height]."""
        rows, columns = np.nonzero(self.mask())
        x, y = int(columns.min()), int(rows.min())
        return [float(x), float(y), float(columns.max() + 1 - x + self.beyond), float(rows.max() + 1 - y)]


ORDINARY = (Object(((20, 16, 60, 50),)), Object(((80, 40, 116, 84),), 1))


@dataclass(frozen=True)
class Picture:
    """Image of a probe.

    Attributes:
        name: its file.
        objects: what is painted, in this order.
        mode: its mode in Pillow.
        orientation: its EXIF orientation; pixels are stored so that the orientation makes them upright, unless
            ``as_stored``.
        as_stored: True if the annotations are on the stored pixels.
        height: its rows in pixels; it is cut off below.
    """

    name: str = "special.png"
    objects: tuple[Object, ...] = ORDINARY
    mode: str = "RGB"
    orientation: int = 1
    as_stored: bool = False
    height: int = HEIGHT

    def save(self, path: Path) -> None:
        """Write the image."""
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
        for number, found in enumerate(self.objects):
            pixels[found.mask()] = COLOURS[number] if self.mode in ("RGB", "P", "RGBA", "CMYK") else GREYS[number]
        image = Image.fromarray(pixels[: self.height])
        options: dict[str, Any] = {}
        if self.orientation > 1:
            exif = Image.Exif()
            exif[0x0112] = self.orientation
            options["exif"] = exif
            if not self.as_stored:
                image = image.transpose(Image.Transpose.ROTATE_90)  # orientation 6 turns it back
        if self.mode == "I;16":
            values = np.asarray(image.convert("L")).astype(np.uint16) * 257
            image = Image.fromarray(values)
        elif self.mode == "P":
            image = image.quantize(dither=Image.Dither.NONE)
        elif self.mode != "RGB":
            image = image.convert(self.mode)
        image.save(path, quality=100, subsampling=0, **options)


@dataclass(frozen=True)
class Probe:
    """Dataset of one ordinary image and one with a trait.

    Attributes:
        pictures: images with the trait.
        ids: ids of the categories.
        names: names of the classes.
        polygons: what is written instead of the polygons of the first object; None for these.
        pose: number of keypoints and of their values, if YOLO's rows are boxes with keypoints; None without keypoints.
        class_lists: True if images with the trait have LVIS's lists of classes; ordinary ones always have them.
        byte_order_mark: True if label files of images with the trait begin with U+FEFF, as some editors write.
    """

    pictures: tuple[Picture, ...] = ()
    ids: tuple[int, ...] = (1, 2, 3)
    names: tuple[str, ...] = CLASSES
    polygons: list[Any] | None = None
    pose: tuple[int, int] | None = None
    class_lists: bool = True
    byte_order_mark: bool = False

    @property
    def images(self) -> tuple[Picture, ...]:
        """All images."""
        return (Picture("ordinary.png"), *self.pictures)


_RING = Object(((20, 16, 60, 56),), hole=(32, 28, 48, 44), form="runs")
_TWO = Object(((12, 16, 36, 50), (48, 20, 70, 60)))
_ANGLE = Object(((20, 16, 60, 30), (20, 30, 36, 56)))
_SECOND = ORDINARY[1]


def _with(first: Object, **options: Any) -> Probe:
    return Probe((Picture(objects=(first, _SECOND), **options),))


_PLAIN = ORDINARY[0]
_POSE = {"keypoints": [22, 18, 2, 58, 48, 2, 40, 33, 2], "num_keypoints": 3}
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
    "some_keypoints": _with(
        replace(_PLAIN, entry={"keypoints": [22, 18, 2, 58, 48, 2, 40, 33, 2], "num_keypoints": 3})
    ),
    "no_area": _with(replace(_PLAIN, entry={"area": None})),
    "area_zero": _with(replace(_PLAIN, entry={"area": 0.0})),
    "no_iscrowd": _with(replace(_PLAIN, entry={"iscrowd": None})),
    "no_box": _with(replace(_PLAIN, entry={"bbox": None})),
    "first_object": Probe((Picture(),)),
    "any_object": Probe((Picture(),)),
}
YOLO: Mapping[str, Probe] = {
    # Labels of YOLO are always drawn on the image as its orientation turns it.
    **{name: probe for name, probe in SHARED.items() if name not in ("box_only", "oriented_as_stored")},
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
PROBES: Mapping[str, Mapping[str, Probe]] = {"coco": COCO, "yolo": YOLO}


def write(probe: Probe, format: str, folder: Path) -> None:
    """Write a probe, and ``truth.json`` beside it, which says what must be read."""
    for picture in probe.images:
        picture.save(folder / "images" / picture.name)
    _WRITERS[format](probe, folder)
    (folder / "truth.json").write_text(json.dumps([_truth(probe, picture) for picture in probe.images], indent=1))


def _truth(probe: Probe, picture: Picture) -> dict[str, Any]:
    """Return what must be read of an image: for each object its colour, its class, and what it is."""
    objects = [
        {
            "colour": list(COLOURS[number] if picture.mode in ("RGB", "P", "RGBA", "CMYK") else [GREYS[number]] * 3),
            "class": probe.names[found.label],
            "is_crowd": found.is_crowd or "ignore" in found.entry,
            "has_mask": found.form != "box" and probe.pose is None,
            "num_points": found.entry.get("num_keypoints", 0) if probe.pose is None else probe.pose[0],
        }
        for number, found in enumerate(picture.objects)
    ]
    return {"name": picture.name, "objects": objects}


def _write_coco(probe: Probe, folder: Path) -> None:
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    for image_id, picture in enumerate(probe.images, start=1):
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
    if any("keypoints" in found.entry for picture in probe.pictures for found in picture.objects):
        categories = [
            {**row, "keypoints": ["head", "tail", "middle"], "skeleton": [[1, 3], [3, 2]]} for row in categories
        ]
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


_WRITERS: Mapping[str, Callable[[Probe, Path], None]] = {"coco": _write_coco, "yolo": _write_yolo}
