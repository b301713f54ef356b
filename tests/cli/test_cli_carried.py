"""`segpaste augment` carries along what samples have no field for: licences, fields of photos, attributes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_world import check_instances, read_json, write_instances

from segpaste import augment_dataset, convert_dataset
from segpaste.cli import main
from segpaste.datasets import DatasetError
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES
from segpaste.datasets.writers import coco
from segpaste.datasets.writers.coco import json_lines


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


def _with_references(folder: Path) -> tuple[Path, Path]:
    """Write instances whose keys refer to other annotations and images, in many forms."""
    path, images = write_instances(folder)
    tables = read_json(path)
    first: dict[int, int] = {}
    rows = tables["annotations"]
    of_image = {
        image["id"]: [row["id"] for row in rows if row["image_id"] == image["id"]] for image in tables["images"]
    }
    for row in rows:
        own = row["image_id"]
        others = [number for number in of_image[own] if number != row["id"]]
        row |= {"parent": first.setdefault(own, row["id"]), "children": others, "annotation_id": str(row["id"])}
        row |= {
            "attributes": {"parentId": row["parent"], "of": 4},
            "iou_by_annotation": dict.fromkeys(map(str, others), 0.5),
        }
        row |= {"img_id": own, "occluder": -1, "parent_name": "car", "track_id": 5, "object_id": row["id"]}
        row |= {"link_annotation_id": rows[0]["id"]}
    ids = [row["id"] for row in tables["images"]]
    for row, before, after in zip(tables["images"], [-1, *ids], [*ids[1:], -1], strict=False):
        row |= {"prev_image_id": before, "next_image_id": str(after), "annotation_ids": of_image[row["id"]]}
        row |= {"name": row["file_name"], "after": f"p{after - 500}.png", "frame_id": row["id"], "video_id": 7}
        row |= {"url": f"http://x/{row['file_name']}", "source_image_id": row["id"], "flickr_image_id": 12}
    tables["categories"][0]["example_image_ids"] = ids[:1]
    tables["categories"][1]["example_annotation_id"] = rows[0]["id"]
    path.write_text(json.dumps(tables))
    return path, images


def _expect_references(out: Path, path: Path) -> Counter[str]:
    """Check the references of a written dataset against its provenance; return the number of those that are gone."""
    found, tables = read_json(out / "annotations.json"), read_json(path)
    given = {row["id"]: row for row in tables["annotations"]}
    images = {row["id"]: row for row in tables["images"]}
    names = {row["id"]: row["file_name"] for row in tables["images"]}
    copies: dict[int, list[Any]] = {}
    for row in found["images"]:
        copies.setdefault(row["segpaste"]["source_image_id"], []).append(row)
    gone = Counter[str]()

    def image_of(number: int) -> Any:
        those = copies.get(number, [])
        return those[0] if len(those) == 1 else None

    def kept(row: Any, key: str, value: Any) -> None:
        assert row.get(key, "gone") == ("gone" if value is None else value), key
        gone[key] += value is None

    for row in found["images"]:
        own = images[row["segpaste"]["source_image_id"]]
        before, after = image_of(own["prev_image_id"]), image_of(int(own["next_image_id"]))
        kept(row, "prev_image_id", -1 if own["prev_image_id"] == -1 else before and before["id"])
        kept(row, "next_image_id", "-1" if own["next_image_id"] == "-1" else after and str(after["id"]))
        kept(row, "name", row["file_name"])
        is_name = own["after"] in names.values()
        kept(row, "after", own["after"] if not is_name else after and after["file_name"])
        assert {key: row[key] for key in ("frame_id", "video_id", "url", "flickr_image_id")} == {
            key: own[key] for key in ("frame_id", "video_id", "url", "flickr_image_id")
        }
        kept(row, "source_image_id", None)
        there = [a["id"] for a in found["annotations"] if a["image_id"] == row["id"] and not a["segpaste"]["pasted"]]
        assert row["annotation_ids"] == there
        gone["annotation_ids"] += len(own["annotation_ids"]) - len(there)
    survivors: dict[int, list[int]] = {}
    for row in found["annotations"]:
        if not row["segpaste"]["pasted"]:
            survivors.setdefault(row["segpaste"]["source_annotation_id"], []).append(row["id"])
    for row in found["annotations"]:
        old = given[row["segpaste"]["source_annotation_id"]]
        near = {
            other["segpaste"]["source_annotation_id"]: other["id"]
            for other in found["annotations"]
            if other["image_id"] == row["image_id"] and other["segpaste"]["source_image_id"] == old["image_id"]
        }
        kept(row, "parent", near.get(old["parent"]))
        kept(row, "annotation_id", str(row["id"]))
        kept(row, "occluder", -1)
        kept(row, "img_id", row["image_id"])
        kept(row, "object_id", None)
        assert row["children"] == [near[number] for number in old["children"] if number in near]
        gone["children"] += len(old["children"]) - len(row["children"])
        assert row["iou_by_annotation"] == {str(near[n]): 0.5 for n in old["children"] if n in near}
        gone["iou_by_annotation"] += len(old["children"]) - len(row["iou_by_annotation"])
        assert row["attributes"].get("parentId") == near.get(old["parent"])
        gone["parentId"] += old["parent"] not in near
        assert (row["parent_name"], row["track_id"], row["attributes"]["of"]) == ("car", 5, 4)
        there = survivors.get(old["link_annotation_id"], [])
        far = there[0] if len(there) == 1 and not row["segpaste"]["pasted"] and old["image_id"] != 500 else None
        kept(row, "link_annotation_id", near.get(old["link_annotation_id"]) or far)
    example = image_of(tables["categories"][0]["example_image_ids"][0])
    assert found["categories"][0]["example_image_ids"] == ([] if example is None else [example["id"]])
    gone["example_image_ids"] += example is None
    there = survivors.get(tables["annotations"][0]["id"], [])
    kept(found["categories"][1], "example_annotation_id", there[0] if len(there) == 1 else None)
    return gone


@pytest.mark.parametrize("num", [3, 5, 9])
def test_keys_with_ids_of_others_have_the_new_ids(tmp_path: Path, num: int) -> None:
    path, images = _with_references(tmp_path)
    out, again = tmp_path / "out", tmp_path / "again"
    words = [str(path), "--images", str(images)]
    more = ["--num", str(num), "--gallery", "0", "placement.k_range=[1,3]"]
    assert main(["augment", *words, "--out", str(out), *more]) == 0
    check_instances(out)
    gone = _expect_references(out, path)
    left_out = read_json(out / "annotations.json")["info"]["segpaste"]["left_out"]
    found = Counter[str]()
    left_out.pop(OTHER_BOXES)
    for what, number in left_out.items():
        found[what.split("'")[1]] += number
    assert found == +gone
    assert any(num for key, num in gone.items() if key not in ("object_id", "source_image_id"))

    words = ["--dataset", str(path), "--images", str(images)]
    assert main(["replay", str(out), *words, "--check", str(out)]) == 0
    assert main(["replay", str(out), *words, "--out", str(again)]) == 0
    without = lambda rows: [{k: v for k, v in row.items() if k != "segpaste"} for row in rows]  # noqa: E731
    one, other = (read_json(folder / "annotations.json") for folder in (out, again))
    for table in ("images", "annotations", "categories"):
        assert without(one[table]) == without(other[table])


@pytest.mark.parametrize("key", ["parent", "children"])
def test_a_wrong_id_in_a_key_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Keys with ids of others are part of the ledger, with their new ids."""
    path, images = _with_references(tmp_path)

    def wrong(tables: Mapping[str, Any]) -> Any:
        rows = (
            {**row, key: [*row[key], 1] if key == "children" else 1} if key in row else row
            for row in tables["annotations"]
        )
        return json_lines({**tables, "annotations": rows})

    monkeypatch.setattr(coco, "json_lines", wrong)
    with pytest.raises(DatasetError, match=r"expected the further keys of .* as they were read, got others"):
        augment_dataset(path, tmp_path / "out", num=3, gallery=0, images_dir=images)


