"""`convert_dataset`: a dataset at a path, or of Python, written in a format, or for a tool that will read it.

To make new images with pasted objects use `segpaste augment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from segpaste.datasets.checking.tools.registry import written_for
from segpaste.datasets.conversion.conversion import Conversion, Progress
from segpaste.datasets.conversion.masks import SamMasker, with_masks_from
from segpaste.datasets.conversion.opened import OpenedDataset
from segpaste.datasets.conversion.summary import ConversionSummary
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import ReadOptions, WrittenTask
from segpaste.datasets.formats.pixel_bytes import DepthFormat
from segpaste.datasets.formats.registry import find_dataset
from segpaste.datasets.repeated_ids import RepeatedIds, checked_rule
from segpaste.datasets.views import Samples, annotated
from segpaste.datasets.writers.readback import Verify


def convert_dataset(
    path: str | PathLike[str] | Samples,
    out: str | PathLike[str],
    to: str | None = None,
    *,
    tool: str | None = None,
    splits: Sequence[str] | None = None,
    format: str | None = None,
    images_dir: str | PathLike[str] | None = None,
    panoptic_dir: str | PathLike[str] | None = None,
    task: WrittenTask | None = None,
    depth_format: DepthFormat = "npy",
    masks_from: str | None = None,
    device: str = "cpu",
    repeated_ids: RepeatedIds | None = None,
    class_attribute: str | None = None,
    verify: Verify = "sample",
    progress: Progress | None = None,
) -> ConversionSummary:
    """Recognise the dataset at a path and write it in another format, or write a dataset of Python.

    Args:
        path: a folder or file of one of the formats that can be read; or a dataset of Python, see
            `segpaste.datasets.AnnotatedDataset`, for which the options of files do not apply. Its images are copied
            from their files, those without a file are written as PNG.
        out: the new folder; it appears only when the dataset is complete.
        to: the name of the format, such as ``coco``, ``yolo`` or ``voc``; by default what ``tool`` reads best.
        tool: name of a tool that will read the dataset, see `check_dataset`. What it would lose or change is written
            otherwise, such as run lengths as outlines, or left out and counted.
        splits: names of the splits; by default all.
        format: the name of the dataset's own format; by default it is recognised.
        images_dir: for an annotation file, the folder of the file names of the images.
        panoptic_dir: for panoptic segments, the folder of their PNG files.
        task: task of written YOLO labels, by default that of the dataset; ``obb`` writes oriented boxes.
        depth_format: ``npy``, float32 metres, or ``png``, 16 bits of millimetres.
        masks_from: for datasets of boxes: segment-anything model that predicts masks, a folder or a name on the Hugging
            Face hub.
        device: device of that model.
        repeated_ids: for COCO's annotations that have no id, or that of another one: ``renumber`` gives them new ids,
            ``drop`` leaves them out; both are counted as losses. By default they are an error.
        class_attribute: for files of VIA, the attribute of regions that is their class.
        verify: what is read again before ``out`` appears: all labels, and with ``sample`` the pixels of the first 16
            images and of one in 50, with ``full`` those of all; ``off`` reads nothing.
        progress: called with ``"image"``, the number of converted images, and the number of all.

    Returns:
        The numbers of images, objects and crowds, and the losses.

    Raises:
        DatasetError: the dataset, the format or the tool is unknown, neither ``to`` nor ``tool`` is given, the dataset
            is broken, ``out`` is taken, or what was written differs from what was read.
        OSError: a file cannot be written.
    """
    _expect_options(path, splits=splits, format=format, images_dir=images_dir, panoptic_dir=panoptic_dir)
    options = ReadOptions(
        images_dir=None if images_dir is None else Path(images_dir),
        panoptic_dir=None if panoptic_dir is None else Path(panoptic_dir),
        repeated_ids=checked_rule(repeated_ids),
        class_attribute=class_attribute,
    )
    reader = None
    if tool is not None:
        reader, to, task = written_for(tool, to, task)
    if to is None:
        raise DatasetError("to: expected a format, or a tool that will read the dataset, got neither; give one")
    found = find_dataset(path, format) if isinstance(path, str | PathLike) else OpenedDataset.of(annotated(path))
    adapt = None if masks_from is None else with_masks_from(SamMasker(masks_from, device))
    conversion = Conversion(found, to, splits, options, task, depth_format, adapt, masks_from, verify, reader)
    return conversion.run(out, progress or (lambda *_: None))


def _expect_options(dataset: object, **options: object) -> None:
    """Raise `DatasetError` for an option of files that is given with a dataset of Python."""
    given = [name for name, value in options.items() if value is not None]
    if given and not isinstance(dataset, str | PathLike):
        raise DatasetError(f"{given[0]}: expected a path with this option, got {type(dataset).__name__}; leave it out")
