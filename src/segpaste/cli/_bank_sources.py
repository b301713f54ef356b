"""Datasets and cut-outs of `segpaste bank build`, opened and joined."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.augmenting.checks import expect_objects, unreadable_photos
from segpaste.augmenting.inputs import Inputs, join_inputs, of_cutouts, open_dataset
from segpaste.augmenting.options import InputOptions
from segpaste.cli._arguments import options_of
from segpaste.cli._errors import CommandError
from segpaste.datasets import CutOuts, learned_sizes, read_class_map, read_size_prior
from segpaste.datasets.formats.registry import found_at

_FOLDERS = ("images", "panoptic_dir")


@dataclass(frozen=True, slots=True)
class BankSources:
    """Datasets and cut-outs that a bank is built from.

    Attributes:
        joined: all of them as one dataset.
        said: facts about the parts, for the bank's meta; empty for one dataset.
        folders: absolute folders of the files, by option.
    """

    joined: Inputs
    said: Mapping[str, Any]
    folders: Mapping[str, Any]


def open_sources(args: argparse.Namespace) -> BankSources:
    """Open all named datasets and cut-outs and join them; one dataset without a class map is not wrapped.

    Raises:
        CommandError: options do not fit together, or a dataset has boxes only.
        DatasetError: a dataset is missing or broken, or the class map names no class.
    """
    of_cutouts = ("alpha_threshold", "size_prior", "sizes_from", "image_size")
    if args.cutouts is None and (given := [name for name in of_cutouts if getattr(args, name)]):
        raise CommandError(f"--{given[0].replace('_', '-')}: expected this option with --cutouts only; leave it out")
    if not args.datasets and args.cutouts is None:
        raise CommandError("expected a dataset, or --cutouts FOLDER, got neither; see segpaste bank build --help")
    if len(args.datasets) == 1:  # the last of a repeated option counts
        args = argparse.Namespace(**{**vars(args), **{n: (getattr(args, n) or [])[-1:] for n in _FOLDERS}})
    opened = [_open_one(args, one) for one in _each(args)]
    parts = opened if args.cutouts is None else [*opened, _open_cutouts(args)]
    folders = {
        "--images": _absolute(args.images),
        "--panoptic-dir": _absolute(args.panoptic_dir),
        "--cutouts": args.cutouts and os.path.abspath(args.cutouts),
    }
    if found := [str(part.found.path) for part in parts if part.found is not None]:
        folders["folder"] = _absolute(found)
    if len(parts) == 1 and args.class_map is None:
        return BankSources(parts[0], {}, folders)
    class_map = None if args.class_map is None else read_class_map(args.class_map)
    if isinstance(class_map, list) and len(class_map) != len(parts):
        raise CommandError(
            f"{args.class_map}: expected {len(parts)} class maps, one for each dataset, got {len(class_map)}"
        )
    return BankSources(*join_inputs(parts, class_map), folders)


def _absolute(paths: Sequence[str | Path] | None) -> Any:
    """Return the absolute path of one path, a list for several, None for none."""
    found = [os.path.abspath(path) for path in paths or ()]
    return found[0] if len(found) == 1 else found or None


def _each(args: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yield the arguments of each dataset: its own folders, or the folder for all."""
    is_only = len(args.datasets) == 1  # its wrong options are reported when it is opened
    files = [dataset for dataset in args.datasets if is_only or _takes_images(args, dataset)]
    own: dict[str, Iterator[Path]] = {}
    for name in _FOLDERS:
        paths = getattr(args, name) or []
        if len(paths) > 1 and len(paths) != len(files):
            raise CommandError(
                f"--{name.replace('_', '-')}: expected this option once, or once for each of {len(files)} annotation "
                f"files, got it {len(paths)} times"
            )
        own[name] = iter(paths * len(files) if len(paths) == 1 else paths)
    for dataset in args.datasets:
        values = {name: next(paths, None) if dataset in files else None for name, paths in own.items()}
        has_splits = is_only or (dataset != "scenes" and dataset not in files)
        splits = {} if has_splits else {"split": None, "task": None}
        if dataset == "scenes" and not is_only:
            splits["from_"] = None
        yield argparse.Namespace(**{**vars(args), "dataset": dataset, **values, **splits})


def _takes_images(args: argparse.Namespace, dataset: str) -> bool:
    """Return whether a dataset takes ``--images``; True for an unknown format, which `open_dataset` reports."""
    found = None if dataset == "scenes" else found_at(Path(dataset), args.from_)
    return dataset != "scenes" and (found is None or "images_dir" in found.format.takes)


def _open_one(args: argparse.Namespace, one: argparse.Namespace) -> Inputs:
    inputs = open_dataset(options_of(InputOptions, one), args.seed or 0, args.size or 256, args.num or 100)
    expect_objects(inputs)
    unreadable_photos(inputs, args.skip_unreadable, print)
    return inputs


def _open_cutouts(args: argparse.Namespace) -> Inputs:
    if args.size_prior is not None and args.sizes_from is not None:
        raise CommandError("--size-prior, --sizes-from: expected one of them, got both; leave one out")
    if args.image_size is not None and args.size_prior is None and args.sizes_from is None:
        raise CommandError("--image-size: expected this option with --size-prior or --sizes-from; leave it out")
    options: dict[str, Any] = {}
    if args.size_prior is not None:
        options = {"sizes": read_size_prior(args.size_prior)}
    elif args.sizes_from is not None:
        options = dict(zip(("sizes", "image_size"), learned_sizes(args.sizes_from), strict=True))
    if args.image_size is not None:
        options["image_size"] = args.image_size
    if args.alpha_threshold is not None:
        options["alpha_threshold"] = args.alpha_threshold
    return of_cutouts(CutOuts(args.cutouts, **options, skip_unreadable=args.skip_unreadable))
