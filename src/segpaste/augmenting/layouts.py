"""Layout of the output of `segpaste augment`: the named one, or that of the input, whose other splits are copied."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.options import AugmentError, AugmentOptions, Progress, command, option
from segpaste.datasets import DatasetError, FoundDataset, YoloDataset
from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.starts import WrittenSplits
from segpaste.datasets.conversion.yaml_keys import YamlKeys
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.format import NO_SPLIT, Format, WrittenTask
from segpaste.datasets.writers.dataset_writer import DatasetWriter
from segpaste.datasets.writers.layouts import LAYOUTS, WrittenLayout
from segpaste.datasets.writers.registry import written_format
from segpaste.workspace import WholeFiles

_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class OtherSplits:
    """The splits of the input that are copied unchanged.

    Attributes:
        copies: source of each copied file of the output.
        names: names of the splits.
        losses: splits that are not copied, and names that the output does not hold.
    """

    copies: dict[PurePosixPath, Path]
    names: tuple[str, ...]
    losses: Counter[str] = field(default_factory=Counter)

    def write(self, folder: Path, progress: Progress) -> None:
        """Copy the files that do not exist yet; existing files are complete."""
        missing = [
            (folder / target, source) for target, source in self.copies.items() if not (folder / target).exists()
        ]
        for start in range(0, len(missing), _FILES_AT_ONCE):
            with WholeFiles() as files:
                for target, source in missing[start : start + _FILES_AT_ONCE]:
                    files.write(target, source.read_bytes())
            progress("file", min(start + _FILES_AT_ONCE, len(missing)), len(missing))


def layout_of(options: AugmentOptions, inputs: Inputs) -> WrittenLayout:
    """Return the layout that was asked for, or that of the input.

    Raises:
        AugmentError: the layout cannot hold the input.
        DatasetError: it cannot hold as many classes.
    """
    own = "coco" if inputs.found is None else inputs.found.format.name
    photos = inputs.photos
    has_maps = not photos.has_masks and inputs.has_semantic_maps
    name = options.layout or (own if own in LAYOUTS else "label-maps" if has_maps else "coco")
    of_boxes: WrittenTask = "detect" if photos.keypoint_schema is None else "pose"
    if isinstance(inputs.annotated, YoloDataset):
        task: WrittenTask = options.task if options.task == "obb" else inputs.annotated.written_task
    else:
        task = options.task or ("segment" if photos.has_masks else of_boxes)
    if not photos.has_masks and task in ("segment", "obb"):
        raise AugmentError(f"{option('task', task)}: expected masks in {inputs.name}, got boxes only; leave it out")
    if name in ("label-maps", "coco-panoptic") and not photos.has_masks and not has_maps:
        raise AugmentError(
            f"{option('layout', name)}: expected masks in {inputs.name}, got boxes only; leave {option('layout')} out"
        )
    if has_maps and not written_format(name).keeps_semantic_maps:
        raise AugmentError(
            f"{option('layout', name)}: expected objects in {inputs.name}, got semantic maps only, which it cannot "
            f"hold; leave {option('layout')} out"
        )
    if name == "coco-panoptic" and inputs.schema is None:
        raise AugmentError(
            f"{option('layout', name)}: expected panoptic maps, got none in {inputs.name}; leave {option('layout')} "
            f"out, or first write them with {command('convert', to='coco-panoptic')}"
        )
    expect_classes(inputs, name)
    if name != "yolo" and photos.has_masks:
        task = "segment"
    if name == "yolo" and task == "pose" and inputs.photos.keypoint_schema is None:
        raise AugmentError(f"{option('task', 'pose')}: expected keypoints in {inputs.name}, got none; leave it out")
    shape = inputs.annotated.data.keypoint_shape if isinstance(inputs.annotated, YoloDataset) else None
    split = inputs.split if options.tool is None else TOOLS[options.tool].split_name(inputs.split, name)
    return WrittenLayout(name, split, task, 3 if shape is None else shape[1], keeps_shapes=True)


def expect_classes(inputs: Inputs, name: str) -> None:
    """Raise `DatasetError` if a layout cannot hold as many classes as the dataset has."""
    has_maps = inputs.photos.has_masks or inputs.has_semantic_maps
    written_format(name).expect_classes(inputs.name, len(inputs.categories), has_maps=has_maps)


def other_splits(inputs: Inputs, layout: WrittenLayout) -> OtherSplits:
    """Return the files of the splits that are not augmented; none if the output has another layout than the input.

    Raises:
        AugmentError: two of them would have the same name.
    """
    found = inputs.found
    if found is None:
        return OtherSplits({}, ())
    others = every = tuple(name for name in found.splits if name not in (inputs.split, NO_SPLIT))
    if others and found.format.name != layout.name:
        warnings.warn(
            f"{found.path}: expected the layout {found.format.name} to copy {', '.join(others)}, got {layout.name}; "
            f"they are left out; {command('convert', 'split')} writes them",
            stacklevel=2,
        )
        others = ()
    if others and type(found.format).copies is Format.copies:
        warnings.warn(
            f"{found.path}: {', '.join(others)}: expected a format whose splits are copied, got {found.format.title}; "
            f"they are left out; {command('convert', 'split')} writes them",
            stacklevel=2,
        )
        others = ()
    copies: dict[PurePosixPath, Path] = {}
    there = []
    for name in others:
        if (reason := _difference(inputs, found, layout, name)) is not None:
            warnings.warn(f"{found.path}: {reason}; it is left out", stacklevel=2)
            continue
        num_before = len(copies)
        for target, source in found.format.copies(found.path, name):
            if (same := copies.setdefault(target, source)) != source:
                raise AugmentError(f"{source}: expected a unique file name in '{name}', got that of {same}; rename it")
        there += [name] if len(copies) > num_before else []
    losses = Counter(f"split '{name}', which is not copied" for name in every if name not in there)
    for name in there:
        if told := layout.format.lost_name(name, [layout.split, *there], layout.split):
            losses[f"copied split '{name}', {told}"] += 1
    return OtherSplits(copies, tuple(there), losses)


def _difference(inputs: Inputs, found: FoundDataset, layout: WrittenLayout, name: str) -> str | None:
    """Return why the files of a split do not fit beside the written one, None if they do.

    They must have the same classes, the labels of the same task, and no files that are not copied.
    """
    try:
        photos = found.open(name)
    except DatasetError as error:
        return f"expected a readable split to copy {name}: {error}"
    if isinstance(photos, YoloDataset):
        own = photos.written_task
        own = "segment" if (own, layout.task) == ("obb", "segment") else own  # four corners are a polygon, too
        has_objects = any(photos.instance_labels(index) for index in range(len(photos)))
        if own != layout.task and has_objects:
            can = layout.task == "detect" or own == "segment"
            writes = command("convert", to="yolo", task=layout.task, split=name)
            advice = f" ({writes} writes it)" if can else ""
            return f"expected labels of the task {layout.task} to copy {name}, got {own}{advice}"
        given: object = list(photos.class_names)
        wanted: object = inputs.class_names[: len(photos.class_names)]
    else:
        given, wanted = (
            [(row["id"], row["name"]) for row in sorted(rows, key=lambda row: int(row["id"]))]
            for rows in (photos.categories, inputs.categories)
        )
    if given != wanted:
        return f"expected the classes of {inputs.split} to copy {name}, got others; give all splits the same classes"
    if photos.beside is not None:
        advice = f"{command('convert', to=layout.name, split=name)} writes it"
        return f"expected no depth or normals to copy {name}, got some ({advice})"
    return None


def written_splits(inputs: Inputs, layout: WrittenLayout, others: OtherSplits) -> WrittenSplits:
    """Return the splits of the new dataset, as tools find them."""
    own = layout.written_split
    return WrittenSplits(layout.name, (own, *others.names), inputs.class_names, own)


def writer_of(folder: Path, inputs: Inputs, layout: WrittenLayout, source_yaml: JsonRow | None = None) -> DatasetWriter:
    """Return the writer of images of a dataset in a layout."""
    facts = {"schema": inputs.photos.keypoint_schema, "has_semantic_maps": inputs.has_semantic_maps}
    return layout.writer(folder, inputs.by_label, **facts, source_yaml=source_yaml)


def yaml_keys(inputs: Inputs, layout: WrittenLayout) -> tuple[JsonRow | None, Counter[str]]:
    """Return the keys of the data YAML of a YOLO dataset that are written, None without one, and those that are not."""
    if (keys := YamlKeys.of(inputs.annotated)) is None:
        return None, Counter()
    return keys.kept(layout.task), keys.lost(layout.name, layout.task, has_points=True)  # of which tables are written
