"""A record makes its sample again, bit for bit; a record that cannot is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchvision import tv_tensors

from samples import (
    CPU_BACKENDS,
    SCHEMA,
    all_modality_subsets,
    assert_same,
    make_batch,
    make_sample,
    make_samples,
    subset_id,
)
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, IntraBatchSource, create_coco_dataloader
from segpaste.augmentation import HarmonizeConfig, PanopticConfig, PlacementConfig, SourceConfig
from segpaste.bank import InstanceBank, stage_bank_batch
from segpaste.datasets import EpochDataLoader, SceneConfig, SceneDataset
from segpaste.engine import use_backend
from segpaste.replay import ReplayError, ReplayRecord, read_records, records, replay
from segpaste.seeding import SampleKey, derive_seed, from_int64, key_tensors, keys_of, to_int64
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

BASE_SEED = 2**64 - 3
KEY_OF_0 = SampleKey(BASE_SEED, 2, 1, 0, 0)


def batch_of(samples: Sequence[DenseSample], max_instances: int = 9) -> PaddedBatchedDenseSample:
    """A batch whose row i is the sample of index i."""
    keys = [KEY_OF_0._replace(sample_idx=i) for i in range(len(samples))]
    return BatchedDenseSample.from_samples(samples).to_padded(max_instances, overflow="largest", **key_tensors(keys))


def reader(samples: Sequence[DenseSample]) -> Callable[[SampleKey], DenseSample]:
    def read(key: SampleKey) -> DenseSample:
        assert key == KEY_OF_0._replace(sample_idx=key.sample_idx)
        return samples[key.sample_idx]

    return read


def recorded(
    config: BatchCopyPasteConfig, batch: PaddedBatchedDenseSample, **options: Any
) -> tuple[list[DenseSample], list[ReplayRecord]]:
    """What a paste gives, and its records after a way through JSON."""
    module = BatchCopyPaste(config)
    out, report = module(batch, return_report=True)
    texts = [record.to_json() for record in records(module, batch, out, report, **options)]
    return out.to_batched().to_samples(), [ReplayRecord.from_json(text) for text in texts]


def one_record(**options: Any) -> tuple[list[DenseSample], DenseSample, ReplayRecord]:
    """Samples, the first of them augmented so that something is seen of its paste, and its record."""
    samples = make_samples(3, size=(23, 19), modalities=[Modality.INSTANCE])
    config = BatchCopyPasteConfig(placement=PlacementConfig(scale_range=(0.5, 1.0)))
    pasted, found = recorded(config, batch_of(samples), **options)
    assert not torch.equal(pasted[0].image, samples[0].image)
    return samples, pasted[0], found[0]


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
        batch = batch_of(samples, data.draw(st.sampled_from([9, 6, 3])))
        if config.max_instances is None and data.draw(st.booleans()):
            batch = batch_of(samples, 4)
        for wrote in CPU_BACKENDS:
            with use_backend(wrote):
                pasted, found = recorded(config, batch)
            for expected, record in zip(pasted, found, strict=True):
                for reads in CPU_BACKENDS:
                    with use_backend(reads):
                        again = replay(record, reader(samples))
                    (assert_same if reads == wrote else assert_same_to_an_ulp)(again, expected)

    def test_that_test_sees_pastes_of_every_fate(self) -> None:
        """Pastes that went after they were drawn are recorded: a stuff class that they wiped out got its pixels."""
        samples = make_samples(4, size=(23, 17), num_instances=4, seed=3)
        panoptic = PanopticConfig(taxonomy=SCHEMA, tau_stuff_frac=0.9)
        config = BatchCopyPasteConfig(placement=PlacementConfig(layers=3), panoptic=panoptic, min_area_px=8)
        module, batch = BatchCopyPaste(config), batch_of(samples, 16)
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
        module, batch = BatchCopyPaste(config), batch_of(samples, 0)
        module.schedule.set(paste_prob=1)
        out, report = module(batch, return_report=True)
        assert report.num_placed.all()
        texts = [record.to_json() for record in records(module, batch, out, report)]
        for text, expected in zip(texts, out.to_batched().to_samples(), strict=True):
            record = ReplayRecord.from_json(text)
            assert [layer.slots for layer in record.layers] == [(), ()]
            assert_same(replay(record, reader(samples)), expected)

    def test_classes_of_another_dataset(self) -> None:
        """A record says which instances came along, and that nothing was moved."""
        samples = make_samples(4, size=(23, 17), num_instances=3)
        _, found = recorded(BatchCopyPasteConfig(emit_classmix=True), batch_of(samples), with_digest=False)
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
            with pytest.raises(ReplayError, match="layers: expected layers that stay where they are"):
                ReplayRecord.from_json(json.dumps(moved))

    def test_in_place(self) -> None:
        samples, config = make_samples(4, size=(23, 17)), BatchCopyPasteConfig()
        pasted, expected = recorded(config, batch_of(samples))
        module, batch = BatchCopyPaste(config, inplace=True), batch_of(samples)
        out, report = module(batch, return_report=True)
        assert out.images is batch.images
        found = records(module, batch, out, report)
        assert found == expected
        for record, sample in zip(found, pasted, strict=True):
            assert_same(replay(record, reader(samples)), sample)

    def test_of_a_compiled_step(self) -> None:
        samples, config = make_samples(3, size=(23, 17), modalities=[Modality.INSTANCE]), BatchCopyPasteConfig()
        pasted, expected = recorded(config, batch_of(samples))
        step, batch = torch.compile(BatchCopyPaste(config), fullgraph=True, backend="aot_eager"), batch_of(samples)
        out, report = step(batch, return_report=True)
        assert torch.equal(out.sample_keys, batch.sample_keys)
        assert records(step, batch, out, report) == expected
        for record, sample in zip(expected, pasted, strict=True):
            assert_same(replay(record, reader(samples)), sample)

    def test_only_what_was_pasted_from_is_read(self) -> None:
        samples = make_samples(4, size=(23, 17), modalities=[Modality.INSTANCE])
        pasted, found = recorded(BatchCopyPasteConfig(), batch_of(samples))
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
        batch = batch_of(samples).map_tensors(lambda t: torch.cat([t, t]))
        module = BatchCopyPaste()
        out, report = module(batch, return_report=True)
        assert report.num_placed.sum() > 0
        for record, expected in zip(records(module, batch, out, report), out.to_batched().to_samples(), strict=True):
            assert record.sample_keys == [KEY_OF_0]
            assert_same(replay(record, reader(samples)), expected)


class PasteInWorker:
    """Collates as the loader does, pastes, and writes records; all of it in the worker."""

    def __init__(self, collate: Callable[..., Any]) -> None:
        self.collate, self.module = collate, BatchCopyPaste()

    def __call__(self, loaded: Any) -> tuple[PaddedBatchedDenseSample, list[str]]:
        assert torch.utils.data.get_worker_info() is not None
        batch = self.collate(loaded).batch
        out, report = self.module(batch, return_report=True)
        return out, [record.to_json() for record in records(self.module, batch, out, report)]


class TestLoader:
    DATASET = SceneDataset(11, SceneConfig(height=40, width=56), seed=4)

    def loader(self, **options: Any) -> EpochDataLoader:
        return create_coco_dataloader(dataset=self.DATASET, size=(37, 41), max_instances=8, **options)

    @pytest.mark.filterwarnings("ignore:kept the 8 largest")
    def test_two_workers_two_epochs(self) -> None:
        loader = self.loader(batch_size=4, base_seed=BASE_SEED, num_workers=2, rank=1, num_replicas=2)
        other = self.loader(batch_size=1)  # of another batch size, seed and rank
        module, num_pasted = BatchCopyPaste(BatchCopyPasteConfig(max_instances=12)), 0
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


def edited(record: ReplayRecord, edit: Callable[[dict[str, Any]], Any]) -> str:
    values = json.loads(record.to_json())
    edit(values)
    return json.dumps(values)


def set_in(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set what lies at path[:-1] to path[-1]."""

    def edit(values: Any) -> None:
        *way, last, value = path
        for step in way:
            values = values[step]
        values[last] = value

    return edit


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another form": (set_in("adr_version", "0002"), "adr_version '0001', got '0002'"),
    "no form": (lambda v: v.pop("adr_version"), "adr_version '0001', got None"),
    "no target": (lambda v: v.pop("target"), "target: field required"),
    "four numbers": (lambda v: v["target"].pop(), "target.4: "),
    "a negative number": (set_in("target", 1, -1), "target.1: input should be greater than or equal to 0, got -1"),
    "a number of 65 bits": (set_in("target", 0, 2**64), "target.0: "),
    "a number that is text": (set_in("target", 4, "0"), "target.4: input should be a valid integer, got '0'"),
    "a number that is a float": (set_in("layers", 0, "translate", 0, 1.0), "layers.0.translate.0: "),
    "a flip that is a number": (set_in("layers", 0, "hflip", 1), "layers.0.hflip: "),
    "a place out of reach": (set_in("layers", 0, "translate", 1, 1 << 40), "layers.0.translate.1: "),
    "a slot beyond the last": (set_in("layers", 0, "slots", [9]), "expected ascending slots below 9"),
    "a slot twice": (set_in("layers", 0, "slots", [0, 0]), "expected ascending slots"),
    "no slot": (set_in("layers", 0, "slots", []), "layers: expected slots that layer 0 carries, got none"),
    "a layer beyond the last": (set_in("layers", 0, "layer", 1), "expected ascending ones below 1"),
    "a scale out of range": (set_in("layers", 0, "scale_num", [1 << 17] * 2), "as placement.scale_range says"),
    "another denominator": (set_in("layers", 0, "scale_den", [7, 7]), "over 65536"),
    "no canvas": (set_in("canvas_size", [0, 19]), "canvas_size.0: "),
    "a digest that is none": (set_in("digest", "x"), "digest: "),
    "means that are no numbers": (set_in("float_means", {"depth": ["x"]}), "float_means.depth.0: "),
    "means that are not finite": (set_in("float_means", {"depth": [float("nan")]}), "float_means.depth.0: "),
    "an unknown key of the configuration": (set_in("config", "colour", 1), "config.colour: "),
    "a bad value of the configuration": (set_in("config", "placement", "layers", 0), "config.placement.layers: "),
}

