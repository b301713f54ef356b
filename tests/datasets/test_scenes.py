"""Scenes as a dataset: labels that agree, layouts, determinism, configuration, batches."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scene_reference import ROOMY, SEEDS, SIZES, SMALL, everything, local, make, numpy_of

from segpaste.datasets.scenes import Box, SceneConfig, SceneDataset, Sphere, scene_batch
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import Modality, PanopticSchema


class TestLabels:
    @given(SEEDS, SIZES)
    def test_masks_are_the_panoptic_map(self, seed: int, size: tuple[int, int]) -> None:
        _, sample = make(replace(ROOMY, height=size[0], width=size[1]), seed)
        got = numpy_of(sample)
        assert (got["instance_masks"].sum(0) <= 1).all()
        assert got["instance_masks"].any((1, 2)).all()
        painted = (got["instance_masks"] * got["instance_ids"][:, None, None].astype(np.int64)).sum(0)
        np.testing.assert_array_equal(painted, got["panoptic_map"])

    @given(SEEDS)
    def test_labels_are_the_semantic_class(self, seed: int) -> None:
        scene, sample = make(SMALL, seed)
        got = numpy_of(sample)
        for label, instance_id, mask in zip(got["labels"], got["instance_ids"], got["instance_masks"], strict=True):
            assert (got["semantic_map"][mask] == label).all()
            assert scene.solids[instance_id - 1].class_id == label

    @given(SEEDS)
    def test_stuff_and_ignore_have_no_instance(self, seed: int) -> None:
        dataset = SceneDataset(1, ROOMY, seed)
        got, classes = numpy_of(dataset[0]), dataset.schema.classes
        things = np.isin(got["semantic_map"], [c for c, kind in classes.items() if kind == "thing"])
        np.testing.assert_array_equal(got["panoptic_map"] != 0, things)
        assert set(np.unique(got["semantic_map"])) <= {*classes, 255}

    @given(SEEDS, SIZES)
    def test_boxes_are_tight(self, seed: int, size: tuple[int, int]) -> None:
        _, sample = make(replace(SMALL, height=size[0], width=size[1]), seed)
        got = numpy_of(sample)
        for box, mask in zip(got["boxes"], got["instance_masks"], strict=True):
            rows, columns = np.nonzero(mask)
            assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]

    def test_hidden_solids_are_absent(self) -> None:
        num_absent = 0
        for index in range(10):
            scene, sample = make(replace(SMALL, num_objects_range=(10, 20)), index=index)
            num_absent += len(scene.solids) - sample.num_instances
        assert num_absent > 0


class TestLayout:
    @settings(max_examples=20)
    @given(SEEDS)
    def test_solids_are_apart_and_in_the_room(self, seed: int) -> None:
        scene = SceneDataset(1, replace(SMALL, num_objects_range=(12, 12)), seed).scene(0)
        grid = np.stack(np.meshgrid(*[np.linspace(-0.999, 0.999, 9)] * 3), -1).reshape(-1, 3)
        bodies = []
        for solid in scene.solids:
            own = grid[np.linalg.norm(grid, axis=1) < 1] if isinstance(solid, Sphere) else grid
            bodies.append(np.array(solid.center) + (own * solid.half_size) @ np.array(solid.axes))
        floor, ceiling, left, right, back = (plane.offset for plane in scene.planes)
        for points in bodies:
            assert (points > (left, ceiling, 0.5)).all()
            assert (points < (right, floor, back)).all()
        for (solid, _), (_, points) in permutations(zip(scene.solids, bodies, strict=True), 2):
            own = np.abs(local(solid, points)) / solid.half_size
            size = np.linalg.norm(own, axis=1) if isinstance(solid, Sphere) else own.max(1)
            assert (size > 1).all()

    @given(SEEDS)
    def test_axes_are_a_rotation(self, seed: int) -> None:
        for solid in SceneDataset(1, SMALL, seed).scene(0).solids:
            axes = np.array(solid.axes)
            np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
            assert np.linalg.det(axes) == pytest.approx(1)

    def test_all_shapes_and_stacks_occur(self) -> None:
        dataset = SceneDataset(30, replace(SMALL, num_objects_range=(8, 8)))
        kinds: Counter[str] = Counter()
        for scene in map(dataset.scene, range(30)):
            for solid in scene.solids:
                kinds[type(solid).__name__] += 1
                kinds["stacked"] += solid.center[1] + solid.half_size[1] < scene.planes[0].offset - 0.05
        assert min(kinds[name] for name in (Sphere.__name__, Box.__name__, "stacked")) > 5

    @pytest.mark.parametrize("low_high", [(0, 0), (1, 1), (3, 5)])
    def test_number_of_objects(self, low_high: tuple[int, int]) -> None:
        dataset = SceneDataset(40, replace(SMALL, num_objects_range=low_high))
        counts = {len(dataset.scene(i).solids) for i in range(40)}
        assert max(counts) == low_high[1]
        assert len(counts) > (low_high[0] != low_high[1])

    def test_long_tail_counts_fall(self) -> None:
        def counts(long_tail: float) -> list[int]:
            config = replace(SMALL, num_classes=5, long_tail=long_tail, num_objects_range=(6, 6))
            dataset = SceneDataset(200, config)
            found = Counter(s.class_id for i in range(200) for s in dataset.scene(i).solids)
            return [found[c] for c in range(5)]

        tail, even = counts(1.5), counts(0.0)
        assert tail == sorted(tail, reverse=True)
        assert tail[0] > 6 * tail[4] > 0
        assert max(even) < 1.5 * min(even)

    def test_long_tail_holds_for_what_is_visible(self) -> None:
        config = replace(SMALL, height=29, width=31, num_classes=3, long_tail=2.0)
        dataset = SceneDataset(60, config)
        found = Counter(label for i in range(60) for label in dataset[i].labels.tolist())
        assert found[0] > found[1] > found[2] > 0


class TestDeterminism:
    def test_same_seed_same_bytes_in_any_order(self) -> None:
        first, second = SceneDataset(4, SMALL, 7), SceneDataset(9, SMALL, 7)
        backwards = {i: everything(second[i]) for i in (3, 2, 1, 0)}
        assert [everything(first[i]) for i in range(4)] == [backwards[i] for i in range(4)]

    @given(SEEDS)
    def test_other_seed_other_bytes(self, seed: int) -> None:
        other = (seed + 1) % 2**64
        one, two = make(SMALL, seed)[1], make(SMALL, other)[1]
        assert numpy_of(one)["image"].tobytes() != numpy_of(two)["image"].tobytes()
        assert one.camera_intrinsics != two.camera_intrinsics

    def test_every_index_differs(self) -> None:
        dataset = SceneDataset(20, SMALL)
        assert len({everything(dataset[i]) for i in range(20)}) == 20

    def test_global_generators_do_not_matter(self) -> None:
        torch.manual_seed(1)
        before = everything(make(SMALL)[1])
        torch.manual_seed(2)
        np.random.seed(3)  # noqa: NPY002
        assert everything(make(SMALL)[1]) == before

    def test_survives_pickling(self) -> None:
        dataset = SceneDataset(3, SMALL, 5)
        again = pickle.loads(pickle.dumps(dataset))
        assert everything(again[2]) == everything(dataset[2])
        assert pickle.loads(pickle.dumps(dataset.schema)) == dataset.schema

    def test_bytes_are_golden(self) -> None:
        config = replace(SMALL, rays_per_px=2, window_prob=1.0, mirror_prob=1.0, rug_prob=1.0)
        digest = hashlib.sha256(b"".join(everything(make(config, 1, i)[1]) for i in range(8))).hexdigest()
        assert digest == "7bb0478a8ff748a74d6479b24fd2cb4c79f0b46b6189d4c0c4d91aeed4ce3ff8"


class TestDataset:
    def test_length_and_indices(self) -> None:
        dataset = SceneDataset(3, SMALL)
        assert len(dataset) == 3
        assert len(list(dataset)) == 3
        assert everything(dataset[-1]) == everything(dataset[2])
        for index in (3, -4):
            with pytest.raises(IndexError, match=r"index below 3.*got -?\d"):
                dataset[index]
        assert len(SceneDataset(0, SMALL)) == 0
        with pytest.raises(ValueError, match="num_scenes >= 0, got -1"):
            SceneDataset(-1)

    @given(SIZES)
    def test_sizes(self, size: tuple[int, int]) -> None:
        sample = make(replace(SMALL, height=size[0], width=size[1]))[1]
        assert sample.canvas_size == size
        assert sample.image.shape == (3, *size)

    def test_no_objects(self) -> None:
        sample = make(replace(ROOMY, num_objects_range=(0, 0)))[1]
        assert sample.num_instances == 0
        assert sample.boxes.shape == (0, 4)
        assert sample.instance_masks is not None
        assert sample.instance_masks.shape == (0, 61, 83)
        assert not numpy_of(sample)["panoptic_map"].any()

    def test_every_subset_of_modalities(self) -> None:
        whole = numpy_of(make(SMALL)[1])
        optional = [m for m in Modality if m is not Modality.IMAGE]
        for number in range(len(optional) + 1):
            for subset in combinations(optional, number):
                sample = SceneDataset(1, SMALL, modalities=subset)[0]
                brought = {Modality.INSTANCE, Modality.SEMANTIC} if Modality.PANOPTIC in subset else set()
                assert sample.modalities == {*subset, *brought, Modality.IMAGE}
                has_depth = Modality.DEPTH in subset
                assert sample.metric_depth == has_depth
                assert (sample.camera_intrinsics is not None) == has_depth
                for name, value in numpy_of(sample).items():
                    np.testing.assert_array_equal(value, whole[name])

    def test_modalities_by_value(self) -> None:
        sample = SceneDataset(1, SMALL, modalities=["depth"])[0]  # type: ignore[list-item]
        assert sample.modalities == {Modality.IMAGE, Modality.DEPTH}

    def test_schema(self) -> None:
        dataset = SceneDataset(1, replace(SMALL, num_classes=250))
        schema = dataset.schema
        assert isinstance(schema, PanopticSchema)
        assert list(schema.classes) == list(range(255))
        assert [schema.classes[c] for c in (0, 249, 250, 254)] == ["thing", "thing", "stuff", "stuff"]
        assert schema.ignore_index == 255
        assert len(set(dataset.class_names)) == len(dataset.class_names) == 255
        assert dataset.class_names[250:] == ("floor", "wall", "ceiling", "rug", "window")
        with pytest.raises(TypeError):
            schema.classes[0] = "stuff"  # type: ignore[index]

    def test_few_classes_differ_in_shape_and_texture(self) -> None:
        names = [name.split() for name in SceneConfig(num_classes=4).thing_names]
        assert all(len(set(words)) == 4 for words in zip(*names, strict=True))
        assert not any(char.isdigit() for name in SceneConfig(num_classes=16).thing_names for char in name)

    def test_class_names_say_the_shape(self) -> None:
        dataset = SceneDataset(20, replace(SMALL, num_classes=20))
        for scene in map(dataset.scene, range(20)):
            for solid in scene.solids:
                texture, shape = dataset.class_names[solid.class_id].split()[:2]
                assert texture == solid.material.texture
                assert (shape == "ball") == isinstance(solid, Sphere)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"height": 0},
            {"width": -3},
            {"num_objects_range": (5, 1)},
            {"num_objects_range": (-1, 1)},
            {"num_classes": 0},
            {"num_classes": 251},
            {"long_tail": -0.5},
            {"focal_frac_range": (1.0, 0.5)},
            {"focal_frac_range": (0.0, 1.0)},
            {"rug_prob": 1.5},
            {"window_prob": -0.1},
            {"mirror_prob": math.nan},
            {"grazing_cos": 2.0},
            {"rays_per_px": 0},
        ],
    )
    def test_wrong_configuration(self, wrong: dict[str, Any]) -> None:
        (name,) = wrong
        with pytest.raises(ValueError, match=rf"SceneConfig\.{name}: expected .*, got"):
            SceneConfig(**wrong)


class TestBatch:
    def test_is_the_dataset_padded(self) -> None:
        batch = scene_batch(3, 12, SMALL, seed=4)
        dataset = SceneDataset(3, SMALL, 4)
        assert batch.metric_depth
        assert batch.modalities == set(Modality)
        assert batch.max_instances == 12
        assert batch.sample_seeds is not None
        assert batch.sample_seeds.tolist() == [to_int64(derive_seed(4, 0, 0, 0, i)) for i in range(3)]
        for index, sample in enumerate(batch.to_batched().to_samples()):
            assert everything(sample) == everything(dataset[index])

    def test_keeps_the_largest(self) -> None:
        batch = scene_batch(2, 1, replace(SMALL, num_objects_range=(6, 6)))
        assert batch.instance_valid.all()
        assert batch.panoptic_maps is not None
        assert batch.instance_masks is not None
        assert torch.equal(batch.panoptic_maps != 0, batch.instance_masks[:, 0])

    def test_needs_a_scene(self) -> None:
        with pytest.raises(ValueError, match="batch_size >= 1, got 0"):
            scene_batch(0, 4)
