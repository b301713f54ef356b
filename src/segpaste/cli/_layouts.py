"""How the output of `segpaste augment` lies in its folder: as the input does, with the splits that are copied."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.cli._errors import CommandError
from segpaste.cli._inputs import Inputs
from segpaste.cli._printed import progress
from segpaste.datasets import YoloDataset
from segpaste.datasets.formats.format import NO_SPLIT, Task
from segpaste.datasets.formats.layouts import LAYOUTS, LayoutName, WrittenLayout
from segpaste.datasets.formats.yolo.data import SPLIT_KEYS
from segpaste.datasets.formats.yolo.writer import data_yaml
from segpaste.workspace import WholeFiles, write_whole

_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class OtherSplits:
    """The splits of the input that are copied as they are.

    Attributes:
        copies: what each file of the output is a copy of.
        names: of the splits.
    """

    copies: dict[PurePosixPath, Path]
    names: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """Copy what is not there yet; files that are there are whole."""
        missing = [
            (folder / target, source) for target, source in self.copies.items() if not (folder / target).exists()
        ]
        with progress(len(missing), unit="file") as bar:
            for start in range(0, len(missing), _FILES_AT_ONCE):
                with WholeFiles() as files:
                    for target, source in missing[start : start + _FILES_AT_ONCE]:
                        files.write(target, source.read_bytes())
                bar.update(min(_FILES_AT_ONCE, len(missing) - start))


def expect_masks(inputs: Inputs, config: BatchCopyPasteConfig) -> None:
    """Refuse boxes without masks, unless the configuration says how they are pasted.

    Raises:
        CommandError: nothing would be pasted.
    """
    if not inputs.photos.has_masks and config.source.mask_from is None:
        raise CommandError(
            f"{inputs.name}: expected masks, got boxes alone, into which nothing is pasted; give "
            "source.mask_from=boxes to take the boxes as masks"
        )


def layout_of(args: argparse.Namespace, inputs: Inputs) -> WrittenLayout:
    """The layout that is asked for, or the input's.

    Raises:
        CommandError: it does not hold what the input has.
    """
    own = "coco" if inputs.found is None else inputs.found.format.name
    name = cast(LayoutName, args.layout or (own if own in LAYOUTS else "coco"))
    is_yolo = isinstance(inputs.annotated, YoloDataset)
    default: Task = "segment" if inputs.photos.has_masks else "detect"
    task: Task = inputs.annotated.task if isinstance(inputs.annotated, YoloDataset) else args.task or default
    if name != "yolo" and is_yolo and task != "segment":
        raise CommandError(
            f"--layout {name}: expected masks in {inputs.name}, got labels of the task {task}; leave --layout out"
        )
    if name != "yolo" and not inputs.photos.has_masks:
        raise CommandError(
            f"{inputs.name}: expected masks for the layout {name}, got boxes alone; give --layout yolo --task detect"
        )
    if name == "yolo" and task == "pose" and inputs.photos.keypoint_schema is None:
        raise CommandError(f"--task pose: expected keypoints in {inputs.name}, got none; leave it out")
    shape = inputs.annotated.data.keypoint_shape if isinstance(inputs.annotated, YoloDataset) else None
    return WrittenLayout(name, inputs.split, task, 3 if shape is None else shape[1])


def other_splits(inputs: Inputs, layout: WrittenLayout) -> OtherSplits:
    """The files of the splits that are not augmented; none where the output lies in another way than the input.

    Raises:
        CommandError: two of them would have the same name.
    """
    found = inputs.found
    if found is None:
        return OtherSplits({}, ())
    others = tuple(name for name in found.splits if name not in (inputs.split, NO_SPLIT))
    if others and found.format.name != layout.name:
        warnings.warn(
            f"{found.path}: expected the layout {found.format.name} to copy {', '.join(others)}, got {layout.name}; "
            "they are left out",
            stacklevel=2,
        )
        others = ()
    if (
        others
        and layout.task == "detect"
        and isinstance(photos := inputs.annotated, YoloDataset)
        and photos.data.keypoint_shape
    ):
        warnings.warn(
            f"{found.path}: expected labels of boxes to copy {', '.join(others)}, got keypoints; they are left out",
            stacklevel=2,
        )
        others = ()
    copies: dict[PurePosixPath, Path] = {}
    there = []
    for name in others:
        num_before = len(copies)
        for target, source in found.format.copies(found.path, name):
            if (same := copies.setdefault(target, source)) != source:
                raise CommandError(f"{source}: expected a name of its own in '{name}', got that of {same}; rename it")
        there += [name] if len(copies) > num_before else []
    return OtherSplits(copies, tuple(there))


def write_data_yaml(folder: Path, inputs: Inputs, layout: WrittenLayout, others: OtherSplits) -> None:
    """Write the data YAML of a YOLO dataset; nothing for other layouts."""
    if layout.name != "yolo":
        return
    splits: dict[str, list[str]] = {}
    for name in (layout.split, *others.names):
        key = next((key for key in SPLIT_KEYS if name.startswith(key)), "train" if name == layout.split else None)
        if key is None:  # nobody has said that it may be trained on
            warnings.warn(f"data.yaml: '{name}' was copied, and is in none of {', '.join(SPLIT_KEYS)}", stacklevel=2)
        else:
            splits.setdefault(key, []).append(f"images/{name}")
    if "val" not in splits:
        warnings.warn("data.yaml: expected a split to validate on, got none; add the key val to it", stacklevel=2)
    folders = {key: splits[key][0] if len(splits[key]) == 1 else splits[key] for key in SPLIT_KEYS if key in splits}
    schema = inputs.photos.keypoint_schema if layout.task == "pose" else None
    write_whole(folder / "data.yaml", data_yaml(inputs.class_names, folders, schema, layout.point_size).encode())
