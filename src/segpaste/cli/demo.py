"""`segpaste demo`: pasted synthetic scenes, or images of the user's, as pictures; writes no dataset."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste.augmenting.options import MAX_SEED, InputOptions
from segpaste.cli._arguments import integer
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing
from segpaste.workspace import naming

if TYPE_CHECKING:
    from segpaste.augmenting.inputs import Inputs

_EXAMPLE = """\
KEY=VALUE overrides the configuration: placement.scale_range=[0.5,1.5], placement.layers=2.

examples:
  segpaste demo --out demo_out --num 24 --seed 0
  segpaste demo --size 384 placement.layers=3
  segpaste demo --on photos instances.json
  segpaste demo placement.grouping=instance placement.layers=4 --on data.yaml
"""
_NUM_SCENES, _NUM_IMAGES = 24, 12


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Paste objects between synthetic scenes, or between your images, and write a gallery and an HTML report."
    parser = commands.add_parser("demo", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste demo [options] [KEY=VALUE ...] [--on IMAGES ANNOTATIONS | --on DATASET [--images DIR]]"
    add = parser.add_argument
    text = "your images: their folder and an annotation file, in any order, or a dataset; default: rendered scenes"
    add("--on", metavar="PATH", nargs="+", help=text)
    add("--images", metavar="DIR", type=Path, help="folder of the images, if --on names only the annotation file")
    add("--out", metavar="DIR", type=Path, default=Path("demo_out"), help="default: demo_out")
    add(
        "--num",
        metavar="N",
        type=integer(1),
        help=f"images, default: {_NUM_SCENES} scenes, or {_NUM_IMAGES} of your images",
    )
    add("--seed", metavar="S", type=integer(0, MAX_SEED), default=0, help="default: 0")
    add("--size", metavar="PX", type=integer(32, 1024), help="side of a scene, default: 256")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Paste, draw, print; exits with 1 where nothing is pasted."""
    start = time.perf_counter()
    with importing():
        from segpaste.augmenting.checks import expect_masks, expect_region, expect_sources
        from segpaste.augmenting.pasting import open_paster
        from segpaste.augmenting.report import describe, draw, report_item, write_pages
        from segpaste.augmenting.settings import load_config
        from segpaste.augmenting.summary import AugmentSummary
        from segpaste.cli._printed import print_summary, progress

    inputs = _opened(args)
    config = load_config(args.config, args.overrides, inputs.schema, every_image=True, class_names=inputs.class_names)
    expect_masks(inputs, config)
    expect_region(inputs, config)
    paster = open_paster(inputs, config, args.seed, skips_unreadable=True)
    expect_sources(paster)
    num = args.num or (_NUM_SCENES if args.on is None else min(_NUM_IMAGES, len(inputs.photos)))
    summary, items = AugmentSummary(config=config), []
    args.out.mkdir(parents=True, exist_ok=True)
    with progress(num) as bar:
        for position in range(num):
            augmented = paster.image(position)
            described = describe(augmented, inputs, inputs.photos.file_name(augmented.pick.index))
            summary.add(described)
            items.append(report_item(described, draw(augmented, paster)))
            bar.update()
    with naming(args.out):
        paths = write_pages(args.out, items, num, summary, "segpaste demo")
    summary.unreadable |= {str(index): reason for index, reason in paster.unreadable.items()}
    summary.num_made = num
    print_summary(summary, time.perf_counter() - start)
    print("files    " + "\n         ".join(str(path) for path in paths))
    print(f"next     {_next_command(args)}")
    if not summary.has_pastes:
        raise SystemExit("nothing was pasted into any image: see the reasons and settings above")


def _opened(args: argparse.Namespace) -> Inputs:
    """Open the images of ``--on``, or the scenes."""
    from segpaste.augmenting.inputs import open_annotated, open_scenes

    if args.on is None:
        if args.images is not None:
            raise CommandError(f"--images: expected --on IMAGES ANNOTATIONS, got --images {args.images}; add --on")
        return open_scenes(args.seed, args.size or 256)
    if args.size is not None:
        raise CommandError("--size: expected no --on, because those images keep their size; leave one of them out")
    dataset, images = _dataset_and_images(args.on, args.images)
    return open_annotated(InputOptions(dataset=dataset, images_dir=images), args.seed, 256)


def _dataset_and_images(paths: list[str], images_dir: Path | None) -> tuple[str, Path | None]:
    """Return the dataset and the folder of its images, which ``--on`` may name in either order, or ``--images``.

    Raises:
        CommandError: there are more than two paths, or two folders of images.
    """
    if words := [path for path in paths if "=" in path and not Path(path).exists()]:
        raise CommandError(f"--on: expected KEY=VALUE before --on, got {words[0]} after it")
    if len(paths) > 2:
        raise CommandError(f"--on: expected IMAGES ANNOTATIONS, or one dataset, got {len(paths)} paths")
    if len(paths) == 1:
        return paths[0], images_dir
    if images_dir is not None:
        raise CommandError(
            f"--images: expected one path after --on with this option, the annotation file, got {' and '.join(paths)}; "
            "leave one of the folders out"
        )
    images, annotations = paths
    if Path(annotations).is_dir() and Path(images).is_file():
        images, annotations = annotations, images
    return annotations, Path(images)


def _next_command(args: argparse.Namespace) -> str:
    """Return the command that a user runs after this one."""
    import shlex

    if args.on is None:
        return "segpaste demo --on IMAGES ANNOTATIONS, on images of yours"
    dataset, images = _dataset_and_images(args.on, args.images)
    words = ["segpaste", "augment", dataset, *([] if images is None else ["--images", str(images)])]
    return shlex.join([*words, "--out", "augmented", "--num", "1000"])
