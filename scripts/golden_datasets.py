#!/usr/bin/env python3
"""Record what datasets, commands and adapters give, or check that they still give the same.

    python scripts/golden_datasets.py --check                  # tests/golden/datasets.json
    python scripts/golden_datasets.py --check --only "read"    # records whose name begins so
    python scripts/golden_datasets.py --write                  # after a change of meaning that is wanted

A record has a name and digests by name. Records of the sets of ``SEGPASTE_TEST_DATA`` are computed only where they are;
elsewhere they are no difference. Digests do not depend on the folder, the version, the compression of a PNG, or what
takes time; those of a tree name each file. An error is recorded as its type and the files that it names, and the step
at which it comes: when a dataset is opened, or when a sample is read. What a person reads is not recorded, but for
``--help``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from golden_digests import Digests, Record, digest_of, error_of, tree, values_of
from golden_runs import kept, resumed
from golden_targets import targets
from PIL import Image

from segpaste import cli
from segpaste.datasets import DatasetError, convert_dataset, find_dataset, open_dataset

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "datasets")]  # for the writers of small datasets

FILE = ROOT / "tests" / "golden" / "datasets.json"
WRITTEN = (("coco", None), ("roboflow", None), ("lvis", None), ("yolo", None), ("yolo", "detect"))
WRITTEN += (("voc", None), ("label-maps", None), ("coco-panoptic", None))
OF_PYTHON = f"of Python {sys.version_info.major}.{sys.version_info.minor}"
MOST_IMAGES = 6
"""Images of a shared set that are read, spread over it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; 0 if nothing differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("--write", "--check"):
        what.add_argument(name, type=Path, nargs="?", const=FILE, metavar="FILE", help=f"default: {FILE.name}")
    parser.add_argument("--only", default="", metavar="START", help="records whose name begins so")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    start, different = time.monotonic(), list[str]()
    if options.write is not None:
        records = dict(written_records(options.only))
        options.write.write_text(as_text(records), encoding="utf-8")
    else:
        records = read_records(options.check)
        different = list(differences(records, options.only))
        print(*different, sep="\n", end="\n" if different else "")
    print(f"{len(records)} records, {len(different)} differences, {time.monotonic() - start:.0f} s")
    return 1 if different else 0


def read_records(path: Path) -> dict[str, Digests]:
    """Read the records of a file."""
    records: dict[str, Digests] = json.loads(path.read_text(encoding="utf-8"))
    return records