def test_keys_with_ids_of_others_are_those_of_segments(tmp_path: Path) -> None:
    path, images = _with_references(tmp_path)
    summary = convert_dataset(path, tmp_path / "panoptic", "coco-panoptic", images_dir=images)
    tables = read_json(tmp_path / "panoptic/panoptic.json")
    given = {row["id"]: row for row in read_json(path)["annotations"]}
    num_segments = 0
    for segments in (row["segments_info"] for row in tables["annotations"]):
        for row in segments:
            num_segments += 1
            assert row["annotation_id"] == str(row["id"])
            assert {row.get("parent", row["id"]), *row["children"]} <= {other["id"] for other in segments}
    assert num_segments
    images_there = read_json(path)["images"]
    num = sum(bool(row["annotation_ids"]) and bool(row.pop("annotation_ids")) for row in images_there)
    assert tables["images"] == images_there
    assert summary.losses["key 'annotation_ids' of images: ids of annotations"] == num
    assert summary.losses["key 'object_id' of objects: ids of annotations"] == num_segments
    summary = convert_dataset(path, tmp_path / "coco", "coco", images_dir=images)  # with the ids that they had
    assert not any("annotations" in key for key in summary.losses)
    for row in read_json(tmp_path / "coco/annotations.json")["annotations"]:
        assert row.items() >= {key: given[row["id"]][key] for key in ("parent", "children", "annotation_id")}.items()
    summary = convert_dataset(path, tmp_path / "voc", "voc", images_dir=images)  # without ids
    assert summary.losses["key 'parent' of objects: ids of annotations"] == len(given)
    assert summary.losses["key 'prev_image_id' of images: ids of images"] == len(tables["images"]) - 1


