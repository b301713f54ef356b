#!/usr/bin/env python3
"""Compare what `segpaste check --for` claims of whole datasets, and what `convert --for` writes, with what tools read.

    python scripts/prove_datasets.py                       # all programs
    python scripts/prove_datasets.py ultralytics rfdetr    # those of tests/tools/tool_NAME.py

The datasets: one with one of each trouble, a clean one, and those of the folder SEGPASTE_TEST_DATA. `make tools` sets
up the environments and calls this. For each image it is known what segpaste reads; the tool must give the same where
nothing is claimed, and something else where a loss is claimed. What is converted for a tool must arrive whole. It
prints a line for each tool and dataset, writes them to `tests/tools/sets/results.json`, and exits with 1 if a claim is
wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

from segpaste.datasets import convert_dataset, open_dataset
from segpaste.datasets.checking.tools.rules import HARMLESS, Tool
from segpaste.datasets.checking.tools.traits import find_traits

ROOT = Path(__file__).parents[1]
SETS = ROOT / "tests" / "tools" / "sets"
RESULTS = SETS / "results.json"
with mock.patch.object(sys, "path", [str(SETS), str(ROOT / "tests" / "tools"), str(ROOT / "scripts"), *sys.path]):
    import prove_tools
    from compare import LARGE_PX, of_image
    from given import FILES, PUBLIC, Given, as_read, clean, public, read_by_segpaste, store, troubled
    from observe import FORMAT
    from probe_traits import list_probe

LIMIT_S = 1800
_MAPS = "camvid_small"
_NOT_ASKED = ("ultralytics-pose", "ultralytics-obb", "transformers-detr-panoptic", "transformers-mask2former")
"""Tools that read other labels than these datasets have, or give other boxes."""
_NO_LOSS = ("files of images", "file names", "key ", "rows equal to another")
_REFUSED = (
    "wide_special.png",
    "no_pixel_special.png",
    "flat_box_special.png",
    "mixed_rows_special.png",
    "box_rows_special.png",
)
_RENAMED = (
    "listed_twice_special.png",
    "same_stem_special.png",
    "same_stem_special.jpg",
    "a/same_name_special.png",
    "b/same_name_special.png",
)
_NOT_MENDED = frozenset(_REFUSED + _RENAMED)
"""Images that a conversion refuses, without an object afterwards, or that get another name."""


def claims(format: str, folder: Path, tool: Tool) -> dict[str, set[str]]:
    """Return for each image the effects that the rules of a tool claim, all and not only the first shown ones."""
    split, told = list_probe(format, folder), dict[str, set[str]]()
    rules = [rule for rule in tool.rules if rule.format == format and rule.effect not in HARMLESS]
    found = find_traits(split, sorted({rule.trait for rule in rules}))
    for rule in rules:
        for place in found[rule.trait]:
            name = split.listing.images[place.image].name
            told.setdefault(name.removeprefix("images/") if format == "yolo" else name, set()).add(rule.effect)
    return told


def run(name: str, work: Path) -> dict[str, Any]:
    """Run the tools of a program on the datasets in a folder, and return what each did with each image."""
    python, result = prove_tools.python_of(name), work / "result.json"
    command = [str(python), str(SETS / "compare.py"), name, str(work), str(result)]
    settings = {**os.environ, **prove_tools.OFFLINE, "YOLO_CONFIG_DIR": str(work)}
    settings["PYTHONPATH"] = str(SETS.parent)
    told = subprocess.run(command, cwd=work, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if told.returncode:
        raise RuntimeError(f"{name}: {told.stdout[-2000:]}{told.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(prove_tools._without_places(result.read_text(), work))
    return found


def _shown(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the overlaps of all masks of a dataset."""
    pairs = [pair for row in rows.values() for pair in zip(row.get("iou", ()), row.get("px", ()), strict=True)]
    large = [iou for iou, px in pairs if px >= LARGE_PX]
    off = max((row.get("off", 0) for row in rows.values()), default=0)
    return {"masks": len(pairs), "large": len(large), "least of large": min(large, default=None), "off": off}


