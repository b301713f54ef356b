"""Conversion of a dataset from any format that can be read to any that can be written.

Images are copied byte by byte. Entries, keys and tables are kept if the format can hold them, and counted otherwise. To
make new images with pasted objects use `segpaste augment`.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from segpaste._version import __version__
from segpaste.datasets.checking.check import check_dataset
from segpaste.datasets.checking.tools.rules import Tool
from segpaste.datasets.checking.tools.starts import WrittenSplits, start_of
from segpaste.datasets.checking.tools.tool_report import ToolReport
from segpaste.datasets.contract import AnnotatedDataset, DatasetWrapper
from segpaste.datasets.conversion.entries import CHANGES, has_entries, has_further_fields
from segpaste.datasets.conversion.for_tool import CHANGES as FOR_TOOL
from segpaste.datasets.conversion.for_tool import EntriesForTool, expect_instances
from segpaste.datasets.conversion.names import ClassList, TakenNames, photo_names, without_repeats
from segpaste.datasets.conversion.new_names import NewNames
from segpaste.datasets.conversion.photos import SplitConverter, written_categories
from segpaste.datasets.conversion.starting import start_file
from segpaste.datasets.conversion.summary import ConversionSummary
from segpaste.datasets.conversion.tables import kept_tables
from segpaste.datasets.conversion.yaml_keys import YamlKeys
from segpaste.datasets.entries import finite_tables
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.carried import finite_row
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.formats.coco.panoptic import CocoPanoptic
from segpaste.datasets.formats.format import NO_SPLIT, TASKS, ReadOptions, WrittenTask, expect_outside
from segpaste.datasets.formats.maps.dataset import MapPhotos
from segpaste.datasets.formats.pixel_bytes import DepthFormat
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.formats.sidecar_maps import unread_beside
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.writers.annotations import open_split
from segpaste.datasets.writers.dataset_writer import DatasetWriter, Part, finish
from segpaste.datasets.writers.format import Losses, SampleRows, View, WrittenFormat
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.ledger import ExpectedImage
from segpaste.datasets.writers.readback import Verify, WrittenView
from segpaste.datasets.writers.registry import written_format
from segpaste.workspace import Fingerprint, Notes, WholeFiles, Workspace, naming, write_whole

_PHOTOS_AT_ONCE = 16
_BOXES_FIRST = (
    " (--task detect writes these boxes); a model can draw masks in them: segpaste convert DATASET --to yolo "
    "--task detect --out BOXES, then segpaste convert BOXES with --masks-from MODEL"
)
Progress = Callable[[str, int, int], object]
Adapt = Callable[[AnnotatedDataset], AnnotatedDataset]


@dataclass(slots=True)
class Conversion:
    """A conversion that is ready to run: the dataset is open, and can be written in the format.

    Args:
        found: the dataset.
        to: the name of the written format, see `segpaste.datasets.writers.registry.WRITTEN`.
        splits: the names of the splits; by default all.
        options: options of the dataset in addition to its path.
        task: task of written YOLO labels; by default that of the dataset.
        depth_format: format of depth files.
        adapt: function that takes a split and returns the dataset to convert instead, such as one with masks from a
            model.
        adapted_by: name of the function of ``adapt``; two runs with the same name give the same result.
        verify: how the written dataset is read again before it gets its name, see `segpaste.datasets.writers`.
        tool: tool that will read the dataset; entries that it would lose or change are written otherwise.

    Raises:
        DatasetError: the dataset is broken, has no such split, or cannot be written in the format.
    """

    found: FoundDataset
    to: str
    splits: Sequence[str] | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    task: WrittenTask | None = None
    depth_format: DepthFormat = "npy"
    adapt: Adapt | None = None
    adapted_by: str | None = None
    verify: Verify = "sample"
    tool: Tool | None = None
    _converters: list[SplitConverter] = field(init=False)
    _form: WrittenFormat = field(init=False)
    _yaml: YamlKeys | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._form = written_format(self.to)
        names = self._present_splits() if self.splits is None else tuple(dict.fromkeys(self.splits))
        by_name: dict[str, AnnotatedImages] = {}
        opened = [self._open(None if name == NO_SPLIT else name, by_name) for name in names]
        if self.found.format.name == "voc":
            names, opened = without_repeats(names, opened)
        opened = [photos if self.adapt is None else self.adapt(photos) for photos in opened]
        if not sum(map(len, opened)):
            raise DatasetError(f"{self.found.path}: expected at least one image, got none")
        if self.tool is not None and not self._form.keeps_semantic_maps:
            expect_instances(self.found.path, opened, self.tool)
        classes = ClassList(opened) if self._form.one_class_list else None
        if classes is None and self.tool is not None:
            self._expect_same_classes(self.tool, opened)
        has_maps = any(photos.has_masks or photos.has_semantic_maps for photos in opened)
        for class_names in [photos.class_names for photos in opened] if classes is None else [classes.names]:
            self._form.expect_classes(self.found.path, len(class_names), has_maps=has_maps)
        facts = self._facts(opened)
        taken: defaultdict[str, TakenNames] = defaultdict(TakenNames)
        self._converters = []
        renamed = self._renamed_splits(names)
        for number, (name, photos) in enumerate(zip(names, opened, strict=True)):
            written_name = self._form.split_name(renamed[name])
            has_further = has_further_fields(photos)
            in_folder = taken[self._form.photos_dir(written_name)]
            by_label = sorted(written_categories(photos, self._form), key=lambda row: int(row["id"]))
            joined = {} if classes is None else {"names": classes.names}
            of_photos = photo_names(photos, self._form, in_folder, by_stem=self._form.by_stem or has_further)
            self._converters.append(
                SplitConverter(
                    photos,
                    of_photos,
                    NewNames(photos, of_photos),
                    self._form,
                    View.of(self.to, written_name, by_label, **joined, **facts),
                    () if classes is None else classes.labels_of(number),
                    has_entries(photos),
                    has_further,
                    EntriesForTool(self.tool, photos),
                )
            )

    def _present_splits(self) -> tuple[str, ...]:
        """Return the names of the splits; for a tool that trains without one to test on of which there is no file."""
        absent = [name for name in self.found.splits if self.found.format.is_absent(self.found.path, name)]
        if self.tool is None or len(absent) == len(self.found.splits):
            return self.found.splits
        for name in absent:
            warnings.warn(
                f"{self.found.path}: expected files of the split {name}, found none; it is left out", stacklevel=4
            )
        return tuple(name for name in self.found.splits if name not in absent)

    @property
    def num_photos(self) -> int:
        """Number of images of all splits."""
        return sum(len(converter.photos) for converter in self._converters)

    def run(self, out: str | PathLike[str], progress: Progress = lambda *_: None) -> ConversionSummary:
        """Write the dataset, completely or not at all. An interrupted run resumes.

        Args:
            out: the new folder.
            progress: called with ``"image"``, the number of converted images, and the number of all.

        Raises:
            DatasetError: the name is taken, or an image or annotation cannot be read or written in the format.
            OSError: a file cannot be written.
        """
        if Path(out).is_symlink():
            raise DatasetError(f"{out}: expected --out to be new or an empty folder, got a link; choose another")
        space = Workspace(Path(os.path.abspath(out)), DatasetError)
        for converter in self._converters:
            expect_outside(converter.photos, out)
        space.expect_free()
        losses: Losses = Counter()
        num_objects, num_crowds, num_done = Counter[str](), Counter[str](), 0
        writers = {converter.name: self._writer(space.files, converter) for converter in self._converters}
        with space.claim(self._fingerprint()), naming(space.folder):
            guard = Guard(space.notes, self.verify)
            for number, (converter, indices) in enumerate(self._steps()):
                if not _is_whole(space.notes, number):
                    space.notes.write(number, self._write(converter, indices, writers[converter.name]))
                noted = space.notes.read(number)
                losses.update(noted["losses"])
                num_objects[converter.name] += noted["num_objects"]
                num_crowds[converter.name] += noted["num_crowds"]
                num_done += len(indices)
                progress("image", num_done, self.num_photos)
            tables = [self._tables(converter) for converter in self._converters]
            written = [
                (kept, converter.categories, self._rows(space, converter))
                for converter, (kept, _) in zip(self._converters, tables, strict=True)
            ]
            finish([*writers.values()], written, losses)
            if self.tool is not None and (file := start_file(self.tool, self._splits())) is not None:
                write_whole(space.files / file[0], file[1])
            losses.update(self._lost_keys())
            for converter, (_, left_out) in zip(self._converters, tables, strict=True):
                losses.update(left_out)
                for row in converter.photos.categories if self._form.keeps_extra_keys else ():
                    finite_row(row, "categories", losses)
            losses.update(unread_beside(self.found.path, [converter.photos for converter in self._converters]))
            views = [view for c in self._converters for view in self._views(space, c, writers[c.name])]
            of_note = lambda note: [row["file"] for row in note["ledger"]]  # noqa: E731
            verified = guard.verified(space.files, views, range(len(list(self._steps()))), of_note)
            space.publish()
        counts = {converter.name: len(converter.photos) for converter in self._converters}
        changes = {what: num for what in sorted(CHANGES | FOR_TOOL) if (num := losses.pop(what, 0))}
        lost = {what: num for what, num in losses.items() if num}
        told = () if self.tool is None else tuple(self._checked(space.out, self.tool))
        start = None if self.tool is None else start_of(self.tool, self._splits(), space.out)
        return ConversionSummary(
            space.out, self.to, counts, num_objects, lost, num_crowds, verified, changes, told, start
        )

    def _checked(self, out: Path, tool: Tool) -> Iterator[ToolReport]:
        """Yield what the tool does to each written split."""
        for converter in self._converters:
            if len(converter.photos):
                (report,) = check_dataset(open_split(out, converter.view), tools=[tool]).tools
                yield replace(report, split=converter.name)

    def _splits(self) -> WrittenSplits:
        """Return the written splits as tools find them, without those that have no image."""
        written = [converter for converter in self._converters if len(converter.photos)]
        of_all = written[:1] if self._form.one_class_list else written
        classes = [name for converter in of_all for name in converter.view.names]
        return WrittenSplits(self.to, [converter.name for converter in written], classes)

    def _open(self, name: str | None, opened: dict[str, AnnotatedImages]) -> AnnotatedDataset:
        """Open a split. Labels are read for their own task, or if that fails for the task that is written."""
        try:
            return self.found.open(name, self.options, opened)
        except DatasetError as error:
            if self.task is None or "task" not in self.found.format.takes:
                raise
            given = error
        if (photos := self._read_as(self.task, name, opened)) is not None:
            return photos
        if self._read_as("detect", name, {}) is not None:
            raise DatasetError(f"{given}{_BOXES_FIRST}") from given
        raise given

    def _read_as(self, task: str, name: str | None, opened: dict[str, AnnotatedImages]) -> AnnotatedImages | None:
        """Open a split whose labels are read for a task; None if they cannot be."""
        if task not in TASKS:
            return None
        with suppress(DatasetError):
            return self.found.open(name, replace(self.options, task=task), opened)
        return None

    def _expect_same_classes(self, tool: Tool, opened: Sequence[AnnotatedDataset]) -> None:
        """Raise a DatasetError if the tool would take a class of a split for another one."""
        first = opened[0].categories
        for photos in opened[1:]:
            if other := tool.other_classes(first, photos.categories):
                raise DatasetError(
                    f"{self.found.path}: expected the same classes in all splits for {tool.title}, which takes those "
                    f"of the first for all, got others: {other}; write --to yolo, which joins classes by name"
                )

    def _renamed_splits(self, names: Sequence[str]) -> dict[str, str]:
        """Return the name of each split that the tool searches for; the same ones if two would have one name."""
        renamed = {name: name if self.tool is None else self.tool.split_name(name, self.to) for name in names}
        return renamed if len({*renamed.values()}) == len(renamed) else dict(zip(names, names, strict=True))

    def _facts(self, opened: Sequence[AnnotatedDataset]) -> dict[str, Any]:
        """Return what the views of all splits have in common."""
        has_masks = all(photos.has_masks for photos in opened)
        schema = next((photos.keypoint_schema for photos in opened if photos.keypoint_schema is not None), None)
        of_yolo = [photos for photos in opened if isinstance(photos, YoloDataset)]
        default: WrittenTask = "segment" if has_masks else "detect" if schema is None else "pose"
        task = self.task or (_written_task(of_yolo) if of_yolo and self.adapt is None else default)
        if self.to == "yolo" and task == "pose" and schema is None:
            raise DatasetError(
                f"{self.found.path}: expected keypoints for the task pose, got none; choose another task"
            )
        if self.to == "yolo" and task in ("segment", "obb") and not has_masks:
            raise DatasetError(
                f"{self.found.path}: expected masks for the task {task}, got boxes only; write the task detect, or add "
                "masks first (--masks-from)"
            )
        shape = of_yolo[0].data.keypoint_shape if of_yolo else None
        first = opened[0]
        self._yaml = YamlKeys.of(first.dataset if isinstance(first, DatasetWrapper) else first)
        semantic = self._form.keeps_semantic_maps and any(len(p) and p[0].semantic_map is not None for p in opened)
        return {
            "task": task,
            "point_size": 3 if shape is None else shape[1],
            "schema": schema,
            "has_semantic_maps": semantic,
            "source_yaml": None if self._yaml is None else self._yaml.kept(task),
        }

    def _writer(self, folder: Path, converter: SplitConverter) -> DatasetWriter:
        view = converter.view
        part = Part(self._form, view, lambda: open_split(folder, view))
        images = self._form.photos_dir(view.split)
        return DatasetWriter(folder, [part], images, view.split, converter.labels, self.depth_format)

    def _lost_keys(self) -> Losses:
        """Count the keys of a data YAML that the format does not hold."""
        task = self._converters[0].view.task
        has_points = self._form.of_entries or (self.to, task) == ("yolo", "pose")
        return Counter() if self._yaml is None else self._yaml.lost(self.to, task, has_points=has_points)

    def _fingerprint(self) -> Fingerprint:
        given = {name: str(getattr(self.options, name)) for name in self.options.given()}
        values = {
            "segpaste": __version__,
            "dataset": os.path.abspath(self.found.path),
            "splits": {c.name: [self.found.digest_of(c.photos), len(c.photos)] for c in self._converters},
            "to": [self.to, self._converters[0].view.task, self.depth_format],
            "options": given,
            "adapted": self.adapted_by,
            **({} if self.tool is None else {"tool": self.tool.name}),
        }
        return Fingerprint(values, frozenset({"dataset", "options.images_dir", "options.panoptic_dir"}))

    def _steps(self) -> Iterator[tuple[SplitConverter, range]]:
        for converter in self._converters:
            for start in range(0, len(converter.photos), _PHOTOS_AT_ONCE):
                yield converter, range(start, min(start + _PHOTOS_AT_ONCE, len(converter.photos)))

    @staticmethod
    def _write(converter: SplitConverter, indices: range, writer: DatasetWriter) -> dict[str, Any]:
        """Write the files of some images; return their entries, losses, and what they must hold."""
        with WholeFiles() as files:
            notes = [converter.convert(index, writer, files.write) for index in indices]
        lists = {key: [note[key] for note in notes] for key in ("rows", "ledger")}
        numbers = {key: sum(note[key] for note in notes) for key in ("num_objects", "num_crowds")}
        return {**lists, **numbers, "losses": sum((note["losses"] for note in notes), Losses())}

    def _views(self, space: Workspace, converter: SplitConverter, writer: DatasetWriter) -> Iterator[WrittenView]:
        """Yield how a written split is read again for its comparison with the ledger."""

        def images() -> Iterator[ExpectedImage]:
            for number in self._numbers(converter):
                yield from map(ExpectedImage.of_note, space.notes.read(number)["ledger"])

        return writer.views(images, self._tables(converter)[0])

    def _numbers(self, converter: SplitConverter) -> list[int]:
        """Return the numbers of the steps of a split."""
        return [number for number, (other, _) in enumerate(self._steps()) if other is converter]

    def _rows(self, space: Workspace, converter: SplitConverter) -> Callable[[], Iterator[SampleRows]]:
        numbers = self._numbers(converter)

        def rows() -> Iterator[SampleRows]:
            return (SampleRows(**row) for number in numbers for row in space.notes.read(number)["rows"])

        return rows

    def _tables(self, converter: SplitConverter) -> tuple[dict[str, Any], Losses]:
        """Return the other tables of a split as JSON, and what is left out of them."""
        tables, left_out = self._copied_tables(converter)
        return (finite_tables(tables, left_out) if self._form.keeps_extra_keys else tables), left_out

    def _copied_tables(self, converter: SplitConverter) -> tuple[dict[str, Any], Losses]:
        photos = converter.photos
        if isinstance(photos, MapPhotos) and not self._form.keeps_extra_keys:
            return {}, Counter()  # the declaration describes the files that are read
        tables = photos.tables()
        is_of_coco = converter.keeps_entries or isinstance(photos, CocoDetectionV2 | CocoPanoptic)
        if not self._form.keeps_extra_keys:
            return tables, Counter()
        if not tables and not is_of_coco:
            return {"info": {"description": self.found.path.resolve().name}}, Counter()
        if not tables or not is_of_coco:
            return tables, Counter()
        return kept_tables(tables, converter.new_names, converter.keeps_annotation_ids)


def _is_whole(notes: Notes, number: int) -> bool:
    """Return whether a step is finished, with all entries of its note."""
    return notes.has(number) and {"rows", "ledger", "losses", "num_objects", "num_crowds"} <= notes.read(number).keys()


def _written_task(opened: Sequence[YoloDataset]) -> WrittenTask:
    """Return the task of all splits; oriented boxes only if all splits with objects have them."""
    tasks = {photos.written_task for photos in opened if any(photos.instance_labels(i) for i in range(len(photos)))}
    return "obb" if tasks == {"obb"} else opened[0].task