NOT_THE_SAMPLE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another place": (lambda v: v["layers"][0].update(translate=[-2, 1]), "not the recorded one"),
    "mirrored": (lambda v: v["layers"][0].update(hflip=not v["layers"][0]["hflip"]), "not the recorded one"),
    "another scale": (set_in("layers", 0, "scale_num", [32768, 32768]), "not the recorded one"),
    "without its paste": (set_in("layers", []), "not the recorded one"),
    "another target": (set_in("target", 4, 1), "not the recorded one"),
    "another digest": (set_in("digest", "0" * 64), "not the recorded one"),
    "other means": (set_in("float_means", {"depth": [1.5]}), "not the recorded one in depth"),
    "a slot that holds nothing": (set_in("layers", 0, "slots", [7]), "holds nothing that can be pasted"),
    "fewer slots": (set_in("max_instances", 3), "too few free slots"),
    "another canvas": (set_in("canvas_size", [23, 20]), r"expected a canvas of \(23, 20\)"),
}


def changed(sample: DenseSample, name: str, share: float) -> DenseSample:
    """The sample with all numbers of a field changed by a share of them; normals are turned by it, in radians."""
    value = getattr(sample, name)
    if name == "camera_intrinsics":
        return dataclasses.replace(sample, camera_intrinsics=dataclasses.replace(value, fx=value.fx * (1 + share)))
    if name == "normals":
        x, y, z = value.as_subclass(torch.Tensor)
        turned = torch.stack([x * math.cos(share) - z * math.sin(share), y, x * math.sin(share) + z * math.cos(share)])
        return dataclasses.replace(sample, normals=turned)
    new = value.as_subclass(torch.Tensor) * (1 - share)
    return dataclasses.replace(sample, **{name: tv_tensors.Image(new) if name == "image" else new})


