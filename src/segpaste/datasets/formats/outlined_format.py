"""Base of the formats of labelling tools, whose annotations `segpaste.datasets.formats.outlined` reads."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from segpaste.datasets.errors import DatasetError, refuse
from segpaste.datasets.formats.format import Format, ReadOptions
from segpaste.datasets.formats.image_annotations import ImageAnnotations, Images
from segpaste.datasets.formats.outlined import OutlinedAnnotations, Read, ShapeTable
from segpaste.datasets.formats.tool_shapes import Kind, join_parts

if TYPE_CHECKING:
    from segpaste.datasets.formats.annotated_images import AnnotatedImages


class Located(NamedTuple):
    """Files of a split.

    Attributes:
        images_dir: the folder to which file names of images are relative.
        file: the annotation file, or the folder of many.
        read: function that reads the files.
    """

    images_dir: Path
    file: Path
    read: Read


class OutlinedFormat(Format):
    """Base of the formats whose files are read into a `ShapeTable`."""

    @abstractmethod
    def locate(self, path: Path, split: str, options: ReadOptions) -> Located:
        """Return the files of a split."""

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        """Open a split.

        Raises:
            DatasetError: there are outlines and boxes without a task, or the dataset has no labels for the task.
        """
        from segpaste.datasets.formats.outlined_images import OutlinedImages  # with torch, for samples

        return _read_shapes(OutlinedImages, self.locate(path, split, options), options)

    def read(self, path: Path, split: str, options: ReadOptions) -> ImageAnnotations:
        """Read the annotations of a split; errors as of `open`."""
        return _read_shapes(OutlinedAnnotations, self.locate(path, split, options), options)


def _read_shapes(kind: Callable[..., Images], found: Located, options: ReadOptions) -> Images:
    """Read the files of a dataset; ``task`` and ``transforms`` of the options are used."""
    expect_no_pose(found.file, options)
    drawn = found.read()
    is_outlined = _kind(drawn, options.task) == "outline"
    if drawn.left_out:
        what = ", ".join(f"{num} {name}" for name, num in drawn.left_out.items())
        warnings.warn(
            f"{found.file}: {what} without an area are not objects; they are only in the entry of their image",
            stacklevel=4,
        )
    return kind(*found, drawn, has_masks=is_outlined, transforms=options.transforms)


def expect_no_pose(path: Path, options: ReadOptions) -> None:
    """Raise `DatasetError` for the task pose."""
    if options.task == "pose":
        raise DatasetError(f"{path}: expected the task (--task) segment or detect, got pose; leave it out")


def _kind(drawn: ShapeTable, task: str | None) -> Kind:
    """Return whether objects are outlines or boxes."""
    first: dict[Kind, str] = {}
    for image in drawn.images:
        for parts in join_parts(image.shapes):
            if not parts[0].ignored:
                first.setdefault("outline" if any(part.segmentation for part in parts) else "box", parts[0].where)
    if task is not None:
        if task == "segment" and "box" in first and "outline" not in first:
            raise DatasetError(
                f"{drawn.path}: expected outlines with the task (--task) segment, got boxes only; leave it out"
            )
        return "box" if task == "detect" else "outline"
    if len(first) > 1:
        refuse(
            DatasetError(
                f"{first['box']} is a box, {first['outline']} an outline: expected one of them for all objects, since "
                "boxes give no masks; outline all, ignore the boxes with the task segment (task=, --task), or read all "
                "as boxes with the task detect",
                kind="missing_mask",
            )
        )
        return "outline"
    return next(iter(first), "outline")
