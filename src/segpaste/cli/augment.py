"""`segpaste augment`: a dataset in, a new dataset in the same form out, with the provenance of every object."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._version import __version__
from segpaste.cli._arguments import (
    LAYOUTS,
    MAX_SEED,
    WRITTEN_TASKS,
    add_backgrounds,
    add_balance,
    add_photos,
    balance_of,
    integer,
)
from segpaste.cli._errors import CommandError
from segpaste.cli._printed import progress
from segpaste.workspace import WholeFiles, Workspace, naming, write_whole

if TYPE_CHECKING:
    from segpaste.augmentation import BatchCopyPasteConfig
    from segpaste.cli._crops import CropSequence
    from segpaste.cli._inputs import Inputs
    from segpaste.cli._pasting import Augmented, Origin, Paster
    from segpaste.cli._show import Tally
    from segpaste.datasets.formats.layouts import WrittenLayout
    from segpaste.viz import Comparison

_EXAMPLE = """\
KEY=VALUE words go over the configuration: placement.scale_range=[0.5,1.5], placement.k_range=[1,5].

The result is built in DIR.partial and gets its name when it is whole. An interrupted run goes on when the same
command is given again; the same seed gives the same bytes. DIR/replay.jsonl has a record of every image, by which
segpaste replay makes it again.

A folder or data YAML of a YOLO dataset, and a folder of Roboflow's COCO export, come out in their own layout: the split
to train on is augmented, the others are copied as they are.

examples:
  segpaste augment data.yaml --out augmented --num 1000
  segpaste augment roboflow_export --out augmented --num 1000 --seed 1
  segpaste augment instances.json --images photos --out augmented --num 1000 --seed 1
  segpaste augment panoptic.json --images photos --panoptic-dir panoptic --out augmented --num 1000
  segpaste augment scenes --out scenes --num 100 placement.layers=2
  segpaste augment scenes --out patches --num 100 --preset vit_patch placement.pad_to_multiple=16
  segpaste augment instances.json --images photos --out augmented --num 1000 --bank objects source.crops_per_target=4
  segpaste augment instances.json --images photos --out augmented --num 1000 --bank objects --balance tempered \\
    --temperature 0.3
  segpaste augment --backgrounds rooms --bank objects --out augmented --num 1000
"""
_DEFAULT_SIZE_PX = 256
_NAMED = (
    *("num", "seed", "batch_size", "size", "format", "gallery", "preset", "balance", "threshold", "temperature"),
    *("split", "task", "layout"),
)
"""The options besides paths that the result depends on."""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Write a new dataset of augmented images, in the form of the one that is given."
    parser = commands.add_parser("augment", help="write an augmented dataset", description=text, example=_EXAMPLE)
    parser.usage = (
        "segpaste augment ANNOTATIONS.json|FOLDER|DATA.yaml|scenes --out DIR --num N [options] [KEY=VALUE ...]"
    )
    add = parser.add_argument
    add(
        "dataset",
        metavar="DATASET",
        nargs="?",
        help="COCO instances or panoptic, a YOLO or Roboflow folder, a data YAML, or scenes",
    )
    add_photos(parser, WRITTEN_TASKS)
    add_backgrounds(parser)
    add("--out", metavar="DIR", type=Path, required=True, help="the new dataset's folder")
    add("--num", metavar="N", type=integer(1), required=True, help="images to make; image i does not depend on N")
    add("--seed", metavar="S", type=integer(0, MAX_SEED), default=0, help="default: 0")
    add("--batch-size", metavar="B", type=integer(2), default=8, help="photos that paste into each other, default: 8")
    add("--size", metavar="PX", type=integer(32, 4096), help=f"side of scenes, default: {_DEFAULT_SIZE_PX}")
    add("--format", choices=("png", "jpg"), default="png", help="of the images, default: png")
    add("--layout", choices=LAYOUTS, help="of the new dataset, default: that of the one that is given, else coco")
    add("--gallery", metavar="G", type=integer(0), default=12, help="images to draw, default: 12")
    add("--preset", metavar="NAME|FILE", help="a recipe of pasting, such as vit_patch, or one saved in YAML or JSON")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON")
    add("--bank", metavar="BANK", help="paste objects of this instance bank, instead of the other photos'")
    add_balance(parser, "how its classes are drawn")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Make the dataset."""
    start = time.perf_counter()
    space = Workspace(Path(os.path.abspath(args.out)), CommandError)
    space.expect_free()
    if args.dataset != "scenes" and args.size is not None:
        raise CommandError("--size: expected it with scenes only, photos keep their size; leave it out")
    from segpaste.cli import _inputs, _layouts, _pasting, _settings, _show

    inputs = _inputs.open_dataset(args, args.seed, args.size or _DEFAULT_SIZE_PX)
    config = _settings.load_config(
        args.config, args.overrides, inputs.schema, args.preset, of_bank=args.bank is not None
    )
    _layouts.expect_masks(inputs, config)
    layout = _layouts.layout_of(args, inputs)
    others = _layouts.other_splits(inputs, layout)
    crops = _crops_of(args, inputs)
    if crops is not None:
        pastes = args.num * config.source.crops_per_target * config.placement.paste_prob
        print(f"expected of {args.bank}, before fitting:\n{crops.expected(pastes)}", flush=True)
    paster = _pasting.Paster(inputs, config, args.seed, args.batch_size, crops)
    tally = _show.Tally()
    with space.claim(_fingerprint(args, inputs, config, crops)), naming(space.folder):
        _make_batches(args, space, paster, layout)
        _assemble(args, space, paster, tally, layout)
        others.write(space.files)
        _layouts.write_data_yaml(space.files, inputs, layout, others)
        space.publish()
    _show.print_summary(tally, paster, time.perf_counter() - start)
    if others.names:
        print(f"copied   {', '.join(others.names)}: {len(others.copies):,} files, as they are")
    print(f"files    {args.out}/: " + ", ".join(sorted(path.name for path in space.out.iterdir())))


