"""Real datasets, augmented and read again by readers that share no code with the package.

An object of the photo keeps its class and lies within its own mask; what it has lost is under a paste. Classes of
pixels and normals are those of one of the photos.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import check_instances, decode, read_json, read_pixels
from PIL import Image, ImageDraw
from pycocotools.coco import COCO

from map_files import write_yaml
from segpaste.cli import main

Object = tuple[str, Any]
"""Name of the class, and mask [H, W]."""
NUM = 2


def augmented(dataset: Path, out: Path, *words: str) -> Any:
    """Augment a dataset and return its tables; every mask has the stated box and area."""
    start = ["augment", str(dataset), "--out", str(out), "--num", str(NUM), "--gallery", "0", "--seed", "3"]
    assert main([*start, *words]) == 0
    tables = read_json(out / "annotations.json")
    assert len(tables["images"]) == NUM
    return tables


VOC = "labelme_voc/instance_segmentation/data_dataset_voc"


def test_single_objects_of_class_maps(test_data: Path, tmp_path: Path) -> None:
    """From a bank, and balanced: the pixels of an object have its class in the map, and a replay is identical."""
    voc, bank = test_data / VOC, tmp_path / "bank"
    assert main(["bank", "build", str(voc), "--out", str(bank), "--crop-size", "64"]) == 0
    cases = {
        "bank": ["--bank", str(bank), "placement.scale_range=[0.5,1]"],
        "own": ["--balance", "class_uniform", "placement.grouping=instance", "source.whole_only=false"],
    }
    for name, words in cases.items():
        out = tmp_path / f"out-{name}"
        tables = augmented(voc, out, *words)
        names = {row["id"]: row["name"] for row in tables["categories"]}
        labels = {text: label for label, text in enumerate((voc / "class_names.txt").read_text().split("\n"))}
        files = {row["id"]: row["file_name"] for row in tables["images"]}
        for row in tables["annotations"]:
            classes = read_pixels(out / "SegmentationClass" / Path(files[row["image_id"]]).with_suffix(".png").name)
            seen = classes[decode(row["segmentation"])]
            assert np.isin(seen, (labels[names[row["category_id"]]], 255)).all()
        again = ["--bank", str(bank)] if name == "bank" else []
        assert main(["replay", str(out), "--dataset", str(voc), *again, "--check", str(out)]) == 0


@pytest.mark.parametrize("name", ["camvid", "camvid_small"])
def test_mixed_classes_are_not_mostly_padding(name: str, test_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["augment", str(test_data / name), "--split", "train", "--out", str(out), "--num", "3", "--gallery", "0"]
    assert main([*words, "--preset", "classmix", "--seed", "3"]) == 0
    maps = [read_pixels(path) for path in (out / "semantic").rglob("*.png")]
    assert len(maps) == 3
    assert np.mean([(pixels == 255).mean() for pixels in maps]) < 0.2


def of_coco(folder: Path) -> Callable[[str], list[Object]]:
    """Objects by the name of the photo, read by pycocotools."""
    coco = COCO(str(folder))
    names = {row["id"]: row["name"] for row in coco.loadCats(coco.getCatIds())}
    ids = {row["file_name"]: row["id"] for row in coco.loadImgs(coco.getImgIds())}

    def objects(name: str) -> list[Object]:
        rows = coco.loadAnns(coco.getAnnIds(ids[Path(name).name], iscrowd=False))
        return [(names[row["category_id"]], coco.annToMask(row) > 0) for row in rows]

    return objects


def of_labelme(folder: Path) -> Callable[[str], list[Object]]:
    """Polygons that Pillow draws, by label and group."""

    def objects(name: str) -> list[Object]:
        document = json.loads((folder / Path(name).with_suffix(".json").name).read_text())
        groups: dict[Any, Any] = {}
        for number, shape in enumerate(document["shapes"]):
            if shape["label"] == "__ignore__":
                continue
            picture = Image.new("1", (document["imageWidth"], document["imageHeight"]))
            ImageDraw.Draw(picture).polygon([tuple(point) for point in shape["points"]], fill=1)
            group = (shape["label"], number if shape["group_id"] is None else shape["group_id"], shape["group_id"])
            groups[group] = groups.get(group, False) | np.array(picture)
        return [(label, mask) for (label, *_), mask in groups.items()]

    return objects


def of_voc(folder: Path) -> Callable[[str], list[Object]]:
    """Indices of the maps of objects, each with the commonest class there."""
    names = [name for name in (folder / "class_names.txt").read_text().splitlines() if name != "__ignore__"]

    def objects(name: str) -> list[Object]:
        numbers, classes = (
            read_indices(folder / part / f"{Path(name).stem}.png")
            for part in ("SegmentationObject", "SegmentationClass")
        )
        found = [numbers == number for number in np.unique(numbers) if number not in (0, 255)]
        return [(names[np.bincount(classes[mask]).argmax()], mask) for mask in found]

    return objects


def read_indices(path: Path) -> Any:
    with Image.open(path) as picture:
        return np.array(picture)


def fruits(data: Path) -> tuple[Path, list[str], Callable[[str], list[Object]]]:
    folder = data / "fruits_nuts"
    return folder / "trainval.json", ["--images", str(folder / "images")], of_coco(folder / "trainval.json")


def labelme(data: Path) -> tuple[Path, list[str], Callable[[str], list[Object]]]:
    folder = data / "labelme_voc/instance_segmentation/data_annotated"
    return folder, [], of_labelme(folder)


def voc(data: Path) -> tuple[Path, list[str], Callable[[str], list[Object]]]:
    folder = data / "labelme_voc/instance_segmentation/data_dataset_voc"
    return folder, ["--layout", "coco"], of_voc(folder)


@pytest.mark.parametrize("write", [fruits, labelme, voc])
def test_objects(test_data: Path, tmp_path: Path, write: Any) -> None:
    dataset, words, objects_of = write(test_data)
    tables = augmented(dataset, tmp_path / "out", *words)
    rows = check_instances(tmp_path / "out")
    assert any(row["segpaste"]["pasted"] for row in rows)
    names = {row["id"]: row["name"] for row in tables["categories"]}
    tolerance = 2 if write is labelme else 0  # pixels at which Pillow's outlines are wider
    for image in tables["images"]:
        own = [row for row in rows if row["image_id"] == image["id"] and not row.get("ignore")]
        pasted = np.zeros((image["height"], image["width"]), bool)
        for row in own:
            if row["segpaste"]["pasted"]:
                pasted |= decode(row["segmentation"])
        kept = [
            (names[row["category_id"]], decode(row["segmentation"])) for row in own if not row["segpaste"]["pasted"]
        ]
        source = objects_of(image["segpaste"]["source_file_name"])
        whole = [(name, mask) for name, mask in source if not (mask & pasted).any()]
        assert not Counter(name for name, _ in kept) - Counter(name for name, _ in source)
        assert not Counter(name for name, _ in whole) - Counter(name for name, _ in kept)
        for name, mask in kept:
            best = max((theirs for label, theirs in source if label == name), key=lambda m: int((m & mask).sum()))
            border = np.count_nonzero(mask ^ grown(mask, tolerance))
            assert np.count_nonzero(mask & ~best) <= border
            assert np.count_nonzero(best & ~mask & ~pasted) <= border


def grown(mask: Any, num: int) -> Any:
    """The mask with so many pixels more on each side."""
    for _ in range(num):
        mask = mask | np.roll(mask, 1, 0) | np.roll(mask, -1, 0) | np.roll(mask, 1, 1) | np.roll(mask, -1, 1)
    return mask


def test_polygons_of_yolo(test_data: Path, tmp_path: Path) -> None:
    """Lines of the label files are the rows of the tables, and classes those of the photos."""
    shutil.copytree(test_data / "coco128_seg", tmp_path / "in", ignore=lambda folder, names: many(folder, names))
    tables = augmented(tmp_path / "in", tmp_path / "out", "--split", "train2017")
    per_image = Counter(row["image_id"] for row in tables["annotations"])
    for image in tables["images"]:
        lines = next((tmp_path / "out/labels").rglob(f"{Path(image['file_name']).stem}.txt")).read_text().splitlines()
        assert len(lines) == per_image[image["id"]]
        source = Path(image["segpaste"]["source_file_name"]).stem
        theirs = Counter(
            line.split()[0] for line in next((tmp_path / "in").rglob(f"{source}.txt")).read_text().splitlines()
        )
        rows = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
        ours = Counter(str(row["category_id"] - 1) for row in rows if not row["segpaste"]["pasted"])
        assert not ours - theirs
        assert Counter(line.split()[0] for line in lines) == Counter(str(row["category_id"] - 1) for row in rows)


def many(folder: str, names: list[str]) -> list[str]:
    """Return the names of all photos and labels but the first eight."""
    return sorted(name for name in names if Path(name).suffix in (".jpg", ".txt") and name[:1].isdigit())[8:]


def test_classes_of_camvid(test_data: Path, tmp_path: Path) -> None:
    """Under ClassMix each pixel has the colour and the class of its photo, or of the one that was mixed in."""
    folder = test_data / "camvid"
    tables = augmented(folder, tmp_path / "out", "emit_classmix=true")
    stored = {path.name: read_indices(path).astype(int) for path in (folder / "trainannot").iterdir()}
    names = (tmp_path / "out/classes.txt").read_text().splitlines()
    assert len(names) == 11
    for image in tables["images"]:
        own = Path(image["segpaste"]["source_file_name"]).name
        stem = Path(image["file_name"]).stem
        picture = read_pixels(next((tmp_path / "out/images").rglob(f"{stem}.png")))
        classes = read_indices(next((tmp_path / "out/semantic").rglob(f"{stem}.png"))).astype(int)
        of_own = (picture == read_pixels(folder / "train" / own)).all(-1)
        theirs = np.where(stored[own] == 11, 255, stored[own])
        assert (classes == theirs)[of_own].mean() > 0.99  # pixels of two photos may have the same colour
        assert not of_own.all()
        for name in stored:
            mixed = ~of_own & (picture == read_pixels(folder / "train" / name)).all(-1)
            if mixed.sum() > 1000:
                assert (classes == np.where(stored[name] == 11, 255, stored[name]))[mixed].mean() > 0.99


def test_normals_and_depth_of_cleargrasp(test_data: Path, tmp_path: Path) -> None:
    """Outside of pastes normals point as in the file, which uses other axes, and depth is in metres."""
    root = test_data / "cleargrasp" / "real-val" / "d435"
    text = f"""
