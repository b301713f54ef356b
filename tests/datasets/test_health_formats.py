"""Checks of all formats: the same fault is a finding of the same kind, and each finding names its file and entry."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from health_files import CORNERS, FORMATS, NUM, SIZE, png, write
from PIL import Image
from torch.utils.data import Dataset

import segpaste
from cutout_files import write_cutouts
from samples import make_sample
from segpaste.cli import main
from segpaste.datasets import CutOuts, DatasetError, JoinedPhotos, check_dataset, find_dataset, open_dataset
from segpaste.datasets.checking.check import check_unopened
from segpaste.datasets.checking.report import KINDS, HealthReport, report_lines
from yolo_files import BOX, SQUARE, write_yolo

NO_TORCH = """
import sys
from segpaste.cli import main
for words in {commands!r}:
    assert main(words) in {codes}, words
    assert not {{"torch", "torchvision"}} & set(sys.modules), words
"""
OF_SAMPLES = ("voc masks", "label-maps")
"""Formats whose objects are in maps, which are read with their samples."""
SHAPES = ("labelme", "cvat", "label-studio", "via", "voc", "yolo", "coco")


def check(root: Path, **options: Any) -> HealthReport:
    """Return the report of a folder as the command makes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            photos = open_dataset(root)
        except DatasetError as error:
            return check_unopened(root, error, **options)
        return check_dataset(photos, **options)


def assert_named(report: HealthReport, root: Path) -> None:
    """Every finding names a file below the folder, as the text and the JSON do."""
    lines = "\n".join(report_lines(report, num_shown=99))
    for found in report.to_dict()["findings"]:
        assert found["file"].startswith(str(root)), found
        assert found["message"].startswith(found["file"]), found
        assert f"\n      {found['message']}" in lines


