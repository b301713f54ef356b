"""Each probe has its trait at its special image, and no other trait than those that follow from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from all_probes import PROBES, file_of, write
from probe_traits import list_probe, places_in
from yolo_layouts import WHOLE_LAYOUTS

from segpaste.datasets import DatasetError, check_dataset, open_dataset
from segpaste.datasets.checking.check import check_unopened
from segpaste.datasets.checking.report import HealthReport
from segpaste.datasets.checking.tools.map_traits import OF_MAPS
from segpaste.datasets.checking.tools.registry import NUM_PLACES, TOOLS
from segpaste.datasets.checking.tools.trait import Place
from segpaste.datasets.checking.tools.traits import TRAITS, find_traits
from segpaste.datasets.formats.format import ReadOptions

EVERYWHERE = {"any_object", "first_object", "no_points"}
"""Traits that ordinary images have, too."""
IN_ALL_MAPS = {"map_colours", "class_gaps", "class_255"}
"""Traits of maps that ordinary ones of their dataset have, too."""
WHOLE = {"pose_pairs", "pose_odd", "other_points", "no_num_keypoints"}
"""Traits of all objects of a dataset."""
WITHOUT_TRAIT = {"ordinary"}
"""Probes without a trait."""
EVERY_IMAGE = WHOLE_LAYOUTS | {"missing_test"}
"""Probes of which all images have the trait."""
FOLLOWS: Mapping[tuple[str, str], set[str]] = {
    ("coco", "box_only"): {"mixed_rows", "box_among_masks"},
    ("coco", "flat_boxes"): {"flat_box", "box_only", "thin"},
    ("coco", "no_pixel"): {"thin"},
    ("coco", "other_points"): {"keypoints"},
    ("coco", "no_num_keypoints"): {"keypoints"},
    ("coco", "box_among_masks"): {"mixed_rows", "box_only"},
    ("coco", "few_points"): {"parts"},
    ("coco", "crowd_compressed"): {"crowd"},
    ("coco", "crowd_polygons"): {"crowd"},
    ("coco", "keypoints"): {"some_keypoints", "other_points", "no_num_keypoints"},
    ("coco", "some_keypoints"): {"keypoints", "other_points", "no_num_keypoints"},
    ("coco", "hole_runs"): {"hole", "run_lengths"},
    ("coco", "thin_runs"): {"thin", "run_lengths", "parts"},
    ("coco", "only_crowds"): {"crowd"},
    ("coco", "same_name"): {"subfolder"},
    ("yolo", "box_rows"): {"box_only", "box_among_masks"},
    ("yolo", "hole_from_first"): {"hole"},
    ("yolo", "mixed_rows"): {"box_only", "box_among_masks"},
    ("yolo", "pose_odd"): {"keypoints", "box_only"},
    ("yolo", "pose_pairs"): {"keypoints", "box_only"},
    ("yolo", "same_name"): {"subfolder"},
    ("yolo", "named_path"): {"relative_path"},
    ("yolo", "empty_path"): {"no_path"},
    ("yolo", "stale_alone"): {"stale_path"},
    ("yolo", "listed_bare"): {"listed"},
    ("yolo", "gif_named_jpg"): {"palette"},
    ("yolo", "flat_box"): {"no_pixel"},
    ("yolo", "flat_boxes"): {"flat_box", "thin", "box_rows", "box_only"},
    **{("voc", name): {"box_only"} for name in PROBES["voc"]},
    ("voc", "difficult"): {"crowd", "box_only"},
    ("coco", "tiff_mapped"): {"tiff_oriented", "grey"},
    ("yolo", "tiff_mapped"): {"tiff_oriented", "grey"},
    ("panoptic", "same_name"): {"subfolder"},
    ("panoptic", "crowd_twice"): {"crowd"},
    ("panoptic", "no_segments"): {"no_objects"},
}
OF_IMAGE = {name for name, trait in TRAITS.items() if trait.of_image}
SPLIT_OF_IMAGES = {
    "listed_twice",
    "same_stem",
    "same_name",
    "no_class_lists",
    "box_rows",
    "byte_order_mark",
    "image_negative",
}
SPLIT_OF_IMAGES |= OF_MAPS.keys() - {"other_area", "crowd_twice"}
PAIRS = [(format, name) for format, probes in PROBES.items() for name in probes]


def _checked(format: str, folder: Path, tools: list[str]) -> HealthReport:
    path, options = file_of(format, folder), ReadOptions()
    if format in ("coco", "panoptic"):
        options = ReadOptions(images_dir=folder / "images")
    try:
        dataset = open_dataset(path, split="train" if format == "yolo" else None, images_dir=options.images_dir)
    except DatasetError as error:
        return check_unopened(path, error, None, options, tools=tools)
    return check_dataset(dataset, tools=tools)


@pytest.mark.parametrize(("format", "name"), PAIRS)
def test_a_probe_has_its_trait_and_what_follows_from_it(format: str, name: str, tmp_path: Path) -> None:
    places = places_in(format, write(PROBES[format][name], format, tmp_path))
    own = {name} - WITHOUT_TRAIT
    assert places.keys() - EVERYWHERE == own - EVERYWHERE | FOLLOWS.get((format, name), set())
    assert places.keys() >= EVERYWHERE - {"no_points"} or format == "maps"
    assert ("no_points" in places) == (format == "yolo" and name not in WHOLE)


@pytest.mark.parametrize(("format", "name"), [p for p in PAIRS if p[1] not in WITHOUT_TRAIT | EVERYWHERE])
def test_a_trait_is_at_the_special_images_and_nowhere_else(format: str, name: str, tmp_path: Path) -> None:
    probe = PROBES[format][name]
    split = list_probe(format, write(probe, format, tmp_path))
    places = find_traits(split, [name])[name]
    special = [i for i, image in enumerate(split.listing.images) if not image.name.endswith("ordinary.png")]
    if name in {
        "category_zero",
        "category_negative",
        "category_gaps",
        "names_alike",
    }:  # properties of a class, wherever it is used
        labels = {"category_zero": [0], "category_negative": [0], "category_gaps": [1, 3], "names_alike": [0, 1]}[name]
        assert places == [Place(of.image, of.id) for of in split.listing.objects if of.label in labels]
        return
    if name in EVERY_IMAGE:
        assert places == [Place(0), Place(1)]
        return
    if name in WHOLE:
        assert places == [Place(of.image, of.id) for of in split.listing.objects]
        return
    if name in IN_ALL_MAPS:
        assert places == [Place(position) for position in range(len(split.listing.images))]
        return
    assert len(special) == len(probe.pictures) * (1 + probe.is_twice)
    assert sorted({place.image for place in places}) == special
    is_of_image = name in OF_IMAGE or name in SPLIT_OF_IMAGES
    assert all((place.annotation is None) == is_of_image for place in places)
    if not is_of_image:
        ids = [of.id for of in split.listing.objects if of.image in special]
        start = int(name == "repeated" or format == "panoptic")  # the first segment is the ground
        assert [place.annotation for place in places] == ids[start : start + 1 + (name == "crowd_twice")]


def test_every_trait_has_a_probe() -> None:
    assert {name for _, name in PAIRS} == WITHOUT_TRAIT | TRAITS.keys()


def test_any_object_and_first_object(tmp_path: Path) -> None:
    write(PROBES["coco"]["only_crowds"], "coco", tmp_path)
    tables = json.loads((tmp_path / "instances.json").read_text())
    tables["annotations"].reverse()
    (tmp_path / "instances.json").write_text(json.dumps(tables))
    places = places_in("coco", tmp_path)
    assert places["any_object"] == [Place(0, 2), Place(0, 1)]
    assert places["first_object"] == [Place(0, 2)]


def _edited(name: str, table: str, values: dict[str, Any], folder: Path) -> dict[str, list[Place]]:
    """Write a probe with other values in all entries of a table, and return the places of its traits."""
    write(PROBES["coco"][name], "coco", folder)
    tables = json.loads((folder / "instances.json").read_text())
    tables[table] = [{**row, **values} for row in tables[table]]
    (folder / "instances.json").write_text(json.dumps(tables))
    return places_in("coco", folder)


def test_images_of_another_size_have_no_known_orientation(tmp_path: Path) -> None:
    places = _edited("oriented_as_stored", "images", {"height": 50}, tmp_path)
    assert not {"oriented", "oriented_as_stored"} & places.keys()


def test_ignored_crowds_are_crowds(tmp_path: Path) -> None:
    places = _edited("ordinary", "annotations", {"iscrowd": 1, "ignore": 1}, tmp_path)
    assert places["crowd"] == [Place(0, 1), Place(0, 2)]
    assert "ignored" not in places


def test_images_that_segpaste_rejects_have_traits(tmp_path: Path) -> None:
    places = _edited("wide", "images", {"width": 50}, tmp_path)
    assert places["wide"] == [Place(1)]


def test_class_lists_are_found_missing_one_by_one(tmp_path: Path) -> None:
    write(PROBES["coco"]["ordinary"], "coco", tmp_path)
    tables = json.loads((tmp_path / "instances.json").read_text())
    del tables["images"][0]["not_exhaustive_category_ids"]
    (tmp_path / "instances.json").write_text(json.dumps(tables))
    assert places_in("coco", tmp_path)["no_class_lists"] == [Place(0)]


RULES = [(tool.name, rule) for tool in TOOLS.values() for rule in tool.rules]


@pytest.mark.parametrize(("tool", "rule"), RULES, ids=[f"{tool}-{rule.format}-{rule.trait}" for tool, rule in RULES])
def test_a_check_reports_each_rule_on_the_probe_of_its_trait(tool: str, rule: Any, tmp_path: Path) -> None:
    folder = write(PROBES[rule.format][rule.trait], rule.format, tmp_path)
    (report,) = _checked(rule.format, folder, [tool]).tools
    (found,) = (found for found in report.findings if found.trait == rule.trait)
    assert report.reads_format
    assert (found.effect, found.says, found.advice) == (rule.effect, rule.says, rule.advice)
    assert 0 < len(found.places) <= NUM_PLACES
    if rule.trait not in {
        "category_zero",
        "category_negative",
        "names_alike",
        *EVERYWHERE,
        *WHOLE,
        *WHOLE_LAYOUTS,
        *IN_ALL_MAPS,
    }:
        assert all("special" in place for place in found.places)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_check_of_ordinary_images_reports_only_what_happens_to_all(tool: str, tmp_path: Path) -> None:
    for format in TOOLS[tool].formats:
        write(PROBES[format]["ordinary"], format, tmp_path / format)
        (report,) = _checked(format, tmp_path / format, [tool]).tools
        assert {found.trait for found in report.findings} <= EVERYWHERE


BROKEN: list[Any] = [[["a", 1, 2, 3, 4, 5]], [5], [None], [[1, 2, 3]], [[]], {}, {"counts": 5}, {"counts": [1]}, "x", 7]


@pytest.mark.parametrize("segmentation", BROKEN, ids=str)
def test_broken_masks_have_no_trait_of_a_shape(segmentation: Any, tmp_path: Path) -> None:
    write(PROBES["coco"]["ordinary"], "coco", tmp_path)
    tables = json.loads((tmp_path / "instances.json").read_text())
    tables["annotations"][0]["segmentation"] = segmentation
    (tmp_path / "instances.json").write_text(json.dumps(tables))
    report = _checked("coco", tmp_path, ["all"])
    assert len(report.tools) == len(TOOLS)
    assert not {"hole", "parts", "thin", "outside"} & places_in("coco", tmp_path).keys()
