"""Replay of an augmented dataset: `replay_dataset`, which ``segpaste replay`` calls, too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from segpaste.augmenting.draws import open_objects
from segpaste.augmenting.inputs import Inputs, open_dataset
from segpaste.augmenting.layouts import expect_classes
from segpaste.augmenting.options import AnyPath, AugmentError, Progress, ReplayOptions, Task, option
from segpaste.augmenting.photos import RECORDS, PhotoSequence
from segpaste.augmenting.remaking import Remaker, WrittenImages, write_dataset
from segpaste.bank import InstanceBank, open_bank
from segpaste.datasets.formats.format import expect_outside
from segpaste.datasets.writers.layouts import of_folder
from segpaste.datasets.writers.readback import Verified
from segpaste.replay import ReplayRecord, read_records
from segpaste.workspace import Workspace

if TYPE_CHECKING:
    from segpaste.datasets.views import Samples


@dataclass(slots=True)
class ReplaySummary:
    """Result of a replay: counts, and the differences of a comparison.

    Attributes:
        num_images: number of images that were remade.
        differences: for a comparison, the differences of each image from the one on disk, in words, by name; an equal
            image has none.
        verified: for a new dataset, what was read again.
        left_out: number of entries of the dataset's tables and keys of its objects that are not written.
    """

    num_images: int
    differences: dict[str, list[str]] = field(default_factory=dict)
    verified: Verified = field(default_factory=Verified)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def is_identical(self) -> bool:
        """True if no image differs."""
        return not any(self.differences.values())


def replay_dataset(
    records: AnyPath,
    dataset: AnyPath | Samples | None,
    out: AnyPath | None = None,
    *,
    check: AnyPath | None = None,
    bank: AnyPath | None = None,
    backgrounds: AnyPath | None = None,
    index: int | None = None,
    image: str | None = None,
    images_dir: AnyPath | None = None,
    panoptic_dir: AnyPath | None = None,
    split: str | None = None,
    task: Task | None = None,
    format: str | None = None,
    verify: Literal["full", "sample", "off"] = "sample",
    progress: Progress | None = None,
) -> ReplaySummary:
    """Remake images of an augmented dataset from their records, and write them or compare them with the files.

        replay_dataset("augmented", "instances.json", "again", images_dir="photos")
        assert replay_dataset("augmented", "instances.json", check="augmented", images_dir="photos").is_identical

    Args:
        records: the file ``replay.jsonl`` of the augmented dataset, or its folder, whose layout is used for the images.
        dataset: the dataset that was augmented, as given to `augment_dataset`.
        out: folder to write the images and annotations to; the same call resumes an interrupted run.
        check: augmented dataset to compare with, instead of ``out``.
        bank: the bank of the pasted crops, if any.
        backgrounds: the folder of images without objects, if one was pasted into.
        index: only the record at this index, from 0.
        image: only the image with this name, such as ``000007.png``.
        images_dir: for an annotation file, the folder of the file names of the images.
        panoptic_dir: for panoptic segments, the folder of their PNG files.
        split: split of a folder, by default the one to train on.
        task: task of the labels, by default recognised from them.
        format: name of the dataset's format, by default recognised.
        verify: what is read again before ``out`` appears, as in `augment_dataset`.
        progress: called with ``"image"``, the number of remade images, and the number of all.

    Raises:
        AugmentError: an option does not fit the records, or ``out`` is taken.
        ReplayError: the records cannot be read, or the dataset does not give the recorded images.
        DatasetError: the dataset is broken, or what was written differs from what was made.
        OSError: a file cannot be read or written.
    """
    given = locals()
    del given["progress"]
    return replay_records(ReplayOptions(**given), progress)


def replay_records(options: ReplayOptions, progress: Progress | None = None) -> ReplaySummary:
    """Remake images; see `replay_dataset`."""
    space = None
    if (options.out is None) == (options.check is None):
        raise AugmentError("expected out or check, got both or none; give one of them")
    if options.index is not None and options.image is not None:
        raise AugmentError("expected index or image, got both; give one of them")
    if options.out is not None:
        space = Workspace(Path(os.path.abspath(options.out)), AugmentError, other=option("out"))
        space.expect_free()
    progress = progress or (lambda *_: None)
    path = Path(options.records)
    path = path / RECORDS if path.is_dir() else path
    records = _chosen(options, path, read_records(path))
    inputs = _open(options, path, records)
    if space is not None:
        expect_outside(inputs.photos, space.out)
        expect_classes(inputs, of_folder(path.parent).name)
    sequence = PhotoSequence(inputs.photos, records[0].target[0])
    layout = of_folder(path.parent if options.check is None else Path(options.check))
    remaker = Remaker(inputs, sequence, _bank_of(options, path, records, inputs), layout)
    if space is not None:
        name = options.dataset if isinstance(options.dataset, str | os.PathLike) else options.backgrounds
        verified, left_out = write_dataset(space, name or inputs.name, records, remaker, options.verify, progress)
        return ReplaySummary(len(records), verified=verified, left_out=left_out)
    written, found = WrittenImages(Path(str(options.check)), layout), dict[str, list[str]]()
    is_whole = options.index is None and options.image is None
    originals = written.originals if is_whole else []
    num = len(records) + len(originals)
    for number, record in enumerate(records, start=1):
        found[str(record.name)] = written.differences(record, remaker)
        progress("image", number, num)
    for number, name in enumerate(originals, start=len(records) + 1):
        found[name] = written.differences_of_original(name, remaker)
        progress("image", number, num)
    if is_whole:
        found |= {name: ["has no record"] for name in written.images if name not in found}
    return ReplaySummary(num, found)


def _chosen(options: ReplayOptions, path: Path, records: list[ReplayRecord]) -> list[ReplayRecord]:
    """Return the records that were asked for, and check that they can be remade."""
    index, image = options.index, options.image
    if not records:
        raise AugmentError(f"{path}: expected at least one replay record, got none; is this the right file?")
    if index is not None and index >= len(records):
        raise AugmentError(
            f"{option('index')}: expected a number below {len(records)}, the records in {path}, got {index}"
        )
    chosen = records if index is None else records[index : index + 1]
    if image is not None:
        chosen = [record for record in records if record.name == image]
        if len(chosen) != 1:
            raise AugmentError(f"{option('image')}: expected one record of {image} in {path}, got {len(chosen)}")
    for record in chosen:
        expected = [f"{record.target[4] + 1:06d}.{suffix}" for suffix in ("png", "jpg")]
        if record.dataset is None or record.name not in expected:
            raise AugmentError(
                f"{path}: expected records of segpaste augment, with a dataset and a name such as {expected[0]}, got "
                f"{record.name!r}; replay records of a loader in Python, with segpaste.replay"
            )
    return chosen


def _open(options: ReplayOptions, path: Path, records: Sequence[ReplayRecord]) -> Inputs:
    """Open the dataset of the records."""
    first = records[0]
    inputs = open_dataset(replace(options, depth_fill=first.depth_fill), first.target[0], first.canvas_size[0])
    for record in records:
        is_other = record.dataset is None or record.dataset not in (inputs.digest, inputs.known_as)
        if is_other or record.target[0] != first.target[0]:
            raise AugmentError(
                f"{path}: expected records of {inputs.name} (sha256 {inputs.digest:.12}) and of one seed, got "
                f"{record.name} of a dataset with {record.dataset:.12} and seed {record.target[0]}; give the dataset "
                "that was augmented"
            )
    return inputs


def _bank_of(
    options: ReplayOptions, path: Path, records: Sequence[ReplayRecord], inputs: Inputs
) -> InstanceBank | None:
    """Return the bank of the records, None if they have none."""
    own = {record.crop_size is not None for record in records if record.bank is not None}
    versions, name = {record.bank for record in records}, option("bank")
    if len(versions) > 1:
        raise AugmentError(f"{path}: expected records of one bank, got {len(versions)}; replay them one by one")
    version = versions.pop()
    if True in own:
        return _own_objects(options, path, records[0], inputs)
    if options.bank is None and version is None:
        return None
    if options.bank is None:
        raise AugmentError(f"expected {name}, because the records use crops of a bank, got none; give the bank")
    if version is None:
        raise AugmentError(f"expected no {name}, because the records use no bank; leave it out")
    bank = open_bank(options.bank)
    if bank.version != version:
        raise AugmentError(
            f"{options.bank}: expected version {version:.12} of the bank, as in the records, got {bank.version:.12}"
        )
    return bank


def _own_objects(options: ReplayOptions, path: Path, record: ReplayRecord, inputs: Inputs) -> InstanceBank:
    """Return the objects of the dataset itself as a bank."""
    if options.bank is not None:
        name = option("bank")
        raise AugmentError(f"expected no {name}, because the records use the dataset's own objects; leave it out")
    bank = open_objects(inputs, record.config, record.target[0], skips_unreadable=True, mode="natural").bank
    if bank.version != record.bank:
        raise AugmentError(
            f"{path}: expected records of the objects of {inputs.name}, of version {bank.version:.12}, got "
            f"{record.bank:.12}; give the dataset that was augmented"
        )
    return bank
