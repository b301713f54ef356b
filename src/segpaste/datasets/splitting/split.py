"""`split_dataset`: a dataset divided into parts such as train and val, in its own format.

To write a dataset in another format use `segpaste.datasets.convert_dataset`, before or after.
"""

from __future__ import annotations

import filecmp
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

from segpaste._version import __version__
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.format import NO_SPLIT, ReadOptions, expect_outside
from segpaste.datasets.formats.registry import FoundDataset, find_dataset
from segpaste.datasets.formats.sidecar_maps import unread_beside
from segpaste.datasets.splitting.coco_parts import CocoParts, RoboflowParts
from segpaste.datasets.splitting.division import Division, expect_fractions, shown_classes
from segpaste.datasets.splitting.map_parts import MapParts
from segpaste.datasets.splitting.part_files import LabelmeParts, PartFiles, VocParts, YoloParts
from segpaste.datasets.splitting.summary import SplitSummary
from segpaste.datasets.writers.readback import VerificationError, Verify
from segpaste.workspace import Fingerprint, WholeFiles, Workspace, naming, write_whole

RECORD = "split.json"
"""File with the seed, the options and the images of each part."""
_AT_ONCE, _FIRST, _STEP = 64, 16, 50
_PARTS: dict[str, type[PartFiles]] = {
    "coco": CocoParts,
    "coco-file": CocoParts,
    "lvis": CocoParts,
    "coco-panoptic": CocoParts,
    "roboflow": RoboflowParts,
    "yolo": YoloParts,
    "voc": VocParts,
    "labelme": LabelmeParts,
    **dict.fromkeys(("maps", "label-maps", "cityscapes", "ade20k", "camvid"), MapParts),
}
"""Formats that are divided in their own files."""
Progress = Callable[[str, int, int], object]


def split_dataset(
    path: str | PathLike[str],
    out: str | PathLike[str],
    parts: Mapping[str, float],
    *,
    seed: int = 0,
    group_by: str | None = None,
    split: str | None = None,
    format: str | None = None,
    images_dir: str | PathLike[str] | None = None,
    panoptic_dir: str | PathLike[str] | None = None,
    verify: Verify = "sample",
    progress: Progress | None = None,
) -> SplitSummary:
    """Divide a dataset into parts, in its own format and with unchanged labels.

    The division is stratified: every class that is in at least as many images (or groups) as there are parts, is in
    each part, and in proportion as far as possible. Images, label files and maps are copied byte by byte; of annotation
    files each part has the rows of its images, as text. An interrupted run resumes.

    Args:
        path: a folder or file of a format that can be divided.
        out: the new folder; it appears only when the dataset is complete.
        parts: fraction of the images of each part, such as ``{"train": 0.8, "val": 0.2}``.
        seed: seed of the division.
        group_by: ``folder`` keeps the images of a folder together; a regular expression those of whose file names it
            finds the same text, that of its groups in parentheses if it has any.
        split: name of the split to divide; needed if the dataset has several.
        format: the name of the dataset's format; by default it is recognised.
        images_dir: for an annotation file, the folder of the file names of the images.
        panoptic_dir: for panoptic segments, the folder of their PNG files.
        verify: what is read again before ``out`` appears: with ``sample`` all labels and maps and some images, with
            ``full`` all images; ``off`` reads nothing.
        progress: called with a word, the number of images that are done, and the number of all.

    Returns:
        The images and classes of each part, and what could not be divided as wanted.

    Raises:
        DatasetError: the dataset is unknown, broken or of a format that cannot be divided, a fraction or name is wrong,
            there are fewer images or groups than parts, ``out`` is taken, or a written file differs from the given one.
        OSError: a file cannot be written.
    """
    expect_fractions(parts)
    found = find_dataset(path, format)
    kind = _PARTS.get(found.format.name)
    if kind is None:
        raise DatasetError(
            f"{path}: expected a dataset of one of the formats {', '.join(_PARTS)}, got {found.format.name}; convert "
            "it first (segpaste convert)"
        )
    if split is None and len(found.splits) > 1:
        raise DatasetError(
            f"{path}: expected the name of the split to divide (split=, --split), since the dataset has "
            f"{', '.join(found.splits)}; give it"
        )
    options = ReadOptions(
        images_dir=None if images_dir is None else Path(images_dir),
        panoptic_dir=None if panoptic_dir is None else Path(panoptic_dir),
    )
    name = found.splits[0] if split is None else split
    photos = found.open(None if name == NO_SPLIT else name, options)
    files = kind(found, name, photos)
    if files.part_names is not None and (unknown := [part for part in parts if part not in files.part_names]):
        raise DatasetError(
            f"parts: expected the names {', '.join(files.part_names)} for a dataset of {found.format.title}, got "
            f"{unknown[0]!r}; choose one of these"
        )
    job = _Split(found, photos, files, dict(parts), seed, group_by, verify, progress or (lambda *_: None))
    return job.run(Path(out), options)


