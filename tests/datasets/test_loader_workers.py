"""The loader's workers, photos that are broken, and options that it refuses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from coco_files import annotation_row, image_row, write_coco, write_many
from loader_cases import SIZE, Numbered, assert_same_batches, indices, seeds_of
from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler
from torch.utils.data._utils.pin_memory import pin_memory

from on_disk import rectangle, runs
from segpaste.datasets import DatasetError, EpochDataLoader, LoaderStats, create_coco_dataloader
from segpaste.datasets._orders import SamplePlace
from segpaste.samplers import RandomNxMSampler
from segpaste.seeding import derive_seed
from segpaste.types import DenseSample, PaddedBatchedDenseSample


class TestWorkers:
    def batches(self, paths: Any, **options: Any) -> list[list[Any]]:
        """Two epochs."""
        loader = create_coco_dataloader(*paths, batch_size=3, size=SIZE, base_seed=5, on_error="skip", **options)
        epochs = []
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            epochs.append(list(loader))
        assert loader.stats.num_samples == 12
        assert loader.stats.num_broken == 2
        return epochs

    @pytest.mark.filterwarnings("ignore:left out")
    @pytest.mark.parametrize(
        ("context", "persistent"),
        [("fork", False), ("fork", True), pytest.param("spawn", True, marks=pytest.mark.slow)],
        ids=lambda v: str(v),
    )
    def test_do_not_change_a_bit(self, tmp_path: Path, context: str, persistent: bool) -> None:
        images_dir, path = write_many(tmp_path, 7)
        (images_dir / "103.png").write_bytes(b"broken")
        alone = self.batches((images_dir, path))
        shared = self.batches(
            (images_dir, path),
            num_workers=1 if context == "spawn" else 2,  # which takes seconds to start each
            multiprocessing_context=context,
            persistent_workers=persistent,
        )
        for one, other in zip(alone, shared, strict=True):
            assert_same_batches(one, other)
        assert seeds_of(alone[0][0]) != seeds_of(alone[1][0])

    def test_persistent_workers_follow_set_epoch(self) -> None:
        loader = EpochDataLoader(Numbered(6), batch_size=6, num_workers=1, persistent_workers=True)
        for epoch in (4, 0, 4):
            loader.set_epoch(epoch)
            (batch,) = loader
            assert seeds_of(batch) == [derive_seed(0, epoch, 0, 0, i) for i in indices(batch)]


class TestBrokenFiles:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_raise(self, num_workers: int) -> None:
        loader = EpochDataLoader(Numbered(6, broken=(4,)), batch_size=2, shuffle=False, num_workers=num_workers)
        batches = iter(loader)
        assert [indices(next(batches)), indices(next(batches))] == [[0, 1], [2, 3]]
        with pytest.raises(DatasetError) as caught:
            next(batches)
        assert str(caught.value) == "4.png: expected an image, found no such file; check the path"

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_skip(self, num_workers: int) -> None:
        dataset = Numbered(9, broken=(1, 4, 5))
        loader = EpochDataLoader(dataset, batch_size=2, shuffle=False, on_error="skip", num_workers=num_workers)
        with pytest.warns(UserWarning, match=r"left out: 1\.png: expected an image") as caught:
            assert [indices(batch) for batch in loader] == [[0], [2, 3], [6, 7], [8]]
        assert len(caught) == 1
        assert loader.stats == LoaderStats(num_samples=6, num_broken=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loader.set_epoch(0)
            batches = list(loader)
        assert loader.stats == LoaderStats(num_samples=12, num_broken=6)
        assert [seeds_of(batch)[0] for batch in batches] == [derive_seed(0, 0, 0, 0, i) for i in (0, 2, 6, 8)]

    def test_annotations_that_cannot_be_decoded_are_skipped_too(self, tmp_path: Path) -> None:
        images = [image_row(i, (17, 11)) for i in range(3)]
        annotations = [annotation_row(i, i, runs(rectangle((17, 11), 1, 1, 9, 9))) for i in range(3)]
        annotations[1]["segmentation"]["counts"][0] += 1
        loader = create_coco_dataloader(
            *write_coco(tmp_path, images, annotations), batch_size=3, size=(17, 11), on_error="skip", hflip_prob=0
        )
        with pytest.warns(UserWarning, match="annotation 1 of image 1"):
            (batch,) = loader
        assert batch.batch_size == 2

    def test_other_errors_are_never_skipped(self) -> None:
        class Faulty(Numbered):
            def __getitem__(self, index: int) -> DenseSample:
                raise KeyError("a bug, not a broken file")

        with pytest.raises(KeyError, match="a bug"):
            list(EpochDataLoader(Faulty(2), batch_size=1, on_error="skip"))


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"on_error": "ignore"}, "on_error: expected 'raise' or 'skip'"),
            ({"max_instances": -1}, "max_instances"),
            ({"rank": 2, "num_replicas": 2}, "expected integers 0 <= rank < num_replicas, got 2 and 2"),
            ({"rank": -1, "num_replicas": 1}, "expected integers 0 <= rank < num_replicas, got -1 and 1"),
            ({"rank": 0}, "EpochDataLoader: expected both rank and num_replicas or neither, got 0 and None"),
            ({"base_seed": -1}, "base_seed"),
            ({"base_seed": 2**64}, "base_seed"),
            ({"batch_size": 0}, "batch_size"),
        ],
        ids=str,
    )
    def test_out_of_range(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EpochDataLoader(Numbered(3), **{"batch_size": 1, **options})

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_instances": 2.5}, r"max_instances: expected an integer, got float 2\.5"),
            ({"max_instances": "x"}, "max_instances: expected an integer, got str 'x'"),
            ({"max_instances": True}, "max_instances: expected an integer, got bool"),
            ({"batch_size": None}, "batch_size: expected an integer, got NoneType"),
            ({"batch_size": 2.0}, "batch_size: expected an integer, got float"),
            ({"jitter": "x"}, "jitter: expected a function of a sample and its seed, or None, got 'x'"),
            ({"jitter": 5}, "jitter: expected a function"),
            ({"sampler": 5}, "sampler: expected a sampler of indices, or None, got int 5"),
            ({"sampler": "abc"}, "sampler: expected a sampler of indices, or None, got str 'abc'"),
            ({"shuffle": "no"}, "shuffle: expected bool, got str 'no'"),
            ({"drop_last": 1}, "drop_last: expected bool, got int 1"),
            ({"pin_memory": "no"}, "pin_memory: expected bool, got str 'no'"),
            ({"persistent_workers": "no"}, "persistent_workers: expected bool, got str 'no'"),
            ({"dataset": 5}, "dataset: expected a map-style dataset, .* got int"),
            ({"dataset": "photos"}, "dataset: expected a map-style dataset, .* got str; create_coco_dataloader"),
        ],
        ids=str,
    )
    def test_of_another_class(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(TypeError, match=message):
            EpochDataLoader(**{"dataset": Numbered(3), "batch_size": 1, **options})

    def test_samplers_that_do_not_fit(self) -> None:
        of_rank_0 = RandomNxMSampler([0, 1, 2], 1, 1, rank=0, num_replicas=2)
        with pytest.raises(ValueError, match="expected rank 1 of 2, as the loader has, got rank 0 of 2"):
            EpochDataLoader(Numbered(3), batch_size=1, sampler=of_rank_0, rank=1, num_replicas=2)
        for batches in (BatchSampler(range(3), 1, False), of_rank_0.batch_sampler()):
            with pytest.raises(
                ValueError, match=f"expected a sampler of indices, got {type(batches).__name__}, which yields"
            ):
                EpochDataLoader(Numbered(3), batch_size=2, sampler=batches)

    def test_samplers_that_draw_another_number_than_there_are_samples(self) -> None:
        """Torch's ``num_samples`` is what a sampler draws."""
        for sampler in (RandomSampler(range(3), num_samples=2), WeightedRandomSampler([1.0] * 3, 5)):
            assert len(EpochDataLoader(Numbered(3), batch_size=1, sampler=sampler)) == len(sampler)

    def test_paths_or_dataset(self, tmp_path: Path) -> None:
        for arguments in ({}, {"images_dir": tmp_path}, {"images_dir": tmp_path, "dataset": Numbered(1)}):
            with pytest.raises(ValueError, match="images_dir and annotations_file, or dataset="):
                create_coco_dataloader(batch_size=1, **arguments)

    def test_pinning_reaches_the_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loader = EpochDataLoader(Numbered(2), batch_size=2)
        fetched = loader.collate_fn(loader.dataset.__getitems__([SamplePlace(0, 0, i) for i in range(2)]))
        monkeypatch.setattr(PaddedBatchedDenseSample, "pin_memory", lambda batch: ("pinned", batch))
        pinned = pin_memory(fetched)
        assert type(pinned) is type(fetched)
        assert pinned.batch == ("pinned", fetched.batch)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="pinning memory needs a GPU")
    def test_pinned_batches(self) -> None:
        for num_workers in (0, 2):
            for batch in EpochDataLoader(Numbered(5), batch_size=2, pin_memory=True, num_workers=num_workers):
                assert batch.images.is_pinned()
                assert batch.instance_masks.is_pinned()
                assert batch.to("cuda", non_blocking=True).images.is_cuda
