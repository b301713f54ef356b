"""Replay of an augmented dataset: images are remade from their records and compared with the written ones."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste._version import __version__
from segpaste.bank import InstanceBank
from segpaste.cli._errors import CommandError
from segpaste.cli._inputs import Inputs
from segpaste.cli._layouts import OtherSplits, write_data_yaml
from segpaste.cli._printed import progress
from segpaste.cli._reading import Photo, PhotoReader
from segpaste.cli._sequence import RECORDS, PhotoPick, PhotoSequence, cornered, cut_to
from segpaste.cli._verifying import AugmentedLedger, keys_of
from segpaste.datasets.contract import Crowd
from segpaste.datasets.formats.carried import (
    POINT_KEYS,
    REGION_KEYS,
    carried_annotations,
    carried_image,
    carried_tables,
)
from segpaste.datasets.formats.coco_writer import LAYOUT, ImageFormat, SampleRows, Write, write_tables
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.layouts import WrittenLayout
from segpaste.datasets.formats.references import Copy
from segpaste.datasets.formats.xml_text import parse_xml
from segpaste.datasets.tables import IMAGE_COLUMNS, read_tables
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.ledger import ExpectedImage
from segpaste.datasets.writers.readback import Verified, Verify, read_back
from segpaste.replay import ReplayError, ReplayRecord, replay
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample
from segpaste.workspace import Content, WholeFiles, Workspace, naming, write_whole

JsonRow = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Remaker:
    """Remaker of images of one augmented dataset.

    Attributes:
        inputs: the dataset that was augmented.
        sequence: sequence of its images for the seed of the records.
        bank: the bank of the pasted crops, if any.
        layout: layout of the written files.
    """

    inputs: Inputs
    sequence: PhotoSequence
    bank: InstanceBank | None
    layout: WrittenLayout = WrittenLayout()  # noqa: RUF009 (frozen)

    def write(self, folder: Path, record: ReplayRecord, write: Write) -> SampleRows:
        """Write the image of a record as `segpaste augment` did, with the same names, and rows without provenance.

        Raises:
            ReplayError: the dataset does not give the recorded sample, or has fewer classes.
        """
        sample, kept = self.remade_with_shapes(record)
        return self.written(folder, record, sample, write, kept)

    def written(
        self, folder: Path, record: ReplayRecord, sample: DenseSample, write: Write, kept: Sequence[KeptShape]
    ) -> SampleRows:
        """Write the remade image of a record; see `write`."""
        return self.layout.write(
            folder,
            record.target[4] + 1,
            sample,
            self.inputs.by_label,
            image_format=cast(ImageFormat, Path(record.name or "").suffix[1:]),
            crowds=[(crowd, {}) for crowd in self.crowds(record)],
            kept=kept,
            image_extra=carried_image(self.inputs.photos, self._picks(record)[0].index),
            write=write,
        )

    def further_keys(self, record: ReplayRecord) -> Counter[str]:
        """Count the keys of the objects of a record's image that are not written: it does not name all originals."""
        rows = carried_annotations(self.inputs.photos, self._picks(record)[0].index).values()
        return Counter(f"key '{key}' of annotations" for row in rows for key in row)

    def crowds(self, record: ReplayRecord) -> Sequence[Crowd]:
        """Return the crowd and ignored regions of the target of a record."""
        return self._reader(record).crowds(self._picks(record)[0])

    def remade(self, record: ReplayRecord) -> DenseSample:
        """Return the augmented image of a record; see `write`."""
        return self.remade_with_shapes(record)[0]

    def remade_with_shapes(self, record: ReplayRecord) -> tuple[DenseSample, Sequence[KeptShape]]:
        """Return the augmented image of a record, and the given numbers of each object; see `write`."""
        num_classes = len(self.inputs.by_label)
        labels = [layer.label for layer in record.layers if layer.label is not None]
        if labels and max(labels) >= num_classes:
            raise ReplayError(
                f"{record.name}: expected labels below {num_classes}, the number of classes of {self.inputs.name}, got "
                f"{max(labels)}; was the record changed?"
            )
        photos: list[Photo] = []
        reader, picks = self._reader(record), {pick.key: pick for pick in self._picks(record)}
        windows = dict(zip(picks, (photo.window for photo in record.photos or ()), strict=False))
        is_one_batch = record.photos is None or record.config.emit_classmix

        def read(key: SampleKey) -> DenseSample:
            photo = reader.read(picks[key], windows.get(key))
            photos[:] = photos or [photo]  # the target is read first
            return cornered(photo.sample, record.canvas_size) if is_one_batch else photo.sample

        after = replay(record, read, bank=self.bank)
        after = cut_to(after, photos[0].sample.canvas_size)
        return after, reader.kept_shapes(photos[0], after, self.layout)

    def copies(self, records: Sequence[ReplayRecord]) -> list[Copy]:
        """Return the images of records that are made of images of the dataset, not of backgrounds."""
        photos, num = self.inputs.photos, len(self.inputs.annotated)
        indices = [self._picks(record)[0].index for record in records]
        return [
            Copy(photos.image_id(index), record.target[4] + 1, str(record.name))
            for index, record in zip(indices, records, strict=True)
            if index < num
        ]

    def _reader(self, record: ReplayRecord) -> PhotoReader:
        return PhotoReader(self.inputs.photos, record.jitter)

    def _picks(self, record: ReplayRecord) -> list[PhotoPick]:
        """Return the images of a record's samples; if the record does not name them, those of the sequence."""
        if record.photos is None:
            picks = [self.sequence.pick(key.sample_idx) for key in record.sample_keys]
            for pick, key in zip(picks, record.sample_keys, strict=True):
                if pick.key != key:
                    raise ReplayError(
                        f"expected a record of segpaste augment, with {pick.key} at that position, got {key}"
                    )
            return picks
        num_photos = len(self.inputs.photos)
        picks = [PhotoPick(key, p.index) for key, p in zip(record.sample_keys, record.photos, strict=True)]
        if (last := max(pick.index for pick in picks)) >= num_photos:
            raise ReplayError(
                f"{record.name}: expected indices of images below {num_photos}, as in {self.inputs.name}, got {last}; "
                "was the record changed?"
            )
        return picks


