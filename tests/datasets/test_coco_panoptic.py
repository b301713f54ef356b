from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coco_files import image_row
from PIL import Image

from on_disk import noise
from samples import assert_same, plain, tight_boxes
from segpaste.datasets import CocoPanoptic, CocoPanopticSchema, DatasetError
from segpaste.types import PanopticSchema

SIZE = (17, 11)
CATEGORIES = [
    {"id": 200, "name": "sky", "isthing": 0},
    {"id": 3, "name": "car", "isthing": 1},
    {"id": 17, "name": "cat", "isthing": 1},
]
SKY, CAR, CAT = 2, 0, 1
BIG = 70_000 + 256 * 256 * 200
"""A segment id that needs all three bytes."""


def segments() -> Any:
    """Segment ids of the pixels, and their descriptions: sky, two cars, a cat, a crowd of cats, and some unlabelled."""
    ids = np.full(SIZE, 9, np.int64)
    ids[0:3, 0:3], ids[5:9, 2:6], ids[10:12, 7:11], ids[16, 10], ids[14:16, 0:9] = 0, BIG, 256, 65536, 77
    ids[6, 10] = BIG  # a segment of two parts
    rows = [
        {"id": 256, "category_id": 3, "iscrowd": 0},
        {"id": 9, "category_id": 200, "iscrowd": 0},
        {"id": 77, "category_id": 17, "iscrowd": 1},
        {"id": BIG, "category_id": 17, "iscrowd": 0},
        {"id": 65536, "category_id": 3, "iscrowd": 0},
    ]
    return ids, rows


