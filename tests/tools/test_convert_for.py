"""Datasets that are converted for a tool: what it would lose is written otherwise, or left out and counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probes import COCO, HEIGHT, WIDTH, write
from pycocotools import mask as coco_mask

from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.rules import Rule, Tool
from segpaste.datasets.conversion.conversion import Conversion
from segpaste.datasets.conversion.summary import ConversionSummary
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.registry import find_dataset

CAREFUL = Tool(
    "careful",
    "Careful",
    "careful",
    ("1.0",),
    "trains",
    ("coco",),
    tuple(
        Rule("coco", trait, "object_lost", "it is lost", "convert it")
        for trait in ("crowd", "box_only", "few_points", "run_lengths", "id_zero", "area_zero")
    ),
    ("coco", None),
)


def convert(trait: str, folder: Path, tool: Tool | None = CAREFUL) -> tuple[list[dict[str, Any]], ConversionSummary]:
    """Convert a probe, and return the annotations of its special image."""
    write(COCO[trait], "coco", folder / trait)
    found = find_dataset(folder / trait / "instances.json", None)
    options = ReadOptions(images_dir=folder / trait / "images")
    summary = Conversion(found, "coco", options=options, tool=tool).run(folder / "out")
    assert all(report.keeps_labels for report in summary.for_tool)
    tables = json.loads((summary.out / "annotations.json").read_text())
    return [row for row in tables["annotations"] if row["image_id"] == 2], summary


def test_run_lengths_become_an_outline_of_the_same_pixels(tmp_path: Path) -> None:
    given, _ = convert("hole_runs", tmp_path, None)
    rows, summary = convert("hole_runs", tmp_path / "again")
    runs = coco_mask.frPyObjects(given[0]["segmentation"], HEIGHT, WIDTH)
    drawn = coco_mask.merge(coco_mask.frPyObjects(rows[0]["segmentation"], HEIGHT, WIDTH))
    assert isinstance(given[0]["segmentation"], dict)
    assert isinstance(rows[0]["segmentation"], list)
    assert np.array_equal(coco_mask.decode(drawn), coco_mask.decode(runs))
    assert not summary.losses
    assert list(summary.changes.values()) == [1]


def test_compressed_run_lengths_become_lists_of_the_same_pixels(tmp_path: Path) -> None:
    only_lists = replace(CAREFUL, rules=(Rule("coco", "compressed", "stops", "it stops", "convert it"),))
    given, _ = convert("compressed", tmp_path, None)
    rows, summary = convert("compressed", tmp_path / "again", only_lists)
    runs = coco_mask.frPyObjects(rows[0]["segmentation"], HEIGHT, WIDTH)
    assert isinstance(given[0]["segmentation"]["counts"], str)
    assert runs["counts"].decode() == given[0]["segmentation"]["counts"]
    assert list(summary.changes.values()) == [1]


def test_a_crowd_region_is_left_out_and_counted(tmp_path: Path) -> None:
    rows, summary = convert("crowd", tmp_path)
    assert [row["iscrowd"] for row in rows] == [0]
    assert summary.losses == {"crowd and ignored regions, left out for Careful": 1}
    assert summary.num_crowds == {"": 0}


def test_an_object_without_a_mask_is_left_out_and_counted(tmp_path: Path) -> None:
    rows, summary = convert("box_only", tmp_path)
    assert [row["category_id"] for row in rows] == [2]
    assert summary.losses == {"objects without a mask, left out for Careful": 1}


def test_polygons_of_two_points_are_left_out_and_counted(tmp_path: Path) -> None:
    rows, summary = convert("few_points", tmp_path)
    assert [len(polygon) for polygon in rows[0]["segmentation"]] == [8]
    assert summary.losses == {"polygons of fewer than three points, left out for Careful": 1}


def test_an_annotation_with_the_id_0_gets_the_first_free_one(tmp_path: Path) -> None:
    rows, summary = convert("id_zero", tmp_path)
    assert sorted(row["id"] for row in rows) == [4, 5]
    assert not summary.losses
    assert list(summary.changes.values()) == [1]
    for_evaluator, summary = convert("id_negative", tmp_path / "again", TOOLS["faster-coco-eval"])
    assert min(row["id"] for row in for_evaluator) > 0
    assert len({row["id"] for row in for_evaluator}) == len(for_evaluator)
    assert list(summary.changes.values()) == [1]


def test_what_names_an_annotation_by_its_id_names_the_new_one(tmp_path: Path) -> None:
    write(COCO["id_zero"], "coco", tmp_path)
    file = tmp_path / "instances.json"
    tables = json.loads(file.read_text())
    others = {"parent": 0, "annotation_ids": [0, 1], "track_id": 0}
    tables["annotations"][0].update(others)
    tables["relations"] = [{"annotation_id": 0, "of": "a part"}]
    file.write_text(json.dumps(tables))
    summary = convert_dataset(file, tmp_path / "out", tool="pycocotools", images_dir=tmp_path / "images")
    written = json.loads((summary.out / "annotations.json").read_text())
    (new,) = {row["id"] for row in written["annotations"]} - {row["id"] for row in tables["annotations"]}
    assert {key: written["annotations"][0][key] for key in others} == {
        "parent": new,
        "annotation_ids": [new, 1],
        "track_id": 0,
    }
    assert "relations" not in written
    assert summary.losses == {"table 'relations': ids of annotations": 1}
    kept = convert_dataset(file, tmp_path / "kept", tool="torchvision", images_dir=tmp_path / "images")
    assert json.loads((kept.out / "annotations.json").read_text())["relations"] == tables["relations"]


def test_an_area_of_0_becomes_that_of_the_mask(tmp_path: Path) -> None:
    given, _ = convert("area_zero", tmp_path, None)
    rows, summary = convert("area_zero", tmp_path / "again")
    assert (given[0]["area"], rows[0]["area"]) == (0, 40 * 34)
    assert not summary.losses
    assert list(summary.changes.values()) == [1]


@pytest.mark.parametrize("trait", sorted(COCO.keys() - {"wide"}))
def test_nothing_is_known_to_go_wrong_in_the_tool_afterwards(trait: str, tmp_path: Path) -> None:
    write(COCO[trait], "coco", tmp_path)
    summary = convert_dataset(
        tmp_path / "instances.json", tmp_path / "out", tool="torchvision", images_dir=tmp_path / "images"
    )
    assert [(found.reads_format, found.keeps_labels) for found in summary.for_tool] == [(True, True)]
    listed = json.loads((tmp_path / "instances.json").read_text())["images"]
    assert len(open_dataset(tmp_path / "out")) == len(listed)


def test_another_tool_and_no_format_are_refused(tmp_path: Path) -> None:
    write(COCO["ordinary"], "coco", tmp_path)
    with pytest.raises(DatasetError, match=r"expected one of ultralytics.*got 'yolo'"):
        convert_dataset(tmp_path / "instances.json", tmp_path / "out", tool="yolo", images_dir=tmp_path / "images")
    with pytest.raises(DatasetError, match="expected a format, or a tool"):
        convert_dataset(tmp_path / "instances.json", tmp_path / "out", images_dir=tmp_path / "images")
    assert not (tmp_path / "out").exists()
