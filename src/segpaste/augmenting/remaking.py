"""Images of an augmented dataset, remade from their records and written again."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from segpaste._version import __version__
from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.layouts import OtherSplits, write_data_yaml
from segpaste.augmenting.options import AnyPath, Progress
from segpaste.augmenting.photos import RECORDS, Photo, PhotoPick, PhotoReader, PhotoSequence, cornered, cut_to
from segpaste.augmenting.steps import AugmentedLedger, keys_of
from segpaste.bank import InstanceBank
from segpaste.datasets.contract import Crowd, JsonRow
from segpaste.datasets.formats.carried import (
    carried_annotations,
    carried_image,
    carried_tables,
)
from segpaste.datasets.formats.coco_writer import ImageFormat, SampleRows, Write, write_tables
from segpaste.datasets.formats.kept_shapes import KeptShape
from segpaste.datasets.formats.layouts import WrittenLayout
from segpaste.datasets.formats.references import Copy
from segpaste.datasets.writers.guard import Guard
from segpaste.datasets.writers.ledger import ExpectedImage
from segpaste.datasets.writers.readback import Verified, Verify, read_back
from segpaste.replay import ReplayError, ReplayRecord, replay
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample
from segpaste.workspace import Content, WholeFiles, Workspace, naming, write_whole


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
    space: Workspace, name: AnyPath, records: Sequence[ReplayRecord], remaker: Remaker, mode: Verify, progress: Progress
) -> tuple[Verified, Counter[str]]:
    """Write a dataset of the images, and compare it with its ledger in a ``mode`` of `read_back`.

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
    ledger = AugmentedLedger(inputs, layout)
    with space.claim(fingerprint), naming(space.folder):
        guard = Guard(space.notes, mode)
        for number, record in enumerate(records):
            if not space.notes.has(number):
                space.notes.write(number, _remade_note(space.files, record, remaker, ledger))
            progress("image", number + 1, len(records))
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
