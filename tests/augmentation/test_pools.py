"""Objects from a whole dataset, with balanced classes, into batches of any size."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from kept_scenes import KeptScenes
from samples import EVERY_IMAGE, assert_same
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.augmentation import PanopticConfig, PlacementConfig, SourceConfig
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.bank import BankError, DatasetBank, create_bank_dataloader
from segpaste.datasets import EpochDataLoader
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.invariants import violations
from segpaste.invariants.case import Case
from segpaste.replay import ReplayRecord, records, replay
from segpaste.types import Modality

SCENES = KeptScenes(12, SceneConfig(height=48, width=64, long_tail=2.0), seed=1)
INSTANCES = KeptScenes(12, SCENES.config, seed=1, modalities=[Modality.INSTANCE])
SOURCE = SourceConfig(kind="bank", crops_per_target=3)
OF_POOL = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SOURCE)
K = 32


def batch_of(dataset: SceneDataset, *indices: int) -> PaddedBatchedDenseSample:
    batch = BatchedDenseSample.from_samples([dataset[i] for i in indices]).to_padded(K)
    return batch.derived(sample_seeds=torch.tensor([*indices]) + 100)


def loader_of(num_workers: int = 0, batch_size: int = 1) -> EpochDataLoader:
    return EpochDataLoader(INSTANCES, batch_size=batch_size, max_instances=K, base_seed=5, num_workers=num_workers)


class TestDataset:
    def test_a_batch_of_one_receives_pastes(self) -> None:
        augment = BatchCopyPaste(OF_POOL, source_pool=INSTANCES)
        placed = [int(augment(batch_of(INSTANCES, i), return_report=True)[1].num_placed) for i in range(8)]
        assert sum(num > 0 for num in placed) >= 7

    def test_every_field_is_pasted(self) -> None:
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, source=SOURCE, panoptic=PanopticConfig(taxonomy=SCENES.schema)
        )
        augment, batch = BatchCopyPaste(config, source_pool=SCENES), batch_of(SCENES, 0, 1)
        assert augment.crops is not None
        assert batch.sample_seeds is not None
        staged = augment.crops.staged(batch.sample_seeds)
        out, report = augment(batch, return_report=True)
        assert int(report.num_placed.sum()) > 0
        assert_same(augment(batch, staged=staged), out)
        assert not violations(Case(batch, out, report, config, source_batch(staged, batch, SOURCE)))

    def test_pastes_depend_on_the_seed_of_the_target_alone(self) -> None:
        augment = BatchCopyPaste(OF_POOL, source_pool=INSTANCES)
        together = augment(batch_of(INSTANCES, 0, 1, 2)).to_batched().to_samples()
        for row, expected in enumerate(together):
            alone = augment(batch_of(INSTANCES, row)).to_batched().to_samples()[0]
            for name in ("image", "labels", "instance_masks", "boxes", "instance_ids"):
                assert torch.equal(getattr(alone, name), getattr(expected, name)), name

    def test_replays(self) -> None:
        loader, augment = loader_of(batch_size=2), BatchCopyPaste(OF_POOL, source_pool=INSTANCES)
        batch = next(iter(loader))
        out, report = augment(batch, return_report=True)
        assert augment.crops is not None
        assert batch.sample_seeds is not None
        kept = records(augment, batch, out, report, staged=augment.crops.staged(batch.sample_seeds))
        assert sum(record.num_pastes for record in kept) > 0
        for record, expected in zip(kept, out.to_batched().to_samples(), strict=True):
            again = replay(ReplayRecord.from_json(record.to_json()), loader.sample_for, bank=DatasetBank(INSTANCES))
            assert torch.equal(again.image, expected.image)

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_workers_cut_the_crops(self, num_workers: int) -> None:
        crops = create_bank_dataloader(
            DatasetBank(INSTANCES),
            batch_size=2,
            crops_per_target=3,
            steps=6,
            mode="class_uniform",
            num_workers=num_workers,
        )
        batches = list(BatchCopyPaste.from_dataloader(loader_of(batch_size=2), K, OF_POOL, source_pool=crops))
        expected = BatchCopyPaste.from_dataloader(
            loader_of(batch_size=2), K, OF_POOL, source_pool=INSTANCES, balance="class_uniform"
        )
        for one, other in zip(batches, expected, strict=True):
            assert_same(one, other)

    def test_a_list_of_samples_is_one(self) -> None:
        samples = [INSTANCES[i] for i in range(4)]
        named = DatasetBank(samples, class_names=INSTANCES.class_names)
        loader = [batch_of(INSTANCES, 0)]
        for pool in (samples, tuple(samples)):
            with pytest.raises(BankError, match=r"expected class_names, since a (list|tuple) has none; give Dataset"):
                BatchCopyPaste(source_pool=pool)
            with pytest.raises(BankError, match=r"expected class_names, since a (list|tuple) has none; give Dataset"):
                BatchCopyPaste.from_dataloader(loader, K, source_pool=pool)
        assert len(named) == sum(len(sample.labels) for sample in samples)

    @pytest.mark.parametrize("backend", ["eager", "inductor"])
    @pytest.mark.slow
    def test_compiled_code_breaks_where_crops_are_read(self, backend: str) -> None:
        augment, batch = BatchCopyPaste(OF_POOL, source_pool=INSTANCES), batch_of(INSTANCES, 0, 1)
        torch.compiler.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(torch.compile(augment, backend=backend)(batch), augment(batch))
        torch.compiler.reset()
        with pytest.raises(Exception, match=r"a bank is not read in compiled code; with fullgraph=True call it as"):
            torch.compile(augment, backend=backend, fullgraph=True)(batch)

    def test_resumes(self) -> None:
        whole = list(_pooled())
        first = _pooled()
        passing = iter(first)
        for _ in range(5):
            next(passing)
        second = _pooled()
        second.load_state_dict(first.state_dict())
        for one, other in zip(second, whole[5:], strict=True):
            assert_same(one, other)


def _pooled(**options: Any) -> Any:
    given = {"source_pool": INSTANCES, "balance": "class_uniform", **options}
    return BatchCopyPaste.from_dataloader(loader_of(), K, OF_POOL, **given)


class TestBalance:
    def test_modes_draw_what_their_report_says(self) -> None:
        natural, uniform = (
            BatchCopyPaste(OF_POOL, source_pool=INSTANCES, balance=mode).crops for mode in ("natural", "class_uniform")
        )
        assert natural is not None
        assert uniform is not None
        seeds = torch.arange(400)
        for crops in (natural, uniform):
            report = crops.report(1200)
            drawn = torch.bincount(crops.staged(seeds).class_ids.flatten(), minlength=len(report.class_names))
            expected = torch.tensor(report.expected_draws)
            assert float(expected.sum()) == pytest.approx(1200)
            assert ((drawn - expected).abs() <= 5 * expected.sqrt()).all()
        counts = torch.tensor(natural.report(1).num_crops)
        assert torch.allclose(torch.tensor(natural.report(1).expected_draws), counts / counts.sum(), rtol=0, atol=1e-6)
        shares = torch.tensor(uniform.report(1).expected_draws)
        assert len(set(shares[counts > 0].tolist())) == 1

    def test_is_printed_before_the_first_batch(self, capsys: pytest.CaptureFixture[str]) -> None:
        passing = iter(_pooled())
        assert capsys.readouterr().out == ""
        next(passing)
        text = capsys.readouterr().out
        assert text.startswith("from_dataloader: pastes expected in 12 batches of 1\n")
        assert INSTANCES.class_names[0] in text
        list(passing)
        assert capsys.readouterr().out == ""
        list(_pooled(balance=None))
        assert capsys.readouterr().out == "", "only a balance that was asked for"

    def test_the_printed_draws_follow_the_probability_of_a_paste(self, capsys: pytest.CaptureFixture[str]) -> None:
        config = BatchCopyPasteConfig(source=SOURCE, placement=PlacementConfig(paste_prob=0.5))
        next(
            iter(BatchCopyPaste.from_dataloader(loader_of(), K, config, source_pool=INSTANCES, balance="class_uniform"))
        )
        lines = capsys.readouterr().out.splitlines()[2:]
        assert sum(float(line.split()[-3]) for line in lines) == pytest.approx(6 * 3, abs=0.5)

    @pytest.mark.parametrize(("paste_prob", "k_range"), [(0.5, (1, 256)), (1.0, (1, 1)), (1.0, (1, 2)), (0.5, (2, 4))])
    def test_the_expected_number_is_what_is_tried(self, paste_prob: float, k_range: tuple[int, int]) -> None:
        source = SOURCE.model_copy(update={"whole_only": False})
        config = BatchCopyPasteConfig(source=source, placement=PlacementConfig(paste_prob=paste_prob, k_range=k_range))
        augment = BatchCopyPaste(config, source_pool=INSTANCES, balance="class_uniform")
        batch = batch_of(INSTANCES, *range(12))
        tried = 0
        for turn in range(20):
            seeded = batch.derived(sample_seeds=torch.arange(12) + 1000 * turn)
            tried += int(augment(seeded, return_report=True)[1].num_tried.sum())
        assert tried == pytest.approx(240 * augment.pastes_per_image, rel=0.15)
        report = augment.expected_pastes(240)
        assert report is not None
        assert sum(report.expected_draws) == pytest.approx(240 * augment.pastes_per_image, abs=0.51)
        assert BatchCopyPaste(EVERY_IMAGE).expected_pastes(5) is None

    def test_refuses(self) -> None:
        with pytest.raises(ValueError, match="expected source_pool with balance='class_uniform'"):
            BatchCopyPaste(balance="class_uniform")
        with pytest.raises(ValueError, match="expected source_pool with balance='natural'"):
            BatchCopyPaste.from_dataloader(loader_of(), K, balance="natural")
        with pytest.raises(ValueError, match=r"mode or balance: expected natural, .*, got 'fair'"):
            BatchCopyPaste(OF_POOL, source_pool=INSTANCES, balance="fair")  # type: ignore[arg-type]
        crops = create_bank_dataloader(DatasetBank(INSTANCES), batch_size=1, steps=12)
        with pytest.raises(ValueError, match="expected balance=None with a loader of staged crops, got 'natural'"):
            BatchCopyPaste.from_dataloader(loader_of(), K, source_pool=crops, balance="natural")