def as_text(records: Mapping[str, Digests]) -> str:
    """Return the JSON of a file, one record on each line."""
    lines = (f"{json.dumps(name)}:{json.dumps(found, separators=(',', ':'))}" for name, found in records.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(records: Mapping[str, Digests], only: str = "") -> Iterator[str]:
    """Compute records again and yield a line for each digest that differs, and each record that is not computed."""
    left = {name for name in records if name.startswith(only)}
    for name, found in written_records(only):
        left.discard(name)
        expected = records.get(name, {})
        for part in sorted({*found, *expected}):
            if found.get(part) != expected.get(part):
                yield f"{name}: {part}: {expected.get(part)} became {found.get(part)}"
    left -= {name for name in left if name.startswith("help ") and not name.endswith(OF_PYTHON)}
    if "SEGPASTE_TEST_DATA" not in os.environ:
        left -= {name for name in left if name.startswith("read shared ")}
    yield from (f"{name}: not computed" for name in sorted(left))


def written_records(only: str = "") -> Iterator[Record]:
    """Compute the records whose names begin with ``only``."""
    parts: dict[str, Callable[[Path], Iterator[Record]]] = {
        "read": read_sets,
        "convert": converted,
        "error": errors,
        "command": commands,
        "bank": banks,
        "target": targets,
        "help": helps,
        "resumed": resumed,
        "kept": kept,
    }
    for name, part in parts.items():
        if name.startswith(only) or only.startswith(name):
            with tempfile.TemporaryDirectory() as folder, quiet():
                yield from (found for found in part(Path(folder).resolve()) if found[0].startswith(only))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Print and warn of nothing."""
    said = io.StringIO()
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        yield


# Datasets


def fixtures(scratch: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Write small datasets of every format; yield name, path and options."""
    import drawn_files
    import health_files
    from conversion_world import write_instances

    import map_files
    from yolo_files import write_roboflow, write_yolo

    for name in health_files.FORMATS:
        root = scratch / name.replace(" ", "-")
        images = health_files.write(root, name)
        given = next((path for path in (images, root) if _is_dataset(path)), root)
        yield name, given, {}
    images, file = write_instances(scratch / "instances")
    yield "instances", file, {"images_dir": images}
    yield "yolo split", write_yolo(scratch / "yolo-split"), {}
    write_roboflow(scratch / "roboflow")
    yield "roboflow", scratch / "roboflow", {}
    yield "labelme drawn", drawn_files.write_labelme(scratch / "labelme-drawn"), {"task": "segment"}
    yield "cvat drawn", drawn_files.write_cvat(scratch / "cvat-drawn"), {"task": "segment"}
    yield "label-studio drawn", drawn_files.write_label_studio(scratch / "ls-drawn"), {"task": "segment"}
    yield "voc drawn", drawn_files.write_voc(scratch / "voc-drawn"), {}
    yield from _with_points_and_corners(scratch)
    for ending in ("instanceIds.png", "labelIds.png", "labelTrainIds.png"):
        root = map_files.write_cityscapes(scratch / ending, ending, disparity=ending.startswith("instance"))
        yield f"cityscapes {ending}", root, {}


def _with_points_and_corners(scratch: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Write datasets with keypoints and with oriented boxes."""
    import health_files

    from yolo_files import write_yolo

    root = scratch / "keypoints"
    health_files.write(root, "coco")
    file = root / "annotations" / "instances_train.json"
    tables = json.loads(file.read_text())
    tables["categories"][0] |= {"keypoints": ["left_rim", "right_rim", "handle"], "skeleton": [[1, 2]]}
    for number, row in enumerate(tables["annotations"]):
        row |= {"keypoints": [21, 11, 2, 38.5, 12.25, 1 + number % 2, 0, 0, 0], "num_keypoints": 2}
    file.write_text(json.dumps(tables))
    yield "keypoints", root, {}
    pose = "1 0.2 0.4 0.2 0.4 0.15 0.3 2 0.25 0.5 1 0 0 0"
    labels = {"a": f"{pose}\n{pose.replace('1 0.2', '2 0.7', 1)}\n", "b": f"{pose}\n", "c": None}
    yield "yolo pose", write_yolo(scratch / "pose", labels, kpt_shape=[3, 3], flip_idx=[1, 0, 2]), {"task": "pose"}
    turned = "1 0.3 0.2 0.5 0.4 0.4 0.6 0.2 0.4"
    labels = {"a": f"{turned}\n2 0.6 0.1 0.9 0.1 0.9 0.3 0.6 0.3\n", "b": f"{turned}\n", "c": ""}
    yield "yolo obb", write_yolo(scratch / "obb", labels), {}


def _is_dataset(path: Path) -> bool:
    with contextlib.suppress(DatasetError):
        return bool(find_dataset(path))
    return False


def shared_sets() -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the sets of real data."""
    if (data := os.environ.get("SEGPASTE_TEST_DATA")) is None:
        return
    root = Path(data)
    yield "shared fruits_nuts", root / "fruits_nuts/trainval.json", {"images_dir": root / "fruits_nuts/images"}
    for split in ("train2017", "val2017"):
        yield (
            f"shared {split}",
            root / f"tiny_coco/annotations/instances_{split}.json",
            {"images_dir": root / "tiny_coco" / split},
        )
    for path in sorted((*root.iterdir(), *root.glob("*/*"))):
        if path.is_dir() and _is_dataset(path):
            yield f"shared {path.relative_to(root)}", path, {}


def read_sets(scratch: Path) -> Iterator[Record]:
    """Record samples, rows, crowds and what is left out, of every split."""
    for name, path, options in (*fixtures(scratch), *shared_sets()):
        try:
            splits = [split or None for split in find_dataset(path).splits] or [None]
        except DatasetError as error:
            yield f"read {name}", error_of(error, (scratch, path))
            continue
        for split in splits:
            yield f"read {name} {split}", _guarded(_facts_of, (scratch, path), path, split, options)


def _guarded(function: Callable[..., Digests], places: Sequence[Path], *given: Any) -> Digests:
    try:
        return function(*given)
    except (DatasetError, OSError, ValueError) as error:
        return error_of(error, places)


def _facts_of(path: Path, split: str | None, options: Mapping[str, Any]) -> Digests:
    """Return digests of all that a split gives."""
    found = open_dataset(path, split, **options)
    num, members = len(found), dict[str, list[Any]]()
    for index in sorted({round(i * (num - 1) / max(MOST_IMAGES - 1, 1)) for i in range(MOST_IMAGES)} if num else ()):
        members.setdefault("samples", []).append(values_of(found[index]))
        for name in ("image_id", "image_row", "annotation_ids", "annotation_rows", "crowds", "left_out", "federated"):
            if (member := getattr(found, name, None)) is not None:
                members.setdefault(name, []).append(values_of(member(index)))
        members.setdefault("file_name", []).append(Path(found.file_name(index)).name)
    whole = {name: getattr(found, name, None) for name in ("class_names", "categories", "tables", "schema")}
    whole = {name: value() if callable(value) else value for name, value in whole.items()}
    return {"images": str(num), **{name: digest_of(value) for name, value in {**members, **whole}.items()}}


# Conversions


def converted(scratch: Path) -> Iterator[Record]:
    """Record the trees of conversions, with the losses that are named."""
    for name, path, options in fixtures(scratch / "in"):
        given = {key: value for key, value in options.items() if key != "task"}
        for to, task in WRITTEN:
            out = scratch / "out"
            try:
                summary = convert_dataset(path, out, to, task=task, **given)  # type: ignore[arg-type]
                found = {**tree(out, scratch), "losses": json.dumps(dict(sorted(summary.losses.items())))}
            except (DatasetError, ValueError) as error:
                found = error_of(error, (scratch,))
            shutil.rmtree(out, ignore_errors=True)
            yield f"convert {name} to {to} {task or ''}".strip(), found


# Errors


def errors(scratch: Path) -> Iterator[Record]:
    """Record what is said of broken files, and when."""
    import health_files

    for name in health_files.FORMATS:
        for fault, spoil in FAULTS.items():
            root = scratch / f"{name}-{fault}".replace(" ", "-")
            images = health_files.write(root, name)
            spoil(root, images)
            path = next((path for path in (images, root) if _is_dataset(path)), root)
            yield f"error {name}, {fault}", _first_error(path, scratch)


def _first_error(path: Path, scratch: Path) -> Digests:
    step = "open"
    try:
        found = open_dataset(path)
        for index in range(len(found)):
            step = f"read {index}"
            found[index]
    except Exception as error:  # whatever comes
        return {"step": step, **error_of(error, (scratch,))}
    return {"step": "none"}


def _annotations(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.suffix in (".json", ".txt", ".xml", ".yaml"))


def _cut(root: Path, images: Path) -> None:
    for path in _annotations(root)[:1]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(root: Path, images: Path) -> None:
    for path in _annotations(root)[-1:]:
        path.write_bytes(b"")


def _renamed(root: Path, images: Path) -> None:
    for path in _annotations(root):
        path.write_text(path.read_text().replace("cup", "mug", 1))


def _no_photo(root: Path, images: Path) -> None:
    (images / "0.png").unlink()


def _no_picture(root: Path, images: Path) -> None:
    (images / "1.png").write_bytes(b"no picture")


def _other_size(root: Path, images: Path) -> None:
    Image.new("RGB", (50, 40)).save(images / "2.png")


FAULTS: dict[str, Callable[[Path, Path], None]] = {
    "cut": _cut,
    "empty": _empty,
    "renamed class": _renamed,
    "no photo": _no_photo,
    "no picture": _no_picture,
    "other size": _other_size,
}


# Commands


def commands(scratch: Path) -> Iterator[Record]:
    """Record the trees that augment, replay and stats write, and that a run of the past is continued."""
    for name, path, options in fixtures(scratch / "in"):
        if name in ("labelme drawn", "cvat drawn", "label-studio drawn") or name.startswith("cityscapes label"):
            continue  # as their namesakes
        words = ["--images", str(options["images_dir"])] if "images_dir" in options else []
        out, again = scratch / f"{name}-out", scratch / f"{name}-again"
        given = [str(path), *words, "--out", str(out), "--num", "4", "--seed", "3", "--gallery", "2", "min_area_px=4"]
        given += ["source.mask_from=boxes"] if name == "yolo pose" else []
        code = cli.main(["augment", *given])
        yield f"command augment {name}", {"exit": str(code), **tree(out, scratch)}
        if code == 0:
            code = cli.main(["replay", str(out), "--dataset", str(path), *words, "--out", str(again)])
            yield f"command replay {name}", {"exit": str(code), **tree(again, scratch)}
        for verb in ("check", "stats"):
            yield f"command {verb} {name}", _printed([verb, str(path), *words, "--json"], scratch)


def _printed(words: list[str], scratch: Path) -> Digests:
    """Return the exit code of a command that prints JSON, and a digest of it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = cli.main(words)
    return {"exit": str(code), "printed": digest_of(printed.getvalue().replace(str(scratch), "HERE"))}


def helps(scratch: Path) -> Iterator[Record]:
    """Record the help of every command, which every version of Python wraps in its own way."""
    os.environ["COLUMNS"] = "100"
    texts = {"": _help([])}
    for command in re.findall(
        r"^    (\w+) ", texts[""].partition("commands:")[2].partition("example:")[0], re.MULTILINE
    ):
        texts[command] = _help([command])
    for part in re.findall(r"^    (\w+) ", texts.get("bank", "").partition("ommand")[2], re.MULTILINE):
        texts[f"bank {part}"] = _help(["bank", part])
    yield f"help {OF_PYTHON}", {command or "segpaste": digest_of(text) for command, text in texts.items()}


def _help(words: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    return printed.getvalue()


# Banks


def banks(scratch: Path) -> Iterator[Record]:
    """Record the files of banks."""
    for name, path, options in fixtures(scratch / "in"):
        words = ["--images", str(options["images_dir"])] if "images_dir" in options else []
        out = scratch / f"{name}-bank"
        code = cli.main(["bank", "build", str(path), *words, "--out", str(out)])
        yield f"bank {name}", {"exit": str(code), **tree(out, scratch)}


if __name__ == "__main__":
    sys.exit(main())
