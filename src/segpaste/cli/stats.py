"""`segpaste stats`: count the classes of a dataset or bank, and the expected draws of a sampler."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste._reprs import counted
from segpaste.augmenting.options import balance_options
from segpaste.cli._arguments import add_balance, add_split, integer
from segpaste.cli._errors import CommandError
from segpaste.cli._process import importing

if TYPE_CHECKING:
    from segpaste.bank.read.class_draws import DrawReport
    from segpaste.datasets.class_counts import ClassCounts, MapCounts

_SCENE_SIZE_PX = 256
"""Side of the scenes, the same as in `segpaste augment`."""
_EXAMPLE = """\
The same objects are counted that can be pasted: no crowds or ignored objects, and only things of panoptic datasets.
The draws are those of a sampler of a bank with these objects. For a dataset of segpaste augment, original and pasted
objects are counted separately. For semantic maps without objects the pixels of each class are counted.

examples:
  segpaste stats instances.json
  segpaste stats instances.json --balance class_uniform
  segpaste stats augmented --json
  segpaste stats data.yaml --split val
  segpaste stats objects_bank --balance repeat_factor --threshold 0.01
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Count the objects of each class, and the expected draws of a sampler."
    parser = commands.add_parser("stats", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste stats ANNOTATIONS.json|FOLDER|DATA.yaml|scenes|BANK [options]"
    add = parser.add_argument
    add("target", metavar="TARGET", help="a dataset file or folder, or a bank's folder or URL")
    add_split(parser)
    add_balance(parser, "how the sampler balances classes")
    add("--draws", metavar="N", type=integer(1), help="draws of an epoch, default: the number of objects")
    add("--num", metavar="N", type=integer(1, 100_000), help="scenes to count, default: 50")
    add("--seed", metavar="S", type=integer(0), help="seed of scenes, default: 0")
    add(
        "--sort", choices=("objects", "class"), default="objects", help="order of the rows, default: most objects first"
    )
    add("--all", action="store_true", help="also rows of classes without objects")
    add("--json", action="store_true", help="print JSON: all classes, in the order of the dataset")
    add("--images", help=argparse.SUPPRESS)  # an option of other commands, for which `run` has an error
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Count and print."""
    if args.images is not None:
        raise CommandError(
            "--images: expected no folder of images, because stats counts annotations only; leave it out"
        )
    if args.target != "scenes" and (args.num is not None or args.seed is not None):
        raise CommandError("--num, --seed: expected these options only with scenes; leave them out")
    options = balance_options(args.balance, args.threshold, args.temperature)
    mode = options["mode"]
    from segpaste.bank.read.class_draws import class_probabilities, report_draws
    from segpaste.datasets.class_counts import MapCounts

    counts = _count(args, has_photos=mode == "instance_aware")
    if isinstance(counts, MapCounts):
        print(json.dumps(_map_document(counts), indent=2) if args.json else _map_lines(args, counts))
        return
    if not sum(counts.num_objects):
        raise CommandError(f"{args.target}: expected at least one object, got none; check the dataset")
    probabilities = class_probabilities(
        counts.num_objects,
        **options,
        photo_fracs=counts.photo_fracs() if mode == "instance_aware" else None,
    )
    names, num_draws = [printable(name) for name in counts.names], args.draws or sum(counts.num_objects)
    if args.json:
        report = report_draws(names, counts.num_objects, probabilities, num_draws)
        print(json.dumps(_document(options, counts, report), indent=2))
        return
    order = _order(counts.num_objects, args)
    objects = [counts.num_objects[c] for c in order]
    report = report_draws([names[c] for c in order], objects, probabilities[order], num_draws)
    num, of_classes = counted(sum(counts.num_objects), "object"), counted(len(counts.names), "class", "classes")
    print(f"{counts.kind} {args.target}: {num} of {of_classes}", end="")
    print(f" in {counted(counts.num_photos, 'image')}" if counts.num_photos else "")
    if counts.num_pasted is not None:
        print(f"\n{_before_and_after(counts, order)}")
    given = options["threshold"]
    threshold = ", t = the mean frequency" if given is None else f", t = {given:g}"
    shown = {"repeat_factor": threshold, "instance_aware": threshold, "tempered": f" by {options['temperature']:g}"}
    print(f"\ndrawn with {mode}{shown.get(mode, '')}\n{report}")
    print(_left_out(len(names) - len(order)), end="")


def _order(num_objects: Sequence[int], args: argparse.Namespace) -> list[int]:
    """Return the classes of the rows, in their order."""
    shown = [c for c, num in enumerate(num_objects) if num or args.all]
    return sorted(shown, key=lambda c: -num_objects[c]) if args.sort == "objects" else shown


def _left_out(num: int) -> str:
    """Return a line about classes that have no row."""
    return f"\n{num:,} {'class has' if num == 1 else 'classes have'} no objects; --all shows them\n" if num else ""


def _map_lines(args: argparse.Namespace, counts: MapCounts) -> str:
    """Return lines with the share of pixels of each class, without draws, since samplers do not use pixels."""
    names, total = [printable(name) for name in counts.names], max(1, sum(counts.num_pixels))
    order = _order(counts.num_pixels, args)
    width = max([len(name) for name in names] + [5])
    of_classes, of_photos = counted(len(names), "class", "classes"), counted(counts.num_photos, "image")
    lines = [f"dataset {args.target}: semantic maps only, of {of_classes} in {of_photos}\n"]
    lines += [f"{'class':{width}}  {'images':>10}  {'of all pixels':>13}"]
    rows = [*zip(names, counts.num_showing, counts.num_pixels, strict=True)]
    for name, showing, num in [rows[c] for c in order]:
        lines.append(f"{name:{width}}  {showing:10d}  {num / total:13.2%}")
    lines += [*_left_out(len(names) - len(order)).splitlines()]
    return "\n".join([*lines, "\nClassMix (emit_classmix=true) draws half of the classes of an image uniformly"])


def _map_document(counts: MapCounts) -> dict[str, Any]:
    rows = zip(counts.names, counts.num_showing, counts.num_pixels, strict=True)
    return {
        "kind": "semantic maps",
        "photos": counts.num_photos,
        "classes": [{"name": name, "photos": showing, "pixels": num} for name, showing, num in rows],
    }


def _count(args: argparse.Namespace, has_photos: bool) -> ClassCounts | MapCounts:
    """Count a table, a bank or a dataset; only a dataset and scenes need torch."""
    from segpaste.bank.storage.folder import is_url, local_path
    from segpaste.datasets.class_counts import count_annotations

    if is_url(args.target):
        return _count_crops(args.target, has_photos)
    path = Path(local_path(args.target))
    if args.target == "scenes":
        return _count_scenes(args.num or 50, args.seed or 0)
    tables = [path / name for name in ("annotations.json", "panoptic.json") if (path / name).is_file()]
    if tables and args.split is None:
        return count_annotations(tables[0])
    given = [
        name for name, value in (("split", args.split), ("task", args.task), ("from", args.from_)) if value is not None
    ]
    if not path.exists():
        raise CommandError(f"{path}: expected a dataset or a bank, found neither file nor folder; check the path")
    is_bank = (path / "meta.json").is_file()
    is_table = path.is_file() and path.suffix == ".json" and args.from_ is None
    if not (is_bank or is_table) and (counts := _count_dataset(path, args)) is not None:
        return counts
    if given:
        raise CommandError(f"--{given[0]}: expected this option with a dataset, got {path}; leave it out")
    if path.is_file():
        return count_annotations(path)
    if not is_bank:
        raise CommandError(
            f"{path}: expected a dataset with annotations.json or a bank with meta.json, found neither; check the path"
        )
    return _count_crops(path, has_photos)


def _count_scenes(num: int, seed: int) -> ClassCounts | MapCounts:
    with importing():
        from segpaste.datasets import SceneConfig, SceneDataset
        from segpaste.datasets.dataset_counts import count_classes
        from segpaste.types import Modality

    config = SceneConfig(height=_SCENE_SIZE_PX, width=_SCENE_SIZE_PX)
    return count_classes(SceneDataset(num, config, seed, modalities=(Modality.INSTANCE,)))


def _count_dataset(path: Path, args: argparse.Namespace) -> ClassCounts | MapCounts | None:
    """Count a dataset of any format; return None if no format knows it."""
    with importing():
        from segpaste.datasets import find_dataset
        from segpaste.datasets.dataset_counts import count_classes
        from segpaste.datasets.formats.format import ReadOptions
        from segpaste.datasets.formats.registry import found_at

    if found_at(path, args.from_) is None:
        return None
    return count_classes(find_dataset(path, args.from_).open(args.split, ReadOptions(task=args.task)))


def _count_crops(where: str | Path, has_photos: bool) -> ClassCounts:
    from segpaste.bank import open_bank
    from segpaste.bank.read.class_draws import count_crops

    with open_bank(where) as bank:
        return count_crops(bank, images=has_photos)


def _before_and_after(counts: ClassCounts, order: Sequence[int]) -> str:
    """Return lines with the numbers of original and pasted objects, of these classes."""
    assert counts.num_pasted is not None
    names = [printable(name) for name in counts.names]
    width = max([len(names[c]) for c in order] + [5])
    before = [num - pasted for num, pasted in zip(counts.num_objects, counts.num_pasted, strict=True)]
    lines = [f"{'class':{width}}  {'own':>10}  {'share':>7}  {'pasted':>10}  {'all':>10}  {'share':>7}"]
    total, own = sum(counts.num_objects), max(sum(before), 1)
    rows = [*zip(names, counts.num_objects, counts.num_pasted, before, strict=True)]
    for name, num, pasted, kept in [rows[c] for c in order]:
        lines.append(f"{name:{width}}  {kept:10d}  {kept / own:7.2%}  {pasted:10d}  {num:10d}  {num / total:7.2%}")
    return "\n".join(lines)


def _document(options: dict[str, Any], counts: ClassCounts, report: DrawReport) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "name": counts.names,
        "objects": counts.num_objects,
        "photos": counts.num_showing,
        "pasted": counts.num_pasted,
        "expected_draws": report.expected_draws,
        "factor": report.factors,
    }
    kept = {key: values for key, values in columns.items() if values is not None}
    return {
        "kind": counts.kind,
        "photos": counts.num_photos or None,
        **options,
        "classes": [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)],
    }
