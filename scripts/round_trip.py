"""Convert datasets to every written format and back, and compare the files with readers of this program.

    python scripts/round_trip.py                        # fixtures, hostile names, and the sets of SEGPASTE_TEST_DATA
    python scripts/round_trip.py PATH [--images DIR]    # one dataset

Files are read with pycocotools, NumPy and the standard library alone; segpaste only converts. Images are recognised by
their bytes. An object that came in must come out with its class and its mask, or its box where it has no mask. What
does not is allowed only up to the count of a loss that the conversion names. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import struct
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco_mask

from segpaste.datasets import DatasetError, convert_dataset, find_dataset

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "datasets"))

TARGETS = (("coco", None), ("roboflow", None), ("lvis", None), ("yolo", None), ("yolo", "detect"))
TARGETS += (("voc", None), ("label-maps", None), ("coco-panoptic", None))
BOX_TOLERANCE_PX = 0.01
OF_OBJECTS = ("objects ", "annotations without", "rows equal")
OF_REGIONS = ("crowd regions", "ignored regions", "crowd and ignored", "exact masks of crowd")
IMAGE_NAMES = (
    *("img (1).png", "a b.png", " lead.png", "dots.in.name.png", "UPPER.PNG", "ünïcode.png", "日本.png", "emoji😀.png"),
    *("a,b.png", "a;b.png", "quote'.png", 'quote".png', "hash#1.png", "100%.png", "a&b.png", "a=b.png", "[1].png"),
    *("-dash.png", "x/1.png", "y/1.png"),
)
CLASS_NAMES = (
    *(
        "red mug",
        "mug ",
        " fork",
        "a,b",
        "a:b",
        "1",
        "yes",
        "null",
        "#hash",
        "quote'",
        'quote"',
        "back\\slash",
        "a&b<c>",
    ),
    *("日本", "é", "background", "_background_", "{x}", "- dash", "person"),
)


class Thing(NamedTuple):
    """Object or region of an image; without a mask it has a box [x, y, w, h]."""

    name: str
    is_region: bool
    mask: bytes | None
    box: tuple[float, ...]


Facts = dict[str, list[Thing]]
"""Things of each image, by the digest of its file."""


def thing(name: str, mask: NDArray[Any], is_region: bool = False) -> Thing:
    """Return a thing with a mask."""
    runs = coco_mask.encode(np.asfortranarray(mask, np.uint8))
    return Thing(name, is_region, runs["counts"], tuple(coco_mask.toBbox(runs).tolist()))


def key_of(path: Path) -> str:
    """Return the digest of an image."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def size_of(path: Path) -> tuple[int, int]:
    """Return the (H, W) of a PNG or JPEG."""
    content = path.read_bytes()
    if content[:4] == b"\x89PNG":
        width, height = struct.unpack(">II", content[16:24])
        return height, width
    place = 2
    while not (0xC0 <= content[place + 1] <= 0xCF and content[place + 1] not in (0xC4, 0xC8, 0xCC)):
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    height, width = struct.unpack(">HH", content[place + 5 : place + 9])
    return height, width


def read_png(path: Path) -> NDArray[Any]:
    """Return the stored values of a PNG, [H, W] or [H, W, 3], of 8 or 16 bits per value."""
    content, place, data = path.read_bytes(), 8, b""
    width, height, depth, color = struct.unpack(">IIBB", content[16:26])
    while place < len(content):
        length = int.from_bytes(content[place : place + 4])
        if content[place + 4 : place + 8] == b"IDAT":
            data += content[place + 8 : place + 8 + length]
        place += 12 + length
    channels, per_value = 3 if color == 2 else 1, 1 if depth < 8 else depth // 8
    per_row = (width * channels * depth + 7) // 8
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, per_row + 1)
    rows = np.zeros((height + 1, per_row), np.uint8)
    for y in range(height):
        rows[y + 1] = _unfiltered(raw[y, 0], raw[y, 1:], rows[y], channels * per_value)
    if depth < 8:
        bits = np.unpackbits(rows[1:], axis=1).reshape(height, -1, depth)
        return (bits * (1 << np.arange(depth)[::-1])).sum(2)[:, :width]
    values = rows[1:].copy().view(">u2" if depth == 16 else np.uint8)
    return values.reshape((height, width, 3) if channels == 3 else (height, width)).astype(np.int64)


