"""Errors that advise: the advice is followed here, and then works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import ConfigError, load_model
from segpaste.datasets import DatasetError, open_dataset
from yolo_files import BOX, SQUARE, write_yolo

PHOTO = (np.arange(24 * 32 * 3) % 251).astype(np.uint8).reshape(24, 32, 3)
CHECKS = (np.indices((24, 32)).sum(0) % 3).astype(np.uint8)


def declare(root: Path, **keys: Any) -> None:
    declared = {"photos": "a.png", "classes": ["zero", "one"], **keys}
    (root / "segpaste.yaml").write_text(json.dumps(declared))


def maps(root: Path, **keys: Any) -> None:
    Image.fromarray(PHOTO).save(root / "a.png")
    Image.fromarray(CHECKS).save(root / "m.png")
    np.savez(root / "d.npz", first=CHECKS + 1.0, second=CHECKS)
    declare(root, **keys)


def coco(root: Path, is_thing: Any = 0) -> None:
    maps(root, semantic={"files": "m.png"})
    (root / "segpaste.yaml").unlink()
    image = {"id": 1, "file_name": "a.png", "width": 32, "height": 24}
    row = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 9, 9], "iscrowd": 0}
    row["segmentation"] = [[2, 2, 9, 2, 9, 9]]
    tables = {"images": [image], "annotations": [row], "categories": [{"id": 1, "name": "cup", "isthing": is_thing}]}
    (root / "labels.json").write_text(json.dumps(tables))


def two_yamls(root: Path) -> None:
    data = write_yolo(root, {"a": SQUARE})
    data.rename(root / "first.yaml")
    (root / "second.yaml").write_text((root / "first.yaml").read_text())


SEMANTIC = {"semantic": {"files": "m.png"}}
Follow = Callable[[Path], Any]
ERRORS: dict[str, tuple[Callable[[Path], object], str, Follow]] = {
    "a class that is not declared": (
        lambda root: maps(root, **SEMANTIC),
        "got 2; add them to 'classes' or to 'void'",
        lambda root: (declare(root, semantic={"files": "m.png", "void": [2]}), open_dataset(root))[1],
    ),
    "classes without colours": (
        lambda root: maps(root, semantic={"files": "m.png", "encoding": "color"}),
        "add 'color' to each class",
        lambda root: (
            declare(
                root,
                classes=[{"name": str(i), "color": [i, i, i]} for i in range(3)],
                semantic={"files": "m.png", "encoding": "color"},
            ),
            open_dataset(root),
        )[1],
    ),
    "a unit as a fraction": (
        lambda root: maps(root, depth={"files": "m.png", "unit": "1/5000"}),
        "such as 0.0002 for 1/5000, got '1/5000'; write the number",
        lambda root: (declare(root, depth={"files": "m.png", "unit": 0.0002}), open_dataset(root))[1],
    ),
    "an array among several": (
        lambda root: maps(root, depth={"files": "d.npz", "unit": "m"}),
        "the name of one of its arrays, first, second, got None; set 'key'",
        lambda root: (declare(root, depth={"files": "d.npz", "unit": "m", "key": "first"}), open_dataset(root))[1],
    ),
    "a key of a file with one array": (
        lambda root: maps(root, depth={"files": "m.png", "unit": "m", "key": "x"}),
        "leave 'key' out",
        lambda root: (declare(root, depth={"files": "m.png", "unit": "m"}), open_dataset(root))[1],
    ),
    "a file of COCO in an unknown folder": (
        coco,
        r"give the file \S+labels\.json with the folder of its images \(images_dir=, --images\)",
        lambda root: open_dataset(root / "labels.json", images_dir=root),
    ),
    "two data YAMLs": (
        two_yamls,
        r"got first\.yaml, second\.yaml; give the right one",
        lambda root: open_dataset(root / "second.yaml"),
    ),
    "boxes and polygons": (
        lambda root: write_yolo(root, {"a": f"{SQUARE}\n{BOX}"}),
        "read all as boxes with the task detect",
        lambda root: open_dataset(root, task="detect"),
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_dataset(tmp_path: Path, case: str) -> None:
    make, message, follow = ERRORS[case]
    make(tmp_path)
    with pytest.raises(DatasetError, match=message):
        open_dataset(tmp_path)[0]
    assert follow(tmp_path)[0].image.ndim == 3


def test_a_name_that_is_no_dataset_is_not_advised(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "viewer"}')
    with pytest.raises(DatasetError, match="; check the path, declare maps in segpaste"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("key", "text", "advised"),
    [
        ("placement.scale_range", "(0.5,2)", "[0.5,2]"),
        ("placement.scale_range", "0.5,2", "[0.5,2]"),
        ("placement.scale_range", "2 - 0.5", "[0.5,2]"),
        ("placement.scale_range", "0.5:2", "[0.5,2]"),
        ("placement.k_range", "(1, 4)", "[1,4]"),
        ("placement.k_range", "4,1", "[1,4]"),
        ("placement.scale_range", "wide", None),
        ("placement.scale_range", "(0.5,2,3)", None),
        ("placement.scale_range", "(-1,2)", None),
    ],
)
def test_a_list_on_the_command_line(key: str, text: str, advised: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        load_model(BatchCopyPasteConfig, None, {key: text})
    advice = str(caught.value).partition("; write ")[2]
    assert advice == ("" if advised is None else f"{key}={advised}")
    example = str(caught.value).partition("such as ")[2].partition(", got")[0]
    for followed in filter(None, (advised, example)):
        load_model(BatchCopyPasteConfig, None, {key: followed})


PLACED = {"grouping": "instance", "partial": "drop", "patch_aligned_paste": True, "pad_to_multiple": 16}
CONFIGS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "sizes": (
        {"placement": {"size_range": {"low": 0.1, "high": 0.2}}},
        "expected grouping='instance'.*set it",
        {"placement": {"size_range": {"low": 0.1, "high": 0.2}, "grouping": "instance"}},
    ),
    "sizes from a bank": (
        {"placement": {"size_range": {"low": 0.1, "high": 0.2}}, "source": {"kind": "bank"}},
        "set it, also with source.kind='bank'",
        {"placement": {"size_range": {"low": 0.1, "high": 0.2}, "grouping": "instance"}, "source": {"kind": "bank"}},
    ),
    "patches": (
        {"placement": {"patch_aligned_paste": True}},
        "expected pad_to_multiple",
        {"placement": {"patch_aligned_paste": True, "pad_to_multiple": 16}},
    ),
    "patches of objects": (
        {"placement": {"align": "instance"}},
        "expected patch_aligned_paste=True",
        {"placement": {**PLACED, "align": "instance"}},
    ),
    "clipping": (
        {"placement": {"min_visible_frac": 0.9, "partial": "drop"}},
        "expected partial='clip'",
        {"placement": {"min_visible_frac": 0.9, "partial": "clip"}},
    ),
    "keeping places": (
        {"placement": {"position": "keep", "max_attempts": 4}},
        "expected max_attempts=1 and patch_aligned_paste=False",
        {"placement": {"position": "keep", "max_attempts": 1, "patch_aligned_paste": False}},
    ),
    "fading": (
        {"placement": {"fade_curve": "linear"}},
        "expected fade_last above 0",
        {"placement": {"fade_curve": "linear", "fade_last": 0.1}},
    ),
    "options of a bank": (
        {"source": {"crops_per_target": 3}},
        "expected kind='bank'",
        {"source": {"crops_per_target": 3, "kind": "bank"}},
    ),
    "white": (
        {"source": {"value_range": 1e-9, "kind": "bank"}},
        "it is usually 1 or 255",
        {"source": {"value_range": 255.0, "kind": "bank"}},
    ),
    "soft edges": (
        {"harmonize": {"feather_px": 3, "blur_px": 1.0}},
        "expected at most one of them above 0",
        {"harmonize": {"feather_px": 3, "blur_px": 0}},
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config(case: str) -> None:
    values, message, followed = CONFIGS[case]
    with pytest.raises(ValidationError, match=message):
        BatchCopyPasteConfig.model_validate(values)
    BatchCopyPasteConfig.model_validate(followed)
