"""Datasets divided into parts: stratified, grouped, in their own format, with the labels that were there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row, write_coco
from conversion_world import write_instances
from health_files import FORMATS, NUM, SIZE, png, write
from hypothesis import given
from hypothesis import strategies as st

from on_disk import noise, rectangle, runs
from samples import assert_same
from segpaste.datasets import DatasetError, find_dataset, open_dataset, split_dataset
from segpaste.datasets.splitting.stratify import Group, apportioned, stratify
from segpaste.workspace import WholeFiles

pytestmark = pytest.mark.filterwarnings("ignore")
DIVIDED = [name for name in FORMATS if name not in ("cvat", "label-studio", "via", "ndjson")]
HALVES = {"train": 0.5, "val": 0.5}


def by_content(photos: Any) -> dict[bytes, int]:
    """The index of each image, by the bytes of its file."""
    return {photos.path_of(index).read_bytes(): index for index in range(len(photos))}


@pytest.mark.parametrize("name", DIVIDED)
def test_each_format_is_divided_into_files_of_its_own(name: str, tmp_path: Path) -> None:
    write(tmp_path / "dataset", name)
    found = find_dataset(tmp_path / "dataset")
    split = found.splits[0] or None
    given = found.open(split)
    summary = split_dataset(tmp_path / "dataset", tmp_path / "parts", {"train": 0.75, "val": 0.25}, split=split)
    assert summary.num_images == {"train": 3, "val": 1}
    assert (summary.format, summary.num_verified) == (found.format.name, NUM)
    sources, seen = by_content(given), 0
    for part, num in summary.num_images.items():
        photos = open_dataset(tmp_path / "parts", split=part)
        assert len(photos) == num
        assert photos.class_names == given.class_names
        for content, index in by_content(photos).items():
            assert_same(photos[index], given[sources.pop(content)])
            seen += 1
    assert (seen, sources) == (NUM, {})
    assert not (tmp_path / "parts.partial").exists()


def test_rows_of_coco_are_the_text_of_the_file(tmp_path: Path) -> None:
    images, file = write_instances(tmp_path)
    document = json.loads(file.read_text())
    document["annotations"][0]["area"] = "AREA"
    document["captions"] = [{"image_id": 8, "text": "é"}, {"image_id": 5, "text": "two"}]
    document["codes"] = [8, 5]
    file.write_text(json.dumps(document, ensure_ascii=False).replace('"AREA"', "25.0e0"))
    split_dataset(file, tmp_path / "parts", HALVES, images_dir=images)
    texts = {part: (tmp_path / f"parts/annotations/instances_{part}.json").read_text() for part in HALVES}
    one = next(part for part in HALVES if '"id": 8' in texts[part])
    other = ({*HALVES} - {one}).pop()
    assert '"area": 25.0e0' in texts[one]
    divided = {part: json.loads(text) for part, text in texts.items()}
    given = json.loads(file.read_text())
    assert divided[one]["annotations"] == given["annotations"]
    assert divided[other]["annotations"] == []
    for name in ("info", "licenses", "type", "categories", "codes"):
        assert divided[one][name] == divided[other][name] == given[name]
    assert [divided[part]["captions"] for part in (one, other)] == [given["captions"][:1], given["captions"][1:]]
    assert [row["id"] for part in (one, other) for row in divided[part]["images"]] == [8, 5]
    assert (tmp_path / f"parts/{one}/a/one.png").read_bytes() == (images / "a/one.png").read_bytes()


def drives(folder: Path, num: int = 24) -> tuple[Path, Path]:
    """Frames of 8 drives; class 90 is in two of these only."""
    rows, annotations = [], []
    for index in range(num):
        drive = index % 8
        rows.append(image_row(index, SIZE, f"drive{drive}/{drive:02d}_{index:03d}.png"))
        for label in [3, *([90] if drive in (2, 5) else [])]:
            annotations.append(annotation_row(len(annotations) + 1, index, runs(rectangle(SIZE, 2, 2, 9, 9)), label))
        png(folder / "photos" / rows[-1]["file_name"], noise(SIZE, index))
    return write_coco(folder, rows, annotations)


@pytest.mark.parametrize("group_by", ["folder", r"/(\d+)_"])
def test_frames_of_a_drive_stay_together(group_by: str, tmp_path: Path) -> None:
    images, file = drives(tmp_path)
    parts = {"train": 0.75, "val": 0.25}
    summary = split_dataset(file, tmp_path / "parts", parts, images_dir=images, group_by=group_by)
    of_part = {part: {name.split("/")[0] for name in names} for part, names in summary.image_names.items()}
    assert not of_part["train"] & of_part["val"]
    assert summary.num_images == {"train": 18, "val": 6}
    assert all(row.is_in_each for row in summary.classes)
    assert [(row.name, row.num_groups, sum(row.num_images)) for row in summary.classes] == [
        ("zebra", 2, 6),
        ("car", 8, 24),
    ]
    assert not summary.deviations


def test_what_cannot_be_as_wanted_is_said(tmp_path: Path) -> None:
    images, file = drives(tmp_path)
    document = json.loads(file.read_text())
    document["annotations"][0]["category_id"] = 7
    for row in document["images"][8:]:
        row["file_name"] = "drive0/" + row["file_name"].split("/")[1]
        png(images / row["file_name"], noise(SIZE, row["id"]))
    file.write_text(json.dumps(document))
    parts = {"train": 0.5, "val": 0.5}
    summary = split_dataset(file, tmp_path / "parts", parts, images_dir=images, group_by="folder")
    said = "\n".join(summary.deviations)
    assert "group drive0: 17 images, more than the part train, val should have" in said
    assert "of 24 images" in said
    assert "class cup: not in" in said
    assert "it is in 1 group" in said
    record = json.loads((tmp_path / "parts/split.json").read_text())
    assert record["deviations"] == list(summary.deviations)
    assert (record["seed"], record["group_by"], record["fractions"]) == (0, "folder", parts)
    assert record["files"] == {part: list(names) for part, names in summary.image_names.items()}


def test_the_seed_decides(tmp_path: Path) -> None:
    images, file = drives(tmp_path)
    found = [
        split_dataset(file, tmp_path / f"{i}", HALVES, images_dir=images, seed=seed).image_names
        for i, seed in enumerate((3, 3, 4))
    ]
    assert found[0] == found[1] != found[2]


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    num = draw(st.integers(3, 40))
    own = st.dictionaries(st.integers(0, 6), st.integers(1, 4), max_size=3)
    return [Group(max([1, *showing.values()]), showing) for showing in draw(st.lists(own, min_size=num, max_size=num))]


@given(groups(), st.integers(0, 9))
def test_no_part_is_empty_and_a_lacking_class_cannot_be_moved_there(found: list[Group], seed: int) -> None:
    fractions = [0.6, 0.3, 0.1]
    parts = stratify(found, fractions, seed)
    assert parts == stratify(found, fractions, seed)
    assert {*parts} == {0, 1, 2}
    num = Counter((label, part) for group, part in zip(found, parts, strict=True) for label in group.showing)
    total = Counter(label for group in found for label in group.showing)
    enough = {label for label, number in total.items() if number >= 3}
    for label in enough:
        for part in {0, 1, 2} - {part for other, part in num if other == label}:
            for group, own in zip(found, parts, strict=True):
                if label in group.showing:  # each would take the last image of a class, or the last of all, out
                    is_last = any(num[other, own] == 1 for other in group.showing if other in enough)
                    assert is_last or parts.count(own) == 1, part


@given(st.lists(st.integers(0, 5), min_size=3, max_size=60), st.integers(0, 9))
def test_single_classes_are_in_proportion(labels: list[int], seed: int) -> None:
    fractions = [0.7, 0.2, 0.1]
    parts = stratify([Group(1, {label: 1}) for label in labels], fractions, seed)
    for label, num in Counter(labels).items():
        own = Counter(part for part, other in zip(parts, labels, strict=True) if other == label)
        if num >= 3:
            assert {*own} == {0, 1, 2}
        assert all(abs(own[part] - num * fraction) <= 2 for part, fraction in enumerate(fractions))


def test_apportioned() -> None:
    assert apportioned(10, [0.8, 0.2]) == [8, 2]
    assert apportioned(3, [0.8, 0.2]) == [2, 1]
    assert apportioned(2, [0.9, 0.1]) == [2, 0]
    assert apportioned(2, [0.9, 0.1], 1) == [1, 1]
    assert apportioned(7, [1 / 3] * 3) == [3, 2, 2]
    assert apportioned(0, [0.5, 0.5]) == [0, 0]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": 1.0}, "expected at least two, .* got 'train=1'"),
        ({"train": 0.8, "val": 0.1}, "whose sum is 1, .* whose sum is 0.9"),
        ({"train": 1.2, "val": -0.2}, "expected fractions above 0"),
        ({"train": 80, "val": 20}, "expected fractions above 0 whose sum is 1"),
        ({"train": float("nan"), "val": 0.5}, "expected fractions above 0"),
        ({"../train": 0.8, "val": 0.2}, r"expected names of letters, .* got '\.\./train'"),
        ({"Val": 0.8, "val": 0.2}, "differ in more than case"),
    ],
)
def test_bad_parts(parts: dict[str, float], message: str, tmp_path: Path) -> None:
    write(tmp_path / "dataset", "coco")
    with pytest.raises(DatasetError, match=message):
        split_dataset(tmp_path / "dataset", tmp_path / "parts", parts)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cvat", {}, "got cvat; convert it first"),
        ("yolo", {"parts": {"a": 0.5, "b": 0.5}}, "expected the names train, val, test for a dataset of YOLO, got 'a'"),
        ("coco", {"group_by": "folder"}, r"at least 2 groups of images \(--group-by folder\), .* got 1"),
        ("coco", {"group_by": "(x"}, "expected 'folder' or a regular expression"),
        ("coco", {"group_by": "[1-9]"}, "in every file name, found it not in 1 of 4, such as '0.png'"),
        ("coco", {"parts": dict.fromkeys("abcde", 0.2)}, "at least 5 images, one for each part, got 4"),
        ("coco", {"split": "val"}, "expected one of the splits train, got 'val'"),
    ],
)
def test_what_cannot_be_divided(name: str, options: Any, message: str, tmp_path: Path) -> None:
    write(tmp_path / "dataset", name)
    with pytest.raises(DatasetError, match=message):
        split_dataset(tmp_path / "dataset", tmp_path / "parts", **{"parts": HALVES, **options})
    assert not (tmp_path / "parts").exists()


def test_several_splits_need_a_name(tmp_path: Path) -> None:
    write(tmp_path / "dataset", "label-maps")
    split_dataset(tmp_path / "dataset", tmp_path / "parts", HALVES)
    with pytest.raises(DatasetError, match=r"the split to divide .* since the dataset has train, val; give it"):
        split_dataset(tmp_path / "parts", tmp_path / "again", HALVES)
    assert split_dataset(tmp_path / "parts", tmp_path / "again", HALVES, split="val").num_images == {
        "train": 1,
        "val": 1,
    }


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    images, file = drives(tmp_path, 80)

    def stop(what: str, done: int, total: int) -> None:
        if what == "image":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        split_dataset(file, tmp_path / "parts", HALVES, images_dir=images, progress=stop)
    assert not (tmp_path / "parts").exists()
    copied = sorted((tmp_path / "parts.partial/files").rglob("*.png"))
    assert len(copied) == 64
    times = [path.stat().st_mtime_ns for path in copied]
    with pytest.raises(DatasetError, match="with other arguments: seed 0 there, 1 now"):
        split_dataset(file, tmp_path / "parts", HALVES, images_dir=images, seed=1)
    assert [path.stat().st_mtime_ns for path in copied] == times
    split_dataset(file, tmp_path / "parts", HALVES, images_dir=images)
    split_dataset(file, tmp_path / "whole", HALVES, images_dir=images)
    trees = [
        {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "parts", tmp_path / "whole")
    ]
    assert trees[0] == trees[1]


@pytest.mark.parametrize(
    ("name", "suffix", "old", "new"),
    [
        ("coco", ".json", b"[20, 10, 20, 20]", b"[21, 10, 20, 20]"),
        ("coco", ".json", b'"name": "cup"', b'"name": "mug"'),
        ("coco", "0.png", b"IEND", b"IEND "),
        ("yolo", ".txt", b"0 ", b"0  "),
        ("voc masks", "3.png", b"IEND", b"IEND "),
        ("label-maps", ".txt", b"cup", b"mug"),
    ],
)
def test_a_difference_is_found_before_the_folder_has_its_name(
    name: str, suffix: str, old: bytes, new: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spoiling(WholeFiles):
        def write(self, path: Any, content: Any) -> Path:
            whole = content if isinstance(content, bytes) else b"".join(content)
            return super().write(path, whole.replace(old, new) if str(path).endswith(suffix) else whole)

    write(tmp_path / "dataset", name)
    monkeypatch.setattr("segpaste.datasets.splitting.split.WholeFiles", Spoiling)
    with pytest.raises(DatasetError, match="differs from what was read, so it is not published"):
        split_dataset(tmp_path / "dataset", tmp_path / "parts", HALVES)
    assert not (tmp_path / "parts").exists()
    split_dataset(tmp_path / "dataset", tmp_path / "unseen", HALVES, verify="off")


@pytest.mark.parametrize(("name", "file"), [("voc", "Annotations/0.xml"), ("labelme", "0.json")])
def test_classes_have_the_same_numbers_in_all_parts_without_a_list(name: str, file: str, tmp_path: Path) -> None:
    write(tmp_path / "dataset", name)
    path = tmp_path / "dataset" / file
    path.write_text(path.read_text().replace("cup", "bowl"))
    for number in (1, 2):
        (tmp_path / "dataset" / file.replace("0", f"{number}")).write_text(
            path.read_text().replace("0.png", f"{number}.png")
        )
    for listed in (tmp_path / "dataset").glob("*.txt"):
        listed.unlink()
    summary = split_dataset(tmp_path / "dataset", tmp_path / "parts", HALVES)
    assert [row.name for row in summary.classes] == ["cup", "bowl"]
    assert [open_dataset(tmp_path / "parts", split=part).class_names for part in HALVES] == [("bowl", "cup")] * 2


@pytest.mark.parametrize("is_listed", [False, True])
def test_declared_maps_without_folders_of_splits_are_listed(is_listed: bool, tmp_path: Path) -> None:
    root = tmp_path / "dataset"
    for index in range(NUM):
        png(root / f"photos/{index}.png", noise(SIZE, index))
        png(root / f"maps/{index}.png", rectangle(SIZE, 1, 1, 9, 9))
    declared: dict[str, Any] = {"photos": "photos/{name}.png", "classes": ["floor", "cup"]}
    declared["semantic"] = {"files": "maps/{name}.png"}
    if is_listed:
        (root / "list.txt").write_text("3\n1\n")
        declared["splits"] = {"train": "list.txt"}
    (root / "segpaste.yaml").write_text(json.dumps(declared))
    summary = split_dataset(root, tmp_path / "parts", HALVES)
    assert sum(summary.num_images.values()) == (2 if is_listed else NUM)
    for part, names in summary.image_names.items():
        photos = open_dataset(tmp_path / "parts", split=part)
        assert [photos.file_name(index) for index in range(len(photos))] == list(names)


def test_depth_beside_the_images_goes_with_them(tmp_path: Path) -> None:
    write(tmp_path / "dataset", "coco")
    for index in range(NUM):
        for folder in ("depth", "depth_valid"):
            (tmp_path / "dataset" / folder).mkdir(exist_ok=True)
        np.save(tmp_path / f"dataset/depth/{index}.npy", np.full(SIZE, index + 1, np.float32))
        png(tmp_path / f"dataset/depth_valid/{index}.png", np.full(SIZE, 255))
    split_dataset(tmp_path / "dataset", tmp_path / "parts", HALVES)
    for part in HALVES:
        photos: Any = open_dataset(tmp_path / "parts", split=part)
        for index in range(len(photos)):
            assert photos[index].depth.unique().tolist() == [photos.image_id(index) + 1]
