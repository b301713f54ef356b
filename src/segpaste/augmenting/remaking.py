"""Images of an augmented dataset, remade from their records: written again, or compared with those on disk."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from segpaste._version import __version__
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.layouts import writer_of, yaml_keys
from segpaste.augmenting.options import AnyPath, AugmentError, Progress
from segpaste.augmenting.photos import RECORDS, Photo, PhotoPick, PhotoReader, PhotoSequence, cornered, cut_to
from segpaste.augmenting.steps import carried_of, keys_of, made_image, original_image
from segpaste.bank import DatasetBank, InstanceBank
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.conversion.for_tool import with_lists
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.carried import IMAGE_KEYS, POINT_KEYS, REGION_KEYS, without_counts
from segpaste.datasets.formats.image_files import open_image
from segpaste.datasets.formats.references import KINDS, OWN_KEY, Copy, Owner, is_file_name, resolved
from segpaste.datasets.formats.text_files import parse_xml
from segpaste.datasets.tables import IMAGE_COLUMNS, read_tables
from segpaste.datasets.writers.counterparts import WrittenCounterparts
from segpaste.datasets.writers.dataset_writer import DatasetWriter, Write, finish
from segpaste.datasets.writers.format import MADE_OF, Losses, SampleRows
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.layouts import FOLDERS, WrittenLayout
from segpaste.datasets.writers.ledger import ExpectedImage
from segpaste.datasets.writers.readback import Verified, Verify
from segpaste.replay import RecordedLayer, ReplayError, ReplayRecord
from segpaste.replay.rerun import replayed
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample
from segpaste.workspace import Content, WholeFiles, Workspace, naming, write_whole

_OWN = REGION_KEYS | POINT_KEYS


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

    def write(self, writer: DatasetWriter, record: ReplayRecord, write: Write) -> JsonRow:
        """Write the image of a record as `segpaste augment` did, with the same names, and rows without provenance.

        Return its note, see `DatasetWriter.add`.

        Raises:
            ReplayError: the dataset does not give the recorded sample, or has fewer classes.
        """
        lost = Counter[str]()
        reader, target, after, rows = self._remade(record, lost)
        lost += reader.lost(target.pick, self.layout)
        image = made_image(reader, target, after, rows, self.layout, Path(record.name or "").suffix[1:], lost)
        note = writer.add(image, write)
        return {**note, "losses": note["losses"] + lost}

    def write_original(self, writer: DatasetWriter, row: JsonRow, write: Write) -> JsonRow:
        """Write an original as `segpaste augment` did, given its entry in the tables; return its note.

        Raises:
            ReplayError: the dataset has no such image.
        """
        name, position, lost = row[OWN_KEY]["source_file_name"], int(row["id"]) - 1, Counter[str]()
        if (index := _indices(self.inputs.annotated).get(name)) is None:
            raise ReplayError(f"is an original of {name}, which {self.inputs.name} does not have")
        return writer.add(original_image(self.inputs, index, position, self.layout, lost), write)

    def remade(self, record: ReplayRecord) -> DenseSample:
        """Return the augmented image of a record; see `write`."""
        return self._remade(record, Counter())[2]

    def _remade(
        self, record: ReplayRecord, lost: Counter[str]
    ) -> tuple[PhotoReader, Photo, DenseSample, list[JsonRow]]:
        """Return the reader and the target of a record, its augmented image, and further keys of each object.

        Overwritten keys of objects are counted.
        """
        num_classes = len(self.inputs.by_label)
        labels = [layer.label for layer in record.layers if layer.label is not None]
        if labels and max(labels) >= num_classes:
            raise ReplayError(
                f"{record.name}: expected labels below {num_classes}, the number of classes of {self.inputs.name}, got "
                f"{max(labels)}; was the record changed?"
            )
        photos, ids = list[Photo](), dict[SampleKey, list[int]]()
        reader, picks = PhotoReader(self.inputs.photos, record.jitter), {pick.key: pick for pick in self._picks(record)}
        windows = dict(zip(picks, (photo.window for photo in record.photos or ()), strict=False))
        is_one_batch = record.photos is None or record.config.emit_classmix

        def read(key: SampleKey) -> DenseSample:
            photo = reader.read(picks[key], windows.get(key))
            photos[:] = photos or [photo]  # the target is read first
            ids[key] = photo.annotation_ids
            return cornered(photo.sample, record.canvas_size) if is_one_batch else photo.sample

        after, origins = replayed(record, read, self.bank)
        after = cut_to(after, photos[0].sample.canvas_size)
        source_of: dict[int, RecordedLayer] = {layer.layer: layer for layer in record.layers}
        rows = []
        for number, slot in origins:
            layer = source_of.get(number)
            if layer is not None and layer.crop is not None:
                rows.append(self._keys_of_crop(layer.crop, lost))
                continue
            key = record.sample_keys[0] if layer is None or layer.source is None else SampleKey(*layer.source)
            index, inputs = picks[key].index, self.inputs.photos
            origin = index, inputs.image_id(index), ids[key][slot]
            rows.append(keys_of({}, carried_of(inputs, [index]), origin, lost))
        return reader, photos[0], after, rows

    def _keys_of_crop(self, crop: int, lost: Counter[str]) -> JsonRow:
        """Return the further keys of the object of a crop; none of another dataset."""
        if not isinstance(self.bank, DatasetBank):
            return keys_of({}, {}, (None, None, None), lost)
        photos, image = self.inputs.photos, int(self.bank.image_of(np.array([crop]))[0])
        own = carried_of(photos, [image])
        if not any(own.values()) and not _has_further_tables(photos):
            return keys_of({}, {}, (None, None, None), lost)
        found = next(self.bank.found(crop))
        origin = image, photos.image_id(image), photos.annotation_ids(image)[found.instance_id - 1]
        return keys_of({}, own, origin, lost)

    def copies(self, records: Sequence[ReplayRecord]) -> list[Copy]:
        """Return the images of records that are made of images of the dataset, not of backgrounds."""
        photos, num = self.inputs.photos, len(self.inputs.annotated)
        indices = [self._picks(record)[0].index for record in records]
        return [
            Copy(photos.image_id(index), record.target[4] + 1, str(record.name))
            for index, record in zip(indices, records, strict=True)
            if index < num
        ]

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


@lru_cache(maxsize=1)
def _indices(photos: AnnotatedDataset) -> dict[str, int]:
    """Return the index of each image by its file name."""
    return {photos.file_name(index): index for index in range(len(photos))}


@lru_cache(maxsize=1)
def _has_further_tables(photos: AnnotatedDataset) -> bool:
    """Return whether a dataset has tables that may refer to annotations."""
    return bool(photos.tables().keys() - {"info", "licenses"})


def write_dataset(
    space: Workspace, name: AnyPath, records: Sequence[ReplayRecord], remaker: Remaker, mode: Verify, progress: Progress
) -> tuple[Verified, Counter[str]]:
    """Write a dataset of the images, and compare it with its ledger in a mode of `read_back`.

    An interrupted run with the same records and ``name``, the path of the dataset, resumes.

    Returns:
        What was read again, and the entries of the dataset's tables and keys of its objects that are left out.
    """
    text = "".join(f"{record.to_json()}\n" for record in records).encode()
    fingerprint = {"replay": hashlib.sha256(text).hexdigest(), "dataset": os.path.abspath(name)}
    fingerprint |= {key: str(value) for key, value in remaker.layout.note().items()}
    inputs = remaker.inputs
    layout = remaker.layout
    made = {"command": "segpaste replay", "source": {"name": inputs.name, "sha256": inputs.digest}, **layout.note()}
    info = {"description": f"{inputs.name}, augmented by copy-paste", "version": __version__, "segpaste": made}
    writer = writer_of(space.files, inputs, layout)
    with space.claim(fingerprint), naming(space.folder):
        guard = Guard(space.notes, mode)
        for number, record in enumerate(records):
            if not space.notes.has(number):
                space.notes.write(number, _remade_note(record, remaker, writer))
            progress("image", number + 1, len(records))
        numbers = range(len(records))
        rows = lambda: (SampleRows(**space.notes.read(number)["rows"]) for number in numbers)  # noqa: E731
        made_of = WrittenCounterparts(inputs.annotated, remaker.copies(records), rows)
        others, left_out = made_of.tables()
        categories = made_of.categories(without_counts(inputs.categories), left_out)
        left_out += made_of.losses + inputs.unread
        others.pop("info", None)
        source_yaml, lost = yaml_keys(inputs, layout)
        left_out += lost
        for number in numbers:
            left_out.update(space.notes.read(number).get("losses", {}))
        writer = writer_of(space.files, inputs, layout, source_yaml)
        tables = {"info": info, **others}
        finish([writer], [(tables, categories, made_of.rows)], Losses(), ())
        write_whole(space.files / RECORDS, text)
        facts = lambda: (ExpectedImage.of_note(space.notes.read(number)["ledger"]) for number in numbers)  # noqa: E731
        views = writer.views(lambda: made_of.expected(facts), tables, ())
        done = guard.verified(space.files, views, numbers, lambda note: [note["ledger"]["file"]])
        space.publish()
    return done, left_out


def _remade_note(record: ReplayRecord, remaker: Remaker, writer: DatasetWriter) -> JsonRow:
    """Write the image of a record; return its rows, and what it must hold."""
    with WholeFiles() as files:
        return remaker.write(writer, record, files.write)


def _write_for_now(path: Path, content: Content) -> Path:
    """Write a temporary file, without a flush to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes | bytearray | memoryview) else b"".join(content))
    return path