def write(folder: Path, ids: Any = None, rows: Any = None, mode: str = "RGB", **tables: Any) -> tuple[Path, Path, Path]:
    """Write one photo, its PNG and the JSON."""
    for name in ("photos", "maps"):
        (folder / name).mkdir(exist_ok=True)
    default_ids, default_rows = segments()
    ids, rows = default_ids if ids is None else ids, default_rows if rows is None else rows
    Image.fromarray(noise(SIZE)).save(folder / "photos" / "a.png")
    colours = np.stack([ids % 256, ids // 256 % 256, ids // 65536], -1).astype(np.uint8)
    Image.fromarray(colours).convert(mode).save(folder / "maps" / "b.png")
    document = {
        "images": [image_row(5, SIZE, "a.png")],
        "annotations": [{"image_id": 5, "file_name": "b.png", "segments_info": rows}],
        "categories": CATEGORIES,
    }
    (folder / "panoptic.json").write_text(json.dumps({**document, **tables}))
    return folder / "photos", folder / "panoptic.json", folder / "maps"


def check_consistent(sample: Any, schema: PanopticSchema) -> None:
    """Every thing pixel has one mask, and its id and label; stuff and ignored pixels have none."""
    semantic, panoptic, masks = plain(sample.semantic_map), plain(sample.panoptic_map), plain(sample.instance_masks)
    np.testing.assert_array_equal(masks.sum(0), panoptic != 0)
    for i, mask, label in zip(plain(sample.instance_ids), masks, plain(sample.labels), strict=True):
        np.testing.assert_array_equal(mask, panoptic == i)
        assert schema.classes[int(label)] == "thing"
        assert set(semantic[mask].tolist()) == {int(label)}
    others = set(semantic[panoptic == 0].tolist()) - {schema.ignore_index}
    assert all(schema.classes[c] == "stuff" for c in others)
    assert torch.equal(sample.boxes.as_subclass(torch.Tensor), tight_boxes(masks))


class TestCocoPanoptic:
    def test_maps_and_instances(self, tmp_path: Path) -> None:
        dataset = CocoPanoptic(*write(tmp_path))
        ids, _ = segments()
        sample = dataset[0]
        expected = {0: (255, 0), 9: (SKY, 0), 77: (255, 0), 256: (CAR, 1), BIG: (CAT, 2), 65536: (CAR, 3)}
        np.testing.assert_array_equal(plain(sample.semantic_map), np.vectorize(lambda i: expected[i][0])(ids))
        np.testing.assert_array_equal(plain(sample.panoptic_map), np.vectorize(lambda i: expected[i][1])(ids))
        assert sample.labels.tolist() == [CAR, CAT, CAR]
        np.testing.assert_array_equal(plain(sample.boxes), [[7, 10, 11, 12], [2, 5, 11, 9], [10, 16, 11, 17]])
        np.testing.assert_array_equal(plain(sample.image), noise(SIZE).transpose(2, 0, 1))
        assert dataset.annotation_ids(0) == (256, BIG, 65536)
        assert (dataset.image_id(0), dataset.file_name(0), len(dataset)) == (5, "a.png", 1)
        check_consistent(sample, dataset.schema)

    def test_schema(self, tmp_path: Path) -> None:
        dataset = CocoPanoptic(*write(tmp_path), max_instances_per_image=3)
        assert isinstance(dataset.schema, PanopticSchema)
        assert dict(dataset.schema.classes) == {CAR: "thing", CAT: "thing", SKY: "stuff"}
        assert dataset.class_names == ("car", "cat", "sky")
        assert dataset.category_ids == (3, 17, 200)
        assert (dataset.schema.ignore_index, dataset.schema.max_instances_per_image) == (255, 3)
        assert pickle.loads(pickle.dumps(dataset.schema)) == dataset.schema
        with pytest.raises(TypeError):
            dataset.schema.classes[0] = "stuff"  # type: ignore[index]

    @pytest.mark.parametrize("ids", [np.full(SIZE, 9), np.zeros(SIZE, int)], ids=["stuff", "unlabelled"])
    def test_no_things(self, tmp_path: Path, ids: Any) -> None:
        rows = [{"id": 9, "category_id": 200}] if ids.any() else []
        sample = CocoPanoptic(*write(tmp_path, ids, rows))[0]
        assert sample.num_instances == 0
        assert set(plain(sample.semantic_map).flat) == {SKY if ids.any() else 255}
        assert not sample.panoptic_map.any()

    def test_palette_png_means_its_colours(self, tmp_path: Path) -> None:
        ids = np.where(segments()[0] == 9, 9, BIG)
        rows = [{"id": 9, "category_id": 200}, {"id": BIG, "category_id": 3}]
        paths = write(tmp_path, ids, rows)
        plain_sample = CocoPanoptic(*paths)[0]
        Image.open(paths[2] / "b.png").quantize(4).save(paths[2] / "b.png")
        with Image.open(paths[2] / "b.png") as image:
            assert image.mode == "P"
        assert_same(CocoPanoptic(*paths)[0], plain_sample)

    def test_images_without_an_annotation_are_left_out(self, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
        images = [image_row(image_id, SIZE, "a.png") for image_id in (4, 5, 6)]
        alone = CocoPanoptic(*write(tmp_path))
        assert alone.num_unannotated_images == 0
        assert not recwarn.list
        with pytest.warns(UserWarning, match=r"panoptic\.json: left out 2 images without an annotation, first.* 4"):
            dataset = CocoPanoptic(*write(tmp_path, images=images))
        assert (len(dataset), dataset.image_id(0), dataset.num_unannotated_images) == (1, 5, 2)
        assert_same(dataset[0], alone[0])

    def test_images_left_out_are_told_once(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match="left out 1 image without an annotation"):
            dataset = CocoPanoptic(*write(tmp_path, images=[image_row(i, SIZE, "a.png") for i in (4, 5)]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = pickle.loads(pickle.dumps(dataset))  # as a worker gets it, which reads the file anew
            assert (len(again), again.num_unannotated_images) == (1, 1)
            assert_same(again[0], dataset[0])

    def test_transforms_and_pickle(self, tmp_path: Path) -> None:
        dataset = pickle.loads(pickle.dumps(CocoPanoptic(*write(tmp_path), transforms=_without_boxes)))
        assert dataset[0].num_instances == 0
        assert dataset.schema.class_names == ("car", "cat", "sky")

    @pytest.mark.parametrize(
        ("drop", "message"),
        [("JSON", r"1 \(256\) only in the PNG and none"), ("PNG", r"none only in the PNG and 1 \(256\)")],
    )
    def test_segments_must_agree(self, tmp_path: Path, drop: str, message: str) -> None:
        ids, rows = segments()
        if drop == "JSON":
            rows = rows[1:]
        else:
            ids[ids == 256] = 9
        dataset = CocoPanoptic(*write(tmp_path, ids, rows))
        with pytest.raises(DatasetError, match=rf"b\.png: expected .*{message}") as caught:
            dataset[0]
        assert "\n" not in str(caught.value)

    def test_grey_map_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="only in the PNG"):
            CocoPanoptic(*write(tmp_path, mode="L"))[0]

    def test_other_sizes_are_refused(self, tmp_path: Path) -> None:
        paths = write(tmp_path)
        Image.fromarray(noise((11, 17))).save(paths[2] / "b.png")
        with pytest.raises(DatasetError, match=r"b\.png: expected 11 x 17 pixels"):
            CocoPanoptic(*paths)[0]

    @pytest.mark.parametrize(("folder", "file", "what"), [("photos", "a.png", "an image"), ("maps", "b.png", "a map")])
    def test_missing_file_is_named(self, tmp_path: Path, folder: str, file: str, what: str) -> None:
        dataset = CocoPanoptic(*write(tmp_path))
        (tmp_path / folder / file).unlink()
        with pytest.raises(DatasetError, match=rf"{file}: expected {what}, found no such file"):
            dataset[0]

    @pytest.mark.parametrize(
        ("tables", "message"),
        [
            ({"annotations": []}, "an annotation of at least one image, none of 1 has one"),
            ({"annotations": [{"image_id": 6, "file_name": "b.png", "segments_info": []}]}, "'images', got 6"),
            ({"annotations": [{"image_id": 5, "file_name": "b.png", "segments_info": []}] * 2}, "image 5, got two"),
            ({"annotations": [{"image_id": 5, "file_name": "b.png"}]}, "'segments_info' is missing"),
            ({"categories": [{"id": 3, "name": "car"}]}, "'isthing' is missing"),
            ({"categories": [{"id": i, "name": str(i), "isthing": 0} for i in range(256)]}, "at most 255 cat.*got 256"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_broken_tables(self, tmp_path: Path, tables: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=rf"panoptic\.json.*{message}"):
            CocoPanoptic(*write(tmp_path, **tables))

    def test_255_classes_fit(self, tmp_path: Path) -> None:
        categories = [{"id": i, "name": str(i), "isthing": i % 2} for i in range(255)]
        dataset = CocoPanoptic(*write(tmp_path, categories=categories))
        assert set(dataset.schema.classes) == set(range(255))

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"id": 0, "category_id": 3}, "segment ids in 1..16777215"),
            ({"id": 256**3, "category_id": 3}, "segment ids in 1..16777215"),
            ({"id": "7", "category_id": 3}, "segment ids in 1..16777215"),
            ({"id": 7}, "'id' and 'category_id'"),
            ({"id": 9, "category_id": 3}, "got 9 twice"),
            ({"id": 7, "category_id": 4}, "segment 7 refers to in 'categories', got 4"),
            ({"id": 7, "category_id": [1]}, r"segment 7 refers to in 'categories', got \[1\]"),
            (7, "'id' and 'category_id'"),
        ],
        ids=str,
    )
    def test_broken_segments(self, tmp_path: Path, row: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            CocoPanoptic(*write(tmp_path, None, [*segments()[1], row]))

    def test_too_many_things(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"at most 2 things in .*image 5, got 3; raise max_inst"):
            CocoPanoptic(*write(tmp_path), max_instances_per_image=2)

    def test_missing_folders(self, tmp_path: Path) -> None:
        photos, path, maps = write(tmp_path)
        for wrong in ((tmp_path / "none", path, maps), (photos, path, tmp_path / "none")):
            with pytest.raises(DatasetError, match="none: expected a folder"):
                CocoPanoptic(*wrong)


def _without_boxes(sample: Any) -> Any:
    from segpaste.types import keep_largest

    return keep_largest(sample, 0)


def _check_against_png(dataset: CocoPanoptic, png: Path, rows: list[Any]) -> None:
    """A second decoding, segment by segment."""
    sample = dataset[0]
    pixels = np.array(Image.open(png)).astype(np.int64)
    ids = pixels[..., 0] + 256 * pixels[..., 1] + 256**2 * pixels[..., 2]
    things = 0
    for row in rows:
        here = ids == row["id"]
        label = dataset.category_ids.index(row["category_id"])
        is_instance = not row["iscrowd"] and dataset.schema.classes[label] == "thing"
        assert set(plain(sample.semantic_map)[here].tolist()) == {255 if row["iscrowd"] else label}
        assert set(plain(sample.panoptic_map)[here].tolist()) == {things + 1 if is_instance else 0}
        if is_instance:
            x, y, width, height = row["bbox"]
            assert sample.boxes[things].tolist() == [x, y, x + width, y + height]
            assert int(sample.instance_masks[things].sum()) == row["area"]
        things += is_instance
    assert things == sample.num_instances > 0
    assert set(plain(sample.semantic_map)[ids == 0].tolist()) <= {255}
    check_consistent(sample, dataset.schema)


def test_real_panoptic_photo_with_a_crowd(test_data: Path) -> None:
    folder = test_data / "coco_panoptic_samples"
    path = folder / "split" / "panoptic_examples_142238.json"
    dataset = CocoPanoptic(folder / "input_images", path, folder / "panoptic_examples")
    assert isinstance(dataset.schema, CocoPanopticSchema)
    rows = json.loads(path.read_text())["annotations"][0]["segments_info"]
    assert any(row["iscrowd"] for row in rows)
    _check_against_png(dataset, folder / "panoptic_examples" / "000000142238.png", rows)


def test_real_panoptic_photo_without_a_crowd(test_data: Path, tmp_path: Path) -> None:
    folder = test_data / "coco_39769"
    rows = json.loads((folder / "coco_panoptic_annotations.txt").read_text())
    document = {
        "images": [{"id": 39769, "file_name": "000000039769.png", "height": 480, "width": 640}],
        "annotations": [{"image_id": 39769, "file_name": "000000039769.png", "segments_info": rows}],
        "categories": json.loads((test_data / "coco_panoptic_samples" / "panoptic_coco_categories.json").read_text()),
    }
    (tmp_path / "panoptic.json").write_text(json.dumps(document))
    dataset = CocoPanoptic(folder, tmp_path / "panoptic.json", folder / "coco_panoptic")
    _check_against_png(dataset, folder / "coco_panoptic" / "000000039769.png", rows)
    assert sorted(dataset.class_names[i] for i in dataset[0].labels) == ["cat", "cat", "couch", "remote", "remote"]
