"""Verified writing: a fault in the content of a written file, planted after its writer, is found in any format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conversion_world import SIZES, read_json, write_instances

from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset
from segpaste.workspace import WholeFiles
from yolo_files import write_yolo

Change = Callable[[str], str]


def of_json(change: Callable[[Any], Any]) -> Change:
    """Change the document of a JSON file in place."""

    def call(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return call


def of_regions(change: Callable[[Any], Any]) -> Change:
    """Change the crowd and ignored regions of a JSON file in place."""

    def every(document: Any) -> None:
        rows = [row for row in document["annotations"] if row.get("iscrowd") or row.get("ignore")]
        assert rows
        for row in rows:
            change(row)

    return of_json(every)


def of_each(table: str, change: Callable[[Any], Any]) -> Change:
    """Change the rows of a table of a JSON file in place."""
    return of_json(lambda document: [change(row) for row in document[table]])


def moved(row: Any) -> None:
    row["bbox"] = [row["bbox"][0] + 2, *row["bbox"][1:]]


def unlike(row: Any) -> None:
    row["segmentation"] = {"size": list(SIZES[0]), "counts": [40, 9, SIZES[0][0] * SIZES[0][1] - 49]}


def wider(row: Any) -> None:
    row["width"] += 7


def of_text(pattern: str, by: str) -> Change:
    def call(text: str) -> str:
        changed = re.sub(pattern, by, text)
        assert changed != text
        return changed

    return call


REGIONS: dict[str, Change] = {
    "region moved": of_regions(moved),
    "region of another box": of_regions(lambda row: row.update(bbox=[0, 0, 1, 1])),
    "region of another area": of_regions(lambda row: row.update(area=row["area"] + 1)),
    "region of another mask": of_regions(unlike),
    "ignored region as a crowd": of_regions(lambda row: row.pop("ignore", None)),
}
OF_JSON = r"/(annotations|instances_[^/]*|_annotations.coco|lvis_[^/]*|panoptic[^/]*)\.json$"
LISTS: dict[str, tuple[str, str, Change]] = {
    "yolo: train as val": ("yolo", "data.yaml$", of_text("(?m)^train:", "val:")),
    "yolo: images of another split": ("yolo", "data.yaml$", of_text("images/train", "labels/../images/train")),
    "yolo: further key": ("yolo", "data.yaml$", of_text("(?m)^nc:", "test: images/train\nnc:")),
    "voc: image not in Main": ("voc", "/Main/[a-z]+.txt$", of_text(r"\A[^\n]*\n", "")),
    "voc: image not in Segmentation": ("voc", "/Segmentation/[a-z]+.txt$", of_text(r"\A[^\n]*\n", "")),
    "voc: filename": ("voc", ".xml$", of_text("(<filename>)", r"\1other_")),
    "voc: width": ("voc", ".xml$", of_text("(<width>)", r"\g<1>1")),
    "voc: depth": ("voc", ".xml$", of_text("<depth>3", "<depth>1")),
    "voc: segmented": ("voc", ".xml$", of_text("<segmented>1", "<segmented>0")),
    "voc: class list": ("voc", "class_names.txt$", of_text("zebra", "horse")),
}
OTHER_TABLES: dict[str, Change] = {
    "no licence": of_json(lambda document: document.update(licenses=[])),
    "no type": of_json(lambda document: document.pop("type")),
    "another info": of_json(lambda document: document["info"].update(year=1999, version="?")),
}
COUNTS: dict[str, Change] = {
    key: of_each("categories", lambda row, key=key: row.update({key: "f" if key == "frequency" else 99}))  # type: ignore[misc]
    for key in ("frequency", "image_count", "instance_count", "synset")
}
PLANTED: dict[str, tuple[str, str, Change]] = {
    **{f"coco: {name}": ("coco", OF_JSON, change) for name, change in REGIONS.items()},
    **{f"roboflow: {name}": ("roboflow", OF_JSON, change) for name, change in REGIONS.items()},
    **{
        f"{to}: width of an image": (to, OF_JSON, of_each("images", wider))
        for to in ("coco", "roboflow", "lvis", "coco-panoptic")
    },
    **LISTS,
    **{
        f"{to}: {name}": (to, OF_JSON, change)
        for to in ("coco", "roboflow", "lvis", "coco-panoptic")
        for name, change in OTHER_TABLES.items()
    },
    **{f"lvis: {key}": ("lvis", OF_JSON, change) for key, change in COUNTS.items()},
}
AUGMENTED: dict[str, tuple[str, str, Change]] = {
    **{f"coco: {name}": ("coco", OF_JSON, change) for name, change in REGIONS.items()},
    **{
        f"{to}: width of an image": (to, OF_JSON, of_each("images", wider))
        for to in ("coco", "roboflow", "lvis", "yolo", "voc", "label-maps")
    },
    **LISTS,
    **{
        f"{to}: {name}": (to, OF_JSON, change)
        for to in ("coco", "roboflow", "lvis", "yolo", "voc", "label-maps")
        for name, change in OTHER_TABLES.items()
    },
    **{f"lvis: {key}": ("lvis", OF_JSON, change) for key, change in COUNTS.items()},
}


def plant(monkeypatch: pytest.MonkeyPatch, pattern: str, change: Change) -> list[str]:
    """Change the text of files whose name has a pattern, as they are written; return their names."""
    found = list[str]()

    def changed(path: Path, content: Any) -> Any:
        if not re.search(pattern, path.as_posix()):
            return content
        found.append(path.name)
        return change((content if isinstance(content, bytes) else b"".join(content)).decode()).encode()

    real = WholeFiles.write
    monkeypatch.setattr(WholeFiles, "write", lambda self, path, content: real(self, path, changed(Path(path), content)))
    return found


def augment(dataset: tuple[Path, Path], layout: str, out: Path) -> int:
    images_dir, path = dataset
    words = ["augment", str(path), "--images", str(images_dir), "--num", "3", "--gallery", "0", "min_area_px=1"]
    return main([*words, "--layout", layout, "source.kind=same_image", "--out", str(out)])


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestPlanted:
    @pytest.mark.parametrize("name", PLANTED)
    def test_a_conversion(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        to, pattern, change = PLANTED[name]
        images_dir, path = write_instances(tmp_path)
        convert_dataset(path, tmp_path / "right", to, images_dir=images_dir)
        found = plant(monkeypatch, pattern, change)
        with pytest.raises(DatasetError, match="differs from what was read, so it is not published"):
            convert_dataset(path, tmp_path / "out", to, images_dir=images_dir)
        assert found
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", AUGMENTED)
    def test_an_augmented_dataset(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        layout, pattern, change = AUGMENTED[name]
        dataset = write_instances(tmp_path)
        found = plant(monkeypatch, pattern, change)
        assert augment(dataset, layout, tmp_path / "out") == 2
        assert found
        assert "differs from what was read" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("by", ["", "[0, 1]"])
    def test_swaps_of_keypoints(self, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in document["categories"]:
            row |= {"keypoints": ["left_ear", "right_ear"], "skeleton": []}
        for row in document["annotations"]:
            row |= {"keypoints": [2, 3, 2, 4, 4, 1], "num_keypoints": 2}
        path.write_text(json.dumps(document))
        if by:
            plant(monkeypatch, "data.yaml$", of_text(r"(?<=flip_idx: )\[1, 0\]", by))
        with pytest.raises(DatasetError, match="'flip_idx'") if by else nullcontext():
            convert_dataset(path, tmp_path / "out", "yolo", images_dir=images_dir, task="pose")

    @pytest.mark.parametrize("given", [{}, {"segmentation": []}, {"segmentation": None}, {"bbox": None}])
    def test_regions_without_a_mask(self, given: dict[str, Any], tmp_path: Path) -> None:
        """What a writer completes is no fault."""
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in document["annotations"][-2:]:
            for key in given or ("segmentation", "area"):
                row.pop(key)
            row |= given
        path.write_text(json.dumps(document))
        summary = convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert summary.verified.images == 2


class TestEqualRows:
    @pytest.mark.parametrize(
        "rows",
        [
            "0 .5 .5 .2 .2\n0 .4 .4 .6 .4 .6 .6 .4 .6\n",
            "0 0.500000 0.500000 0.200000 0.200000\n0 .4 .4 .6 .4 .6 .6 .4 .6\n",
        ],
    )
    def test_a_box_and_its_polygon(self, rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = write_yolo(tmp_path / "in", {"a": rows, "b": "1 .1 .1 .1 .1\n"})
        words = ["augment", str(data), "--task", "detect", "source.mask_from=boxes", "--num", "4", "--gallery", "0"]
        assert main([*words, "--out", str(tmp_path / "out")]) == 0, capsys.readouterr().err
        assert "rows equal to another of their label file (only in annotations.json)" in capsys.readouterr().out
        for file in (tmp_path / "out/labels").rglob("*.txt"):
            found = [[round(float(word), 6) for word in line.split()] for line in file.read_text().splitlines()]
            assert found.count([0, 0.5, 0.5, 0.2, 0.2]) <= 1


class TestOwnKey:
    """The key `segpaste` of a dataset, of a user or of an augmentation before."""

    @pytest.mark.parametrize("value", [{"pasted": True}, "mine"])
    @pytest.mark.parametrize("to", ["yolo", "voc", "label-maps"])
    def test_it_is_held_or_named(self, to: str, value: Any, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in (*document["annotations"][:3], document["images"][0]):
            row["segpaste"] = value
        path.write_text(json.dumps(document))
        summary = convert_dataset(path, tmp_path / "out", to, images_dir=images_dir)
        if to == "voc" and value == "mine":
            (xml,) = (tmp_path / "out").rglob("*one.xml")
            assert xml.read_text().count("mine") == 4
        else:
            assert summary.losses["key 'segpaste' of annotations"] == 3
            assert summary.losses["key 'segpaste' of images"] == 1

    def test_augmentation_replaces_it(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["annotations"][0]["segpaste"] = "mine"
        path.write_text(json.dumps(document))
        assert augment((images_dir, path), "coco", tmp_path / "out") == 0
        assert "key 'segpaste' of annotations, replaced by the provenance" in capsys.readouterr().out
        left_out = read_json(tmp_path / "out/annotations.json")["info"]["segpaste"]["left_out"]
        assert left_out["key 'segpaste' of annotations, replaced by the provenance"]

    def test_provenance_is_named(self, tmp_path: Path) -> None:
        assert augment(write_instances(tmp_path), "coco", tmp_path / "first") == 0
        summary = convert_dataset(tmp_path / "first", tmp_path / "out", "voc")
        assert {"key 'segpaste' of annotations", "key 'segpaste' of images"} <= {*summary.losses}
