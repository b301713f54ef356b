"""`segpaste bank`: build, describe, check and draw a bank of objects, and embed its crops."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._printable import class_lines, printable
from segpaste._reprs import counted
from segpaste.augmenting.options import MAX_SEED
from segpaste.cli._arguments import BANK_FORMATS, add_depth_fill, add_progress, add_split, integer, number
from segpaste.cli._errors import CommandError
from segpaste.cli._printed import progress
from segpaste.cli._process import importing
from segpaste.workspace import naming

if TYPE_CHECKING:
    from segpaste.bank import BuildSummary

_EXAMPLE = """\
examples:
  segpaste bank build instances.json --images photos --out objects
  segpaste bank info objects
  segpaste bank verify objects
  segpaste bank gallery objects --out objects.html
  segpaste bank embed objects --out embedded
  segpaste bank dedupe embedded --out unique
"""
_BUILD_EXAMPLE = """\
Objects are cut out with a margin, shrunk if they are larger than the crop, and stored by ascending image and annotation
id. The same dataset and options give the same bytes, with any number of workers and on either engine. The same command
resumes an interrupted build, whose finished parts are in BANK.parts. If a folder has splits, the training split is
used; --split selects another one.

Several datasets and a folder of cut-outs are joined: classes are merged by name after --class-map, and crops are in the
order of the datasets.

examples:
  segpaste bank build instances.json --images photos --out objects --workers 8
  segpaste bank build data.yaml --out objects
  segpaste bank build panoptic.json --images photos --panoptic-dir panoptic --out objects --format lmdb
  segpaste bank build instances.json --images photos --out s3://bucket/objects --format webdataset
  segpaste bank build scenes --num 100 --out objects --crop-size 128 --min-area 256
  segpaste bank build a.json b.json --images photos_a --images photos_b --class-map classes.yaml --out objects
  segpaste bank build --cutouts renders --size-prior sizes.yaml --out objects
"""
_INFO_EXAMPLE = """\
examples:
  segpaste bank info objects
  segpaste bank info objects --json
"""
_VERIFY_EXAMPLE = """\
example:
  segpaste bank verify objects
"""
_GALLERY_EXAMPLE = """\
examples:
  segpaste bank gallery objects --out objects.html
  segpaste bank gallery objects --out objects.png --per-class 4
"""
_EMBED_EXAMPLE = """\
EMBEDDER is statistics (colours, edges and outline; needs no weights), torchvision:NAME, timm:NAME or open_clip:NAME.
Nothing is downloaded: --weights is a file of torch.save or safetensors. timm and open_clip are installed separately:
pip install 'timm>=1.0.3' 'open_clip_torch>=2.24'
With --codes an encoder of segpaste train converts the bank's embeddings to codes of -1 and 1. The similarity of two
codes of K attributes, d of which differ, is 1 - 2 d / K.

examples:
  segpaste bank embed objects --out embedded
  segpaste bank embed objects --out embedded --embedder torchvision:resnet50 --weights resnet50.pth
  segpaste bank embed embedded --out coded --codes runs/encoder
"""
_DEDUPE_EXAMPLE = """\
Only the first of several crops of one class is kept if they are at least this similar. The bank must have embeddings.

