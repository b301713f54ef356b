"""The loader's batches, their order and their seeds."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from coco_files import image_row, write_many
from loader_cases import SIZE, Numbered, assert_same_batches, indices, seeds_of
from PIL import Image
from torch import distributed as dist
from torch.utils.data import DistributedSampler

from samples import assert_same, make_samples
from segpaste.datasets import (
    CocoDetectionV2,
    CocoPanoptic,
    EpochDataLoader,
    LoaderStats,
    create_coco_dataloader,
    make_large_scale_jittering,
)
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import Modality, PaddedBatchedDenseSample


class TestBatches:
    def test_are_the_jittered_samples_padded(self, tmp_path: Path) -> None:
        paths = write_many(tmp_path, 7)
        loader = create_coco_dataloader(*paths, batch_size=3, size=SIZE, max_instances=5, base_seed=11)
        loader.set_epoch(2)
        dataset, jitter = CocoDetectionV2(*paths), make_large_scale_jittering(SIZE)
        by_seed = {derive_seed(11, 2, 0, 0, i): dataset[i] for i in range(7)}
        seen = []
        for batch in loader:
            assert isinstance(batch, PaddedBatchedDenseSample)
            assert batch.max_instances == 5
            for sample, seed in zip(batch.to_batched().to_samples(), seeds_of(batch), strict=True):
                assert_same(sample, jitter(by_seed[seed], seed))
                seen.append(seed)
        assert sorted(seen) == sorted(by_seed)
        assert loader.stats == LoaderStats(num_samples=7)

    def test_options_reach_the_jitter(self, tmp_path: Path) -> None:
        loader = create_coco_dataloader(
            *write_many(tmp_path),
            batch_size=7,
            size=40,
            scale_range=(1, 1),
            hflip_prob=0,
            min_area_px=50,
            shuffle=False,
        )
        (batch,) = loader
        assert batch.canvas_size == (40, 40)
        height, width = 19, 23
        assert not batch.padding_mask[0, 0, : round(height * 40 / width)].any()
        assert batch.padding_mask[0, 0, round(height * 40 / width) :].all()
        assert (batch.instance_masks.sum((2, 3))[batch.instance_valid] >= 50).all()

    def test_defaults(self, tmp_path: Path) -> None:
        (batch,) = create_coco_dataloader(*write_many(tmp_path, 2), batch_size=2)
        assert (batch.canvas_size, batch.max_instances, batch.device.type) == ((512, 512), 64, "cpu")

    @pytest.mark.parametrize("num_samples", [0, 1, 2])
    def test_of_nothing(self, num_samples: int) -> None:
        loader = EpochDataLoader(Numbered(num_samples), batch_size=3, drop_last=True)
        assert list(loader) == []
        assert len(loader) == 0

    def test_panoptic(self, tmp_path: Path) -> None:
        for folder in ("photos", "maps"):
            (tmp_path / folder).mkdir()
            Image.new("RGB", (13, 19), (7, 0, 0)).save(tmp_path / folder / "a.png")
        tables = {
            "images": [image_row(i, (19, 13), "a.png") for i in range(2)],
            "annotations": [
                {"image_id": i, "file_name": "a.png", "segments_info": [{"id": 7, "category_id": 1}]} for i in range(2)
            ],
            "categories": [{"id": 1, "name": "car", "isthing": 1}],
        }
        (tmp_path / "p.json").write_text(json.dumps(tables))
        dataset = CocoPanoptic(tmp_path / "photos", tmp_path / "p.json", tmp_path / "maps")
        (batch,) = create_coco_dataloader(dataset=dataset, batch_size=2, size=SIZE, scale_range=(0.5, 1))
        assert {Modality.PANOPTIC, Modality.SEMANTIC, Modality.INSTANCE} <= batch.modalities
        assert torch.equal(batch.panoptic_maps == 1, batch.instance_masks[:, 0])
        assert torch.equal(batch.semantic_maps == 255, batch.padding_mask[:, 0])

    def test_scenes_of_all_modalities(self) -> None:
        dataset = SceneDataset(3, SceneConfig(height=40, width=48), seed=1)
        (batch,) = create_coco_dataloader(dataset=dataset, batch_size=3, size=SIZE)
        assert batch.modalities == frozenset(Modality)
        assert batch.metric_depth
        assert batch.camera_intrinsics.shape == (3, 4)

    def test_too_many_instances_keep_the_largest(self) -> None:
        dataset = Numbered(4, num_instances=6)
        loader = EpochDataLoader(dataset, batch_size=2, max_instances=2, shuffle=False)
        with pytest.warns(UserWarning, match="kept the 2 largest of 6 instances") as caught:
            batches = list(loader)
        assert len(caught) == 1
        areas = dataset[0].instance_masks.sum((1, 2)).sort(descending=True).values
        assert batches[0].instance_masks[0].sum((1, 2)).sort(descending=True).values.tolist() == areas[:2].tolist()
        assert loader.stats == LoaderStats(num_samples=4, num_overflowed=4, num_dropped_instances=16)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(loader)
        assert loader.stats == LoaderStats(num_samples=8, num_overflowed=8, num_dropped_instances=32)

    def test_dataset_of_something_else(self) -> None:
        with pytest.raises(TypeError, match=r"dataset\[0\]: expected a DenseSample, got int"):
            list(EpochDataLoader([1, 2], batch_size=1, shuffle=False))


class TestOrder:
    def test_changes_with_epoch_and_seed_only(self) -> None:
        def order(base_seed: int, epoch: int, torch_seed: int = 0) -> tuple[list[int], list[int]]:
            loader = EpochDataLoader(Numbered(23), batch_size=4, base_seed=base_seed)
            loader.set_epoch(epoch)
            torch.manual_seed(torch_seed)
            batches = list(loader)
            return [i for b in batches for i in indices(b)], [s for b in batches for s in seeds_of(b)]

        first, first_seeds = order(0, 0)
        assert sorted(first) == list(range(23)) != first
        assert first_seeds == [derive_seed(0, 0, 0, 0, i) for i in first]
        assert order(0, 0, torch_seed=5) == (first, first_seeds)
        others = [order(0, 1), order(1, 0), order(0, 2)]
        assert all(sorted(other) == list(range(23)) for other, _ in others)
        assert len({tuple(o) for o, _ in [*others, (first, None)]}) == 4
        assert len({seed for _, s in others for seed in s} | set(first_seeds)) == 4 * 23

    def test_every_pass_is_a_new_epoch_until_one_is_set(self) -> None:
        loader = EpochDataLoader(Numbered(9), batch_size=3)
        whole: dict[int, list[list[int]]] = {}
        for epoch in range(4):
            fixed = EpochDataLoader(Numbered(9), batch_size=3)
            fixed.set_epoch(epoch)
            whole[epoch] = [seeds_of(batch) for batch in fixed]
        iter(loader)  # nothing is drawn of it
        assert seeds_of(next(iter(loader))) == whole[0][0]  # a pass that is left
        assert loader.epoch == 0
        assert [seeds_of(batch) for batch in loader] == whole[1]
        assert [seeds_of(batch) for batch in loader] == whole[2]
        loader.set_epoch(3)
        for _ in range(2):
            assert [seeds_of(batch) for batch in loader] == whole[3]
        assert loader.epoch == 3

    def test_every_order_is_as_likely(self) -> None:
        loader = EpochDataLoader(Numbered(3), batch_size=3)
        counts: dict[tuple[int, ...], int] = {}
        for epoch in range(600):
            loader.set_epoch(epoch)
            order = tuple(place.sample_idx for place in loader.sampler)
            counts[order] = counts.get(order, 0) + 1
        assert len(counts) == 6
        assert min(counts.values()) > 65

    def test_without_shuffle(self) -> None:
        loader = EpochDataLoader(Numbered(5), batch_size=2, shuffle=False)
        assert [indices(batch) for batch in loader] == [[0, 1], [2, 3], [4]]

    @pytest.mark.parametrize("num", [0, 1, 2, 7, 12])
    @pytest.mark.parametrize("num_replicas", [1, 2, 3, 5])
    @pytest.mark.parametrize("drop_last", [False, True])
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_replicas(self, num: int, num_replicas: int, drop_last: bool, shuffle: bool) -> None:
        options: dict[str, Any] = {"batch_size": 2, "drop_last": drop_last, "shuffle": shuffle, "base_seed": 3}
        loaders = [
            EpochDataLoader(Numbered(num), rank=rank, num_replicas=num_replicas, **options)
            for rank in range(num_replicas)
        ]
        seen = [[indices(batch) for batch in loader] for loader in loaders]
        each = num // num_replicas if drop_last else math.ceil(num / num_replicas)
        num_batches = each // 2 if drop_last else math.ceil(each / 2)
        assert [len(loader) for loader in loaders] == [len(batches) for batches in seen] == [num_batches] * num_replicas
        flat = [i for batches in seen for batch in batches for i in batch]
        if drop_last:
            assert len(set(flat)) == len(flat)
        else:
            assert set(flat) == set(range(num))
            assert len(flat) == each * num_replicas

    def test_rank_is_part_of_the_seed(self) -> None:
        batches = [next(iter(EpochDataLoader(Numbered(1), batch_size=1, rank=r, num_replicas=2))) for r in range(2)]
        assert [seeds_of(batch) for batch in batches] == [[derive_seed(0, 0, r, 0, 0)] for r in range(2)]
        assert batches[0].sample_seeds.tolist() == [to_int64(derive_seed(0, 0, 0, 0, 0))]

    def test_rank_and_replicas_come_from_torch_distributed(self, tmp_path: Path) -> None:
        dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dist, "get_rank", lambda: 2)
                patch.setattr(dist, "get_world_size", lambda: 3)
                loader = EpochDataLoader(Numbered(9), batch_size=3, shuffle=False)
                assert [indices(batch) for batch in loader] == [[2, 5, 8]]
        finally:
            dist.destroy_process_group()
        # frameworks replace samplers that are not of this class by their own
        assert isinstance(loader.sampler, DistributedSampler)


def test_real_photos(test_data: Path) -> None:
    folder = test_data / "tiny_coco"
    paths = folder / "val2017", folder / "annotations" / "instances_val2017.json"
    options: dict[str, Any] = {"batch_size": 8, "size": (97, 131), "max_instances": 12, "base_seed": 2}
    loader = create_coco_dataloader(*paths, **options)
    with pytest.warns(UserWarning, match="kept the 12 largest"):
        alone = list(loader)
    assert loader.stats.num_samples == 50
    with pytest.warns(UserWarning, match="kept the 12 largest"):
        assert_same_batches(alone, list(create_coco_dataloader(*paths, **options, num_workers=2)))
    for batch in alone:
        masks = batch.instance_masks
        assert torch.equal(masks.flatten(2).any(2), batch.instance_valid)
        assert not (masks & batch.padding_mask).any()


def test_a_sample_that_just_fits_is_no_overflow() -> None:
    loader = EpochDataLoader(make_samples(2, num_instances=3), batch_size=2, max_instances=3)  # type: ignore[arg-type]
    list(loader)
    assert (loader.stats.num_overflowed, loader.stats.num_dropped_instances) == (0, 0)