def _unfiltered(kind: int, row: NDArray[Any], above: NDArray[Any], step: int) -> NDArray[Any]:
    """Undo the filter of a row; see https://www.w3.org/TR/png-3/#9Filters."""
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    if kind == 1 and len(row) % step == 0:
        return np.cumsum(row.reshape(-1, step), 0, dtype=np.uint8).ravel()
    found = [0] * step + row.tolist()
    up = [0] * step + above.tolist()
    for i in range(step, len(found)):
        left, top, corner = found[i - step], up[i], up[i - step]
        guess = left + top - corner
        paeth = min((left, top, corner), key=lambda value: abs(guess - value))
        found[i] = (found[i] + (left if kind == 1 else (left + top) // 2 if kind == 3 else paeth)) % 256
    return np.array(found[step:], np.uint8)


def of_coco(file: Path, images: Path) -> Facts:
    """Read an annotation file of COCO or LVIS."""
    tables = json.loads(file.read_text("utf-8"))
    names = {row["id"]: row["name"] for row in tables["categories"]}
    rows: dict[int, list[Any]] = {row["id"]: [] for row in tables["images"]}
    for row in tables["annotations"]:
        rows[row["image_id"]].append(row)
    facts: Facts = {}
    for image in tables["images"]:
        size = (image["height"], image["width"])
        facts[key_of(images / image["file_name"])] = [
            found for row in rows[image["id"]] if (found := _of_row(row, names, size)) is not None
        ]
    return facts


def _of_row(row: Mapping[str, Any], names: Mapping[int, str], size: tuple[int, int]) -> Thing | None:
    name, is_region, outline = (
        names[row["category_id"]],
        bool(row.get("iscrowd") or row.get("ignore")),
        row.get("segmentation"),
    )
    parts = [part for part in outline if len(part) >= 6] if isinstance(outline, list) else outline
    if not parts:
        return Thing(name, is_region, None, tuple(row["bbox"]))
    if isinstance(parts, list):
        return thing(name, coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(parts, *size))), is_region)
    runs = coco_mask.frPyObjects(parts, *size) if isinstance(parts["counts"], list) else parts
    return thing(name, coco_mask.decode(runs), is_region)


def of_panoptic(file: Path, images: Path) -> Facts:
    """Read an annotation file of COCO panoptic; stuff is left out."""
    tables = json.loads(file.read_text("utf-8"))
    kinds = {row["id"]: row for row in tables["categories"]}
    names = {row["id"]: row["file_name"] for row in tables["images"]}
    facts: Facts = {}
    for row in tables["annotations"]:
        rgb = read_png(file.with_suffix("") / row["file_name"])
        ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
        facts[key_of(images / names[row["image_id"]])] = [
            thing(kinds[segment["category_id"]]["name"], ids == segment["id"], bool(segment["iscrowd"]))
            for segment in row["segments_info"]
            if kinds[segment["category_id"]]["isthing"]
        ]
    return facts


def of_yolo(folder: Path) -> Facts:
    """Read a folder of YOLO: all images below ``images``."""
    names = _yaml_names((folder / "data.yaml").read_text("utf-8"))
    facts: Facts = {}
    for image in sorted(path for path in (folder / "images").rglob("*") if path.is_file()):
        labels = (folder / "labels" / image.relative_to(folder / "images")).with_suffix(".txt")
        height, width = size = size_of(image)
        found = []
        for line in labels.read_text().splitlines() if labels.exists() else ():
            label, *values = (float(word) for word in line.split())
            if len(values) == 4:
                x, y, w, h = (value * side for value, side in zip(values, (width, height) * 2, strict=True))
                found.append(Thing(names[int(label)], False, None, (x - w / 2, y - h / 2, w, h)))
            else:
                outline = [value * (height if i % 2 else width) for i, value in enumerate(values)]
                found.append(
                    thing(names[int(label)], coco_mask.decode(coco_mask.frPyObjects([outline], *size))[..., 0])
                )
        facts[key_of(image)] = found
    return facts


