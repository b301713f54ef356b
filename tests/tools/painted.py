"""Painted objects, images and datasets of probes. Each object has a colour of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    def pixels(self) -> NDArray[np.uint8]:
        """Return the pixels [H, W, 3] on which the annotations are drawn."""
        pixels = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
        for number, found in enumerate(self.objects):
            pixels[found.mask()] = COLOURS[number] if self.mode in ("RGB", "P", "RGBA", "CMYK") else GREYS[number]
        return pixels[: self.height]

    def save(self, path: Path) -> None:
        """Write the image."""
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(self.pixels())
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
        image_ids: ids of the images in COCO's format; by default they are numbered from 1.
        ordinary: the ordinary image.
        is_twice: True if images with the trait are listed twice in COCO's format, with all their annotations.
        byte_order_mark: True if label files of images with the trait begin with U+FEFF, as some editors write.
    """

    pictures: tuple[Picture, ...] = ()
    ids: tuple[int, ...] = (1, 2, 3)
    names: tuple[str, ...] = CLASSES
    polygons: list[Any] | None = None
    pose: tuple[int, int] | None = None
    class_lists: bool = True
    is_twice: bool = False
    byte_order_mark: bool = False
    image_ids: tuple[int, ...] = ()
    ordinary: Picture = Picture("ordinary.png")

    @property
    def images(self) -> tuple[Picture, ...]:
        """All images."""
        return (self.ordinary, *self.pictures)
