"""`segpaste augment` carries along what samples have no field for: licences, fields of photos, attributes."""

from __future__ import annotations

import json
import math
from pathlib import Path

from cli_world import check_instances, read_json, write_instances

from segpaste.cli import main
from segpaste.datasets import convert_dataset


def test_licences_fields_and_attributes_come_along(tmp_path: Path) -> None:
    path, images = write_instances(tmp_path)
    tables = read_json(path)
    tables |= {"licenses": [{"id": 7, "name": "CC BY 4.0"}]}
    for row in tables["images"]:
        row |= {"license": 7, "flickr_url": f"photo {row['id']}"}
    for row in tables["annotations"]:
        row |= {"attributes": {"of": row["id"]}}
    path.write_text(json.dumps(tables))
    out = tmp_path / "out"
    assert main(["augment", str(path), "--images", str(images), "--out", str(out), "--num", "6", "--gallery", "0"]) == 0
    found = read_json(out / "annotations.json")
    assert found["licenses"] == tables["licenses"]
    for row in found["images"]:
        assert (row["license"], row["flickr_url"]) == (7, f"photo {row['segpaste']['source_image_id']}")
    assert any(row["segpaste"]["pasted"] for row in check_instances(out))
    for row in found["annotations"]:  # survivors, pastes and crowds
        assert row["attributes"] == {"of": row["segpaste"]["source_annotation_id"]}
    words = ["--dataset", str(path), "--images", str(images), "--check", str(out)]
    assert main(["replay", str(out), *words]) == 0


REFERENCES = {"parent": 2, "parent_id": "3", "children": [1, 2], "annotation_id": 1, "duplicate_of": 1}
OTHERS = {"track_id": 5, "parent_name": "car", "parents": None, "annotator": 3, "children_seen": 4, "part": "left"}


def test_keys_with_ids_of_annotations_are_left_out_by_name_where_ids_are_new(tmp_path: Path) -> None:
    path, images = write_instances(tmp_path)
    tables = read_json(path)
    for row in tables["annotations"]:
        row |= {**REFERENCES, **OTHERS, "attributes": {"parentId": 2, "of": 4}}
    path.write_text(json.dumps(tables))
    out = tmp_path / "out"
    assert main(["augment", str(path), "--images", str(images), "--out", str(out), "--num", "4", "--gallery", "0"]) == 0
    found = read_json(out / "annotations.json")
    for row in found["annotations"]:
        assert not REFERENCES.keys() & row.keys()
        assert row.items() >= {**OTHERS, "attributes": {"of": 4}}.items()
    named = {f"key '{key}' of objects: ids of annotations" for key in (*REFERENCES, "parentId")}
    assert found["info"]["segpaste"]["left_out"] == dict.fromkeys(named, len(found["annotations"]))
    words = ["--dataset", str(path), "--images", str(images), "--check", str(out)]
    assert main(["replay", str(out), *words]) == 0

    summary = convert_dataset(path, tmp_path / "panoptic", "coco-panoptic", images_dir=images)
    assert {key: num for key, num in summary.losses.items() if "ids of annotations" in key} == dict.fromkeys(
        named, len(tables["annotations"])
    )
    segments = read_json(tmp_path / "panoptic/panoptic.json")["annotations"]
    assert not any(REFERENCES.keys() & row.keys() for segment in segments for row in segment["segments_info"])
    summary = convert_dataset(path, tmp_path / "coco", "coco", images_dir=images)  # with the ids that they had
    assert not any("annotations" in key for key in summary.losses)
    assert all(
        row.items() >= REFERENCES.items() for row in read_json(tmp_path / "coco/annotations.json")["annotations"]
    )


def test_numbers_that_are_not_json_become_null_by_name(tmp_path: Path) -> None:
    path, images = write_instances(tmp_path)
    tables = read_json(path)
    for row in tables["annotations"]:
        row |= {"score": math.nan, "attributes": {"range": [1.5, -math.inf]}}
    path.write_text(json.dumps(tables))
    summary = convert_dataset(path, tmp_path / "out", "coco-panoptic", images_dir=images)
    text = (tmp_path / "out/panoptic.json").read_text()
    assert "NaN" not in text
    assert '"attributes":{"range":[1.5,null]}' in text
    assert summary.losses["NaN and infinite numbers in keys of objects, written as null"] == 2 * len(
        tables["annotations"]
    )