def _not_finite(folder: Path) -> tuple[Path, Path, Counter[str]]:
    """Write instances with NaN and infinite numbers everywhere but in geometry; return the number of each place."""
    path, images = write_instances(folder)
    tables = read_json(path)
    for row in tables["annotations"]:
        row |= {"score": math.nan, "attributes": {"range": [1.5, -math.inf]}}
    for row in tables["images"]:
        row |= {"blur": math.inf}
    tables["categories"][1] |= {"weight": math.nan}
    tables |= {"info": {"year": 2020, "mean": [math.nan, 0.5]}, "scores": [{"of": 1, "x": math.nan}, math.inf]}
    path.write_text(json.dumps(tables))
    num = {"keys of objects": 2 * len(tables["annotations"]), "keys of images": len(tables["images"])}
    num |= {"keys of categories": 1, "the table 'info'": 1, "the table 'scores'": 2}
    return path, images, Counter(num)


def _strict(path: Path) -> Any:
    """Read JSON as the standard has it: without NaN and infinite numbers."""
    return json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{path.name} has {word}"))


def _named(losses: Mapping[str, int]) -> Counter[str]:
    start, end = "NaN and infinite numbers in ", ", written as null"
    return Counter({what[len(start) : -len(end)]: num for what, num in losses.items() if what.startswith(start)})


@pytest.mark.parametrize(
    ("to", "file"),
    [
        ("coco", "annotations.json"),
        ("roboflow", "train/_annotations.coco.json"),
        ("lvis", "annotations/lvis_train.json"),
        ("coco-panoptic", "panoptic.json"),
    ],
)
def test_numbers_that_are_not_json_become_null_by_name(tmp_path: Path, to: str, file: str) -> None:
    path, images, expected = _not_finite(tmp_path)
    summary = convert_dataset(path, tmp_path / "out", to, images_dir=images)
    assert _named(summary.losses) == expected
    found = _strict(tmp_path / "out" / file)
    assert (found["info"], found["scores"]) == ({"year": 2020, "mean": [None, 0.5]}, [{"of": 1, "x": None}, None])
    assert [row["blur"] for row in found["images"]] == [None] * len(found["images"])
    assert [row.get("weight", "none") for row in found["categories"]] == ["none", None, "none"]
    rows = found["annotations"]
    for row in [own for given in rows for own in given.get("segments_info", [given])]:
        assert (row["score"], row["attributes"]) == (None, {"range": [1.5, None]})
    if to == "coco-panoptic":
        again = json.loads((tmp_path / "out" / file).read_text())
        for row in again["annotations"]:
            row |= {"time": math.nan}
            row["segments_info"][:1] = [{**own, "score": math.inf} for own in row["segments_info"][:1]]
        (tmp_path / "out" / file).write_text(json.dumps(again))
        summary = convert_dataset(tmp_path / "out", tmp_path / "again", to)
        num = sum(bool(row["segments_info"]) for row in again["annotations"])
        assert _named(summary.losses) == {"keys of panoptic maps": len(rows), "keys of objects": num}
        _strict(next((tmp_path / "again").rglob("panoptic*.json")))


def test_numbers_that_are_not_json_in_augmented_images(tmp_path: Path) -> None:
    path, images, expected = _not_finite(tmp_path)
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["augment", str(path), "--images", str(images), "--out", str(out), "--num", "4", "--gallery", "0"]) == 0
    found = _strict(out / "annotations.json")
    expected = Counter({**expected, "keys of objects": 2 * len(found["annotations"]), "keys of images": 4})
    assert _named(found["info"]["segpaste"]["left_out"]) == expected
    words = ["--dataset", str(path), "--images", str(images)]
    assert main(["replay", str(out), *words, "--check", str(out)]) == 0
    assert main(["replay", str(out), *words, "--out", str(again)]) == 0
    assert _strict(again / "annotations.json")["scores"] == found["scores"]


@pytest.mark.parametrize("grouping", ["image", "instance"])
def test_the_key_segpaste_is_named_where_it_is_overwritten(
    grouping: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every written row whose original has it, also a pasted one; of no other."""
    path, images = write_instances(tmp_path)
    tables = read_json(path)
    for row in (tables["images"][0], *tables["annotations"][::2]):
        row["segpaste"] = {"own": row["id"]}
    path.write_text(json.dumps(tables))
    having = {row["id"] for row in tables["annotations"][::2]}
    dataset, out = [str(path), "--images", str(images)], str(tmp_path / "out")
    words = ["--num", "6", "--gallery", "0", f"placement.grouping={grouping}", "placement.scale_range=[0.5,0.6]"]
    assert main(["augment", *dataset, "--out", out, *words]) == 0
    found = read_json(tmp_path / "out/annotations.json")
    made_of = [row["segpaste"] for row in found["annotations"] if row["segpaste"]["source_annotation_id"] in having]
    assert any(row["pasted"] for row in made_of)
    first = tables["images"][0]["id"]
    num_images = sum(row["segpaste"]["source_image_id"] == first for row in found["images"])
    lines = {
        f"key 'segpaste' of annotations, replaced by the provenance {len(made_of)}",
        f"key 'segpaste' of images, replaced by the provenance {num_images}",
    }
    assert {" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if "'segpaste'" in line} == lines
    assert main(["replay", out, "--dataset", *dataset, "--out", str(tmp_path / "again")]) == 0
    assert {" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if "'segpaste'" in line} == lines
