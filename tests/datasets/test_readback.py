"""Verified writing: a fault planted in any writer is found before the folder gets its name, whatever the format."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversion_world import SIZES, read_json, write_instances
from torchvision import tv_tensors

from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from segpaste.datasets.writers import registry
from segpaste.datasets.writers.format import File, LabelledImage, Losses, View, WrittenFormat, count_lost
from segpaste.datasets.writers.layouts import WrittenLayout
from segpaste.workspace import WholeFiles
from written import write_image, write_rest
from yolo_files import BOX, SQUARE, TRIANGLE, write_yolo

Plant = Callable[[Any], Callable[..., Any]]


def rolled(real: Any) -> Callable[..., Any]:
    """Shift what a function returns by one pixel."""
    return lambda *args, **options: np.roll(real(*args, **options), 1, -1)


def one_more(real: Any) -> Callable[..., Any]:
    """Add one to the coordinates or values that a function returns."""
    return lambda *args, **options: real(*args, **options) + 1


def of_rows(change: Callable[[Any], Any]) -> Plant:
    """Change the rows that a function returns."""
    return lambda real: lambda *args, **options: change(real(*args, **options))


def other_class(rows: Any) -> Any:
    return [{**row, "category_id": {3: 7, 7: 90, 90: 3}[row["category_id"]]} for row in rows]


def shifted(rows: Any) -> Any:
    return [{**row, "bbox": [row["bbox"][0] + 1, *row["bbox"][1:]]} for row in rows]


def far_right(box: Any) -> Any:
    return [9, *box[1:]]


def first_argument(change: Callable[[Any], Any]) -> Plant:
    """Change the first argument of a function."""
    return lambda real: lambda first, *args, **options: real(change(first), *args, **options)


def swapped_maps(real: Any) -> Callable[..., Any]:
    return lambda *args, **options: real(*args, **options)[::-1]


def without_last(real: Any) -> Callable[..., Any]:
    def generate(*args: Any, **options: Any) -> Any:
        yield from list(real(*args, **options))[:-1]

    return generate


def swapped_labels(real: Any) -> Callable[..., Any]:
    def call(photo: Any, *args: Any, **options: Any) -> Any:
        labels = (photo.sample.labels + 1) % 3
        return real(replace(photo, sample=replace(photo.sample, labels=labels)), *args, **options)

    return call


WRITERS, CONVERSION = "segpaste.datasets.writers", "segpaste.datasets.conversion"
PLANTED: dict[str, tuple[str, str | None, str, Plant]] = {
    "class of an entry": ("coco", None, f"{CONVERSION}.photos.kept_entries", of_rows(other_class)),
    "box of an entry": ("coco", None, f"{CONVERSION}.photos.kept_entries", of_rows(shifted)),
    "entry missing": ("roboflow", None, f"{CONVERSION}.photos.kept_entries", of_rows(lambda rows: rows[1:])),
    "attribute missing": (
        *("coco", None, f"{CONVERSION}.photos.kept_entries"),
        of_rows(lambda rows: [{k: v for k, v in row.items() if k != "attributes"} for row in rows]),
    ),
    "objects as crowds": ("lvis", None, f"{WRITERS}.lvis._is_region", of_rows(lambda _: True)),
    "outline": ("yolo", None, f"{WRITERS}.yolo.outline", one_more),
    "box of a label file": (
        *("yolo", "detect", f"{WRITERS}.yolo.label_text"),
        lambda real: lambda label, row: real(label, [row[0] + 0.04, *list(row)[1:]]),
    ),
    "class of a label file": (
        *("yolo", "detect", f"{WRITERS}.yolo.label_text"),
        lambda real: lambda label, row: real((label + 1) % 3, row),
    ),
    "oriented box": ("yolo", "obb", f"{WRITERS}.yolo.least_rectangle", one_more),
    "class list of YOLO": ("yolo", None, f"{WRITERS}.yolo.data_yaml", first_argument(lambda n: [*n][::-1])),
    "owners": ("voc", None, f"{WRITERS}.voc.owners_of", rolled),
    "maps of VOC": ("voc", None, f"{WRITERS}.voc._maps", swapped_maps),
    "classes of VOC": ("voc", None, f"{WRITERS}.voc.PascalVoc.label_files", lambda real: (
        lambda self, photo, *rest: swapped_labels(lambda photo: real(self, photo, *rest))(photo)
    )),
    "box of VOC": (
        *("voc", None, f"{WRITERS}.voc._add_object"),
        lambda real: lambda root, name, box, *rest: real(root, name, [box[0] + 1, *list(box)[1:]], *rest),
    ),
    "list of VOC": ("voc", None, f"{WRITERS}.voc.PascalVoc.closing_files", without_last),
    "map of classes": ("label-maps", None, f"{WRITERS}.label_maps._semantic", rolled),
    "map of objects": ("label-maps", None, f"{WRITERS}.label_maps.owners_of", rolled),
    "label file missing": ("label-maps", None, f"{WRITERS}.label_maps.LabelMaps.label_files", without_last),
    "box of a segment": ("coco-panoptic", None, f"{WRITERS}.coco_panoptic.tight_xywh", of_rows(far_right)),
    "pixels of segments": ("coco-panoptic", None, f"{WRITERS}.coco_panoptic.owners_of", rolled),
    "segment missing": (
        *("coco-panoptic", None, f"{WRITERS}.coco_panoptic.panoptic_segments"),
        of_rows(lambda found: (found[0], found[1][1:])),
    ),
    "table": (
        *("coco", None, f"{WRITERS}.coco.json_lines"),
        first_argument(lambda tables: {**tables, "licenses": [{"id": 9, "name": "another"}]}),
    ),
    "image of other bytes": (
        *("coco", None, f"{WRITERS}.dataset_writer.copied_bytes"), of_rows(lambda content: content[:-9])
    ),
}  # fmt: skip


def plant(monkeypatch: pytest.MonkeyPatch, where: str, fault: Plant) -> None:
    """Replace a function, or a method, by one with a fault."""
    names = where.split(".")
    depth = next(depth for depth in range(len(names) - 1, 0, -1) if _is_module(names[:depth]))
    home: Any = importlib.import_module(".".join(names[:depth]))
    for name in names[depth:-1]:
        home = getattr(home, name)
    monkeypatch.setattr(home, names[-1], fault(getattr(home, names[-1])))


def _is_module(names: list[str]) -> bool:
    try:
        importlib.import_module(".".join(names))
    except ImportError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestPlanted:
    @pytest.mark.parametrize("name", PLANTED)
    def test_it_is_found(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        to, task, where, fault = PLANTED[name]
        images_dir, path = write_instances(tmp_path)
        options: dict[str, Any] = {"images_dir": images_dir, "task": task}
        assert convert_dataset(path, tmp_path / "right", to, **options).verified.images == 2
        plant(monkeypatch, where, fault)
        with pytest.raises(DatasetError, match="differs from what was read, so it is not published"):
            convert_dataset(path, tmp_path / "out", to, **options)
        assert not (tmp_path / "out").exists()
        assert (tmp_path / "out.partial" / "files").is_dir()
        assert not convert_dataset(path, tmp_path / "unseen", to, verify="off", **options).verified.images

    @pytest.mark.parametrize(
        "to", ["coco", "roboflow", "lvis", "yolo", "voc", "label-maps", "coco-panoptic"]
    )  # fmt: skip
    def test_a_missing_image_is_found(self, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images_dir, path = write_instances(tmp_path)
        real = WholeFiles.write

        def write(self: WholeFiles, file: Any, content: Any) -> Path:
            return Path(file) if "two.png" in str(file) and content[:4] == b"\x89PNG" else real(self, file, content)

        monkeypatch.setattr(WholeFiles, "write", write)
        with pytest.raises(DatasetError, match="two"):
            convert_dataset(path, tmp_path / "out", to, images_dir=images_dir)
        assert not (tmp_path / "out").exists()

    def test_a_fault_of_our_encoder_and_our_decoder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images_dir, path = write_instances(tmp_path)
        plant(monkeypatch, f"{WRITERS}.voc.palette_bytes", first_argument(lambda values: values[::-1]))
        plant(
            *(monkeypatch, "segpaste.datasets.formats.stored_pixels.plain_png"),
            of_rows(lambda found: None if found is None else (found[0][::-1].copy(), found[1])),
        )
        with pytest.raises(DatasetError, match=r"expected the values in SegmentationClass/.* as they were read"):
            convert_dataset(path, tmp_path / "out", "voc", images_dir=images_dir)

    @pytest.mark.parametrize("by", [0, 0.01])
    def test_corners_that_are_given(self, by: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images_dir, path = write_instances(tmp_path)
        document = json.loads(path.read_text())
        corners = [4.3, 4.6, 14.5, 4.6, 14.5, 14.7, 4.3, 14.7]
        turned = [8.0, 3.0, 13.0, 8.0, 9.9, 11.0, 5.0, 6.0]  # of a tool that rounds
        for row, given in zip(document["annotations"], (corners, turned), strict=False):
            row["segmentation"] = [given]
        path.write_text(json.dumps(document))
        if by:
            where = f"{WRITERS}.yolo.given_corners"
            plant(monkeypatch, where, of_rows(lambda found: None if found is None else found + by))
        with pytest.raises(DatasetError, match="differs") if by else warnings.catch_warnings(action="ignore"):
            convert_dataset(path, tmp_path / "out", "yolo", images_dir=images_dir, task="obb")
        assert (tmp_path / "out").exists() == (not by)

    def test_entries_that_are_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = write_yolo(tmp_path / "in")
        plant(monkeypatch, f"{WRITERS}.coco._region", of_rows(lambda row: {**row, "area": row["area"] + 1}))
        with pytest.raises(
            DatasetError, match=r"expected 64 pixels of '.*', got 65.* remove .* and give --verify off"
        ) as e:
            convert_dataset(data, tmp_path / "out", "coco")
        shutil.rmtree(re.findall("remove (.*) and give", str(e.value))[0])
        convert_dataset(data, tmp_path / "out", "coco", verify="off")


class TestMixedRows:
    @pytest.mark.parametrize("points", [False, True])
    def test_boxes_are_written(self, points: bool, tmp_path: Path) -> None:
        labels: dict[str, str | None] = {"a": f"{BOX}\n{TRIANGLE}\n", "b": f"{BOX}\n\n", "c": f"{SQUARE}\n"}
        facts: dict[str, Any] = {}
        if points:
            labels["d"], facts = f"{BOX} 0.2 0.3\n", {"kpt_shape": [1, 2]}
        data = write_yolo(tmp_path / "in", labels, **facts)
        with warnings.catch_warnings(action="ignore"):
            convert_dataset(data, tmp_path / "out", "yolo", task="detect")
        texts = {path.stem: path.read_text() for path in (tmp_path / "out/labels/train").iterdir()}
        assert texts["b"] == labels["b"], "a file of boxes is copied"
        rows = [line.split() for text in texts.values() for line in text.splitlines() if line]
        assert {len(row) for row in rows} == {5}
        assert len(rows) == 4 + points


class TestResumed:
    def test_what_differs_is_made_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images_dir, path = write_instances(tmp_path)
        words = ["convert", str(path), "--images", str(images_dir), "--to", "coco", "--out", str(tmp_path / "out")]
        with monkeypatch.context() as patch:
            plant(patch, f"{CONVERSION}.photos.kept_entries", of_rows(shifted))
            assert main(words) == 2
            assert main([*words, "--verify", "off"]) == 2
        assert not (tmp_path / "out").exists()
        assert main([*words, "--verify", "off"]) == 0
        before, after = (read_json(file)["annotations"] for file in (path, tmp_path / "out/annotations.json"))
        assert [row["bbox"] for row in after] == [row["bbox"] for row in before]

    def test_a_file_that_changes_on_the_disk(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        images_dir, path = write_instances(tmp_path)
        words = ["convert", str(path), "--images", str(images_dir), "--to", "coco", "--out", str(tmp_path / "out")]
        (tmp_path / "out").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, f"{WRITERS}.guard.read_back", lambda real: _stop)
            assert main(words) == 2
        image = tmp_path / "out.partial/files/images/two.png"
        image.write_bytes(image.read_bytes()[:-1] + b"!")
        assert main(words) == 2
        assert "images/two.png: expected" in capsys.readouterr().err
        assert main(words) == 0
        assert "verified 2 images, 5 objects read again, 2 images decoded" in capsys.readouterr().out


def _stop(*_: Any) -> None:
    raise OSError("stopped")


class TestAugmented:
    @pytest.mark.parametrize(
        ("layout", "where", "fault"),
        [
            ("coco", f"{WRITERS}.coco.encode_mask", first_argument(lambda mask: np.roll(mask, 1, 1))),
            ("coco", f"{WRITERS}.dataset_writer.picture_bytes", first_argument(lambda pixels: pixels[..., ::-1])),
            ("yolo", f"{WRITERS}.yolo.outline", one_more),
            ("voc", f"{WRITERS}.voc._maps", swapped_maps),
            ("label-maps", f"{WRITERS}.label_maps._semantic", rolled),
            ("lvis", f"{WRITERS}.lvis._is_region", of_rows(lambda _: True)),
            ("roboflow", f"{WRITERS}.coco.tight_xywh", of_rows(far_right)),
        ],
    )
    def test_a_fault_is_found(
        self, layout: str, where: str, fault: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        images_dir, path = write_instances(tmp_path)
        words = ["augment", str(path), "--images", str(images_dir), "--num", "2", "--gallery", "0", "min_area_px=1"]
        words += ["--layout", layout, "source.kind=same_image", "--out", str(tmp_path / "out")]
        plant(monkeypatch, where, fault)
        assert main(words) == 2
        assert "differs from what was read" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_replay(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        images_dir, path = write_instances(tmp_path)
        of_dataset = [str(path), "--images", str(images_dir)]
        words = ["augment", *of_dataset, "--num", "2", "--gallery", "0", "min_area_px=1", "source.kind=same_image"]
        assert main([*words, "--out", str(tmp_path / "out")]) == 0
        assert "verified 2 images" in capsys.readouterr().out
        again = ["replay", str(tmp_path / "out"), "--dataset", *of_dataset, "--out"]
        assert main([*again, str(tmp_path / "again")]) == 0
        plant(monkeypatch, f"{WRITERS}.coco.encode_mask", first_argument(lambda mask: np.roll(mask, 1, 1)))
        assert main([*again, str(tmp_path / "wrong")]) == 2
        assert not (tmp_path / "wrong").exists()


class TestLosses:
    @pytest.mark.parametrize("task", ["segment", "detect", "pose", "obb"])
    def test_equal_rows_are_written_once(self, task: Any, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = json.loads(path.read_text())
        document["categories"] = [{**row, "keypoints": ["tip"], "skeleton": []} for row in document["categories"]]
        first = {**document["annotations"][0], "keypoints": [2, 3, 2], "num_keypoints": 1}
        document["annotations"] = [first, {**first, "id": 90}, {**first, "id": 91}]
        path.write_text(json.dumps(document))
        with warnings.catch_warnings(action="ignore"):
            summary = convert_dataset(path, tmp_path / "out", "yolo", images_dir=images_dir, task=task)
        assert summary.losses["rows equal to another of their label file"] == 2
        assert summary.verified.objects == 1
        (file,) = (tmp_path / "out/labels").rglob("one.txt")
        assert len(file.read_text().splitlines()) == 1

    def test_empty_masks_are_named(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = json.loads(path.read_text())
        empty = {"size": list(SIZES[0]), "counts": [SIZES[0][0] * SIZES[0][1]]}
        document["annotations"][0]["segmentation"] = empty
        del document["annotations"][0]["bbox"]
        path.write_text(json.dumps(document))
        with warnings.catch_warnings(action="ignore"):
            summary = convert_dataset(path, tmp_path / "out", "label-maps", images_dir=images_dir)
        assert summary.losses["annotations without a pixel"] == 1
        assert sum(summary.num_objects.values()) == 2


class LabelmeBoxes(WrittenFormat):
    """A further written format, as the recipe says: boxes of labelme."""

    name = "labelme"
    title = "labelme"
    files = "SPLIT/NAME and SPLIT/NAME.json"
    holds = "boxes"
    suffixes = frozenset({".png"})

    def photos_dir(self, split: str) -> str:
        return split

    def label_files(self, image: LabelledImage, view: View, losses: Losses) -> Iterator[File]:
        count_lost(image, view, losses)
        height, width = image.labelled.canvas_size
        shapes = [
            {"label": view.names[label], "shape_type": "rectangle", "points": [box[:2], box[2:]]}
            for label, box in zip(image.labelled.labels.tolist(), image.labelled.boxes.tolist(), strict=True)
        ]
        facts = {"imagePath": image.file_name, "imageHeight": height, "imageWidth": width, "shapes": shapes}
        yield f"{view.split}/{image.stem}.json", json.dumps({"version": "5.0.1", **facts}).encode()


class TestAFurtherFormat:
    """A class with the files of an image is enough; images, ledger, losses and the comparison are the writer's."""

    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(registry, "WRITTEN", (*registry.WRITTEN, LabelmeBoxes()))
        return write_yolo(tmp_path / "in", {"a": "0 0.5 0.5 0.25 0.25\n1 0.25 0.5 0.5 0.5\n", "b": "2 0.5 0.5 1 1\n"})

    def test_it_is_written_and_read_again(self, path: Path, tmp_path: Path) -> None:
        summary = convert_dataset(path, tmp_path / "out", "labelme")
        assert (summary.verified.images, summary.verified.objects) == (4, 6)
        assert not summary.losses
        for split in ("train", "val"):
            (one, two), (first, second) = open_dataset(path, split), open_dataset(tmp_path / "out", split)
            np.testing.assert_array_equal(one.boxes, first.boxes)
            np.testing.assert_array_equal(two.image, second.image)

    def test_a_fault_is_found(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = LabelmeBoxes.label_files

        def shifted_boxes(self: Any, image: LabelledImage, *rest: Any) -> Iterator[File]:
            boxes = tv_tensors.wrap(image.labelled.boxes - 1, like=image.labelled.boxes)
            return real(self, replace(image, sample=replace(image.labelled, boxes=boxes)), *rest)

        monkeypatch.setattr(LabelmeBoxes, "label_files", shifted_boxes)
        with pytest.raises(DatasetError, match=r"a.png: annotation 1 in labelme: expected the box"):
            convert_dataset(path, tmp_path / "out", "labelme")

    def test_made_images(self, path: Path, tmp_path: Path) -> None:
        """`segpaste augment` writes it beside the tables, by the same code."""
        photos = open_dataset(path)
        layout = WrittenLayout("labelme")
        rows = [write_image(tmp_path / "out", i + 1, photos[i], photos.categories, layout=layout) for i in range(2)]
        write_rest(tmp_path / "out", rows, photos.categories, layout)
        again = open_dataset(tmp_path / "out", "train", format="labelme")
        np.testing.assert_array_equal(again[0].boxes, photos[0].boxes)
        assert len(read_json(tmp_path / "out/annotations.json")["annotations"]) == 3