@dataclass(frozen=True, slots=True)
class _Split:
    """A division that is ready to run."""

    found: FoundDataset
    photos: AnnotatedImages
    files: PartFiles
    fractions: Mapping[str, float]
    seed: int
    group_by: str | None
    verify: Verify
    progress: Progress

    def run(self, out: Path, options: ReadOptions) -> SplitSummary:
        if out.is_symlink():
            raise DatasetError(f"{out}: expected --out to be new or an empty folder, got a link; choose another")
        space = Workspace(Path(os.path.abspath(out)), DatasetError)
        expect_outside(self.photos, out)
        space.expect_free()
        names = [self.photos.file_name(index) for index in range(len(self.photos))]
        division = Division.of(self._counts(), names, self.fractions, self.group_by, self.seed)
        copied = self._copied(division)
        with space.claim(self._fingerprint(options)), naming(space.folder):
            self._copy(space, copied)
            classes = division.classes(self.photos.class_names)
            summary = SplitSummary(
                space.out,
                self.files.format,
                self.seed,
                self.fractions,
                {part: len(own) for part, own in division.parts.items()},
                classes,
                division.deviations(classes),
                dict(unread_beside(self.found.path, [self.photos])) if self.found.path.is_dir() else {},
                image_names={part: [names[index] for index in own] for part, own in division.parts.items()},
            )
            with WholeFiles() as files:
                for name, content in self.files.closing(division.parts):
                    files.write(space.files / name, content)
            if self.verify != "off":
                self._compare(space.files, division, copied)
                summary = replace(summary, num_verified=len(self.photos))
            write_whole(space.files / RECORD, self._record(summary))
            space.publish()
        return summary

    def _counts(self) -> list[Counter[int]]:
        found = []
        for index in range(len(self.photos)):
            found.append(shown_classes(self.photos, index))
            self.progress("image read", index + 1, len(self.photos))
        return found

    def _copied(self, division: Division) -> list[list[tuple[PurePosixPath, Path]]]:
        """Return the files of each image; raise `DatasetError` if one is missing, or two would have one name."""
        part_of = {index: part for part, own in division.parts.items() for index in own}
        found = [[*self.files.files(index, part_of[index])] for index in range(len(self.photos))]
        taken: dict[str, Path] = {}
        for own in found:
            for target, path in own:
                if not path.is_file():
                    raise DatasetError(
                        f"{path}: expected a file of the dataset, found none; add it, or remove its entry"
                    )
                other = taken.setdefault(str(target).casefold(), path)
                if os.path.abspath(other) != os.path.abspath(path):
                    raise DatasetError(
                        f"{path}: expected another file name than {other}, since both would be {target}; rename one"
                    )
        return found

    def _copy(self, space: Workspace, copied: Sequence[Sequence[tuple[PurePosixPath, Path]]]) -> None:
        """Copy the files of all images, some of them at a time; what is copied is noted."""
        for number, start in enumerate(range(0, len(copied), _AT_ONCE)):
            own = copied[start : start + _AT_ONCE]
            if not space.notes.has(number):
                with WholeFiles() as files:
                    for target, path in dict(pair for pairs in own for pair in pairs).items():
                        files.write(space.files / target, path.read_bytes())
                space.notes.write(number, {"num": len(own)})
            self.progress("image", start + len(own), len(copied))

    def _compare(
        self, folder: Path, division: Division, copied: Sequence[Sequence[tuple[PurePosixPath, Path]]]
    ) -> None:
        """Compare all labels, maps and some images with the given ones; raise a DatasetError if one differs."""
        for index, own in enumerate(copied):
            is_read = self.verify == "full" or index < _FIRST or index % _STEP == 0
            for target, path in own if is_read else own[1:]:
                if not filecmp.cmp(folder / target, path, shallow=False):
                    raise _difference(folder, str(target), f"other bytes than {path}")
        written = find_dataset(folder, self.files.format)
        for part, indices in division.parts.items():
            photos = written.open(None if written.splits == (NO_SPLIT,) else part)
            if list(photos.class_names) != list(self.photos.class_names):
                raise _difference(folder, part, "other classes")
            there = {os.path.realpath(photos.path_of(index)): index for index in range(len(photos))}
            expected = {os.path.realpath(folder / copied[index][0][0]): index for index in indices}
            if there.keys() != expected.keys():
                raise _difference(folder, part, f"{len(there)} images instead of {len(expected)}, or others")
            for place, index in expected.items():
                if self._labels(photos, there[place]) != self._labels(self.photos, index):
                    raise _difference(folder, os.path.relpath(place, folder), "other annotations")

    def _labels(self, photos: AnnotatedImages, index: int) -> str:
        """Return the annotations of an image as text: entries of tables, or the classes of its files."""
        if self.files.has_rows:
            return json.dumps([photos.image_row(index), photos.map_row(index), photos.annotation_rows(index)])
        return json.dumps(photos.instance_labels(index))

    def _fingerprint(self, options: ReadOptions) -> Fingerprint:
        values = {
            "segpaste": __version__,
            "dataset": os.path.abspath(self.found.path),
            "split": [self.files.split, self.photos.digest, len(self.photos)],
            "parts": dict(self.fractions),
            "seed": self.seed,
            "group_by": self.group_by,
            "options": {name: str(getattr(options, name)) for name in options.given()},
        }
        return Fingerprint(values, frozenset({"dataset", "options.images_dir", "options.panoptic_dir"}))

    def _record(self, summary: SplitSummary) -> bytes:
        found: dict[str, Any] = {"segpaste": __version__, "group_by": self.group_by, **summary.to_dict()}
        del found["out"]
        return json.dumps(found, indent=1).encode()


def _difference(folder: Path, place: str, what: str) -> VerificationError:
    return VerificationError(folder, [f"{place}: {what}"], 1, [place])