root: {root}
photos: '{{name}}-transparent-rgb-img.jpg'
classes: [glass]
instances: {{files: '{{name}}-mask.png', encoding: number, class: glass}}
depth: {{files: '{{name}}.npz', key: depth_opaque, unit: m}}
normals: {{files: '{{name}}.npz', key: normals, axes: [right, up, backward]}}
camera: {{files: camera_intrinsics.yaml}}
"""
    dataset = write_yaml(tmp_path, text, "a.segpaste.yaml")
    tables = augmented(dataset, tmp_path / "out", "source.kind=same_image")
    with np.load(root / "000000130.npz") as arrays:
        stored, depth = arrays["normals"].astype(np.float64), arrays["depth_opaque"].astype(np.float32)
    valid = np.abs(np.sqrt((stored**2).sum(-1)) - 1) < 0.1
    for image in tables["images"]:
        rows = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
        assert any(row["segpaste"]["pasted"] for row in rows)
        stem = Path(image["file_name"]).stem
        kept = ~np.any([decode(row["segmentation"]) for row in rows if row["segpaste"]["pasted"]], 0)
        normals, metres = (np.load(tmp_path / "out" / name / f"{stem}.npy") for name in ("normals", "depth"))
        np.testing.assert_allclose(normals[kept & valid], stored[kept & valid] * [1, -1, -1], atol=0.1)
        assert (metres[kept] == depth[kept]).all()
        pasted = normals[~kept]
        np.testing.assert_allclose(np.sqrt((pasted[(pasted != 0).any(-1)] ** 2).sum(-1)), 1, atol=1e-4)