example:
  segpaste bank dedupe embedded --out unique --threshold 0.99
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its subcommands to the parser, with a summary of a few words."""
    text = "Build, describe, check and draw a bank, a file format of objects to paste."
    parser = commands.add_parser("bank", help=summary, description=text, example=_EXAMPLE)
    own = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="bank_command")
    _add_build(own)
    info = _add(own, "info", "describe a bank", "Print the contents of a bank by class.", _INFO_EXAMPLE)
    info.add_argument("--json", action="store_true", help="print JSON")
    _add(own, "verify", "check a bank", "Read every byte of a bank and compare its digests.", _VERIFY_EXAMPLE)
    gallery = _add(own, "gallery", "draw a bank", "Draw some crops of every class on one page.", _GALLERY_EXAMPLE)
    text = "FILE.html, FILE.png, or a folder for gallery.html"
    gallery.add_argument("--out", metavar="FILE", type=Path, required=True, help=text)
    gallery.add_argument("--per-class", metavar="N", type=integer(1, 1000), default=8, help="default: 8")
    _add_embed(own)


def _add(commands: Any, name: str, short: str, text: str, example: str) -> Any:
    """Add a subcommand that takes an existing bank."""
    parser = commands.add_parser(name, help=short, description=text, example=example)
    parser.add_argument("bank", metavar="BANK", help="a bank's folder or URL")
    parser.set_defaults(run={"info": info, "verify": verify, "gallery": gallery}[name])
    return parser


def _add_build(commands: Any) -> None:
    text = "Cut out all objects of a dataset and write them as a bank."
    parser = commands.add_parser("build", help="build a bank", description=text, example=_BUILD_EXAMPLE)
    parser.usage = "segpaste bank build [ANNOTATIONS.json|FOLDER|DATA.yaml|scenes ...] --out BANK [options]"
    add = parser.add_argument
    text = "a folder or file of any format that segpaste reads (docs/guide/formats.md), with masks, or scenes"
    add("datasets", metavar="DATASET", nargs="*", help=text)
    text = "folder of the images; once for each annotation file, or once for all"
    add("--images", metavar="DIR", type=Path, action="append", help=text)
    text = "folder of the panoptic PNG files, once per dataset, default: the folder named like the JSON file"
    add("--panoptic-dir", metavar="DIR", type=Path, action="append", help=text)
    add_split(parser)
    add("--class-map", metavar="FILE", type=Path, help="YAML or JSON, NAME: NEW NAME, or NAME: null to drop a class")
    _add_cutouts(parser)
    add("--out", metavar="BANK", required=True, help="the bank's folder, or a URL for --format webdataset")
    add("--format", choices=BANK_FORMATS, default="memmap", help="default: memmap")
    add("--crop-size", metavar="PX|HxW", type=_crop_size, default=(256, 256), help="default: 256")
    text = "size to which your loader resizes images: objects shrink with their image, default: they keep their size"
    add("--fit-into", metavar="PX|HxW", type=_crop_size, help=text)
    add_depth_fill(parser)
    add("--margin", metavar="F", type=number(10), help="of an object's longer side, on each side, default: 0.0625")
    add("--min-area", metavar="PX", type=integer(1), default=64, help="smallest mask in pixels, default: 64")
    add("--min-fill", metavar="F", type=number(1), default=0.0, help="lowest ratio of mask to box area, default: 0")
    add("--min-part", metavar="F", type=number(1), help="smallest part of a mask, as a fraction, default: 0.02")
    add("--whole-only", action="store_true", help="leave out objects that touch the border of their image")
    add(
        "--workers",
        metavar="N",
        type=integer(0),
        default=1,
        help="processes that cut crops; 0 and 1: this one, default: 1",
    )
    add("--engine", choices=("local", "ray"), default="local", help="engine of the workers, default: local")
    add("--work-dir", metavar="DIR", help="folder of unfinished parts, default: BANK.parts")
    add("--num", metavar="N", type=integer(1), help="number of scenes, default: 100")
    add("--size", metavar="PX", type=integer(32, 4096), help="side of scenes, default: 256")
    add("--seed", metavar="S", type=integer(0, MAX_SEED), help="seed of scenes, default: 0")
    parser.set_defaults(run=build)


def _add_cutouts(parser: Any) -> None:
    add = parser.add_argument
    add("--cutouts", metavar="FOLDER", type=Path, help="images with transparency, FOLDER/CLASS/NAME.png")
    text = "lowest alpha of the object, default: 0.5"
    add("--alpha-threshold", metavar="A", type=number(1, above_zero=True), help=text)
    text = "YAML or JSON, CLASS: SIZE or [LOW, HIGH], as a fraction of the image's side"
    add("--size-prior", metavar="FILE", type=Path, help=text)
    add("--sizes-from", metavar="FILE", type=Path, help="COCO or LVIS JSON whose objects give the sizes of classes")
    text = "side of the images that sizes are relative to, default: 640, or the median of --sizes-from"
    add("--image-size", metavar="PX|HxW", type=_crop_size, help=text)
    add(
        "--skip-unreadable",
        action="store_true",
        help="leave out images and cut-outs that cannot be read, and count them",
    )


def _add_embed(commands: Any) -> None:
    """Add ``embed`` and ``dedupe``."""
    text = "Write a bank with the same crops and an embedding for each."
    parser = commands.add_parser("embed", help="add embeddings", description=text, example=_EMBED_EXAMPLE)
    _add_paths(parser)
    parser.add_argument("--embedder", metavar="EMBEDDER", help="default: statistics")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="file of a model's parameters")
    parser.add_argument("--batch-size", metavar="B", type=integer(1), default=64, help="crops per batch, default: 64")
    parser.add_argument("--device", metavar="DEVICE", help="device of a model, default: cpu")
    parser.add_argument("--codes", metavar="RUN", type=Path, help="a folder of segpaste train, or a checkpoint in it")
    add_progress(parser)
    parser.set_defaults(run=embed)
    text = "Write a bank without near-duplicates, crops that are very similar to another one of their class."
    parser = commands.add_parser("dedupe", help="leave out near-duplicates", description=text, example=_DEDUPE_EXAMPLE)
    _add_paths(parser)
    similarity = number(1, above_zero=True)
    parser.add_argument("--threshold", metavar="T", type=similarity, default=0.98, help="similarity, default: 0.98")
    add_progress(parser)
    parser.set_defaults(run=dedupe)


def _add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bank", metavar="BANK", help="a bank's folder or URL")
    text = "the new bank's folder, or a URL for --format webdataset"
    parser.add_argument("--out", metavar="NEW", required=True, help=text)
    parser.add_argument("--format", choices=BANK_FORMATS, help="format of the new bank, default: the same")


def build(args: argparse.Namespace) -> None:
    """Build the bank, and print what became of the annotations."""
    with importing():
        from segpaste.bank import Selection, build_bank
        from segpaste.bank.building.cropping import DEFAULT_MARGIN_FRAC
        from segpaste.cli._bank_sources import open_sources

    start = time.perf_counter()
    of_scenes = {"--num": args.num, "--size": args.size, "--seed": args.seed}
    if "scenes" not in args.datasets and (given := [name for name, value in of_scenes.items() if value is not None]):
        raise CommandError(f"{given[0]}: expected this option with scenes only; leave it out")
    sources = open_sources(args)
    inputs = sources.joined
    min_part = {} if args.min_part is None else {"min_part_frac": args.min_part}
    summary = build_bank(
        inputs.photos,
        args.out,
        class_names=inputs.class_names,
        format=args.format,
        crop_size=args.crop_size,
        fit_into=args.fit_into,
        margin_frac=DEFAULT_MARGIN_FRAC if args.margin is None else args.margin,
        selection=Selection(args.min_area, args.min_fill, args.whole_only, **min_part),
        depth_fill=args.depth_fill,
        workers=max(1, args.workers),
        engine=args.engine,
        built_from={"dataset": inputs.name, "annotations_sha256": inputs.digest, **sources.said},
        fingerprint=sources.folders,
        work_dir=args.work_dir,
        skip_unreadable=args.skip_unreadable,
    )
    print("\n".join(build_lines(summary, inputs.class_names, args.min_area)))
    seconds = time.perf_counter() - start
    print(f"time     {seconds:.1f} s, {summary.num_crops / seconds:,.0f} crops/s")


def build_lines(summary: BuildSummary, class_names: list[str], min_area: int) -> Iterator[str]:
    """Yield the printed lines about a build."""
    from segpaste.bank.building.parts import REASONS

    yield f"bank     {summary.where}"
    yield f"kept     {counted(summary.num_crops, 'crop')} from {counted(summary.num_photos, 'image')}"
    kept = [(name, num) for name, num in zip(class_names, summary.kept, strict=True) if num]
    yield from class_lines(kept, 32, 10)
    if num_none := len(class_names) - len(kept):
        yield f"absent   {num_none} {'class has' if num_none == 1 else 'classes have'} no crop"
    if num := summary.num_trimmed:
        yield f"trimmed  {num:,} {'crop' if num == 1 else 'crops'}, whose stray parts were cut off"
    yield f"skipped  {sum(summary.skipped.values()):,}"
    texts = {**REASONS, "small": f"smaller than --min-area {min_area}"}
    for reason, num in summary.skipped.items():
        if num:
            yield f"  {texts[reason]:<32} {num:>10,}"


def info(args: argparse.Namespace) -> None:
    """Print the contents of a bank."""
    from segpaste.bank import open_bank

    with open_bank(args.bank) as bank:
        facts = bank.facts()
    if args.json:
        print(json.dumps(facts, indent=2))
        return
    h, w = facts["crop_size"]
    print(f"bank     {facts['where']}")
    print(f"format   {facts['format']}, version {facts['format_version']}, by segpaste {facts['segpaste_version']}")
    print(f"version  {facts['version']}")
    print(f"crops    {facts['num_crops']:,} of {h} x {w} pixels, {facts['num_bytes']:,} bytes in total")
    print(f"columns  {', '.join(facts['columns'])}" + (", depth in metres" if facts["metric_depth"] else ""))
    for name, size in facts["files"].items():
        print(f"  {name:<32} {size:>14,} bytes")
    print(f"classes  {len(facts['classes'])}")
    for row in facts["classes"]:
        share = row["crops"] / max(1, facts["num_crops"])
        print(f"  {row['class_id']:>5} {printable(row['name']):<26} {row['crops']:>14,} {share:>8.2%}")


def verify(args: argparse.Namespace) -> None:
    """Compare every file with its size and digest in the bank's meta."""
    from segpaste.bank import open_bank
    from segpaste.bank.schema.meta import META

    with open_bank(args.bank) as bank:
        bank.verify()
        num_bytes = sum(entry.size for entry in bank.meta.files.values())
        print(
            f"sound    {bank.where}: {META} matches its hash; {counted(len(bank.meta.files), 'file')} with "
            f"{counted(num_bytes, 'byte')} and {counted(len(bank), 'crop')} as recorded, in size and SHA-256"
        )