class TestRecords:
    def test_round_trip(self) -> None:
        _, _, record = one_record(dataset="mine")
        assert ReplayRecord.from_json(record.to_json()) == record
        assert record.dataset == "mine"
        assert record.sample_keys[0] == KEY_OF_0
        assert "\n" not in record.to_json()

    def test_form(self) -> None:
        _, _, record = one_record()
        values = json.loads(record.to_json())
        assert values["adr_version"] == "0001"
        assert values["target"] == [BASE_SEED, 2, 1, 0, 0]
        assert BatchCopyPasteConfig.model_validate(values["config"]) == record.config
        (layer,) = values["layers"]
        assert layer.pop("crop") is None
        assert layer.pop("label") is None
        assert set(layer) == {"layer", "source", "scale_num", "scale_den", "translate", "hflip", "slots"}

    def test_added_fields_are_left_aside(self) -> None:
        _, _, record = one_record()
        text = edited(record, lambda v: (v.update(added=[1]), v["layers"][0].update(added={"a": 1})))
        assert ReplayRecord.from_json(text) == record

    def test_an_image_without_a_paste(self) -> None:
        samples = make_samples(2, modalities=[Modality.INSTANCE])
        config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0))
        pasted, found = recorded(config, batch_of(samples))
        assert [record.layers for record in found] == [(), ()]
        assert_same(replay(found[1], reader(samples)), pasted[1])

    @pytest.mark.parametrize("text", ["", "{", "[1]", "7", "null", "[" * 100_000], ids=lambda t: t[:4])
    def test_no_record(self, text: str) -> None:
        with pytest.raises(ReplayError, match="expected a replay record"):
            ReplayRecord.from_json(text)

    @pytest.mark.parametrize("case", REFUSED)
    def test_refused(self, case: str) -> None:
        edit, message = REFUSED[case]
        _, _, record = one_record()
        with pytest.raises(ReplayError) as caught:
            ReplayRecord.from_json(edited(record, edit))
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("case", NOT_THE_SAMPLE)
    def test_never_a_wrong_sample_in_silence(self, case: str) -> None:
        edit, message = NOT_THE_SAMPLE[case]
        samples, expected, record = one_record()
        assert_same(replay(record, reader(samples)), expected)
        with pytest.raises(ReplayError, match=message):
            replay(ReplayRecord.from_json(edited(record, edit)), reader(samples))

    def test_another_dataset(self) -> None:
        samples, _, record = one_record()
        others = [dataclasses.replace(s, labels=s.labels + 1) for s in samples]
        with pytest.raises(ReplayError, match="is the dataset, or a transform, another one"):
            replay(record, reader(others))
        darker = [dataclasses.replace(s, image=type(s.image)(s.image // 2)) for s in samples]
        with pytest.raises(ReplayError, match="is the dataset, or a transform, another one"):
            replay(record, reader(darker))

    @pytest.mark.parametrize("name", ["depth", "normals", "image", "camera_intrinsics"])
    def test_other_floats(self, name: str) -> None:
        """No digest covers them, for backends differ in the last bits."""
        samples = make_samples(4, size=(23, 17), num_instances=3, image_dtype=torch.float32, metric_depth=True)
        _, found = recorded(BatchCopyPasteConfig(), batch_of(samples))
        record = next(r for r in found if r.num_pastes)
        replay(record, reader(samples))
        for share in (1e-6, 1e-2):
            others = [changed(sample, name, share) for sample in samples]
            old = record.model_copy(update={"float_means": None})
            replay(old, reader(others))
            if share < 1e-5:
                replay(record, reader(others))
                continue
            with pytest.raises(ReplayError, match=f"not the recorded one in .*{name}"):
                replay(record, reader(others))

    def test_the_depth_of_one_object(self) -> None:
        """A few pixels of the target, by a tenth."""
        samples = make_samples(4, size=(97, 83), num_instances=3)
        _, found = recorded(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0)), batch_of(samples))
        depth = samples[0].depth.clone()
        depth[:, 3:8, 4:9] *= 1.1
        others = [dataclasses.replace(samples[0], depth=depth), *samples[1:]]
        with pytest.raises(ReplayError, match="not the recorded one in depth"):
            replay(found[0], reader(others))

    def test_a_record_without_means_is_read(self) -> None:
        samples, expected, record = one_record()
        text = edited(record, lambda v: v.pop("float_means"))
        again = ReplayRecord.from_json(text)
        assert again.float_means is None
        assert_same(replay(again, reader(samples)), expected)

    def test_samples_without_masks(self) -> None:
        samples, _, record = one_record(with_digest=False)
        bare = [dataclasses.replace(s, instance_masks=None, instance_ids=None) for s in samples]
        with pytest.raises(ReplayError, match="expected samples with instance masks"):
            replay(record, reader(bare))

    def test_without_a_digest(self) -> None:
        samples, expected, record = one_record(with_digest=False)
        assert record.digest is None is record.float_means
        assert_same(replay(record, reader(samples)), expected)


class TestFile:
    def test_read(self, tmp_path: Path) -> None:
        _, _, record = one_record()
        path = tmp_path / "replay.jsonl"
        path.write_text(f"{record.to_json()}\n\n{record.to_json()}\n")
        first, second = read_records(path)
        assert first == second == record
        assert first.config is second.config

    def test_broken_line(self, tmp_path: Path) -> None:
        _, _, record = one_record()
        path = tmp_path / "replay.jsonl"
        path.write_text(f"{record.to_json()}\n{record.to_json()[:-9]}\n")
        with pytest.raises(ReplayError, match=r"replay\.jsonl: line 2: expected a replay record in JSON"):
            read_records(path)

    def test_other_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "r").write_bytes(b"\xff\xfe")
        with pytest.raises(ReplayError, match="expected replay records in UTF-8"):
            read_records(tmp_path / "r")


