"""`segpaste replay`: recreate images of an augmented dataset from their records, or compare them with the files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste.cli._arguments import add_backgrounds, add_photos, add_verify, integer
from segpaste.cli._errors import CommandError
from segpaste.workspace import Workspace

if TYPE_CHECKING:
    from segpaste.augmenting.inputs import Inputs
    from segpaste.bank import InstanceBank
    from segpaste.replay import ReplayRecord

_EXAMPLE = """\
RECORDS is the replay.jsonl of segpaste augment, or its folder, whose layout is used for the images. The dataset is the
one that was augmented; the configuration is in the records. With --check nothing is written: the exit code is 0 if
every image, its annotations, depth and normals are bit for bit equal, else 1.

examples:
  segpaste replay augmented --dataset instances.json --images photos --check augmented
  segpaste replay augmented/replay.jsonl --dataset instances.json --images photos --image 000007.png --out again
  segpaste replay augmented --dataset data.yaml --check augmented
  segpaste replay scenes --dataset scenes --index 0 --out again
"""
_NUM_SHOWN = 10


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Recreate augmented images from their records, or check that the files are the same."
    parser = commands.add_parser("replay", help="recreate augmented images", description=text, example=_EXAMPLE)
    parser.usage = "segpaste replay RECORDS --dataset DATASET (--out DIR | --check DIR) [options]"
    add = parser.add_argument
    add("records", metavar="RECORDS", type=Path, help="replay.jsonl, or the folder of the augmented dataset")
    add("--dataset", metavar="DATASET", help="the dataset that was augmented")
    add_photos(parser)
    add_backgrounds(parser)
    add("--bank", metavar="BANK", help="the instance bank of the pasted crops, if any")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--index", metavar="I", type=integer(0), help="only the record at this index, from 0")
    which.add_argument("--image", metavar="NAME", help="only the image with this name, such as 000007.png")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="DIR", type=Path, help="write the images and annotations there")
    what.add_argument("--check", metavar="DIR", type=Path, help="compare with this augmented dataset instead")
    add_verify(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Remake the images and write or compare them; exit with 1 if one differs."""
    space = None if args.out is None else Workspace(Path(os.path.abspath(args.out)), CommandError)
    if space is not None:
        space.expect_free()
    from segpaste.augmenting import layouts as _layouts
    from segpaste.augmenting import remaking as _remaking
    from segpaste.augmenting import sequence as _sequence
    from segpaste.augmenting import tally as _tally
    from segpaste.datasets.formats.records import expect_outside
    from segpaste.datasets.writers.layouts import of_folder
    from segpaste.replay import read_records

    path = args.records / _sequence.RECORDS if args.records.is_dir() else args.records
    records = _chosen(args, path, read_records(path))
    inputs = _open(args, path, records)
    if space is not None:
        expect_outside(inputs.photos, args.out)
        _layouts.expect_classes(inputs, of_folder(path.parent).name)
    sequence = _sequence.PhotoSequence(inputs.photos, records[0].target[0])
    layout = of_folder(path.parent if args.check is None else args.check)
    remaker = _remaking.Remaker(inputs, sequence, _bank_of(args, path, records, inputs), layout)
    if space is not None:
        name = args.dataset or args.backgrounds
        verified, left_out = _remaking.write_dataset(space, name, records, remaker, args.verify)
        print("\n".join([f"replayed {len(records):,} images", *_tally.left_out_lines(left_out)]))
        if verified.images:
            print(f"verified {verified}")
        print(f"files    {args.out}/: " + ", ".join(sorted(path.name for path in args.out.iterdir())))
        return
    found = _remaking.differences(args.check, records, remaker, is_all=args.index is None and args.image is None)
    different = {name: words for name, words in found.items() if words}
    for name, words in list(different.items())[:_NUM_SHOWN]:
        print(f"{name}: {', '.join(words)}")
    if len(different) > _NUM_SHOWN:
        print(f"and {len(different) - _NUM_SHOWN:,} more")
    print(f"{len(found) - len(different)} of {len(found)} identical")
    if different:
        raise SystemExit(1)


def _chosen(args: argparse.Namespace, path: Path, records: list[ReplayRecord]) -> list[ReplayRecord]:
    """Return the records that were asked for, and check that they can be remade."""
    if not records:
        raise CommandError(f"{path}: expected at least one replay record, got none; is this the right file?")
    if args.index is not None and args.index >= len(records):
        raise CommandError(f"--index: expected a number below {len(records)}, the records in {path}, got {args.index}")
    chosen = records if args.index is None else records[args.index : args.index + 1]
    if args.image is not None:
        chosen = [record for record in records if record.name == args.image]
        if len(chosen) != 1:
            raise CommandError(f"--image: expected one record of {args.image} in {path}, got {len(chosen)}")
    for record in chosen:
        expected = [f"{record.target[4] + 1:06d}.{suffix}" for suffix in ("png", "jpg")]
        if record.dataset is None or record.name not in expected:
            raise CommandError(
                f"{path}: expected records of segpaste augment, with a dataset and a name such as {expected[0]}, got "
                f"{record.name!r}; replay records of a loader in Python, with segpaste.replay"
            )
    return chosen


def _open(args: argparse.Namespace, path: Path, records: Sequence[ReplayRecord]) -> Inputs:
    """Open the dataset of the records."""
    from segpaste.augmenting import inputs as _inputs

    first = records[0]
    args.depth_fill = first.depth_fill
    inputs = _inputs.open_dataset(args, first.target[0], first.canvas_size[0])
    for record in records:
        if record.dataset != inputs.digest or record.target[0] != first.target[0]:
            raise CommandError(
                f"{path}: expected records of {inputs.name} (sha256 {inputs.digest:.12}) and of one seed, got "
                f"{record.name} of a dataset with {record.dataset:.12} and seed {record.target[0]}; give the dataset "
                "that was augmented"
            )
    return inputs


def _own_objects(args: argparse.Namespace, path: Path, record: ReplayRecord, inputs: Inputs) -> InstanceBank:
    """Return the objects of the dataset itself as a bank."""
    from segpaste.augmenting import objects as _objects

    if args.bank is not None:
        raise CommandError("expected no --bank, because the records use the dataset's own objects; leave it out")
    bank = _objects.open_objects(inputs, record.config, record.target[0], skips_unreadable=True, mode="natural").bank
    if bank.version != record.bank:
        raise CommandError(
            f"{path}: expected records of the objects of {inputs.name}, of version {bank.version:.12}, got "
            f"{record.bank:.12}; give the dataset that was augmented"
        )
    return bank


def _bank_of(
    args: argparse.Namespace, path: Path, records: Sequence[ReplayRecord], inputs: Inputs
) -> InstanceBank | None:
    """Return the bank of the records, None if they have none."""
    from segpaste.bank import open_bank

    own = {record.crop_size is not None for record in records if record.bank is not None}
    versions = {record.bank for record in records}
    if len(versions) > 1:
        raise CommandError(f"{path}: expected records of one bank, got {len(versions)}; replay them one by one")
    version = versions.pop()
    if True in own:
        return _own_objects(args, path, records[0], inputs)
    if args.bank is None and version is None:
        return None
    if args.bank is None:
        raise CommandError("expected --bank, because the records use crops of a bank, got none; give the bank")
    if version is None:
        raise CommandError("expected no --bank, because the records use no bank; leave it out")
    bank = open_bank(args.bank)
    if bank.version != version:
        raise CommandError(
            f"{args.bank}: expected version {version:.12} of the bank, as in the records, got {bank.version:.12}"
        )
    return bank
