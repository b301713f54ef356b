"""Written COCO and panoptic files say what the sample says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import box_of, check_instances, check_panoptic, decode, read_pixels
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torchvision import tv_tensors

from on_disk import Mask, tree
from samples import SCHEMA, make_sample
from segpaste.datasets.contract import Crowd
from segpaste.datasets.writers import coco, coco_panoptic
from segpaste.datasets.writers.format import SampleRows
from segpaste.types import DenseSample, Modality
from written import write_image, write_rest

SIZE = (17, 11)
NUM_CLASSES = max(SCHEMA.classes) + 1
CATEGORIES: list[dict[str, Any]] = [
    {"id": 10 * label + 5, "name": f"class {label}", "isthing": int(SCHEMA.classes.get(label) == "thing")}
    for label in range(NUM_CLASSES)
]

masks = arrays.arrays(np.bool_, st.tuples(st.integers(1, 19), st.integers(1, 13)))


def write(folder: Path, samples: list[DenseSample], **options: Any) -> list[SampleRows]:
    rows = [
        write_image(
            folder, i, sample, CATEGORIES, rows=[{"segpaste": {"n": n}} for n in range(sample.num_instances)], **options
        )
        for i, sample in enumerate(samples, start=1)
    ]
    write_rest(folder, rows, CATEGORIES, info={"description": "test"})
    return rows


class TestMasks:
    @given(mask=masks)
    def test_run_lengths_decode_to_the_mask(self, mask: Mask) -> None:
        segmentation = coco.encode_mask(mask)
        assert segmentation["size"] == list(mask.shape)
        np.testing.assert_array_equal(decode(segmentation), mask)
        json.dumps(segmentation)

    @given(mask=masks)
    def test_boxes(self, mask: Mask) -> None:
        assert coco.tight_xywh(mask) == (box_of(mask) if mask.any() else [0, 0, 0, 0])


class TestSamples:
    def test_instances(self, tmp_path: Path) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE])
        (row,) = write(tmp_path, [sample])
        assert row.segments is None
        assert not (tmp_path / "panoptic.json").exists()
        assert sample.instance_masks is not None
        written = check_instances(tmp_path)
        assert len(written) == sample.num_instances > 0
        for annotation, mask, label in zip(written, sample.instance_masks, sample.labels.tolist(), strict=True):
            np.testing.assert_array_equal(decode(annotation["segmentation"]), mask.numpy())
            assert annotation["category_id"] == CATEGORIES[label]["id"]
        np.testing.assert_array_equal(
            read_pixels(tmp_path / "images" / "000001.png"), sample.image.permute(1, 2, 0).numpy()
        )

    def test_panoptic(self, tmp_path: Path) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC])
        write(tmp_path, [sample])
        assert sample.semantic_map is not None
        (annotation,) = check_panoptic(tmp_path)
        rgb = read_pixels(tmp_path / "panoptic" / "000001.png").astype(np.int64)
        ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
        class_of = {CATEGORIES[label]["id"]: label for label in range(NUM_CLASSES)}
        semantic = np.full(SIZE, 255)
        for segment in annotation["segments_info"]:
            semantic[ids == segment["id"]] = class_of[segment["category_id"]]
        np.testing.assert_array_equal(semantic, sample.semantic_map.numpy())

    def test_geometry(self, tmp_path: Path) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE, Modality.DEPTH, Modality.NORMALS], camera=True)
        (row,) = write(tmp_path, [sample])
        assert sample.depth is not None
        assert sample.depth_valid is not None
        assert sample.normals is not None
        np.testing.assert_array_equal(np.load(tmp_path / "depth" / "000001.npy"), sample.depth[0].numpy())
        valid = read_pixels(tmp_path / "depth_valid" / "000001.png")
        np.testing.assert_array_equal(valid, sample.depth_valid[0].numpy() * np.uint8(255))
        normals = np.load(tmp_path / "normals" / "000001.npy")
        np.testing.assert_array_equal(normals, sample.normals.permute(1, 2, 0).numpy())
        assert sample.camera_intrinsics is not None
        assert row.image["camera_intrinsics"]["cx"] == sample.camera_intrinsics.cx

    def test_no_instance_and_no_sample(self, tmp_path: Path) -> None:
        empty = make_sample(SIZE, 0, modalities=[Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC])
        write(tmp_path / "a", [empty])
        assert check_instances(tmp_path / "a") == []
        check_panoptic(tmp_path / "a")
        write(tmp_path / "b", [])
        assert check_instances(tmp_path / "b") == []

    def test_annotation_ids_run_through_all_samples(self, tmp_path: Path) -> None:
        write(tmp_path, [make_sample(modalities=[Modality.INSTANCE], seed=s) for s in range(3)])
        assert len(check_instances(tmp_path)) == 9

    def test_same_sample_same_bytes(self, tmp_path: Path) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE, Modality.DEPTH], camera=True)
        write(tmp_path / "a", [sample])
        write(tmp_path / "b", [sample])
        assert tree(tmp_path / "a") == tree(tmp_path / "b")

    def test_jpg(self, tmp_path: Path) -> None:
        (row,) = write(tmp_path, [make_sample(modalities=[Modality.INSTANCE])], suffix="jpg")
        assert row.image["file_name"] == "000001.jpg"
        check_instances(tmp_path)

    @pytest.mark.parametrize("modalities", [[], [Modality.DEPTH]])
    def test_a_sample_without_masks_has_boxes(self, tmp_path: Path, modalities: list[Modality]) -> None:
        sample = make_sample(modalities=modalities)
        (rows,) = write(tmp_path, [sample])
        x1, y1, x2, y2 = sample.boxes[0].tolist()
        assert rows.annotations[0]["bbox"] == [x1, y1, x2 - x1, y2 - y1]
        assert "segmentation" not in rows.annotations[0]

    def test_a_float_image_is_refused(self, tmp_path: Path) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE])
        with pytest.raises(ValueError, match="expected a uint8 RGB image"):
            write(tmp_path, [replace(sample, image=tv_tensors.Image(sample.image.float()))])
        assert list(tmp_path.iterdir()) == []


class TestSegmentIds:
    def test_every_segment_of_an_image_has_an_id_of_its_own(self) -> None:
        assert math.gcd(coco_panoptic._SEGMENT_ID_STEP, 256**3) == 1  # so multiples repeat only after 256**3

    def test_ids_of_many_segments(self) -> None:
        ids = [number * coco_panoptic._SEGMENT_ID_STEP % 256**3 for number in range(1, 300)]
        assert len(set(ids)) == len(ids)
        assert len({i >> 16 for i in ids}) > 100  # and their colours differ


@pytest.mark.parametrize(("is_ignored", "flags"), [(False, {"iscrowd": 1}), (True, {"iscrowd": 1, "ignore": 1})])
def test_ignored_regions_have_both_flags(is_ignored: bool, flags: dict[str, int]) -> None:
    crowd = Crowd(5, 0, is_ignored, np.eye(4, dtype=bool))
    (row,) = coco.crowd_rows(1, [{"id": 3, "name": "cup"}], [(crowd, {})])
    assert {key: row[key] for key in ("iscrowd", "ignore") if key in row} == flags