def write_dataset(
    space: Workspace, dataset: str, records: Sequence[ReplayRecord], remaker: Remaker, mode: Verify = "sample"
) -> tuple[Verified, Counter[str]]:
    """Write a dataset of the images, and compare it with its ledger in a ``mode`` of `read_back`.

    An interrupted run with the same records and ``dataset`` resumes.

    Returns:
        What was read again, and the entries of the dataset's tables and keys of its objects that are left out.
    """
    text = "".join(f"{record.to_json()}\n" for record in records).encode()
    fingerprint = {"replay": hashlib.sha256(text).hexdigest(), "dataset": os.path.abspath(dataset)}
    fingerprint |= {key: str(value) for key, value in remaker.layout.note().items()}
    inputs = remaker.inputs
    layout = remaker.layout
    made = {"command": "segpaste replay", "source": {"name": inputs.name, "sha256": inputs.digest}, **layout.note()}
    info = {"description": f"{inputs.name}, augmented by copy-paste", "version": __version__, "segpaste": made}
    ledger = AugmentedLedger(inputs, layout)
    with space.claim(fingerprint), naming(space.folder):
        guard = Guard(space.notes, mode)
        with progress(len(records)) as bar:
            for number, record in enumerate(records):
                if not space.notes.has(number):
                    space.notes.write(number, _remade_note(space.files, record, remaker, ledger))
                bar.update()
        numbers = range(len(records))
        others, left_out = carried_tables(inputs.annotated, remaker.copies(records))
        others.pop("info", None)
        for record in records:
            left_out.update(remaker.further_keys(record))
        write_tables(
            space.files,
            info,
            inputs.categories,
            lambda: (SampleRows(**space.notes.read(number)["rows"]) for number in numbers),
            layout.tables,
            others,
        )
        write_data_yaml(space.files, inputs, layout, OtherSplits({}, ()))
        write_whole(space.files / RECORDS, text)
        expected = lambda: (ExpectedImage.of_note(space.notes.read(number)["ledger"]) for number in numbers)  # noqa: E731
        with guard.checking(numbers, lambda note: [note["ledger"]["file"]]):
            done = read_back(space.files, list(ledger.written_views(space.files, expected)), guard.mode)
        space.publish()
    return done, left_out


def _remade_note(folder: Path, record: ReplayRecord, remaker: Remaker, ledger: AugmentedLedger) -> JsonRow:
    """Write the image of a record; return its rows, and what it must hold."""
    (sample, kept), written = remaker.remade_with_shapes(record), dict[str, Content]()
    with WholeFiles() as files:

        def note(path: Path, content: Content) -> Path:
            written[path.relative_to(folder).as_posix()] = content
            return files.write(path, content)

        rows = remaker.written(folder, record, sample, note, kept)
    keys = keys_of({}, None)
    crowds = [(crowd, keys) for crowd in remaker.crowds(record)]
    expected = ledger.expect(sample, crowds, [keys] * sample.num_instances, rows, written, kept)
    return {"rows": rows.as_note(), "ledger": expected.as_note()}


def differences(
    folder: Path, records: Sequence[ReplayRecord], remaker: Remaker, *, is_all: bool
) -> dict[str, list[str]]:
    """Yield the differences between each image in a folder and the image that its record gives, in words.

    Args:
        folder: the augmented dataset.
        records: records of some of its images.
        remaker: remakes them.
        is_all: True if the records are those of all images.
    """
    written = _Written(folder, remaker.layout)
    found: dict[str, list[str]] = {}
    with progress(len(records)) as bar:
        for record in records:
            found[str(record.name)] = written.differences(record, remaker)
            bar.update()
    return found | {name: ["has no record"] for name in written.images if is_all and name not in found}