def run_without_torch(commands: list[list[str]], *codes: int) -> str:
    """Run commands in a process of their own, in which none imports torch, and return what they print."""
    path = str(Path(segpaste.__file__).parents[1])
    words = [sys.executable, "-c", NO_TORCH.format(commands=commands, codes=codes)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_annotations_are_checked_without_torch(tmp_path: Path) -> None:
    commands = []
    for name in FORMATS:
        if name not in OF_SAMPLES:
            write(tmp_path / name, name)
            commands += [["check", str(tmp_path / name), *more] for more in ([], ["--decode", "--json"])]
    file = tmp_path / "coco/annotations/instances_train.json"
    commands.append(["check", str(file), "--images", str(tmp_path / "coco/train")])
    assert run_without_torch(commands, 0).count("healthy: 0 errors") == len(FORMATS) - len(OF_SAMPLES) + 1


@pytest.mark.parametrize("name", FORMATS)
def test_annotations_are_as_healthy_as_their_dataset(tmp_path: Path, name: str) -> None:
    """Only those in maps are read with samples; a dataset is one of torch, and its annotations are none."""
    write(tmp_path, name)
    found = find_dataset(tmp_path)
    annotations, dataset = found.read(), found.open()
    assert isinstance(dataset, Dataset)
    assert isinstance(annotations, Dataset) == (name in OF_SAMPLES)
    reports = [check_dataset(of, decode=True, tools=["all"]).to_dict() for of in (annotations, dataset)]
    assert reports[0] == reports[1]


def test_rules_of_tools_need_no_torch(tmp_path: Path) -> None:
    names = [name for name in FORMATS if name not in OF_SAMPLES]
    for name in names:
        write(tmp_path / name, name)
    printed = run_without_torch([["check", str(tmp_path / name), "--for", "all"] for name in names], 0, 1)
    assert printed.count("pycocotools") >= len(names)


def test_what_readers_reject_is_checked_without_torch(tmp_path: Path) -> None:
    write(tmp_path, "coco")
    file = tmp_path / "annotations/instances_train.json"
    file.write_text(file.read_text().replace('"category_id": 1', '"category_id": 5', 1))
    assert "annotation 1" in run_without_torch([["check", str(tmp_path)]], 1)


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_images(tmp_path: Path, name: str, decode: bool) -> None:
    """One is no image, one has another size, one is missing, one is cut off, which only its pixels show."""
    folder = write(tmp_path, name)
    assert check(tmp_path, decode=decode).is_healthy
    cut = (folder / "0.png").read_bytes()
    (folder / "0.png").write_bytes(cut[: len(cut) // 2])
    (folder / "1.png").write_text("none")
    Image.new("RGB", (32, 24)).save(folder / "2.png")
    (folder / "3.png").unlink()
    report = check(tmp_path, decode=decode)
    expected = {"missing_file": ["3"], "broken_file": ["0", "1"] if decode else ["1"], "wrong_size": ["2"]}
    if name == "label-maps":  # its images are those of the folder
        del expected["missing_file"]
    if name in ("yolo", "via"):  # their labels do not have the size
        del expected["wrong_size"]
    places = {kind: sorted(Path(f.file or "").stem for f in report.of_kind(kind)) for kind in report.counts("error")}
    assert places == expected
    if name != "voc masks":  # whose files do not say the names of images
        assert all(Path(found.file or "").suffix == ".png" for found in report.of_kind("missing_file"))
    if name not in ("voc masks", "label-maps"):
        assert report.num_objects == NUM - 2 * (name == "via")  # whose objects are measured by the size of the image
    assert_named(report, tmp_path)


def spoil(root: Path, name: str) -> None:
    """Break the entry of images 1 and 2."""
    for i in (1, 2):
        if name == "labelme":
            path = root / f"{i}.json"
            path.write_text(path.read_text().replace('"polygon"', '"spiral"'))
        elif name == "voc":
            path = root / f"Annotations/{i}.xml"
            path.write_text(path.read_text().replace("<ymin>11</ymin>", "<ymin>x</ymin>"))
        elif name == "yolo":
            (root / f"labels/{i}.txt").write_text("0 0.1 x\n")
        elif name == "cvat":
            path = root / "annotations.xml"
            text = path.read_text()
            place = text.index("points=", text.index(f'name="{i}.png"'))
            path.write_text(text[:place] + 'points="1;2"' + text[text.index("/>", place) :])
        else:
            path = next(path for path in root.rglob("*.json"))
            document = json.loads(path.read_text())
            if name == "coco":
                document["annotations"][i]["iscrowd"] = "no"
            elif name == "via":
                document[f"{i}.png7"]["regions"][0]["shape_attributes"]["name"] = "spiral"
            else:
                document[i]["annotations"][0]["result"][0]["value"]["points"] = [["a", 1]]
            path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", SHAPES)
def test_entries(tmp_path: Path, name: str) -> None:
    """Two are broken: both are found, and the other objects are counted."""
    write(tmp_path, name)
    spoil(tmp_path, name)
    report = check(tmp_path)
    assert report.counts("error") == {"broken_entry": 2}
    assert report.num_objects >= NUM - 2
    assert_named(report, tmp_path)
    assert all(Path(found.file or "").is_file() for found in report.of_kind("broken_entry"))
    assert main(["check", str(tmp_path)]) == 1


def tiny_and_twice(root: Path, name: str) -> None:
    """Make the object of image 1 tiny, and add the object of image 2 again."""
    if name == "labelme":
        document = json.loads((root / "1.json").read_text())
        document["shapes"][0]["points"] = [[1, 1], [4, 1], [4, 4], [1, 4]]
        (root / "1.json").write_text(json.dumps(document))
        document = json.loads((root / "2.json").read_text())
        document["shapes"] *= 2
        (root / "2.json").write_text(json.dumps(document))
    elif name == "cvat":
        text = (root / "annotations.xml").read_text()
        head, one, two, rest = re.split(r"(?=<image)", text)[:1] + re.split(r"(?=<image)", text)[2:5]
        first = re.split(r"(?=<image)", text)[1]
        one = re.sub(r'points="[^"]*"', 'points="1,1;4,1;4,4;1,4"', one)
        polygon = re.findall(r"<polygon[^>]*/>", two)[0]
        (root / "annotations.xml").write_text(head + first + one + two.replace(polygon, polygon * 2) + rest)
    elif name == "yolo":
        square = " ".join(f"{x / 64} {y / 48}" for x, y in ([1, 1], [4, 1], [4, 4], [1, 4]))
        (root / "labels/1.txt").write_text(f"0 {square}\n")
        (root / "labels/2.txt").write_text((root / "labels/2.txt").read_text() * 2)
    elif name == "via":
        document = json.loads((root / "via_region_data.json").read_text())
        square = {"all_points_x": [1, 4, 4, 1], "all_points_y": [1, 1, 4, 4]}
        document["1.png7"]["regions"][0]["shape_attributes"] |= square
        document["2.png7"]["regions"] *= 2
        (root / "via_region_data.json").write_text(json.dumps(document))
    else:
        document = json.loads((root / "project.json").read_text())
        value = document[1]["annotations"][0]["result"][0]["value"]
        value["points"] = [[x / 0.64, y / 0.48] for x, y in ([1, 1], [4, 1], [4, 4], [1, 4])]
        results = document[2]["annotations"][0]["result"]
        results.append({**results[0], "id": "b"})
        (root / "project.json").write_text(json.dumps(document))


WHERE = {
    "labelme": ("1.json: shape 1: ", "2.json: shape 2: "),
    "cvat": ("annotations.xml: image '1.png': shape 1 <polygon>: ", "annotations.xml: image '2.png': shape 2 "),
    "yolo": ("labels/1.txt: line 1 of ", "labels/2.txt: line 2 of "),
    "via": ("via_region_data.json: image '1.png7': region 1: ", "via_region_data.json: image '2.png7': region 2: "),
    "label-studio": ("project.json: task 1: region 'a': ", "project.json: task 2: region 'b': "),
}


@pytest.mark.parametrize("name", WHERE)
def test_shapes_are_measured_without_reading_pixels(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    tiny_and_twice(tmp_path, name)
    report = check(tmp_path)
    assert {k: n for k, n in report.counts().items() if k in ("tiny_mask", "duplicate_annotation")} == {
        "tiny_mask": 1,
        "duplicate_annotation": 1,
    }, report.findings
    (tiny,), (twice,) = report.of_kind("tiny_mask"), report.of_kind("duplicate_annotation")
    assert tiny.message.startswith(f"{tmp_path}/{WHERE[name][0]}")
    assert twice.message.startswith(f"{tmp_path}/{WHERE[name][1]}")
    assert report.num_objects == NUM + 1
    assert_named(report, tmp_path)


def test_outlines_and_boxes_in_one_dataset(tmp_path: Path) -> None:
    """The kind is that of COCO and YOLO."""
    write(tmp_path, "labelme")
    document = json.loads((tmp_path / "1.json").read_text())
    document["shapes"][0] |= {"shape_type": "rectangle", "points": [CORNERS[0], CORNERS[2]]}
    (tmp_path / "1.json").write_text(json.dumps(document))
    report = check(tmp_path)
    assert report.counts("error") == {"missing_mask": 1}
    assert_named(report, tmp_path)


def test_an_option_that_does_not_apply_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "labelme")
    assert main(["check", str(tmp_path), "--task", "pose"]) == 2
    assert main(["check", str(tmp_path), "--panoptic-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().out == ""


class TestMaps:
    def test_values_without_a_class_and_missing_or_broken_maps(self, tmp_path: Path) -> None:
        write(tmp_path, "label-maps")
        png(tmp_path / "semantic/train/0.png", np.full(SIZE, 9))
        (tmp_path / "semantic/train/1.png").write_bytes(b"\x89PNG\r\n\x1a\nxx")
        (tmp_path / "instances/train/2.png").unlink()
        report = check(tmp_path, decode=True)
        assert report.counts("error") == {"broken_file": 1, "broken_map": 1}
        assert report.counts("remark")["left_out"] == 1
        files = {found.kind: found.file for found in report.findings}
        assert files["broken_map"] == str(tmp_path / "semantic/train/0.png")
        assert files["broken_file"] == str(tmp_path / "semantic/train/1.png")
        assert_named(report, tmp_path)

    def test_depth_and_normals(self, tmp_path: Path) -> None:
        """Image 0 is from 2 to 4 m with a quarter invalid, the others are 3 m, and image 3 is invalid everywhere."""
        write(tmp_path, "label-maps")
        for folder in ("depth", "normals"):
            (tmp_path / folder / "train").mkdir(parents=True)
        for i in range(NUM):
            depth = np.full(SIZE, 3, np.float32)
            if i == 0:
                depth[:24, :32], depth[0, 32], depth[0, 33] = 0, 2, 4
            depth *= i < 3
            np.save(tmp_path / f"depth/train/{i}.npy", depth)
            normals = np.zeros((*SIZE, 3), np.float32)
            normals[..., 2] = -1
            np.save(tmp_path / f"normals/train/{i}.npy", normals)
        assert (found := check(tmp_path).depth) is not None
        assert (found.num_images, found.invalid_frac) == (0, None)
        report = check(tmp_path, decode=True)
        assert report.depth is not None
        assert report.normals is not None
        spread = report.depth.values
        assert (report.depth.unit, report.depth.num_images, spread.min, spread.median, spread.max) == ("m", 4, 2, 3, 4)
        assert report.depth.invalid_frac == pytest.approx((0.25 + 1) / 4)
        assert (report.depth.num_without, report.normals.invalid_frac) == (1, 0)
        assert report.counts() == {"invalid_surface": 1}
        text = "\n".join(report_lines(report))
        assert "\ndepth      2 to 4 (median 3) m, 4 images, 31.25% of the pixels invalid, 1 without a valid" in text
        assert "\nnormals    4 images, 0.00% of the pixels invalid\n" in text
        assert_named(report, tmp_path)

    def test_depth_beside_tables(self, tmp_path: Path) -> None:
        write(tmp_path, "labelme")
        for i in range(NUM):
            (tmp_path / "depth").mkdir(exist_ok=True)
            np.save(tmp_path / f"depth/{i}.npy", np.full(SIZE, 1 + i, np.float32))
            png(tmp_path / f"depth_valid/{i}.png", np.full(SIZE, 255 * (i < 2)))
        (tmp_path / "depth/3.npy").write_bytes(b"x")
        assert (found := check(tmp_path).depth) is not None
        assert (found.unit, found.num_images) == ("m", 0)
        report = check(tmp_path, decode=True)
        assert report.depth is not None
        assert (report.depth.num_images, report.depth.num_without, report.depth.values.max) == (3, 1, 2)
        assert report.counts("error") == {"broken_file": 1}
        assert next(report.of_kind("broken_file")).file == str(tmp_path / "depth/3.npy")
        assert_named(report, tmp_path)


class TestCutOuts:
    def test_broken_and_opaque_ones(self, tmp_path: Path) -> None:
        """16 bits per channel are not a fault: cut-outs are read with 8."""
        folder = write_cutouts(tmp_path / "cutouts")
        first, second, *_ = sorted(folder.rglob("*.png"))
        content = first.read_bytes()
        photos = CutOuts(folder)
        assert check_dataset(photos, decode=True).is_healthy
        first.write_bytes(content[: len(content) // 2])
        Image.new("RGBA", (9, 9), (1, 2, 3, 255)).save(second)
        report = check_dataset(photos, decode=True)
        assert report.counts("error") == {"broken_file": 1, "broken_map": 1}
        assert_named(report, folder)
        joined = check_dataset(JoinedPhotos([photos]), decode=True)
        assert joined.counts("error") == report.counts("error")


def test_samples_of_depth() -> None:
    """The unit is known with a camera only."""
    sample = make_sample((17, 23), 1, modalities={"instance", "depth"})
    report = check_dataset([sample], decode=True)
    assert report.depth is not None
    assert sample.depth is not None
    assert sample.depth_valid is not None
    assert report.depth.unit == ("m" if sample.metric_depth else None)
    assert report.depth.values.max == float(sample.depth[sample.depth_valid].max())
    assert report.depth.invalid_frac == pytest.approx(1 - float(sample.depth_valid.to(torch.float64).mean()))
    assert all(found.file is None for found in report.findings)


def test_boxes_among_polygons_of_yolo_are_not_said_to_be_written(tmp_path: Path) -> None:
    """Readers refuse the dataset, and the advice is theirs."""
    write_yolo(tmp_path, {"a": SQUARE, "b": f"{SQUARE}\n{BOX}"})
    report = check(tmp_path)
    assert {kind for kind in report.counts() if KINDS[kind][0] == "error" or kind == "boxed_object"} == {"missing_mask"}
    assert "read all as boxes with the task detect" in next(iter(report.of_kind("missing_mask"))).message


def write_semantic(folder: Path, suffix: str, classes: str = "background\ncup\nsky\nunused\n") -> Path:
    """Write two images with maps of the first three classes."""
    values = np.zeros((24, 32), np.uint8)
    values[2:9, 3:9], values[12:20] = 1, 2
    for part in ("images", "semantic"):
        (folder / part / "train").mkdir(parents=True)
    for i in range(2):
        Image.fromarray(np.dstack([values + i] * 3)).save(folder / f"images/train/{i}.png")
        Image.fromarray(values).save(folder / f"semantic/train/{i}{suffix}")
    (folder / "classes.txt").write_text(classes)
    return folder


def test_semantic_maps_are_annotations(tmp_path: Path) -> None:
    report = check_dataset(open_dataset(write_semantic(tmp_path, ".png")), decode=True)
    assert [(found.kind, found.message) for found in report.findings] == [
        ("unused_category", f"{tmp_path}: 'unused' has no annotation")
    ]


def test_maps_of_another_suffix_show_the_declaration_to_write(tmp_path: Path) -> None:
    write_semantic(tmp_path, ".tif")
    with pytest.raises(
        DatasetError, match=r"but semantic/train/0\.tif; convert them, or write segpaste\.yaml: "
    ) as told:
        open_dataset(tmp_path)
    (tmp_path / "segpaste.yaml").write_text(str(told.value).partition("segpaste.yaml: ")[2])
    semantic = open_dataset(tmp_path)[0].semantic_map
    assert semantic is not None
    assert set(semantic.unique().tolist()) == {0, 1, 2}
    for file in (tmp_path / "semantic/train").iterdir():
        file.unlink()
    with pytest.raises(DatasetError, match=r"correct 'files' of 'semantic' in segpaste\.yaml"):
        open_dataset(tmp_path)
    (tmp_path / "segpaste.yaml").unlink()
    with pytest.raises(DatasetError, match=r"for 2 images; add them, or declare the files .* in segpaste\.yaml"):
        open_dataset(tmp_path)


def test_depth_alone_has_no_annotations_to_miss(tmp_path: Path) -> None:
    write_semantic(tmp_path, ".png")
    (tmp_path / "depth").mkdir()
    for i in range(2):
        np.save(tmp_path / f"depth/{i}.npy", np.ones((24, 32), np.float32))
    text = "photos: 'images/train/{name}.png'\ndepth: {files: 'depth/{name}.npy', unit: m}\n"
    (tmp_path / "segpaste.yaml").write_text(text)
    report = check_dataset(open_dataset(tmp_path), decode=True)
    assert (report.counts(), report.has_annotations) == ({}, False)
