"""`segpaste augment` where there is more than instances: panoptic photos, and scenes with depth and normals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_world import (
    PANOPTIC_CATEGORIES,
    SIZES,
    check_instances,
    check_panoptic,
    decode,
    read_json,
    read_pixels,
    write_panoptic,
)

from on_disk import noise, tree
from segpaste.augmenting.inputs import NUM_SCENES as NUM_DISTINCT_SCENES
from segpaste.cli import main
from segpaste.datasets import (
    CocoDetectionV2,
    CocoPanoptic,
    SceneConfig,
    SceneDataset,
    convert_dataset,
    find_dataset,
    open_dataset,
)

NUM_SCENES = 5


def check_forms_agree(out: Path) -> None:
    """The things of the panoptic form are the instances of the other, pixel for pixel."""
    instances = read_json(out / "annotations.json")["annotations"]
    for annotation in read_json(out / "panoptic.json")["annotations"]:
        rgb = read_pixels(out / "panoptic" / annotation["file_name"]).astype(np.int64)
        ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
        things = [segment for segment in annotation["segments_info"] if "segpaste" in segment]
        own = [row for row in instances if row["image_id"] == annotation["image_id"]]
        assert [segment["segpaste"] for segment in things] == [row["segpaste"] for row in own]
        for segment, row in zip(things, own, strict=True):
            np.testing.assert_array_equal(decode(row["segmentation"]), ids == segment["id"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("panoptic")
    labels, images_dir, maps_dir = write_panoptic(folder)
    words = ["--images", str(images_dir), "--panoptic-dir", str(maps_dir), "--gallery", "0"]
    assert main(["augment", str(labels), *words, "--out", str(folder / "out"), "--num", "7", "--seed", "3"]) == 0
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scenes") / "out"
    words = ["--num", str(NUM_SCENES), "--seed", "5", "--size", "64", "--gallery", "1"]
    assert main(["augment", "scenes", "--out", str(out), *words]) == 0
    return out


class TestPanoptic:
    def test_segments_have_exactly_their_boxes_and_areas(self, world: Path) -> None:
        assert len(check_panoptic(world / "out")) == 7
        assert any(row["segpaste"]["pasted"] for row in check_instances(world / "out"))

    def test_both_forms_agree(self, world: Path) -> None:
        check_forms_agree(world / "out")

    def test_unlabelled_pixels_and_crowds_stay(self, world: Path) -> None:
        segments = {
            a["image_id"]: a["segments_info"] for a in read_json(world / "out" / "panoptic.json")["annotations"]
        }
        for image in read_json(world / "out" / "panoptic.json")["images"]:
            ids = read_pixels(world / "out" / "panoptic" / image["file_name"])
            assert not ids[-2:].any()
            crowds = [segment for segment in segments[image["id"]] if segment["iscrowd"]]
            assert len(crowds) == (image["segpaste"]["source_image_id"] == 40)
            for crowd in crowds:
                assert (ids[:2, :2] @ [1, 256, 65536] == crowd["id"]).all()
                assert (crowd["category_id"], crowd["area"], crowd["bbox"]) == (3, 4, [0, 0, 2, 2])
            index = image["segpaste"]["source_image_id"] - 40
            pixels = read_pixels(world / "out" / "images" / image["file_name"])
            np.testing.assert_array_equal(pixels[-2:], noise(SIZES[index], 100 + index)[-2:])

    def test_categories_are_those_of_the_input(self, world: Path) -> None:
        assert read_json(world / "out" / "panoptic.json")["categories"] == PANOPTIC_CATEGORIES

    def test_source_ids_are_the_segments_of_the_input(self, world: Path) -> None:
        tables = read_json(world / "labels.json")["annotations"]
        known = {(a["image_id"], s["id"]): s["category_id"] for a in tables for s in a["segments_info"]}
        for row in read_json(world / "out" / "annotations.json")["annotations"]:
            key = row["segpaste"]["source_image_id"], row["segpaste"]["source_annotation_id"]
            assert known[key] == row["category_id"]

    def test_folder_of_the_same_name_is_found(self, world: Path, tmp_path: Path) -> None:
        (world / "maps").rename(world / "labels")
        try:
            words = ["--images", str(world / "photos"), "--out", str(tmp_path / "out"), "--num", "1", "--gallery", "0"]
            assert main(["augment", str(world / "labels.json"), *words]) == 0
        finally:
            (world / "labels").rename(world / "maps")

    def test_the_result_is_recognised_with_its_stuff(self, world: Path, tmp_path: Path) -> None:
        """Beside `annotations.json`, which has the things only; that form is opened by its name."""
        found = find_dataset(world / "out")
        assert (found.format.name, found.splits) == ("coco-panoptic", ("train",))
        dataset = open_dataset(world / "out")
        assert dataset.has_semantic_maps
        summary = convert_dataset(world / "out", tmp_path / "converted", "coco-panoptic")
        assert not summary.losses
        before, after = (
            {a["file_name"]: a["segments_info"] for a in read_json(path)["annotations"]}
            for path in (world / "out/panoptic.json", tmp_path / "converted/annotations/panoptic_train.json")
        )
        assert before == after
        assert open_dataset(world / "out", format="coco")[0].semantic_map is None

    @pytest.mark.slow
    def test_real_photo(self, test_data: Path, tmp_path: Path) -> None:
        folder, out = test_data / "coco_panoptic_samples", tmp_path / "out"
        words = ["--images", str(folder / "input_images"), "--panoptic-dir", str(folder / "panoptic_examples")]
        labels = folder / "split" / "panoptic_examples_142238.json"
        words += ["--out", str(out), "--num", "2", "--seed", "1", "--gallery", "0", "source.kind=same_image"]
        assert main(["augment", str(labels), *words]) == 0
        assert len(check_panoptic(out)) == 2
        assert any(row["segpaste"]["pasted"] for row in check_instances(out))
        check_forms_agree(out)


class TestScenes:
    def test_the_result_is_recognised_with_all_maps(self, out: Path) -> None:
        sample = open_dataset(out)[0]
        maps = sample.semantic_map, sample.panoptic_map, sample.depth, sample.normals
        assert all(given is not None for given in maps)

    def test_both_forms(self, out: Path) -> None:
        assert len(check_panoptic(out)) == NUM_SCENES
        assert any(row["segpaste"]["pasted"] for row in check_instances(out))
        check_forms_agree(out)

    def test_depth_and_normals(self, out: Path) -> None:
        num_valid = 0
        for image in read_json(out / "annotations.json")["images"]:
            stem = Path(image["file_name"]).stem
            depth = np.load(out / "depth" / f"{stem}.npy", allow_pickle=False)
            valid = read_pixels(out / "depth_valid" / f"{stem}.png")
            normals = np.load(out / "normals" / f"{stem}.npy", allow_pickle=False)
            assert (depth.shape, depth.dtype, valid.shape) == ((64, 64), np.float32, (64, 64))
            assert (normals.shape, normals.dtype) == ((64, 64, 3), np.float32)
            assert set(np.unique(valid)) <= {0, 255}
            assert (depth[valid == 255] > 0.1).all()
            assert np.isfinite(depth).all()
            lengths = np.linalg.norm(normals, axis=-1)
            assert (np.isclose(lengths, 1, atol=1e-5) | (lengths == 0)).all()
            assert (normals[..., 2] > 0).mean() < 0.1  # surfaces face the camera, or lie along its rays
            num_valid += int((valid == 255).sum())
        assert num_valid > NUM_SCENES * 64 * 64 / 2

    def test_cameras(self, out: Path) -> None:
        for image in read_json(out / "annotations.json")["images"]:
            camera = image["camera_intrinsics"]
            assert set(camera) == {"fx", "fy", "cx", "cy"}
            assert 0 < camera["cx"] < 64
            assert camera["fx"] > 30

    def test_the_layout_is_described(self, out: Path) -> None:
        files = read_json(out / "annotations.json")["info"]["segpaste"]["files"]
        assert set(files) == {"panoptic", "depth", "depth_valid", "normals", "intrinsics"}
        assert {path.name for path in out.iterdir() if path.is_dir()} == {"images", *files}

    def test_the_readers_of_the_library_read_it_back(self, out: Path) -> None:
        panoptic = CocoPanoptic(out / "images", out / "panoptic.json", out / "panoptic")
        instances = CocoDetectionV2(out / "images", out / "annotations.json")
        assert len(panoptic) == len(instances) == NUM_SCENES
        for one, other in zip(panoptic, instances, strict=True):
            assert one.instance_masks is not None
            assert (one.instance_masks == other.instance_masks).all()
            assert (one.boxes == other.boxes).all()

    def test_sources_are_objects_of_the_scenes(self, out: Path) -> None:
        scenes = SceneDataset(NUM_DISTINCT_SCENES, SceneConfig(height=64, width=64), seed=5)
        for row in read_json(out / "annotations.json")["annotations"]:
            sample = scenes[row["segpaste"]["source_image_id"]]
            assert sample.instance_ids is not None
            labels = dict(zip(sample.instance_ids.tolist(), sample.labels.tolist(), strict=True))
            assert labels[row["segpaste"]["source_annotation_id"]] + 1 == row["category_id"]

    def test_pictures_show_all_modalities(self, out: Path) -> None:
        assert (out / "modalities.png").exists()
        assert 'data-view="normals"' in (out / "report.html").read_text()

    def test_same_seed_same_bytes_other_seed_other_bytes(self, out: Path, tmp_path: Path) -> None:
        words = ["--num", str(NUM_SCENES), "--size", "64", "--gallery"]
        for seed, pictured in (("5", "1"), ("6", "0")):
            assert main(["augment", "scenes", "--out", str(tmp_path / seed), "--seed", seed, *words, pictured]) == 0
        assert tree(tmp_path / "5") == tree(out)
        different = {name for name, digest in tree(tmp_path / "6").items() if tree(out).get(name) != digest}
        assert {f"{kind}/000001.{end}" for kind, end in (("images", "png"), ("depth", "npy"))} <= different

    def test_a_closed_gate_leaves_a_modality_out(self, tmp_path: Path) -> None:
        words = ["--num", "2", "--size", "48", "--gallery", "0", "emit_depth=false", "emit_panoptic=false"]
        assert main(["augment", "scenes", "--out", str(tmp_path / "out"), *words]) == 0
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert {"normals", "annotations.json"} <= names
        assert not {"depth", "depth_valid", "panoptic", "panoptic.json"} & names
        check_instances(tmp_path / "out")
        info = read_json(tmp_path / "out" / "annotations.json")["info"]
        assert set(info["segpaste"]["files"]) == {"normals", "intrinsics"}
