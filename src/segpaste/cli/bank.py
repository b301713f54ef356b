"""`segpaste bank`: build, describe, check and draw a bank of objects, and embed its crops."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segpaste.augmenting.options import MAX_SEED
from segpaste.cli import _bank_embed
from segpaste.cli._arguments import BANK_FORMATS, add_depth_fill, add_split, integer, number

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
    _bank_embed.add_to(own)


def _add(commands: Any, name: str, short: str, text: str, example: str) -> Any:
    """Add a subcommand that takes an existing bank."""
    parser = commands.add_parser(name, help=short, description=text, example=example)
    parser.add_argument("bank", metavar="BANK", help="a bank's folder or URL")
    parser.set_defaults(run=_run("_bank_gallery" if name == "gallery" else "_bank_show", name))
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
    parser.set_defaults(run=_run("_bank_build", "run"))


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


def _run(module: str, function: str) -> Callable[[argparse.Namespace], None]:
    """Return a function that imports a module and calls its function when the command runs."""

    def run(args: argparse.Namespace) -> None:
        from importlib import import_module

        getattr(import_module(f"segpaste.cli.{module}"), function)(args)

    return run


def _crop_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected pixels such as 256, or 256x192 for height and width, got {text!r}")
    return int(match[1]), int(match[2] or match[1])