def with_rests(name: str, sets: Sequence[Given], folder: Path) -> Iterator[tuple[Tool, Given]]:
    """Yield each tool of a program with the datasets that it reads; one at which it stops also without the cause."""
    for tool in prove_tools.tools_of(name):
        for given in sets:
            if given.format not in tool.formats or tool.name in _NOT_ASKED:
                continue
            yield tool, given
            told = claims(given.format, given.folder, tool) if given.name.startswith("trouble") else {}
            stops = frozenset(image for image, effects in told.items() if "stops" in effects)
            if stops:
                rest = troubled(given.format, folder / tool.name / given.format, stops)
                yield tool, Given(f"rest of {given.name}", given.format, rest.folder, rest.copies)


def compare_claims(name: str, pairs: Iterable[tuple[Tool, Given]], work: Path) -> Iterator[dict[str, Any]]:
    """Yield for each tool of a program and each dataset what was claimed, what was seen, and what differs."""
    wanted = dict[tuple[str, str], dict[str, set[str]]]()
    for tool, given in pairs:
        for side, copy in given.copies.items():
            place = work / tool.name / f"{given.name} {side}"
            shutil.copytree(copy, place, symlinks=True)
            if given.format == "yolo":
                data = place / "data.yaml"
                data.write_text(data.read_text().replace(str(copy), str(place)))
            wanted[tool.name, place.name] = claims(given.format, place, tool)
    found = run(name, work) if wanted else {}
    for (tool_name, place_name), told in wanted.items():
        rows = found.get(tool_name, {}).get(place_name)
        if rows is not None:
            yield {"tool": tool_name, "set": place_name, **judged(rows, told)}


