"""Verified writing finds masks of the same box and area, and changed keys beside the objects, in every format."""

from __future__ import annotations

import dataclasses
import importlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from coco_files import annotation_row, image_row, write_coco
from numpy.typing import NDArray
from pycocotools import mask as coco_mask

from segpaste.cli import main
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.yolo.outlines import outline
from segpaste.datasets.writers.mask_sums import mask_sum, runs_sum
from yolo_files import write_yolo

Change = Callable[[Any], Any]
WRITERS = "segpaste.datasets.writers"
SIZE = (48, 64)
POINTS = [4, 6, 2, 8, 9, 1]


def write_triangles(folder: Path) -> tuple[Path, Path]:
    """Write three images of two triangles and a crowd each, with keys wherever COCO and LVIS may have some."""
    images, rows = [], []
    for number in (1, 2, 3):
        lists = {"neg_category_ids": [9], "not_exhaustive_category_ids": [7]}
        more = {"license": 4, "coco_url": f"http://images/{number}", **lists}
        images.append({**image_row(number, SIZE), **more})
        for slot, (x, label) in enumerate([(3, 3), (24, 7)]):
            shape = [[x, 5, x + 10, 5, x + 10, 13]]
            row = annotation_row(10 * number + slot, number, shape, label, area=40, keypoints=POINTS, num_keypoints=2)
            rows.append({**row, "bbox": [x, 5, 10, 8], "attributes": {"colour": "red", "occluded": True}, "score": 0.5})
        rows.append({**annotation_row(10 * number + 9, number, [[44, 2, 58, 2, 44, 20]], 3), "iscrowd": 1, "by": "me"})
    kinds = [{"id": i, "name": f"class {i}", "supercategory": "all"} for i in (3, 7, 9)]
    categories = [{**row, "keypoints": ["tip", "tail"], "skeleton": [[1, 2]]} for row in kinds]
    return write_coco(folder, images, rows, categories)


