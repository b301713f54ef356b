"""A record makes its sample again, bit for bit: of pastes of all kinds, from workers, out of a bank."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_cases import BASE_SEED, KEY_OF_0, keyed_batch, reader, recorded
from torch.utils.data import DataLoader

from kept_scenes import KeptScenes
from samples import CPU_BACKENDS, EVERY_IMAGE, SCHEMA, all_modality_subsets, assert_same, make_samples, subset_id
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_coco_dataloader
from segpaste.augmentation import HarmonizeConfig, PanopticConfig, PlacementConfig, SourceConfig
from segpaste.bank import InstanceBank, stage_bank_batch
from segpaste.datasets import EpochDataLoader, SceneConfig
from segpaste.engine import use_backend
from segpaste.replay import ReplayError, ReplayRecord, records, replay
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

OBJECTS: dict[str, Any] = {"grouping": "instance", "size_range": {"low": 2, "high": 9}}
PATCHES: dict[str, Any] = {"pad_to_multiple": 4, "patch_aligned_paste": True}


@st.composite
def configs(draw: st.DrawFn, modalities: frozenset[Modality]) -> BatchCopyPasteConfig:
    kinds = [{}, {}, OBJECTS, OBJECTS | PATCHES | {"align": "instance"}, PATCHES | {"scale_range": (0.5, 2.0)}]
    options: dict[str, Any] = {
        "scale_range": draw(st.sampled_from([(0.5, 2.0), (0.3, 0.5), (1.0, 1.0)])),
        "paste_prob": draw(st.sampled_from([1.0, 1.0, 0.5])),
        "k_range": draw(st.sampled_from([(1, 256), (1, 2)])),
        "layers": draw(st.integers(1, 3)),
        "max_attempts": draw(st.integers(1, 3)),
    }
    placement = PlacementConfig(**options | draw(st.sampled_from(kinds)))
    harmonize = draw(st.sampled_from([{}, {}, {"prob": 0.5}, {"feather_px": 2}]))
    panoptic = PanopticConfig(
        taxonomy=SCHEMA,
        stuff_policy=draw(st.sampled_from(["ignore", "revert"])),
        tau_stuff_frac=draw(st.sampled_from([0.1, 0.9])),
        tau_stuff_px=draw(st.sampled_from([1, 30])),
    )
    mixes = Modality.SEMANTIC in modalities and draw(st.sampled_from([False, False, True]))
    if mixes:
        placement = PlacementConfig(**{name: options[name] for name in ("paste_prob", "layers")})
    boxes = Modality.INSTANCE not in modalities and (mixes or draw(st.booleans()))
    return BatchCopyPasteConfig(
        emit_classmix=mixes,
        max_hidden_frac=draw(st.sampled_from([1.0, 1.0, 0.3])),
        emit_depth=draw(st.sampled_from([None, None, False])),
        emit_panoptic=draw(st.sampled_from([None, None, False])),
        max_instances=draw(st.sampled_from([None, None, 12])),
        antialias=draw(st.booleans()),
        min_area_px=draw(st.sampled_from([1, 3, 8])),
        min_residual_area_frac=draw(st.sampled_from([0.1, 0.5])),
        placement=placement,
        harmonize=HarmonizeConfig(**harmonize),
        source=SourceConfig(mask_from="boxes" if boxes else None),
        panoptic=draw(st.sampled_from([panoptic, panoptic, None])),
    )


@st.composite
def datasets(draw: st.DrawFn, modalities: frozenset[Modality]) -> list[DenseSample]:
    return make_samples(
        draw(st.integers(1, 4)),
        size=draw(st.sampled_from([(13, 19), (23, 17), (9, 9)])),
        num_instances=draw(st.sampled_from([(3, 1, 2, 4), (4, 4, 3, 2), (0, 2, 1, 0)])),
        modalities=modalities,
        seed=draw(st.integers(0, 10**6)),
        image_dtype=draw(st.sampled_from([torch.uint8, torch.float32])),
        metric_depth=Modality.DEPTH in modalities and draw(st.booleans()),
        padding=draw(st.sampled_from([None, (1, 2)])),
    )


def assert_same_to_an_ulp(one: DenseSample, other: DenseSample) -> None:
    """Equal, but for what no two backends agree on to the last bit: normals, and images of floats."""
    floats = ["normals"] + (["image"] if one.image.is_floating_point() else [])
    for name in floats:
        if getattr(one, name) is not None:
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-5)
            other = dataclasses.replace(other, **{name: getattr(one, name)})
    assert_same(one, other)


class TestEqual:
    @pytest.mark.parametrize("modalities", all_modality_subsets(), ids=subset_id)
    @settings(max_examples=6)
    @given(data=st.data())
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste. expected at least 4 scales")
    def test_to_every_row_on_every_backend(self, modalities: frozenset[Modality], data: st.DataObject) -> None:
        samples, config = data.draw(datasets(modalities)), data.draw(configs(modalities))
        batch = keyed_batch(samples, data.draw(st.sampled_from([9, 6, 3])))
        if config.max_instances is None and data.draw(st.booleans()):
            batch = keyed_batch(samples, 4)
        for wrote in CPU_BACKENDS:
            with use_backend(wrote):
                pasted, found = recorded(config, batch)
            for expected, record in zip(pasted, found, strict=True):
                for reads in CPU_BACKENDS:
                    with use_backend(reads):
                        again = replay(record, reader(samples))
                    (assert_same if reads == wrote else assert_same_to_an_ulp)(again, expected)

    def test_that_test_sees_pastes_of_every_fate(self) -> None:
        """Pastes that are removed after they were drawn are recorded, such as those that wiped out a stuff class."""
        samples = make_samples(4, size=(23, 17), num_instances=4, seed=3)
        panoptic = PanopticConfig(taxonomy=SCHEMA, tau_stuff_frac=0.9)
        config = BatchCopyPasteConfig(
            placement=PlacementConfig(paste_prob=1.0, layers=3), panoptic=panoptic, min_area_px=8
        )
        module, batch = BatchCopyPaste(config), keyed_batch(samples, 16)
        for kernels in CPU_BACKENDS:
            with use_backend(kernels):
                out, report = module(batch, return_report=True)
                num_drawn, num_placed = report.drawn.sum((1, 2)), report.num_placed
                assert (num_drawn - num_placed == report.num_dropped[:, 3:].sum(1)).all()
                assert (num_drawn > num_placed).any()
                found = records(module, batch, out, report)
                assert [record.num_pastes for record in found] == num_drawn.tolist()
                for record, expected in zip(found, out.to_batched().to_samples(), strict=True):
                    assert_same(replay(record, reader(samples)), expected)

    def test_of_classes_alone(self) -> None:
        """ClassMix of images without instances; the schedule had another paste probability than the config."""
        samples = make_samples(4, size=(23, 17), num_instances=0, modalities=[Modality.SEMANTIC])
        config = BatchCopyPasteConfig(emit_classmix=True, placement=PlacementConfig(paste_prob=0, layers=2))
        module, batch = BatchCopyPaste(config), keyed_batch(samples, 0)
        module.schedule.set(paste_prob=1)
        out, report = module(batch, return_report=True)
        assert report.num_placed.all()
        texts = [record.to_json() for record in records(module, batch, out, report)]
        for text, expected in zip(texts, out.to_batched().to_samples(), strict=True):
            record = ReplayRecord.from_json(text)
            assert [layer.slots for layer in record.layers] == [(), ()]
            assert_same(replay(record, reader(samples)), expected)

    def test_classes_of_another_dataset(self) -> None:
        """A record says which instances are included, and that nothing was moved."""
        samples = make_samples(4, size=(23, 17), num_instances=3)
        _, found = recorded(
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True),
            keyed_batch(samples),
            with_digest=False,
        )
        record = next(r for r in found if r.num_pastes)
        values = json.loads(record.to_json())
        replay(record, reader(samples))
        for change in ({"slots": []}, {"slots": [0, 1, 2]}):
            values["layers"][0] |= {"slots": values["layers"][0]["slots"]} | change
            with pytest.raises(ReplayError, match="other instances come with the classes"):
                replay(ReplayRecord.from_json(json.dumps(values)), reader(samples))
        for change in ({"hflip": True}, {"translate": [5, 5]}, {"scale_num": [40000, 40000]}):
            moved = json.loads(record.to_json())
            moved["layers"][0] |= change
            with pytest.raises(ReplayError, match="layers: expected layers at their own position"):
                ReplayRecord.from_json(json.dumps(moved))

    def test_in_place(self) -> None:
        samples, config = make_samples(4, size=(23, 17)), BatchCopyPasteConfig(placement={"paste_prob": 1.0})
        pasted, expected = recorded(config, keyed_batch(samples))
        module, batch = BatchCopyPaste(config, inplace=True), keyed_batch(samples)
        out, report = module(batch, return_report=True)
        assert out.images is batch.images
        found = records(module, batch, out, report)
        assert found == expected
        for record, sample in zip(found, pasted, strict=True):
            assert_same(replay(record, reader(samples)), sample)

    def test_of_a_compiled_step(self) -> None:
        samples, config = (
            make_samples(3, size=(23, 17), modalities=[Modality.INSTANCE]),
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}),
        )
        pasted, expected = recorded(config, keyed_batch(samples))
        step, batch = torch.compile(BatchCopyPaste(config), fullgraph=True, backend="aot_eager"), keyed_batch(samples)
        out, report = step(batch, return_report=True)
        assert torch.equal(out.sample_keys, batch.sample_keys)
        assert records(step, batch, out, report) == expected
        for record, sample in zip(expected, pasted, strict=True):
            assert_same(replay(record, reader(samples)), sample)

    def test_only_what_was_pasted_from_is_read(self) -> None:
        samples = make_samples(4, size=(23, 17), modalities=[Modality.INSTANCE])
        pasted, found = recorded(BatchCopyPasteConfig(placement={"paste_prob": 1.0}), keyed_batch(samples))
        for i, (record, expected) in enumerate(zip(found, pasted, strict=True)):
            asked: list[int] = []

            def read(key: SampleKey, asked: list[int] = asked) -> DenseSample:
                asked.append(key.sample_idx)
                return samples[key.sample_idx]

            assert_same(replay(record, read), expected)
            assert asked[0] == i
            assert len(asked) == len(set(asked)) == 1 + len(record.layers) < 4

    def test_the_same_sample_twice_in_a_batch(self) -> None:
        samples = make_samples(1, size=(23, 17), num_instances=2)
        batch = keyed_batch(samples).map_tensors(lambda t: torch.cat([t, t]))
        module = BatchCopyPaste(EVERY_IMAGE)
        out, report = module(batch, return_report=True)
        assert report.num_placed.sum() > 0
        for record, expected in zip(records(module, batch, out, report), out.to_batched().to_samples(), strict=True):
            assert record.sample_keys == [KEY_OF_0]
            assert_same(replay(record, reader(samples)), expected)


class PasteInWorker:
    """Collates as the loader does, pastes, and writes records; all of it in the worker."""

    def __init__(self, collate: Callable[..., Any]) -> None:
        self.collate, self.module = collate, BatchCopyPaste(EVERY_IMAGE)

    def __call__(self, loaded: Any) -> tuple[PaddedBatchedDenseSample, list[str]]:
        assert torch.utils.data.get_worker_info() is not None
        batch = self.collate(loaded).batch
        out, report = self.module(batch, return_report=True)
        return out, [record.to_json() for record in records(self.module, batch, out, report)]


class TestLoader:
    DATASET = KeptScenes(11, SceneConfig(height=40, width=56), seed=4)

    def loader(self, **options: Any) -> EpochDataLoader:
        return create_coco_dataloader(dataset=self.DATASET, size=(37, 41), max_instances=8, **options)

    @pytest.mark.filterwarnings("ignore:kept the 8 largest")
    def test_two_workers_two_epochs(self) -> None:
        loader = self.loader(batch_size=4, base_seed=BASE_SEED, num_workers=2, rank=1, num_replicas=2)
        other = self.loader(batch_size=1)  # of another batch size, seed and rank
        module, num_pasted = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, max_instances=12)), 0
        for epoch in (0, 3):
            loader.set_epoch(epoch)
            for batch in loader:
                out, report = module(batch, return_report=True)
                num_pasted += int(report.num_placed.sum())
                found = records(module, batch, out, report)
                for record, expected in zip(found, out.to_batched().to_samples(), strict=True):
                    assert record.target[:4] == (BASE_SEED, epoch, 1, 0)
                    assert_same(replay(ReplayRecord.from_json(record.to_json()), other.sample_for), expected)
        assert num_pasted > 5

    def test_pasted_and_recorded_in_a_worker(self) -> None:
        own = self.loader(batch_size=3)
        workers = DataLoader(
            own.dataset, 3, sampler=own.sampler, num_workers=2, collate_fn=PasteInWorker(own.collate_fn)
        )
        num = 0
        for out, lines in workers:
            for line, expected in zip(lines, out.to_batched().to_samples(), strict=True):
                assert_same(replay(ReplayRecord.from_json(line), own.sample_for), expected)
                num += 1
        assert num == len(self.DATASET)

    def test_a_key_beyond_the_dataset(self) -> None:
        with pytest.raises(ValueError, match="expected a sample_idx below 11"):
            self.loader(batch_size=2).sample_for(SampleKey(0, 0, 0, 0, 11))


class TestBank:
    """Crops are named by their bank and their index."""

    def recorded(self, bank: InstanceBank, **options: Any) -> tuple[list[DenseSample], list[DenseSample], list[str]]:
        samples = make_samples(4, size=(23, 29), num_instances=(3, 1, 0, 2), seed=2, image_dtype=torch.float32)
        source = SourceConfig(kind="bank", crops_per_target=3, value_range=1, relative_to="photo")
        module = BatchCopyPaste(
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=source, panoptic=PanopticConfig(taxonomy=SCHEMA))
        )
        staged = stage_bank_batch(bank, torch.arange(20).reshape(4, 5) % len(bank), **options)
        batch = keyed_batch(samples)
        out, report = module(batch, staged=staged, return_report=True)
        assert int(report.num_placed.sum()) > 4
        texts = [record.to_json() for record in records(module, batch, out, report, staged=staged)]
        return samples, out.to_batched().to_samples(), texts

    @pytest.mark.parametrize("surfaces", [False, True])
    def test_each_is_made_again(self, tmp_path: Path, surfaces: bool) -> None:
        bank = small_bank(tmp_path / "bank", [0, 1, 2, 1, 0, 1, 3, 2], surfaces=surfaces)
        samples, expected, texts = self.recorded(bank, class_map=[1, 2, 3, 1])
        for sample, text in zip(expected, texts, strict=True):
            for name in CPU_BACKENDS:
                with use_backend(name):
                    again = replay(ReplayRecord.from_json(text), reader(samples), bank=bank)
                assert_same_to_an_ulp(again, sample)

    def test_another_bank(self, tmp_path: Path) -> None:
        bank = small_bank(tmp_path / "bank", [1, 2, 1, 1])
        samples, _, texts = self.recorded(bank)
        record = ReplayRecord.from_json(texts[0])
        with pytest.raises(ReplayError, match=f"expected the bank of version {bank.version:.12}, got none"):
            replay(record, reader(samples))
        other = small_bank(tmp_path / "other", [1, 2, 1, 1], seed=1)
        words = f"expected the bank of version {bank.version:.12}, got {other.version:.12}"
        with pytest.raises(ReplayError, match=words):
            replay(record, reader(samples), bank=other)

    def test_crops_that_are_not_there(self, tmp_path: Path) -> None:
        bank = small_bank(tmp_path / "bank", [1, 2, 1, 1])
        samples, _, texts = self.recorded(bank)
        values = json.loads(texts[0])
        values["layers"][0]["crop"] = 4
        with pytest.raises(ReplayError, match="expected crops below 4"):
            replay(ReplayRecord.from_json(json.dumps(values)), reader(samples), bank=bank)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda v: v.update(bank=None), "expected a version where source.kind='bank'"),
            (lambda v: v["layers"][0].update(crop=None), "expected a crop and its label of layer"),
            (lambda v: v["layers"][0].update(source=[1, 2, 3, 4, 5]), "expected a crop and its label of layer"),
            (lambda v: v["layers"][0].update(scale_num=[1 << 30, 1 << 30]), "as placement.scale_range says"),
            (lambda v: v["layers"][0].update(layer=3), "expected ascending ones below 3"),
            (lambda v: v["layers"][0].update(label=-1), "label: expected at least 0"),
            (lambda v: v["layers"][0].update(label=1 << 31), "label: expected less than 2147483648"),
            (lambda v: v["layers"][0].update(slots=[1]), r"expected slots \[0\], for a crop is one object, got \[1\]"),
            (lambda v: v["layers"][0].update(slots=[]), r"expected slots \[0\], for a crop is one object, got \[\]"),
        ],
    )
    def test_records_that_are_none(self, tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
        _, _, texts = self.recorded(small_bank(tmp_path / "bank", [1, 2, 1, 1]))
        values = json.loads(texts[0])
        change(values)
        with pytest.raises(ReplayError, match=words):
            ReplayRecord.from_json(json.dumps(values))

    def test_records_need_the_crops(self, tmp_path: Path) -> None:
        batch = keyed_batch(make_samples(2, size=(23, 29)))
        bank = small_bank(tmp_path / "bank", [1, 2, 1, 1])
        staged = stage_bank_batch(bank, [[0], [1]])
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0},
            source=SourceConfig(kind="bank"),
            panoptic=PanopticConfig(taxonomy=SCHEMA),
        )
        module, of_pool = BatchCopyPaste(config), BatchCopyPaste(config, source_pool=bank)
        out, report = module(batch, staged=staged, return_report=True)
        with pytest.raises(ValueError, match=r"got None; write records\(.*, staged=crops\) with the crops"):
            records(module, batch, out, report)
        with pytest.raises(ValueError, match=r"got None; write .*staged=augment\.crops\.staged\(out\.sample_seeds\)\)"):
            records(of_pool, batch, out, report)
        with pytest.raises(
            ValueError, match=r"expected crops that name their bank, .* make them with stage_bank_batch"
        ):
            records(module, batch, out, report, staged=dataclasses.replace(staged, version=""))
        without = BatchCopyPaste(config.model_copy(update={"source": SourceConfig()}))
        with pytest.raises(ValueError, match=r"expected staged=None, .* got StagedCrops.*; leave it out"):
            records(without, batch, out, report, staged=staged)

    def test_a_pool_of_the_module(self, tmp_path: Path) -> None:
        """The crops that a call drew are drawn again from its seeds."""
        bank = small_bank(tmp_path / "bank", [1, 2, 1, 1])
        samples = make_samples(3, size=(23, 29), num_instances=(3, 1, 0))
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"), panoptic=PanopticConfig(taxonomy=SCHEMA)
        )
        module = BatchCopyPaste(config, source_pool=bank)
        batch = keyed_batch(samples)
        out, report = module(batch, return_report=True)
        assert int(report.num_placed.sum()) > 0
        assert module.crops is not None
        made = records(module, batch, out, report, staged=module.crops.staged(out.sample_seeds))
        for record, sample in zip(made, out.to_batched().to_samples(), strict=True):
            assert_same_to_an_ulp(replay(record, reader(samples), bank=module.crops.bank), sample)
