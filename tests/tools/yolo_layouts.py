"""Probes of YOLO's files: where the data YAML and its lists lead, and how files and rows are written.

Each is a written probe whose files are changed afterwards, so that what is right is known as for every other one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from PIL import Image
from probes import HEIGHT, ORDINARY, WIDTH, Object, Picture, Probe, write

_NAMES = "names:\n  0: cat\n  1: dog\n  2: bird\n"
_LOSSLESS: Mapping[str, Mapping[str, object]] = {
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    "MPO": {"quality": 100, "subsampling": 0},
}
"""Options with which a file keeps the colours."""


@dataclass(frozen=True)
class Stored(Picture):
    """Image of a probe whose file has another content than a PNG or JPEG.

    Attributes:
        content: Pillow's name of the file's format.
    """

    content: str = "PNG"

    def save(self, path: Path) -> None:
        """Write the image."""
        plain = path.with_suffix(".png")
        super().save(plain)
        image, file = Image.open(plain).convert("RGB"), BytesIO()
        image.save(file, self.content, **_LOSSLESS.get(self.content, {}))
        plain.unlink()
        path.write_bytes(file.getvalue())


@dataclass(frozen=True)
class Layout(Probe):
    """Probe whose files are changed after they were written.

    Attributes:
        change: changes the files in the folder of the dataset.
        below: folder of the dataset, below the folder that it is written into.
    """

    change: Callable[[Path], object] = field(default=lambda folder: None)
    below: str = ""

    def write(self, folder: Path) -> Path:
        """Write the probe, and return the folder of the dataset."""
        place = folder / self.below
        write(self, "yolo", place)
        self.change(place)
        return place


def data_file(folder: Path) -> Path:
    """Return the data YAML of a probe; the path that it would have if there is none."""
    found = sorted(folder.glob("*.yaml"))
    return folder / "data.yaml" if (folder / "data.yaml").exists() or not found else found[0]


def folders_of(folder: Path) -> tuple[Path, Path]:
    """Return the folders of images and of labels of a probe."""
    if (folder / "JPEGImages").exists():
        return folder / "JPEGImages", folder / "Annotations"
    if (folder / "photos").exists():
        return folder / "photos", folder / "photos"
    root = folder / "train" if (folder / "train").exists() else folder
    return root / "images", root / "labels"


def name_in(folder: Path, file: str | Path) -> str:
    """Return the name of an image of a probe; images that were converted are in a folder of their split."""
    return Path(os.path.relpath(file, folders_of(folder)[0])).as_posix()


def _yaml(text: str, name: str = "data.yaml", **files: str) -> Callable[[Path], None]:
    """Return a change that writes another data YAML, and lists beside it."""

    def change(folder: Path) -> None:
        (folder / "data.yaml").unlink()
        (folder / name).write_text(text.format(folder=folder) + ("" if "names:" in text else _NAMES))
        for list_name, lines in files.items():
            (folder / f"{list_name}.txt").write_text(lines.format(folder=folder))

    return change


def _listed(before: str) -> Callable[[Path], None]:
    """Return a change that lists the images in a text file, with something before their names."""
    lines = "".join(f"{before}images/{name}.png\n" for name in ("ordinary", "special"))
    return _yaml("path: {folder}\ntrain: train.txt\nval: train.txt\n", train=lines)


def _without_yaml(folder: Path) -> None:
    (folder / "data.yaml").unlink()
    (folder / "classes.txt").write_text("cat\ndog\nbird\n")


def _as_exported(path: str, before: str = "") -> Callable[[Path], None]:
    """Return a change that makes the folders of an export of Roboflow, with something before their names."""
    split = f"{before}train/images"

    def change(folder: Path) -> None:
        (folder / "train").mkdir()
        for name in ("images", "labels"):
            (folder / name).rename(folder / "train" / name)
        _yaml(f"path: {path}\ntrain: {split}\nval: {split}\n")(folder)

    return change


def _beside(folder: Path) -> None:
    """Put the label files beside the images, in a folder that is not named images."""
    (folder / "images").rename(folder / "photos")
    for file in (folder / "labels").iterdir():
        file.rename(folder / "photos" / file.name)
    (folder / "labels").rmdir()
    _yaml("path: {folder}\ntrain: photos\nval: photos\n")(folder)


def _upper_label(folder: Path) -> None:
    (folder / "labels" / "special.txt").rename(folder / "labels" / "special.TXT")


def _first_row(row: str) -> Callable[[Path], None]:
    """Return a change that writes another first row for the special image."""

    def change(folder: Path) -> None:
        file = folder / "labels" / "special.txt"
        file.write_text("".join([row + "\n", *file.read_text().splitlines(keepends=True)[1:]]))

    return change


def _row(*points: float) -> str:
    """Return a row of the class 0 of points, or of a centre and sides, in pixels."""
    return " ".join(map(str, [0, *(value / (WIDTH, HEIGHT)[i % 2] for i, value in enumerate(points))]))


def _of_all(change: Callable[[Path], object], below: str = "") -> Layout:
    return Layout((Picture(),), change=change, below=below)


_THIN = Object(((40, 16, 41, 50),))
_BOXES = tuple(replace(of, form="box") for of in ORDINARY)
LAYOUTS: Mapping[str, Layout] = {
    "no_yaml": _of_all(_without_yaml),
    "other_yaml": _of_all(_yaml("path: {folder}\ntrain: images\nval: images\n", "animals.yaml")),
    "no_path": _of_all(_yaml("train: images\nval: images\n")),
    "empty_path": _of_all(_yaml("path:\ntrain: images\nval: images\n")),
    "relative_path": _of_all(_yaml("path: .\ntrain: images\nval: images\n")),
    "named_path": _of_all(_yaml("path: animals\ntrain: images\nval: images\n"), "animals"),
    "stale_path": _of_all(_as_exported("/nowhere/animals"), "animals"),
    "stale_alone": _of_all(_yaml("path: /nowhere/animals\ntrain: images\nval: images\n"), "animals"),
    "names_list": _of_all(_yaml("path: {folder}\ntrain: images\nval: images\nnames: [cat, dog, bird]\n")),
    "listed": _of_all(_listed("./")),
    "listed_bare": _of_all(_listed("")),
    "folder_list": _of_all(_yaml("path: {folder}\ntrain: [images]\nval: [images]\n")),
    "folder_above": _of_all(_as_exported("{folder}", "../")),
    "images_above": _of_all(lambda folder: None, "images/animals"),
    "missing_test": _of_all(_yaml("path: {folder}\ntrain: images\nval: images\ntest: gone\n")),
    "labels_beside": _of_all(_beside),
    "label_suffix": _of_all(_upper_label),
    "avif": Layout((Stored("special.avif", content="AVIF"),)),
    "jp2": Layout((Stored("special.jp2", content="JPEG2000"),)),
    "mpo": Layout((Stored("special.mpo", content="MPO"),)),
    "gif_named_jpg": Layout((Stored("special.jpg", content="GIF"),)),
    "flat_boxes": Layout(
        (Picture(objects=(Object(((0, 0, 1, 34),), form="box"), _BOXES[1])),),
        ordinary=Picture("ordinary.png", _BOXES),
        change=_first_row(_row(0.4, 17, 0, 34)),
    ),
    "flat_box": Layout((Picture(objects=(_THIN, ORDINARY[1])),), change=_first_row(_row(40.5, 16, 40.5, 50, 40.5, 33))),
    "no_pixel": Layout(
        (Picture(objects=(Object(((20, 16, 21, 17),)), ORDINARY[1])),),
        change=_first_row(_row(20, 16, 20.2, 16, 20.2, 16.2)),
    ),
}
"""Probes of YOLO's labels, by trait."""
WHOLE_LAYOUTS = frozenset(
    name
    for name, layout in LAYOUTS.items()
    if layout.pictures == (Picture(),) and name not in ("label_suffix", "missing_test")
)
"""Those whose trait all images have, ordinary ones too."""