def _yaml_names(text: str) -> dict[int, str]:
    """Return the names of a data YAML, a mapping in flow or block style, or a list."""
    part = text[re.search(r"^names:", text, re.MULTILINE).end() :]  # type: ignore[union-attr]
    scalar = r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,}\n\]]+)"""
    if part.lstrip().startswith("["):
        return dict(enumerate(_scalar(word) for word in re.findall(rf"[\[,]\s*{scalar}", part[: part.index("]") + 1])))
    if part.lstrip().startswith("{"):
        part = re.sub(r"(?<!\\)\n +", " ", part)  # a long line is folded between words
    else:
        part = re.split(r"^(?=\w)", part, maxsplit=1, flags=re.MULTILINE)[0]
    return {
        int(number): _scalar(word)
        for number, word in re.findall(rf"(?:^|[{{,])\s*(\d+):\s+{scalar}", part, re.MULTILINE)
    }


def _scalar(word: str) -> str:
    word = re.sub(r"\s*\n\s*", " ", word.strip())
    if word.startswith('"'):
        text = re.sub(r"\\U([0-9A-F]{8})", lambda match: json.dumps(chr(int(match[1], 16)))[1:-1], word)
        return str(json.loads(re.sub(r"\\x(..)", r"\\u00\1", text).replace("\\ ", " ")))
    return word[1:-1].replace("''", "'") if word.startswith("'") else word


def of_voc(folder: Path) -> Facts:
    """Read a folder of VOC: objects of its maps with the classes of the XML, regions of the XML."""
    facts: Facts = {}
    for file in sorted((folder / "Annotations").glob("*.xml")):
        root = ElementTree.parse(file).getroot()
        found, objects = [], folder / "SegmentationObject" / f"{file.stem}.png"
        pixels = read_png(objects) if objects.exists() else None
        for number, item in enumerate(root.iter("object"), start=1):
            x1, y1, x2, y2 = (float(item.findtext(f"bndbox/{key}") or "") for key in ("xmin", "ymin", "xmax", "ymax"))
            name, is_region = item.findtext("name") or "", item.findtext("difficult") == "1"
            if is_region or pixels is None:
                found.append(Thing(name, is_region, None, (x1 - 1, y1 - 1, x2 - x1 + 1, y2 - y1 + 1)))
            elif (pixels == number).any():
                found.append(thing(name, pixels == number))
        facts[key_of(folder / "JPEGImages" / (root.findtext("filename") or ""))] = found
    return facts


def of_label_maps(folder: Path) -> Facts:
    """Read a folder of label maps."""
    lines = (folder / "classes.txt").read_text("utf-8").split("\n")
    names = [str(json.loads(line)) if re.fullmatch('".*"', line) else line for line in lines]
    facts: Facts = {}
    for image in sorted(path for path in (folder / "images").rglob("*") if path.is_file()):
        name = image.relative_to(folder / "images").with_suffix(".png")
        found, objects = [], folder / "instances" / name
        if objects.exists():
            numbers, classes = read_png(objects), read_png(folder / "semantic" / name)
            for number in range(1, int(numbers.max()) + 1):
                if (mask := numbers == number).any():
                    found.append(thing(names[int(classes[mask][0])], mask))
        facts[key_of(image)] = found
    return facts


def read_written(folder: Path, to: str) -> Facts:
    """Read all splits of a written dataset."""
    if to in ("yolo", "voc", "label-maps"):
        return {"yolo": of_yolo, "voc": of_voc, "label-maps": of_label_maps}[to](folder)
    facts: Facts = {}
    read = of_panoptic if to == "coco-panoptic" else of_coco
    for file in (*folder.glob("*.json"), *folder.glob("annotations/*.json"), *folder.glob("*/_annotations.coco.json")):
        split = file.stem.split("_", 1)[-1]
        images = file.parent if file.name.startswith("_") else folder / ("images" if file.parent == folder else split)
        facts |= read(file, images)
    return facts


def differences(before: Facts, after: Facts, losses: Counter[str]) -> list[str]:
    """Return what differs beyond the losses, in words."""
    if num := len(before.keys() ^ after.keys()):
        drawn = sum(count for what, count in losses.items() if "encoded again" in what)
        return [] if num <= 2 * drawn else [f"{num} images are not in both"]
    lost, extra = Counter[bool](), Counter[bool]()
    boxes_only = any(what.startswith("masks of objects") for what in losses)
    for key, things in before.items():
        left = list(after[key])
        for one in things:
            same = next((other for other in left if _are_same(one, other, boxes_only)), None)
            if same is None:
                lost[one.is_region] += 1
            else:
                left.remove(same)
        for other in left:
            extra[other.is_region] += 1
    found = []
    for is_region, what, words in ((False, "objects", OF_OBJECTS), (True, "regions", OF_REGIONS)):
        allowed = sum(count for name, count in losses.items() if name.startswith(words))
        if lost[is_region] > allowed or extra[is_region] > lost[is_region]:
            found.append(f"{lost[is_region]} {what} lost, {allowed} named, {extra[is_region]} others appeared")
    return found


def _are_same(one: Thing, other: Thing, boxes_only: bool) -> bool:
    if (one.name, one.is_region) != (other.name, other.is_region):
        return False
    if one.mask is not None and other.mask is not None and not boxes_only:
        return one.mask == other.mask
    return all(abs(a - b) <= BOX_TOLERANCE_PX for a, b in zip(one.box, other.box, strict=True))


def trip(
    path: Path, options: Mapping[str, Any], scratch: Path, targets: Sequence[tuple[str, Any]] = TARGETS
) -> Iterator[tuple[str, list[str]]]:
    """Convert a dataset to every format and back to COCO; yield each step with what differs."""
    convert_dataset(path, scratch / "first", "coco", **options)
    before = read_written(scratch / "first", "coco")
    for number, (to, task) in enumerate(targets):
        there, back = scratch / f"{number}", scratch / f"{number}-back"
        name = f"{to}{f' ({task})' if task else ''}"
        try:
            lost = Counter(convert_dataset(scratch / "first", there, to, task=task).losses)
        except DatasetError as error:
            refused = re.search(r"expected (masks|at most|panoptic)|class names of|rename", str(error))
            yield f"to {name}: refused", [] if refused else [str(error)]
            continue
        yield f"to {name}", differences(before, read_written(there, to), lost)
        lost.update(convert_dataset(there, back, "coco").losses)
        yield f"{name} and back", differences(before, read_written(back, "coco"), lost)


def write_hostile(folder: Path) -> tuple[Path, Path]:
    """Write a COCO file of images and classes with valid names that tools trip over."""
    from PIL import Image  # to write images, not to read them

    tables: dict[str, list[Any]] = {"images": [], "annotations": [], "categories": []}
    for i, (file, name) in enumerate(zip(IMAGE_NAMES, CLASS_NAMES, strict=True), start=1):
        (folder / "images" / file).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (24, 16), (i * 9, i, 255 - i)).save(folder / "images" / file)
        tables["images"].append({"id": i, "file_name": file, "height": 16, "width": 24})
        tables["categories"].append({"id": i, "name": name})
        row = {"id": i, "image_id": i, "category_id": i, "iscrowd": 0, "area": 12 * i, "bbox": [2, 3, i, 12]}
        tables["annotations"].append({**row, "segmentation": [[2, 3, 2 + i, 3, 2 + i, 15, 2, 15]]})
    (folder / "a.json").write_text(json.dumps(tables))
    return folder / "a.json", folder / "images"


def sources(scratch: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the datasets: name, path and options."""
    from conversion_world import write_instances

    from yolo_files import write_roboflow, write_yolo

    images, file = write_instances(scratch / "instances")
    yield "instances", file, {"images_dir": images}
    yield "yolo", write_yolo(scratch / "yolo"), {}
    write_roboflow(scratch / "roboflow")
    yield "roboflow", scratch / "roboflow", {}
    file, images = write_hostile(scratch / "hostile")
    yield "hostile names", file, {"images_dir": images}
    if (data := os.environ.get("SEGPASTE_TEST_DATA")) is None:
        return
    root = Path(data)
    yield "fruits_nuts", root / "fruits_nuts/trainval.json", {"images_dir": root / "fruits_nuts/images"}
    for split in ("train2017", "val2017"):
        yield split, root / f"tiny_coco/annotations/instances_{split}.json", {"images_dir": root / "tiny_coco" / split}
    for path in sorted((*root.iterdir(), *root.glob("*/*"), *root.glob("*/*/*"))):
        try:
            with warnings.catch_warnings(action="ignore"):
                found = find_dataset(path) if path.is_dir() else None
        except DatasetError:
            continue
        if (found is not None and found.format.name not in ("yolo",)) or path.name == "coco128_seg":
            yield str(path.relative_to(root)), path, {}


def main() -> int:
    """Run all trips; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--images", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    num_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        own = [(str(args.path), args.path, {"images_dir": args.images})]
        for number, (name, path, options) in enumerate(sources(Path(folder)) if args.path is None else own):
            try:
                for step, found in trip(path, options, Path(folder) / f"trip{number}"):
                    print(f"{name}: {step}: {'; '.join(found) or 'equal'}", flush=True)
                    num_wrong += bool(found)
            except DatasetError as error:
                print(f"{name}: {error}", flush=True)
                num_wrong += 1
    print(f"{num_wrong} differ" if num_wrong else "nothing differs")
    return int(num_wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
