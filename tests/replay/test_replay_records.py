"""Content of a record, how it is written and read, and which records are rejected."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from replay_cases import BASE_SEED, KEY_OF_0, keyed_batch, one_record, reader, recorded
from torchvision import tv_tensors

from samples import EVERY_IMAGE, assert_same, make_batch, make_sample, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, IntraBatchSource
from segpaste.augmentation import PlacementConfig
from segpaste.replay import ReplayError, ReplayRecord, read_records, records, replay
from segpaste.seeding import derive_seed, from_int64, key_tensors, keys_of, to_int64
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample


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
    "no target": (lambda v: v.pop("target"), "target: expected this key, got none"),
    "four numbers": (lambda v: v["target"].pop(), "target.4: "),
    "a negative number": (set_in("target", 1, -1), "target.1: expected at least 0, got -1"),
    "a number of 65 bits": (set_in("target", 0, 2**64), "target.0: "),
    "a number that is text": (set_in("target", 4, "0"), "target.4: expected a whole number, got '0'"),
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
        assert set(layer) == {
            "layer",
            "source",
            "scale_num",
            "scale_den",
            "translate",
            "hflip",
            "vflip",
            "swap_axes",
            "slots",
        }

    def test_added_fields_are_left_aside(self) -> None:
        _, _, record = one_record()
        text = edited(record, lambda v: (v.update(added=[1]), v["layers"][0].update(added={"a": 1})))
        assert ReplayRecord.from_json(text) == record

    def test_an_image_without_a_paste(self) -> None:
        samples = make_samples(2, modalities=[Modality.INSTANCE])
        config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0))
        pasted, found = recorded(config, keyed_batch(samples))
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
        _, found = recorded(BatchCopyPasteConfig(placement={"paste_prob": 1.0}), keyed_batch(samples))
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
        _, found = recorded(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0)), keyed_batch(samples))
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
        with pytest.raises(ReplayError, match="expected text in UTF-8"):
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
        self.refused("expected sample_keys in the batch, got None", make_batch(3), BatchCopyPaste(EVERY_IMAGE))

    def test_another_source(self) -> None:
        batch = keyed_batch(make_samples(3))
        self.refused("got a Wrapped, whose samples have no keys", batch, BatchCopyPaste(source=Wrapped()))

    def test_seeds_of_a_generator(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.refused("give no generator", keyed_batch(make_samples(3)), BatchCopyPaste(EVERY_IMAGE), generator)

    def test_half_precision(self) -> None:
        batch = keyed_batch(make_samples(3, image_dtype=torch.float32))
        batch = dataclasses.replace(batch, images=batch.images.half())
        self.refused("expected uint8 or float32 images", batch, BatchCopyPaste(EVERY_IMAGE))

    def test_instances_that_are_not_in_the_first_slots(self) -> None:
        batch = keyed_batch(make_samples(3))
        names = ("boxes", "labels", "instance_ids", "instance_masks", "instance_valid")
        turned = dataclasses.replace(batch, **{name: getattr(batch, name).flip(1) for name in names})
        self.refused("expected the instances of a sample in the first slots", turned, BatchCopyPaste(EVERY_IMAGE))


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
        batch = keyed_batch(make_samples(2))
        expected = batch.sample_keys
        assert expected is not None
        for other in (
            batch.clone(),
            batch.to("cpu"),
            BatchCopyPaste(EVERY_IMAGE)(batch),
            batch.map_tensors(lambda t: t),
        ):
            assert torch.equal(other.sample_keys, expected)
        leaves, spec = torch.utils._pytree.tree_flatten(batch)
        assert torch.equal(torch.utils._pytree.tree_unflatten(leaves, spec).sample_keys, expected)

    @pytest.mark.parametrize("shape", [(2, 4), (3, 5), (2,)], ids=str)
    def test_of_another_shape(self, shape: tuple[int, ...]) -> None:
        batch = keyed_batch([make_sample(), make_sample(seed=1)])
        with pytest.raises(ValueError, match="sample_keys: expected"):
            dataclasses.replace(batch, sample_keys=torch.zeros(shape, dtype=torch.int64))