def gallery(args: argparse.Namespace) -> None:
    """Draw crops of every class."""
    with importing():
        from segpaste.bank import open_bank
        from segpaste.viz import write_bank_gallery

    with open_bank(args.bank) as bank:
        print(f"file     {write_bank_gallery(bank, args.out, args.per_class)}")


def embed(args: argparse.Namespace) -> None:
    """Write a bank with embeddings; with ``--codes``, one with codes instead of embeddings."""
    given = {"--embedder": args.embedder, "--weights": args.weights, "--device": args.device}
    not_used = [name for name, value in given.items() if value is not None]
    if args.codes is not None and not_used:
        raise CommandError(
            f"{not_used[0]}: expected no --codes, which uses the bank's own embeddings; leave one of them out"
        )
    from segpaste.bank import embed_bank, open_bank
    from segpaste.encoder import encode_bank, load_encoder

    trained = None if args.codes is None else load_encoder(args.codes)
    with open_bank(args.bank) as bank, naming(args.out), progress(len(bank), "crop") as bar:
        options: dict[str, Any] = {"batch_size": args.batch_size, "format": args.format, "announce": bar.update}
        if trained is not None:
            encode_bank(bank, args.out, trained.encoder, embedder=trained.embedder, **options)
            made = f"codes of {trained.encoder.num_attributes} attributes, by {args.codes}"
        else:
            embedder = args.embedder or "statistics"
            embed_bank(bank, args.out, embedder, weights=args.weights, device=args.device or "cpu", **options)
            made = f"embeddings of {embedder}"
        print(f"{args.out}: {counted(len(bank), 'crop')} with {made}")


def dedupe(args: argparse.Namespace) -> None:
    """Write a bank without near-duplicates, and print how many each class had."""
    import numpy as np

    from segpaste.bank import copy_crops, near_duplicates, open_bank

    with open_bank(args.bank) as bank, naming(args.out):
        left_out = near_duplicates(bank, args.threshold)
        kept = np.setdiff1d(np.arange(len(bank)), left_out)
        with progress(len(kept), "crop") as bar:
            copy_crops(bank, args.out, kept, format=args.format, announce=bar.update)
        num_of = np.bincount(bank.crop_class_ids()[left_out], minlength=len(bank.class_names))
        print(
            f"{args.out}: {len(kept):,} of {counted(len(bank), 'crop')}, "
            f"{counted(len(left_out), 'near-duplicate')} left out"
        )
        for name, num in zip(bank.class_names, num_of.tolist(), strict=True):
            if num:
                print(f"  {printable(name)}: {num:,}")


def _crop_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected pixels such as 256, or 256x192 for height and width, got {text!r}")
    return int(match[1]), int(match[2] or match[1])
