"""`segpaste augment` carries along what samples have no field for: licences, fields of photos, attributes."""

from __future__ import annotations

import json
from pathlib import Path

from cli_world import check_instances, read_json, write_instances

from segpaste.cli import main


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