def _crops_of(args: argparse.Namespace, inputs: Inputs) -> CropSequence | None:
    """What is pasted instead of the other photos' objects."""
    if args.bank is None:
        if any(value is not None for value in (args.balance, args.threshold, args.temperature)):
            raise CommandError(
                "--balance, --threshold, --temperature: expected --bank, whose classes are balanced; give it"
            )
        return None
    from segpaste.cli import _crops

    return _crops.open_sequence(args.bank, inputs.class_names, args.seed, **balance_of(args))


def _fingerprint(
    args: argparse.Namespace, inputs: Inputs, config: BatchCopyPasteConfig, crops: CropSequence | None
) -> dict[str, Any]:
    """All that the bytes of the result depend on, but for those of the photos, which are not read for it."""
    from segpaste.cli._values import flat

    folders = {"--images": args.images, "--panoptic-dir": args.panoptic_dir, "--backgrounds": args.backgrounds}
    folders |= {} if inputs.found is None else {"folder": inputs.found.path}
    return {
        "segpaste": __version__,
        "dataset": inputs.name,
        "annotations": inputs.digest,
        "bank": crops and crops.bank.version,
        **{name: path and os.path.abspath(path) for name, path in folders.items()},
        **{f"--{name.replace('_', '-')}": getattr(args, name) for name in _NAMED},
        **flat(config.model_dump(mode="json")),
    }