class Wrapped:
    def __init__(self) -> None:
        self.sample = IntraBatchSource().sample


class TestWhatCannotBeRecorded:
    def refused(self, message: str, batch: PaddedBatchedDenseSample, module: BatchCopyPaste, *given: Any) -> None:
        out, report = module(batch, *given, return_report=True)
        with pytest.raises(ValueError, match=message):
            records(module, batch, out, report)

    def test_no_keys(self) -> None:
        self.refused("expected sample_keys in the batch, got None", make_batch(3), BatchCopyPaste())

    def test_another_source(self) -> None:
        batch = batch_of(make_samples(3))
        self.refused("got a Wrapped, whose samples have no keys", batch, BatchCopyPaste(source=Wrapped()))

    def test_seeds_of_a_generator(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.refused("give no generator", batch_of(make_samples(3)), BatchCopyPaste(), generator)

    def test_half_precision(self) -> None:
        batch = batch_of(make_samples(3, image_dtype=torch.float32))
        batch = dataclasses.replace(batch, images=batch.images.half())
        self.refused("expected uint8 or float32 images", batch, BatchCopyPaste())

    def test_instances_that_are_not_in_the_first_slots(self) -> None:
        batch = batch_of(make_samples(3))
        names = ("boxes", "labels", "instance_ids", "instance_masks", "instance_valid")
        turned = dataclasses.replace(batch, **{name: getattr(batch, name).flip(1) for name in names})
        self.refused("expected the instances of a sample in the first slots", turned, BatchCopyPaste())


class TestKeys:
    def test_the_seed_of_a_key(self) -> None:
        assert KEY_OF_0.seed == derive_seed(BASE_SEED, 2, 1, 0, 0)

    @given(st.integers(0, 2**64 - 1))
    def test_64_bits_and_back(self, value: int) -> None:
        assert from_int64(int(torch.tensor(to_int64(value)))) == value

    @pytest.mark.parametrize("num", [0, 1, 3])
    def test_into_tensors_and_back(self, num: int) -> None:
        keys = [KEY_OF_0._replace(sample_idx=2**63 + i) for i in range(num)]
        tensors = key_tensors(keys)
        assert keys_of(tensors["sample_keys"]) == keys
        assert [from_int64(seed) for seed in tensors["sample_seeds"].tolist()] == [key.seed for key in keys]
        assert tensors["sample_keys"].shape == (num, 5)

    def test_they_stay_with_the_batch(self) -> None:
        batch = batch_of(make_samples(2))
        expected = batch.sample_keys
        assert expected is not None
        for other in (batch.clone(), batch.to("cpu"), BatchCopyPaste()(batch), batch.map_tensors(lambda t: t)):
            assert torch.equal(other.sample_keys, expected)
        leaves, spec = torch.utils._pytree.tree_flatten(batch)
        assert torch.equal(torch.utils._pytree.tree_unflatten(leaves, spec).sample_keys, expected)

    @pytest.mark.parametrize("shape", [(2, 4), (3, 5), (2,)], ids=str)
    def test_of_another_shape(self, shape: tuple[int, ...]) -> None:
        batch = batch_of([make_sample(), make_sample(seed=1)])
        with pytest.raises(ValueError, match="sample_keys: expected"):
            dataclasses.replace(batch, sample_keys=torch.zeros(shape, dtype=torch.int64))


class TestBank:
    """Crops are named by their bank and their index."""

    def recorded(self, bank: InstanceBank, **options: Any) -> tuple[list[DenseSample], list[DenseSample], list[str]]:
        samples = make_samples(4, size=(23, 29), num_instances=(3, 1, 0, 2), seed=2, image_dtype=torch.float32)
        source = SourceConfig(kind="bank", crops_per_target=3, value_range=1, relative_to="photo")
        module = BatchCopyPaste(BatchCopyPasteConfig(source=source, panoptic=PanopticConfig(taxonomy=SCHEMA)))
        staged = stage_bank_batch(bank, torch.arange(20).reshape(4, 5) % len(bank), **options)
        batch = batch_of(samples)
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
            (lambda v: v["layers"][0].update(label=-1), "label: input should be greater than or equal to 0"),
            (lambda v: v["layers"][0].update(label=1 << 31), "label: input should be less than 2147483648"),
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
        batch = batch_of(make_samples(2, size=(23, 29)))
        staged = stage_bank_batch(small_bank(tmp_path / "bank", [1, 2, 1, 1]), [[0], [1]])
        panoptic = PanopticConfig(taxonomy=SCHEMA)
        module = BatchCopyPaste(BatchCopyPasteConfig(source=SourceConfig(kind="bank"), panoptic=panoptic))
        out, report = module(batch, staged=staged, return_report=True)
        with pytest.raises(ValueError, match="records: expected staged"):
            records(module, batch, out, report)
