"""`BatchCopyPaste.from_dataloader`: whatever a loader yields comes out padded and augmented."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from samples import OPTIONAL, assert_same, batch_of, make_batch, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, stage_bank_batch
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.seeding import derive_seed, to_int64
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

K = 6
CONFIG = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0)))
OF_BANK = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"))
MODALITIES = [m for m in OPTIONAL if m is not Modality.PANOPTIC]


class Loader:
    """A list of batches with an epoch."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


samples = partial(make_samples, modalities=MODALITIES)
padded = partial(make_batch, max_instances=K, modalities=MODALITIES)
bare = partial(make_batch, max_instances=K, modalities={Modality.INSTANCE})


def as_samples(batch: Sequence[DenseSample]) -> Sequence[DenseSample]:
    """A collate function that does nothing."""
    return batch


class TestWhatALoaderYields:
    def test_padded_batches(self) -> None:
        batches = [padded(seed=1), padded(seed=2)]
        augment = BatchCopyPaste(CONFIG)
        for out, batch in zip(BatchCopyPaste.from_dataloader(Loader(batches), K, CONFIG), batches, strict=True):
            assert_same(out, augment(batch))
            assert (out.instance_valid.sum(1) > batch.instance_valid.sum(1)).any(), "nothing was pasted"

    @pytest.mark.parametrize("is_ragged", [True, False], ids=["ragged", "samples"])
    def test_other_batches_are_padded_first(self, is_ragged: bool) -> None:
        rows = [samples(seed=1), samples(seed=2)]
        batches = [BatchedDenseSample.from_samples(row) for row in rows]
        torch.manual_seed(5)
        loader = Loader(batches if is_ragged else rows)
        loader.epoch = 4
        augment = BatchCopyPaste(CONFIG)
        for number, (out, batch) in enumerate(
            zip(BatchCopyPaste.from_dataloader(loader, K, CONFIG), batches, strict=True)
        ):
            seeds = [to_int64(derive_seed(5, 4, 0, 0, number * 3 + row)) for row in range(3)]
            assert_same(out, augment(batch.to_padded(K, sample_seeds=torch.tensor(seeds))))
            assert out.max_instances == K

    def test_a_dataloader_of_torch(self) -> None:
        data = samples(seed=1) + samples(seed=2)
        loader: DataLoader[Any] = DataLoader(data, batch_size=3, collate_fn=as_samples)  # type: ignore[arg-type]
        augmented = BatchCopyPaste.from_dataloader(loader, K, CONFIG)
        outs = list(augmented)
        assert [out.batch_size for out in outs] == [3, 3]
        assert len(augmented) == len(loader) == 2
        assert all(type(out) is PaddedBatchedDenseSample for out in outs)

    def test_too_many_instances_keep_the_largest(self) -> None:
        row = samples(seed=1, num_instances=4)
        augmented = BatchCopyPaste.from_dataloader(Loader([row, row]), 3, CONFIG)
        with pytest.warns(UserWarning, match="no_free_slot"), pytest.warns(UserWarning, match="3 instances"):
            out, _ = augmented
        assert augmented.num_dropped_instances == 6
        batch = batch_of(row, 3, overflow="largest")
        assert_same(replace(out, sample_seeds=None), batch)

    def test_mixed_kinds(self) -> None:
        batches = [padded(seed=1), samples(seed=2), BatchedDenseSample.from_samples(samples(seed=3))]
        outs = list(BatchCopyPaste.from_dataloader(Loader(batches), K, CONFIG))
        assert [(out.batch_size, out.max_instances) for out in outs] == [(3, K)] * 3


class TestTheLoaderBehind:
    def test_len_is_the_loaders(self) -> None:
        assert len(BatchCopyPaste.from_dataloader(Loader([padded(seed=1)] * 7), K)) == 7

    def test_a_stream_has_no_len(self) -> None:
        with pytest.raises(TypeError):
            len(BatchCopyPaste.from_dataloader(iter([padded(seed=1)]), K))

    def test_set_epoch_reaches_the_loader(self) -> None:
        loader = Loader([])
        BatchCopyPaste.from_dataloader(loader, K).set_epoch(3)
        assert loader.epoch == 3

    def test_seeds_follow_the_epoch_whatever_the_loader_is(self) -> None:
        """The loader is a list of samples without seeds; every pass is a new epoch until one is set."""
        augmented = BatchCopyPaste.from_dataloader([samples(seed=1), samples(seed=2)], K, CONFIG)

        def seeds() -> list[int]:
            return [seed for out in augmented for seed in out.sample_seeds.tolist()]

        epochs = [seeds() for _ in range(3)]
        assert len({seed for epoch in epochs for seed in epoch}) == 18
        augmented.sampler.set_epoch(1)  # as Lightning does
        assert [seeds(), seeds()] == [epochs[1]] * 2

    def test_a_second_pass_starts_again(self) -> None:
        augmented = BatchCopyPaste.from_dataloader(Loader([padded(seed=1), padded(seed=2)]), K, CONFIG)
        for one, other in zip(augmented, augmented, strict=True):
            assert_same(one, other)

    def test_a_mismatch_of_slots_names_both(self) -> None:
        with pytest.raises(ValueError, match=f"max_instances=4.*got {K}"):
            list(BatchCopyPaste.from_dataloader([padded(seed=1)], 4, CONFIG))

    def test_device(self) -> None:
        (out,) = AugmentedLoader([padded(seed=1)], lambda batch: batch, K, device="meta")
        assert out.device == torch.device("meta")
        (out,) = AugmentedLoader([padded(seed=1)], lambda batch: batch, K)
        assert out.device == torch.device("cpu")
        assert BatchCopyPaste.from_dataloader([], K, device="meta").device == "meta"

    def test_mixed_sizes_are_refused(self) -> None:
        rows = samples(seed=1) + samples(seed=2, size=(11, 17))
        with pytest.raises(ValueError, match="one shape"):
            list(BatchCopyPaste.from_dataloader([rows], K))