def _make_batches(args: argparse.Namespace, space: Workspace, paster: Paster, layout: WrittenLayout) -> None:
    """One step per batch: write its files, keep its rows."""
    from segpaste.cli import _show

    size = paster.batch_size
    num_batches = -(-args.num // size)
    done = [number for number in range(num_batches) if space.notes.has(number)]
    with progress(args.num, initial=min(args.num, len(done) * size)) as bar:
        for number in sorted(set(range(num_batches)) - set(done)):
            wanted = paster.batch(number)[: args.num - number * size]
            drawn = {a.pick.position: _show.draw(a, paster.inputs) for a in wanted if a.pick.position < args.gallery}
            with WholeFiles() as files:
                if drawn:
                    files.write(space.notes.path(number, "npz"), _show.pictures_npz(drawn))
                found = [_written(args, space.files, files, paster, layout, augmented) for augmented in wanted]
            space.notes.write(number, found)
            bar.update(len(wanted))


def _written(
    args: argparse.Namespace,
    folder: Path,
    files: WholeFiles,
    paster: Paster,
    layout: WrittenLayout,
    augmented: Augmented,
) -> dict[str, Any]:
    """Write one image and all that belongs to it; what the tables and the report need of it."""
    from segpaste.cli import _show

    inputs, pick = paster.inputs, augmented.pick
    name, image_id = inputs.photos.file_name(pick.index), inputs.photos.image_id(pick.index)
    made_of = {"source_image_id": image_id, "source_file_name": name}
    made_of |= {"epoch": pick.key.epoch, "position": pick.position, "seed": pick.key.seed}
    of_crowds = {"pasted": False, "source_image_id": image_id}
    rows = layout.write(
        folder,
        pick.position + 1,
        augmented.after,
        inputs.by_label,
        image_format=args.format,
        write=files.write,
        provenance=[_provenance(origin, pick.key.seed) for origin in augmented.origins],
        crowds=[
            (crowd, {**of_crowds, "source_annotation_id": crowd.annotation_id})
            for crowd in inputs.photos.crowds(pick.index)
        ],
        image_extra={**_federated(inputs, augmented), "segpaste": made_of},
    )
    file_name = rows.image["file_name"]
    return {
        "rows": asdict(rows),
        "shown": _show.describe(augmented, inputs, f"{file_name}: {name}"),
        "record": augmented.record.model_copy(update={"name": file_name}).to_json(),
    }


def _federated(inputs: Inputs, augmented: Augmented) -> dict[str, Any]:
    """The lists of LVIS, true of the augmented image; nothing for a dataset without them."""
    lists = inputs.photos.federated(augmented.pick.index)
    if lists is None:
        return {}
    pasted: set[int] = set()
    along: set[int] = set()
    for label, origin in zip(augmented.after.labels.tolist(), augmented.origins, strict=True):
        if origin.paste is None:
            continue
        pasted.add(label)
        along |= origin.over
        if origin.index is not None and (theirs := inputs.photos.federated(origin.index)) is not None:
            along |= set(theirs.not_exhaustive) - {label}  # unmarked ones may lie on it too
    lists = lists.with_pasted(pasted, along)
    ids = [row["id"] for row in inputs.by_label]
    return {
        "neg_category_ids": [ids[label] for label in lists.negative],
        "not_exhaustive_category_ids": [ids[label] for label in lists.not_exhaustive],
    }


def _provenance(origin: Origin, seed: int) -> dict[str, Any]:
    """Where an object comes from."""
    row: dict[str, Any] = {
        "pasted": origin.paste is not None,
        "source_image_id": origin.image_id,
        "source_annotation_id": origin.annotation_id,
    }
    if (paste := origin.paste) is not None:
        scale = list(zip(paste.scale_num, paste.scale_den, strict=True))
        row |= {} if paste.crop is None else {"source_crop": paste.crop}
        row |= {"scale": [f"{num}/{den}" for num, den in scale], "scale_float": [num / den for num, den in scale]}
        row |= {"translate": list(paste.translate), "hflip": paste.hflip, "layer": paste.layer, "seed": seed}
    return row


def _assemble(args: argparse.Namespace, space: Workspace, paster: Paster, tally: Tally, layout: WrittenLayout) -> None:
    """Tables, records, report and gallery, from what the steps found."""
    from segpaste.cli import _sequence, _show
    from segpaste.datasets.formats.coco_writer import SampleRows, write_tables

    numbers = range(-(-args.num // paster.batch_size))

    def items() -> Iterator[dict[str, Any]]:
        return (item for number in numbers for item in space.notes.read(number))

    for item in items():
        tally.add(item["shown"])
    categories = [
        {key: value for key, value in row.items() if key not in ("instance_count", "image_count")}  # the source's
        for row in paster.inputs.categories
    ]
    info = _info(args, paster, space.files, layout)
    write_tables(space.files, info, categories, lambda: (SampleRows(**item["rows"]) for item in items()), layout.tables)
    lines = (f"{item['record']}\n".encode() for item in items())
    write_whole(space.files / _sequence.RECORDS, lines)
    pictures: dict[int, list[Comparison]] = {}
    for number in numbers:
        if (path := space.notes.path(number, "npz")).exists():
            pictures |= _show.load_pictures(path)
    pages = (_show.report_item(item["shown"], pictures.get(i, ())) for i, item in enumerate(items()))
    _show.write_pages(space.files, pages, tally, f"segpaste augment {paster.inputs.name}")


def _info(args: argparse.Namespace, paster: Paster, files: Path, layout: WrittenLayout) -> dict[str, Any]:
    """The table of that name: what made this dataset. No time and no path, so that equal runs give equal bytes."""
    from segpaste.datasets.formats.coco_writer import LAYOUT

    words = ["segpaste augment", paster.inputs.name]
    words += [f"--{name.replace('_', '-')} {value}" for name in _NAMED if (value := getattr(args, name)) is not None]
    words += [f"{key}={value}" for key, value in args.overrides.items()]
    return {
        "description": f"{paster.inputs.name}, augmented by copy-paste",
        "version": __version__,
        "segpaste": {
            "command": " ".join(words),
            "seed": args.seed,
            "config": paster.config.model_dump(mode="json"),
            "source": {"name": paster.inputs.name, "sha256": paster.inputs.digest},
            **({} if paster.crops is None else {"bank": paster.crops.bank.version}),
            "files": {name: text for name, text in LAYOUT.items() if (files / name).is_dir()},
            **layout.note(),
        },
    }
