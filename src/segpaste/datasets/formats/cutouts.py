"""Reader of cut-outs, images of one object with transparency, for banks of rendered or generated objects.

    cutouts/cup/red_001.png
    cutouts/cup/studio/b.webp
    cutouts/zebra/7.tif

The first folder is the class. Not for images with annotations, whose objects `segpaste.bank.build_bank` cuts out.

Pixels around the object have the colours of another background, or black. They are filled with those of the object, by
averages of ever coarser images. Method: pull-push, Gortler et al., "The Lumigraph", SIGGRAPH 1996, section 3.4.1.
Float32 sums in a fixed order give the same result on every machine.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ImageOps

from segpaste.datasets.contract import Crowd
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.folders import files_below
from segpaste.datasets.formats.image_annotations import PackedRecords
from segpaste.datasets.formats.image_files import open_image
from segpaste.datasets.formats.instances import without_objects
from segpaste.datasets.formats.size_priors import EVERY_CLASS, size_at
from segpaste.types import DenseSample

OTHER_SUFFIXES = frozenset({".csv", ".json", ".md", ".txt", ".xml", ".yaml", ".yml", ".db", ".ini"})
"""Suffixes of other files beside cut-outs, left out without a warning: tables, notes, files of operating systems."""

Box = tuple[int, int, int, int]


class CutOuts(AnnotatedImages):
    """Cut-outs of a folder of class folders, sorted by path, one `DenseSample` with one instance each.

    The mask is where alpha is at least ``alpha_threshold``. Pixels with less alpha get the colours of their neighbours
    in the mask, so that no filter mixes the hidden colour behind them into the object's edge. A frame of one pixel is
    added, so that no object touches the border. Images with 16 bits per channel are read with 8. Colours are not
    premultiplied, as PNG and WebP define; Pillow divides those of TIFF.

    The headers of all files are read at construction. A file with more than one frame, without transparency or outside
    of the class folders is an error. A file that is broken, opaque or empty is an error when it is decoded.

    Args:
        folder: the folder of the class folders.
        alpha_threshold: minimum alpha of the object, above 0 and up to 1, which is opaque.
        sizes: for each class, at least one ascending quantile of the object's size; see
            the module. ``"*"`` is for all other classes. A bank then stores this size as
            the original one, for ``source.relative_to="photo"``. By default the cut-out's own size is used.
        image_size: (H, W) of the images that ``sizes`` are relative to, pixels: about the size of the images that
            objects are pasted into.
        skip_unreadable: skip files that would be errors, with one warning, and count them in `left_out`.

    Attributes:
        class_names: the class folders, sorted; labels index it.
        num_other_files: number of files left out because they have no suffix of an image.
        digest: digest of the names and sizes of the files and of the options.

    Raises:
        DatasetError: the folder is missing, has no images in class folders, or has files that are not cut-outs; or a
            class has no size.
        ValueError: ``alpha_threshold`` or ``image_size`` is out of range.
    """

    class_names: tuple[str, ...]
    any_mode = True
    num_other_files: int
    digest: str

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        alpha_threshold: float = 0.5,
        sizes: Mapping[str, Sequence[float]] | None = None,
        image_size: tuple[int, int] = (640, 640),
        skip_unreadable: bool = False,
    ) -> None:
        if not 0 < alpha_threshold <= 1:
            raise ValueError(f"alpha_threshold: expected a number above 0, up to 1, got {alpha_threshold}")
        if min(image_size) < 1:
            raise ValueError(f"image_size: expected (H, W) of at least 1 pixel, got {image_size}")
        self.image_size = image_size
        self.alpha_threshold, self.skip_unreadable = alpha_threshold, skip_unreadable
        self.sizes = None if sizes is None else {name: tuple(values) for name, values in sizes.items()}
        super().__init__(folder, folder)

    def annotation_ids(self, index: int) -> tuple[int, ...]:
        """Return the number of the cut-out, which is the id of its only instance."""
        return (self.image_id(index),)

    def instance_labels(self, index: int) -> tuple[int, ...]:
        """Return the class of the cut-out, from its folder."""
        record = self._records[index]
        return () if record["fault"] else (record["label"],)

    def label_file(self, index: int) -> Path | None:
        """Return the cut-out itself: its folder is its class, its transparency its mask."""
        return self.photo_file(index)[0]

    def left_out(self, index: int) -> dict[str, int]:
        """Return 1 as ``unreadable`` for a skipped cut-out."""
        return {"unreadable": 1} if self._records[index]["id"] in self._skipped else {}

    def crowds(self, index: int) -> list[Crowd]:
        """Return an empty list: cut-outs have no crowds."""
        return []

    def photo_frame(self, index: int, box: Box) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the size and scale of the original image that a cut-out stands for; None without ``sizes``.

        Args:
            index: index of the cut-out.
            box: box of the object in the sample, xyxy, pixels.

        Returns:
            The (H, W) of the original image, and its pixels per pixel of the cut-out as (num, den). The size of the
            object in it is drawn from ``sizes``, and depends only on the class and the path.
        """
        record = self._records[index]
        if self.sizes is None:
            return None
        name = self.class_names[record["label"]]
        quantiles = self.sizes[name] if name in self.sizes else self.sizes[EVERY_CLASS]
        longer_px = size_at(quantiles, record["file_name"]) * math.sqrt(self.image_size[0] * self.image_size[1])
        return self.image_size, (max(round(longer_px), 1), max(box[2] - box[0], box[3] - box[1]))

    @cached_property
    def _skipped(self) -> set[int]:
        """Indices of the cut-outs that this process has skipped."""
        return set()

    def _read_records(self) -> PackedRecords:
        root = self.images_dir
        every = files_below(root)
        names = [name for name in every if Path(name).suffix.lower() not in OTHER_SUFFIXES]
        self.num_other_files = len(every) - len(names)
        folders = (path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
        self.class_names = tuple(sorted(path.name for path in folders))
        if not self.class_names or not names:
            raise DatasetError(
                f"{root}: expected images in folders by class, CLASS/NAME.png, got none; check the folder"
            )
        self._check_sizes()
        label_of = {name: label for label, name in enumerate(self.class_names)}
        digest = hashlib.sha256(
            json.dumps([self.class_names, self.alpha_threshold, self.sizes, self.image_size]).encode()
        )
        rows: list[JsonRow] = []
        for number, name in enumerate(names, start=1):
            size, fault = _look_at(root, name)
            digest.update(json.dumps([name, size]).encode())
            label = label_of.get(name.partition("/")[0], 0)
            rows.append({"id": number, "file_name": name, "label": label, "fault": fault})
        self.digest = digest.hexdigest()
        self._tell([f"{row['file_name']} {row['fault']}" for row in rows if row["fault"]])
        return PackedRecords(rows)

    def _check_sizes(self) -> None:
        if self.sizes is None or EVERY_CLASS in self.sizes:
            return
        if missing := [name for name in self.class_names if name not in self.sizes]:
            raise DatasetError(
                f"{self.images_dir}: expected a size for each class, got none for {', '.join(missing):.200}; add them, "
                f"or '{EVERY_CLASS}' for all others"
            )

    def _tell(self, faults: Sequence[str]) -> None:
        """Raise an error, or warn, if files are not cut-outs."""
        if not faults:
            return
        first = "; ".join(faults[:5]) + (f"; and {len(faults) - 5:,} more" if len(faults) > 5 else "")
        if not self.skip_unreadable:
            raise DatasetError(
                f"{self.images_dir}: expected images of one object with transparency, in folders by class: {first}; "
                "remove them, or skip them with --skip-unreadable (skip_unreadable=True)"
            )
        warnings.warn(f"{self.images_dir}: skipped {len(faults):,}: {first}", stacklevel=2)

    def _read_sample(self, record: JsonRow) -> DenseSample:
        path = self.images_dir / record["file_name"]
        try:
            if record["fault"]:
                raise DatasetError(f"{path}: {record['fault']}")
            image, mask = read_cutout(path, self.alpha_threshold)
        except DatasetError as error:
            if not self.skip_unreadable:
                raise
            if not record["fault"] and not self._skipped:
                warnings.warn(f"skipped {error} (more are only counted)", stacklevel=2)
            self._skipped.add(record["id"])
            return without_objects(torch.zeros(3, 1, 1, dtype=torch.uint8, device="cpu"))
        return DenseSample.from_masks(
            torch.from_numpy(image),
            torch.from_numpy(mask)[None],
            torch.tensor([record["label"]], dtype=torch.int64, device="cpu"),
        )


def read_cutout(path: Path, alpha_threshold: float) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Read a cut-out, with a frame of one pixel.

    Returns:
        Colours uint8 [3, H + 2, W + 2], filled outside of the object, and mask bool [H + 2, W + 2].

    Raises:
        DatasetError: the file is missing, broken or opaque, or no pixel has enough alpha.
    """
    try:
        with open_image(path) as picture:
            values = np.array(ImageOps.exif_transpose(picture).convert("RGBA"))
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder") from None
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise DatasetError(f"{path}: expected an image, could not decode it ({error}); replace the file") from error
    alpha = values[..., 3]
    if (alpha == 255).all():
        raise DatasetError(f"{path}: expected transparency around an object, got an opaque image; cut the object out")
    mask = alpha >= math.ceil(alpha_threshold * 255)
    if not mask.any():
        raise DatasetError(
            f"{path}: expected an object, got no pixel with alpha of at least {alpha_threshold:g}, and at most "
            f"{int(alpha.max()) / 255:.2g}; lower the threshold, or remove the file"
        )
    mask = np.pad(mask, 1)
    weights = np.where(mask, np.pad(alpha, 1), 0)
    return filled_colours(np.pad(values[..., :3], ((1, 1), (1, 1), (0, 0))).transpose(2, 0, 1), weights), mask


def _look_at(root: Path, name: str) -> tuple[int, str | None]:
    """Return the size of a file in bytes, and the reason why it is not a cut-out by its header."""
    path = root / name
    try:
        size = path.stat().st_size
    except OSError as error:
        return -1, "is a broken link" if path.is_symlink() else f"cannot be read ({error.strerror})"
    return size, _fault_of(path) if "/" in name else "is not in a class folder"


def _fault_of(path: Path) -> str | None:
    if not path.is_file():
        return "is not a file"
    try:
        with open_image(path) as picture:
            if getattr(picture, "n_frames", 1) > 1:
                return "has more than one frame"
            return None if picture.has_transparency_data else f"has no transparency (mode {picture.mode})"
    except Exception:  # Pillow's errors for broken headers depend on the format
        return "is not an image, or is broken"


UInt8 = NDArray[np.uint8]
Float32 = NDArray[np.float32]


def filled_colours(image: UInt8, weights: UInt8) -> UInt8:
    """Return an image whose pixels without weight are filled with the colours of near pixels with weight.

    Args:
        image: [C, H, W].
        weights: [H, W], 0 for pixels to fill, above 0 for pixels that keep their colour; at least one is above 0.
    """
    trusted = weights.astype(np.float32) / np.float32(255)
    filled = [_filled(plane.astype(np.float32), trusted) for plane in image]
    return np.stack([(plane + np.float32(0.5)).astype(np.uint8) for plane in filled])


def _filled(plane: Float32, weights: Float32) -> Float32:
    """Fill one plane [H, W] where weights [H, W] are 0."""
    if weights.all():
        return plane
    sums = _halved(weights)
    means = np.divide(_halved(plane * weights), sums, out=np.zeros_like(sums), where=sums > 0)
    coarse = _filled(means, np.minimum(sums, np.float32(1)))
    height, width = plane.shape
    spread = coarse.repeat(2, 0).repeat(2, 1)[:height, :width]
    return np.where(weights > 0, plane, spread)


def _halved(values: Float32) -> Float32:
    """Return the sums of blocks of 2 x 2, [ceil(H / 2), ceil(W / 2)]."""
    even = np.pad(values, [(0, size % 2) for size in values.shape])
    total: Float32 = (even[::2, ::2] + even[1::2, ::2]) + (even[::2, 1::2] + even[1::2, 1::2])
    return total