def upside_down(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Turn a mask upside down inside its box."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    turned = mask.copy()
    if rows.size:
        box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        turned[box] = mask[box][::-1]
    return turned


def of_argument(change: Change) -> Callable[[Any], Any]:
    return lambda real: lambda first, *rest, **options: real(change(first), *rest, **options)


def of_result(change: Change) -> Callable[[Any], Any]:
    return lambda real: lambda *args, **options: change(real(*args, **options))


def of_images(change: Change) -> Callable[[Any], Any]:
    """Change the entries of images on their way into a table."""

    def changed(split: Any) -> Any:
        def rows() -> Any:
            return (dataclasses.replace(row, image=change(row.image)) for row in split.rows())

        return dataclasses.replace(split, rows=rows)

    return of_argument(changed)


def of_categories(change: Change) -> Callable[[Any], Any]:
    return of_argument(lambda split: dataclasses.replace(split, categories=[change(row) for row in split.categories]))


def without(*names: str) -> Change:
    return lambda row: {key: value for key, value in row.items() if key not in names}


def turned_polygons(rows: Any) -> Any:
    """Turn given polygons upside down inside their boxes."""
    for row in rows:
        if isinstance(row.get("segmentation"), list) and not row["iscrowd"]:
            total = 2 * row["bbox"][1] + row["bbox"][3]
            row["segmentation"] = [
                [total - value if i % 2 else value for i, value in enumerate(part)] for part in row["segmentation"]
            ]
    return rows


def without_occluded(real: Any) -> Callable[..., Any]:
    def flag_of(values: Any, key: str, kind: Any) -> Any:
        flag = real(values, key, kind)
        return None if key == "occluded" else flag

    return flag_of


KEYS = {
    "keys of images": ("table_lines", of_images(without("license", "coco_url"))),
    "values of images": ("table_lines", of_images(lambda row: {**row, "license": 5})),
    "supercategory": ("table_lines", of_categories(without("supercategory"))),
    "skeleton": ("table_lines", of_categories(without("skeleton"))),
    "names of keypoints": ("table_lines", of_categories(lambda row: {**row, "keypoints": row["keypoints"][::-1]})),
}
PLANTED: dict[str, tuple[str, str, str, Any]] = {
    **{
        f"{layout} {name}": (commands, layout, f"{WRITERS}.{layout.replace('-', '_')}.{where}", fault)
        for layout, commands in (("coco", "convert augment replay"), ("coco-panoptic", "convert"))
        for name, (where, fault) in KEYS.items()
    },
    "coco masks": ("augment replay", "coco", f"{WRITERS}.coco.encode_mask", of_argument(upside_down)),
    "roboflow masks": ("augment replay", "roboflow", f"{WRITERS}.coco.encode_mask", of_argument(upside_down)),
    "lvis masks": ("augment replay", "lvis", f"{WRITERS}.coco.encode_mask", of_argument(upside_down)),
    "coco polygons": ("augment", "coco", f"{WRITERS}.coco.made_entries", of_result(turned_polygons)),
    "yolo masks": ("convert augment replay", "yolo", f"{WRITERS}.yolo.outline", of_argument(upside_down)),
    "lvis lists": (
        "convert augment replay", "lvis", f"{WRITERS}.lvis._image",
        of_result(lambda row: {**row, "neg_category_ids": [3], "not_exhaustive_category_ids": [9]}),
    ),
    "lvis crowds": (
        "convert", "lvis", f"{WRITERS}.lvis._image",
        of_result(lambda row: {**row, "not_exhaustive_category_ids": [7]}),
    ),
    "voc attributes": (
        "convert augment replay", "voc", f"{WRITERS}.voc._held", lambda real: lambda values, kind: ([*kind.items()], [])
    ),
    "voc flags": ("convert", "voc", f"{WRITERS}.voc._flag_of", without_occluded),
    "voc elements": ("convert augment", "voc", f"{WRITERS}.voc._further_elements", of_result(lambda _: [])),
    "panoptic attributes": (
        "convert", "coco-panoptic", f"{WRITERS}.coco_panoptic.panoptic_segments",
        of_result(lambda found: (found[0], [*map(without("attributes"), found[1])])),
    ),
    "yolo names of keypoints": (
        "pose", "yolo", f"{WRITERS}.yolo.data_yaml",
        lambda real: lambda names, splits, schema, *rest: real(
            names, splits, dataclasses.replace(schema, names=schema.names[::-1]), *rest
        ),
    ),
}  # fmt: skip
CASES = [(name, command) for name, (commands, *_) in PLANTED.items() for command in commands.split()]


def words_of(command: str, layout: str, folder: Path) -> list[str]:
    """Return a command that writes the dataset in a folder; a replay needs its ``augment`` there, too."""
    dataset = [str(folder / "annotations.json"), "--images", str(folder / "photos")]
    if command == "replay":
        return ["replay", str(folder / f"augment-{layout}"), "--dataset", *dataset]
    if command == "augment":
        return ["augment", *dataset, "--num", "3", "--gallery", "0", "min_area_px=1", "--layout", layout]
    return ["convert", *dataset, "--to", layout, *(["--task", "pose"] if command == "pose" else [])]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the triangles; and all that the commands make of them without a fault, which is published."""
    folder = tmp_path_factory.mktemp("triangles")
    write_triangles(folder)
    with warnings.catch_warnings(action="ignore"):
        for name, command in CASES:
            layout, first = PLANTED[name][1], "augment" if command == "replay" else command
            out = folder / f"{first}-{layout}"
            assert out.exists() or main([*words_of(first, layout, folder), "--out", str(out)]) == 0
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestPlanted:
    @pytest.mark.parametrize(("name", "command"), CASES)
    def test_it_is_found(
        self, name: str, command: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        _, layout, where, fault = PLANTED[name]
        home, attribute = where.rsplit(".", 1)
        module = importlib.import_module(home)
        monkeypatch.setattr(module, attribute, fault(getattr(module, attribute)))
        assert main([*words_of(command, layout, dataset), "--out", str(tmp_path / "out")]) == 2
        assert "differs from what was read" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("change", [without("reviewer"), lambda row: {**row, "image_id": 5 - row["image_id"]}])
    def test_keys_of_panoptic_maps(self, change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_triangles(tmp_path)
        assert main([*words_of("convert", "coco-panoptic", tmp_path), "--out", str(tmp_path / "in")]) == 0
        path = tmp_path / "in/panoptic.json"
        tables = json.loads(path.read_text())
        for row in tables["annotations"]:
            row |= {"reviewer": row["image_id"]}
        path.write_text(json.dumps(tables))
        words = ["convert", str(tmp_path / "in"), "--to", "coco-panoptic", "--out"]
        assert main([*words, str(tmp_path / "right"), "--strict"]) == 0
        module = importlib.import_module(f"{WRITERS}.coco_panoptic")
        monkeypatch.setattr(module, "panoptic_row", of_result(change)(module.panoptic_row))
        assert main([*words, str(tmp_path / "out")]) == 2

    def test_keys_of_a_data_yaml(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = write_yolo(tmp_path / "in", licence="CC", notes={"by": ["me", 1.5]})
        assert main(["convert", str(data), "--to", "yolo", "--out", str(tmp_path / "right")]) == 0
        assert yaml.safe_load((tmp_path / "right/data.yaml").read_text())["notes"] == {"by": ["me", 1.5]}
        module = importlib.import_module(f"{WRITERS}.yolo")
        real = module.data_yaml
        monkeypatch.setattr(module, "data_yaml", lambda *args: real(*args[:4], without("notes")(args[4])))
        assert main(["convert", str(data), "--to", "yolo", "--out", str(tmp_path / "out")]) == 2


ODD: dict[str, Any] = {
    "no value": {"a": None, "b": "", "c": [], "d": {}},
    "flags": {"occluded": 0, "truncated": False, "pose": "Unspecified", "difficult": 1},
    "flags of several kinds": {"occluded": 2, "truncated": "yes", "pose": True, "iscrowd": 1, "ignore": "0"},
    "texts": {"a": " blank", "b": "line\nbreak", "c": "bell\a", "d": "é <&> \U0001f600", "e": "a\u00a0b"},
    "numbers": {"a": 1e-7, "b": -0.0, "c": 10**20, "d": False, "e": 1.0},
    "names": {"a b": 1, " c": 2, "": 3, "attribute": "x", "name": "y", "bndbox": "z", "size": 4, "folder": "f"},
    "attributes of an XML": {"a": 1, "attributes": {"attribute": [{"name": "a", "value": "1"}, {"name": "b"}]}},
    "other attributes": {"attribute": [{"name": "a", "value": "1"}], "attributes": {"a": 1}},
    "lists": {"a": ["b", "c"], "d": ["e"], "f": {"g": 1, "h": ["i", "j"]}},
}


class TestOddKeys:
    @pytest.mark.parametrize("layout", ["voc", "coco-panoptic"])
    @pytest.mark.parametrize("name", ODD)
    def test_they_are_compared_with_themselves(self, name: str, layout: str, tmp_path: Path) -> None:
        _, path = write_triangles(tmp_path)
        document = json.loads(path.read_text())
        first, second, *_ = document["annotations"]
        first["attributes"] = second["attributes"] = ODD[name]
        second |= {key: value for key, value in ODD[name].items() if key not in ("iscrowd", "ignore")}
        document["images"][0] |= {"attributes": ODD[name], "subset": "train"}
        document["images"][1] |= ODD[name]
        path.write_text(json.dumps(document))
        out = tmp_path / "out"
        with warnings.catch_warnings(action="ignore"):
            assert main([*words_of("convert", layout, tmp_path), "--out", str(out)]) == 0
            words = words_of("augment", layout, tmp_path)
            if layout == "coco-panoptic":  # needs panoptic maps
                words[1:4] = [str(out)]
            assert main([*words, "--out", str(tmp_path / "made")]) == 0


class TestMaskSums:
    @pytest.mark.parametrize("frac", [0, 0.02, 0.3, 0.9, 1])
    def test_masks_and_run_lengths_agree(self, frac: float) -> None:
        generator = np.random.default_rng(int(frac * 100))
        for _ in range(20):
            height, width = (int(side) for side in generator.integers(1, 40, 2))
            mask = generator.random((height, width)) < frac
            box = [0.0, 0.0, 0.0, 0.0]
            if mask.any():
                ys, xs = np.nonzero(mask)
                box = [float(xs.min()), float(ys.min()), float(np.ptp(xs) + 1), float(np.ptp(ys) + 1)]
            expected = mask_sum(mask, box)
            assert expected == mask_sum(mask, [0, 0, width, height])
            compressed = encode_mask(mask)["counts"]
            column, counts, value = mask.T.ravel(), [0], False
            for pixel in column:
                counts = [*counts, 0] if pixel != value else counts
                counts[-1], value = counts[-1] + 1, pixel
            assert [runs_sum(runs) for runs in (compressed, compressed.encode(), counts)] == [expected] * 3
            if mask.any():
                (runs,) = coco_mask.frPyObjects([outline(mask).ravel().tolist()], height, width)
                assert runs_sum(runs["counts"]) == expected
            turned = upside_down(mask)
            assert (mask_sum(turned, box) == expected) == np.array_equal(turned, mask)

    def test_long_runs(self) -> None:
        mask = np.zeros((3000, 4000), bool)
        mask[5:, 7:3000] = True
        mask[2999, 3999] = True
        assert mask_sum(mask, [7, 5, 3993, 2995]) == runs_sum(encode_mask(mask)["counts"])