def row_of(*counts: int) -> list[DenseSample]:
    return make_samples(len(counts), num_instances=counts, modalities=[Modality.INSTANCE])


def test_a_free_slot_of_one_image_does_not_hide_what_another_lost() -> None:
    augmented = AugmentedLoader([row_of(5, 1)], lambda batch: batch, 3)
    with pytest.warns(UserWarning, match="no slot for 2 instances of a batch with max_instances="):
        list(augmented)
    assert augmented.num_dropped_instances == 2


def test_warns_of_dropped_instances_once_and_where_the_loader_is_read() -> None:
    augmented = AugmentedLoader([row_of(4), row_of(5)], lambda batch: batch, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(augmented)
    assert [Path(w.filename).name for w in caught] == [Path(__file__).name]


@pytest.mark.parametrize("max_instances", [4, 8])
def test_a_mismatch_of_slots_either_way(max_instances: int) -> None:
    with pytest.raises(ValueError, match=f"max_instances={max_instances}.*got 6"):
        list(BatchCopyPaste.from_dataloader([make_batch(max_instances=6)], max_instances))


class TestPool:
    """Objects of a bank, for whatever a loader yields."""

    def test_a_bank(self, tmp_path: Path) -> None:
        bank = small_bank(tmp_path / "bank", [0, 1, 1, 2, 1])
        loader = Loader([bare(seed=0), bare(seed=1)])
        augmented = BatchCopyPaste.from_dataloader(loader, K, OF_BANK, source_pool=bank)
        first = list(augmented)
        loader.epoch = 1
        again = [out.images.clone() for out in augmented]
        assert any(not torch.equal(out.images, batch.images) for out, batch in zip(first, loader.batches, strict=True))
        augmented.set_epoch(0)
        assert_same(next(iter(augmented)), first[0])
        assert not torch.equal(again[0], first[0].images)
        augmented.set_epoch(1)
        assert loader.epoch == 1
        assert not torch.equal(next(iter(augmented)).images, first[0].images)

    def test_a_loader_of_staged_crops(self, tmp_path: Path) -> None:
        """The crops restart with every iteration; a smaller last batch takes the first ones."""
        bank = small_bank(tmp_path / "bank", [0, 1, 1, 2, 1])
        pool = [stage_bank_batch(bank, [[i], [4], [i]]) for i in range(4)]
        small = bare(seed=2).map_tensors(lambda t: t[:2])
        batches = [bare(seed=0), bare(seed=1), small]
        augmented = BatchCopyPaste.from_dataloader(Loader(batches), K, OF_BANK, source_pool=pool)
        for _ in range(2):
            for out, batch, staged in zip(augmented, batches, [pool[0], pool[1], pool[2].first(2)], strict=True):
                assert_same(out, BatchCopyPaste(OF_BANK)(batch, staged=staged))

    @pytest.mark.parametrize(
        ("pool", "words"),
        [
            ([], "ends after 0 batches; set its steps="),
            ([3], "ends after 1 batches; set its steps="),
            ([1], "for 3 targets, got 1"),
        ],
        ids=["none", "few", "small"],
    )
    def test_a_loader_that_is_too_short(self, tmp_path: Path, pool: list[int], words: str) -> None:
        bank = small_bank(tmp_path / "bank", [0, 1])
        crops = [stage_bank_batch(bank, [[0]] * num) for num in pool]
        with pytest.raises(ValueError, match=words):
            list(BatchCopyPaste.from_dataloader(Loader([bare(seed=0), bare(seed=1)]), K, source_pool=crops))

    def test_the_epoch_reaches_the_crops_whatever_the_loader_is(self, tmp_path: Path) -> None:
        bank, pool = small_bank(tmp_path / "bank", [0, 1, 1, 2, 1]), Loader([])
        augmented = BatchCopyPaste.from_dataloader([bare(seed=0)], K, OF_BANK, source_pool=bank)
        augmented.set_epoch(0)
        (first,) = augmented
        augmented.set_epoch(1)
        assert not torch.equal(next(iter(augmented)).images, first.images)
        BatchCopyPaste.from_dataloader([bare(seed=0)], K, source_pool=pool).set_epoch(2)
        assert pool.epoch == 2

    def test_a_path_is_no_pool(self, tmp_path: Path) -> None:
        for path in (tmp_path, str(tmp_path)):
            with pytest.raises(TypeError, match=r"got the path .*; give open_bank\(path\)"):
                BatchCopyPaste.from_dataloader(Loader([]), K, source_pool=path)  # type: ignore[arg-type]

    def test_a_source_without_a_pool(self) -> None:
        with pytest.raises(
            ValueError, match=r"expected source_pool because source\.kind='bank', got none; give a bank"
        ):
            BatchCopyPaste.from_dataloader(Loader([]), K, OF_BANK)
        config = BatchCopyPasteConfig(source=SourceConfig(kind="same_image"))
        with pytest.raises(ValueError, match=r"from_dataloader: expected source\.kind='bank' because .*; leave source"):
            BatchCopyPaste.from_dataloader(Loader([]), K, config, source_pool=[])