class WrittenImages:
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
        return self._differences(record.name, remaker, lambda writer: remaker.write(writer, record, _write_for_now))

    @property
    def originals(self) -> list[str]:
        """Names of the images of the dataset that were kept."""
        return [name for name, row in self.images.items() if row.get(OWN_KEY, {}).get("original")]

    def differences_of_original(self, name: str, remaker: Remaker) -> list[str]:
        """Return the differences between a kept image and that of the dataset, in words; empty if all is equal."""
        row = self.images[name]
        return self._differences(name, remaker, lambda writer: remaker.write_original(writer, row, _write_for_now))

    def _differences(self, name: str, remaker: Remaker, write: Callable[[DatasetWriter], JsonRow]) -> list[str]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                rows = SampleRows(**write(writer_of(Path(scratch), remaker.inputs, self.layout))["rows"])
            except ReplayError as error:
                return [str(error)]
            return [*self._other_files(Path(scratch), Path(name).stem), *self._other_rows(rows)]

    def _other_files(self, scratch: Path, stem: str) -> Iterator[str]:
        """Yield pixel files that are missing, unexpected, or of other values; their compression does not matter."""
        ours, theirs = (
            {
                str(p.relative_to(root))
                for name in (*self.layout.folders, *FOLDERS)
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
        image_id, name = rows.image["id"], rows.image["file_name"]
        image, there = (_without_references(row, "images", IMAGE_KEYS) for row in (rows.image, self.images[name]))
        if any(there.get(key) != value for key, value in image.items()):
            yield f"its row in {self.layout.tables} differs"
        if not _are_same(rows.annotations, self._annotations[image_id]):
            yield "its annotations differ"
        segments = self._segments.get(image_id, {}).get("segments_info")
        if not _are_same(rows.segments, segments, ("segpaste",)):
            yield "its segments differ"


def _array(path: Path) -> NDArray[Any]:
    """Return the values of a pixel file."""
    try:
        if path.suffix == ".npy":
            return cast(NDArray[Any], np.load(path, allow_pickle=False))
        with open_image(path) as picture:
            return np.array(picture)
    except (OSError, ValueError) as error:
        raise AugmentError(
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


class _NoCounterparts:
    """Counterparts of nothing: all references are left out."""

    kinds = KINDS

    def is_image(self, number: int) -> bool:
        """Return True: any number may be an id."""
        return True

    def image(self, number: int) -> None:
        """Return None."""

    def annotation(self, number: int) -> None:
        """Return None."""

    def name(self, text: str) -> str | None:
        """Return a text that is no file name."""
        return None if is_file_name(text) else text


def _without_references(row: JsonRow, owner: Owner, own: Collection[str]) -> JsonRow:
    """Return an entry as JSON, without the ids and names that depend on the whole dataset."""
    plain = _plain({key: value for key, value in row.items() if key != MADE_OF})
    return resolved(plain, owner, _NoCounterparts(), Counter(), own)


def _are_same(
    ours: list[JsonRow] | None, theirs: list[JsonRow] | None, without: Collection[str] = ("id", "segpaste")
) -> bool:
    """Return whether rows agree; those on disk may have further keys from the dataset, and run lengths as lists."""
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours is theirs is None
    pairs = [[_without_references(row, "objects", _OWN) for row in pair] for pair in zip(ours, theirs, strict=True)]
    pairs = [[with_lists(row), other] if _has_list(other) else [row, other] for row, other in pairs]
    return all(
        all(key in without or other.get(key) == row.get(key) for key in {*row, *(_OWN & {*other})})
        for row, other in pairs
    )


def _has_list(row: JsonRow) -> bool:
    coded = row.get("segmentation")
    return isinstance(coded, dict) and isinstance(coded.get("counts"), list)