def _write_for_now(path: Path, content: Content) -> Path:
    """Write a temporary file, without a flush to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes | bytearray | memoryview) else b"".join(content))
    return path


class _Written:
    """An augmented dataset on disk, whose images can be compared one by one."""

    def __init__(self, folder: Path, layout: WrittenLayout) -> None:
        self.folder, self.layout = folder, layout
        tables = read_tables(folder / layout.tables, {"images": IMAGE_COLUMNS, "annotations": {"image_id": int}})
        self.images = {row["file_name"]: row for row in tables["images"]}
        self._annotations: dict[int, list[JsonRow]] = defaultdict(list)
        for row in tables["annotations"]:
            self._annotations[row["image_id"]].append(row)
        self._segments: dict[int, JsonRow] = {}
        if (path := folder / "panoptic.json").exists():
            rows = read_tables(path, {"annotations": {"image_id": int, "segments_info": list}})["annotations"]
            self._segments = {row["image_id"]: row for row in rows}

    def differences(self, record: ReplayRecord, remaker: Remaker) -> list[str]:
        """Return the differences between an image and its record, in words; empty if all is equal."""
        if record.name is None or record.name not in self.images:
            return [f"is not in {self.layout.tables}"]
        with tempfile.TemporaryDirectory() as scratch:
            try:
                rows = remaker.write(Path(scratch), record, _write_for_now)
            except ReplayError as error:
                return [str(error)]
            return [*self._other_files(Path(scratch), Path(record.name).stem), *self._other_rows(rows)]

    def _other_files(self, scratch: Path, stem: str) -> Iterator[str]:
        """Yield pixel files that are missing, unexpected, or of other values; their compression does not matter."""
        ours, theirs = (
            {
                str(p.relative_to(root))
                for name in (*self.layout.folders, *LAYOUT)
                for p in (root / name).glob(f"{stem}.*")
            }
            for root in (scratch, self.folder)
        )
        for name in sorted(ours | theirs):
            if name not in theirs:
                yield f"{name} is missing"
            elif name not in ours:
                yield f"{name} is not of this image"
            elif not _equal(scratch / name, self.folder / name):
                yield f"{name} differs"

    def _other_rows(self, rows: SampleRows) -> Iterator[str]:
        """Yield rows of the tables that differ; ids of annotations and provenance are not compared."""
        image, image_id = _plain(rows.image), rows.image["id"]
        there = self.images[rows.image["file_name"]]
        if any(there.get(key) != value for key, value in image.items()):
            yield f"its row in {self.layout.tables} differs"
        if not _are_same(_plain(rows.annotations), self._annotations[image_id]):
            yield "its annotations differ"
        segments = self._segments.get(image_id, {}).get("segments_info")
        if not _are_same(_plain(rows.segments), segments, ("segpaste",)):
            yield "its segments differ"


def _array(path: Path) -> NDArray[Any]:
    """Return the values of a pixel file."""
    try:
        if path.suffix == ".npy":
            return cast(NDArray[Any], np.load(path, allow_pickle=False))
        with Image.open(path) as picture:
            return np.array(picture)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{path}: expected a picture or an array, got a file that cannot be read: {error}"
        ) from error


def _equal(one: Path, other: Path) -> bool:
    """Return whether two pixel files have the same values, or two label files the same objects."""
    if one.suffix == ".txt":
        return one.read_bytes() == other.read_bytes()
    if one.suffix == ".xml":
        return _objects_of(one) == _objects_of(other)
    ours, theirs = _array(one), _array(other)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    pairs = zip(np.atleast_1d(ours), np.atleast_1d(theirs), strict=True)  # row by row: pictures may be large
    return all(np.asarray(row).tobytes() == np.asarray(its).tobytes() for row, its in pairs)


def _objects_of(path: Path) -> list[list[str | None]]:
    """Return class, kind and edges of each object of an XML file; further elements are from the dataset."""
    keys = ("name", "difficult", *(f"bndbox/{edge}" for edge in ("xmin", "ymin", "xmax", "ymax")))
    return [[item.findtext(key) for key in keys] for item in parse_xml(path).iter("object")]


def _plain(value: Any) -> Any:
    """Return a value after a round trip through JSON."""
    return json.loads(json.dumps(value))


def _are_same(
    ours: list[JsonRow] | None, theirs: list[JsonRow] | None, without: Collection[str] = ("id", "segpaste")
) -> bool:
    """Return whether rows agree; those on disk may have further keys from the dataset."""
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours is theirs is None
    keys = REGION_KEYS | POINT_KEYS
    return all(
        all(key in without or other.get(key) == row.get(key) for key in {*row, *(keys & {*other})})
        for row, other in zip(ours, theirs, strict=True)
    )