def converted(tool: Tool, given: Given, out: Path) -> tuple[Given, dict[str, Any]]:
    """Convert a dataset for a tool, and return it as segpaste reads it, with what differs from what was read before."""
    options = {"images_dir": given.folder / "images"} if given.format == "coco" else {"splits": ["train"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a split to validate on is missing
        summary = convert_dataset(given.folder / FILES[given.format], out, tool=tool.name, **options)
    prove_tools._as_probe(given.folder, out)
    format = "yolo" if summary.format == "yolo" else "coco"
    if format == "yolo":
        dataset = open_dataset(out / "data.yaml", split="train")
    else:
        dataset = open_dataset(out / "instances.json", images_dir=out / "images")
    truth = {Path(row["name"]).stem: row for row in json.loads((given.folder / "truth.json").read_text())}
    rows = dict[str, Any]()
    for image in read_by_segpaste(dataset, out / "images"):
        own = [replace(of, box=of.box[0] if of.box else None) for of in image.objects]
        rows[image.name] = of_image(truth[Path(image.name).stem], replace(image, objects=own))
    differs = [f"{name}: {row['why']}" for name, row in rows.items() if "why" in row]
    told = {what: num for what, num in summary.losses.items() if not what.startswith(_NO_LOSS)}
    least = min((iou for row in rows.values() for iou in row.get("iou", ())), default=1.0)
    wrong = differs if len(differs) > sum(told.values()) else []
    wrong += [f"a mask was written with an IoU of {least}"] if least < 1 else []
    written = Given(f"{given.name} for {tool.name}", format, out)
    read = as_read(written, dataset, is_painted=given.name not in PUBLIC)
    row = {"set": f"{read.name}, as written", "images": len(rows), "left out": told, "least": least, "wrong": wrong}
    return read, {"tool": tool.name, **row}


def converted_maps(tool: Tool, data: Path, work: Path) -> Iterator[dict[str, Any]]:
    """Convert maps of classes for a tool that trains on them, and yield what it made of them, resized as it does."""
    place, rows = work / tool.name / "maps", list[dict[str, Any]]()
    source = open_dataset(data / _MAPS, split="val")
    summary = convert_dataset(data / _MAPS, place, tool=tool.name, splits=["val"])
    written = {path.stem: path.relative_to(place / "images").as_posix() for path in (place / "images").rglob("*.*")}
    for index in range(len(source)):
        sample = source[index]
        values = sample.semantic_map.numpy()
        labels = [label for label in np.unique(values).tolist() if label < len(source.class_names)]
        masks = [_resized(values == label) for label in labels]
        classes = [
            {"class": source.class_names[label], "is_crowd": False, "has_mask": True, "boxes": []} for label in labels
        ]
        pixels = _resized(sample.image.numpy().transpose(1, 2, 0))
        store(place, rows, written[Path(source.file_name(index)).stem], classes, masks, pixels)
    (place / "truth.json").write_text(json.dumps(rows))
    (place / FORMAT).write_text("maps 256")
    found = run("smp", work)[tool.name][place.name]
    yield {"tool": tool.name, "set": f"{_MAPS} for {tool.name}", "left out": dict(summary.losses), **judged(found, {})}


def _resized(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array(Image.fromarray(pixels).resize((256, 256), Image.Resampling.NEAREST))


def judged(rows: dict[str, Any], told: dict[str, set[str]]) -> dict[str, Any]:
    """Return numbers of images, claims and losses, and each image of which the claim is wrong."""
    stops = any("stops" in effects for effects in told.values())
    if "" in rows or stops:
        wrong = [] if "" in rows and stops else [f"stops is {'claimed' if stops else 'not claimed'}: {rows.get('')}"]
        return {"images": len(rows), "claimed": len(told), "stops": True, "wrong": wrong}
    seen = {name: row["why"] for name, row in rows.items() if "why" in row}
    missed = [f"{name}: {why}, not claimed" for name, why in seen.items() if name not in told]
    stems = {Path(name).with_suffix("") for name in seen}  # of images with one label file it is one that loses its own
    kept = [name for name in told if name in rows and name not in seen and Path(name).with_suffix("") not in stems]
    false = [f"{name}: {', '.join(told[name])} claimed, kept" for name in kept]
    claimed = sum(name in told for name in rows)
    return {"images": len(rows), "claimed": claimed, "seen": len(seen), "wrong": missed + false, **_shown(rows)}


def proven(name: str, sets: Sequence[Given], mendable: Sequence[Given], data: Path | None, work: Path) -> list[Any]:
    """Return a row for each tool of a program and each dataset: what was claimed, written and seen."""
    rows = list(compare_claims(name, with_rests(name, sets, work / "rests"), work / "claims"))
    made = list[tuple[Tool, Given]]()
    for tool in prove_tools.tools_of(name):
        if tool.name == "smp" and data is not None:
            rows += converted_maps(tool, data, work / "maps")
        elif tool.does == "trains" and tool.reads_best is not None and tool.name not in _NOT_ASKED:
            for given in mendable:
                read, row = converted(tool, given, work / "converted" / tool.name / given.folder.name)
                made.append((tool, read))
                rows.append(row)
    return rows + list(compare_claims(name, made, work / "written"))


def unexpected(known: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with results, but for what no conversion can help."""
    rows = [row for of_program in known.values() for row in of_program["rows"]]
    expected = {f"{tool}: {probe.split('/')[1]}_special" for tool, probe in prove_tools.EXPECTED}
    told = [(f"{row['tool']}: {Path(what.split(': ')[0]).stem}", row, what) for row in rows for what in row["wrong"]]
    return [f"{row['tool']}, {row['set']}: {what}" for key, row, what in told if key not in expected]


def main() -> int:
    """Compare claims and conversions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; default: all")
    names = parser.parse_args().names or sorted(
        path.stem.removeprefix("tool_") for path in SETS.parent.glob("tool_*.py")
    )
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    data = Path(os.environ["SEGPASTE_TEST_DATA"]) if "SEGPASTE_TEST_DATA" in os.environ else None
    failed = list[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sets = [troubled(format, folder / f"trouble-{format}") for format in FILES]
        sets += [clean(format, folder / f"clean-{format}") for format in FILES]
        mendable = [troubled(format, folder / f"mendable-{format}", _NOT_MENDED) for format in FILES]
        real = [] if data is None else [public(name, data, folder / name.replace(" ", "-")) for name in PUBLIC]
        for name in names:
            try:
                rows = proven(name, [*sets, *real], [*mendable, *real], data, folder / name)
            except RuntimeError as error:
                failed.append(str(error))
                continue
            for row in rows:
                print(json.dumps(row), flush=True)
            known[name] = {"date": datetime.date.today().isoformat(), "rows": rows}
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    wrong = failed + unexpected(known)
    print("\n".join(wrong) or "each claim is what the tools do, and what was converted arrives")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
