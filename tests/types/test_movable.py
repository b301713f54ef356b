"""Every record that users receive moves whole: by its own methods, under a loader, and under other people's movers."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from record_cases import FULL, RECORDS, make_records
from torch import Tensor
from torch.utils.data import DataLoader, default_collate
from torchvision import tv_tensors

from samples import assert_same, make_sample, make_samples
from segpaste.datasets import FederatedLabels
from segpaste.types import BatchedDenseSample, CameraIntrinsics, InstanceMask
from segpaste.types.movable import Movable

NAMES = (*RECORDS, "camera", "federated")


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    camera, federated = CameraIntrinsics(1.0, 1.0, 0.5, 0.5), FederatedLabels((1,), (2,), ())
    return {**make_records(), "camera": camera, "federated": federated}


def leaves(value: Any) -> Iterator[Any]:
    """All values of a record, in order of its fields."""
    if dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            yield from leaves(getattr(value, item.name))
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def assert_moved(there: Any, record: Any, device: str) -> None:
    assert type(there) is type(record)
    for moved, value in zip(leaves(there), leaves(record), strict=True):
        assert type(moved) is type(value)
        if isinstance(value, Tensor):
            assert moved.device.type == device
            assert (moved.shape, moved.dtype) == (value.shape, value.dtype)
            if device == value.device.type:
                assert torch.equal(moved.isnan(), value.isnan())
                assert torch.equal(moved.nan_to_num(), value.nan_to_num())
        else:
            assert moved == value
        if isinstance(value, tv_tensors.BoundingBoxes):
            assert (moved.format, moved.canvas_size) == (value.format, value.canvas_size)


@pytest.mark.parametrize("name", NAMES)
class TestEveryRecord:
    def test_moves_every_tensor_and_keeps_its_class(self, records: dict[str, Any], name: str) -> None:
        record = records[name]
        for device in ("meta", torch.device("meta")):
            assert_moved(record.to(device), record, "meta")
            assert_moved(record.to(device, non_blocking=True), record, "meta")
        assert_moved(record.to("cpu"), record, "cpu")

    def test_pins_every_tensor(self, records: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        pinned = []

        def pin(tensor: Tensor) -> Tensor:
            assert type(tensor) is Tensor
            pinned.append(tensor.clone())
            return pinned[-1]

        monkeypatch.setattr(Tensor, "pin_memory", pin)
        there = records[name].pin_memory()
        monkeypatch.undo()
        assert_moved(there, records[name], "cpu")
        memory = {tensor.untyped_storage().data_ptr() for tensor in pinned}
        assert {t.untyped_storage().data_ptr() for t in leaves(there) if isinstance(t, Tensor)} <= memory

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_goes_to_the_gpu_and_back(self, records: dict[str, Any], name: str) -> None:
        pinned = records[name].pin_memory()
        assert all(t.is_pinned() for t in leaves(pinned) if isinstance(t, Tensor) and t.numel())
        there = pinned.to("cuda", non_blocking=True)
        assert_moved(there, records[name], "cuda")
        assert_moved(there.to("cpu"), records[name], "cpu")
        assert_moved(records[name].to(0), records[name], "cuda")

    @pytest.mark.parametrize("what", [torch.float16, None, torch.zeros(1), True], ids=str)
    def test_refuses_what_is_no_device(self, records: dict[str, Any], name: str, what: Any) -> None:
        message = rf"{type(records[name]).__name__}\.to: expected a device .*, got .*; the dtypes of .* are fixed"
        with pytest.raises(TypeError, match=message):
            records[name].to(what)

    def test_survives_pickle(self, records: dict[str, Any], name: str) -> None:
        assert_moved(pickle.loads(pickle.dumps(records[name])), records[name], "cpu")

    def test_under_lightning(self, records: dict[str, Any], name: str) -> None:
        move = pytest.importorskip("lightning_fabric.utilities.apply_func").move_data_to_device
        for batch in (records[name], [records[name]], {"a": [records[name]], "b": (1, "x")}, (records[name], "x")):
            there = move(batch, torch.device("meta"))
            got = there["a"] if isinstance(there, dict) else there
            assert_moved(got if isinstance(got, Movable) else got[0], records[name], "meta")

    def test_under_accelerate(self, records: dict[str, Any], name: str) -> None:
        send = pytest.importorskip("accelerate.utils").send_to_device
        for non_blocking in (False, True):
            (there,) = send([records[name]], torch.device("meta"), non_blocking=non_blocking)
            assert_moved(there, records[name], "meta")


class TestDefaultCollate:
    def test_stacks_samples(self) -> None:
        samples = make_samples(3, **FULL)
        assert_same(default_collate(samples), BatchedDenseSample.from_samples(samples))
        pair = default_collate([{"sample": s, "index": i} for i, s in enumerate(samples)])
        assert pair["index"].tolist() == [0, 1, 2]
        assert_same(pair["sample"], BatchedDenseSample.from_samples(samples))

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_in_a_loader(self, num_workers: int) -> None:
        samples: Any = make_samples(4, **FULL)
        batches = list(DataLoader(samples, batch_size=2, num_workers=num_workers))
        for batch, expected in zip(batches, (samples[:2], samples[2:]), strict=True):
            assert_same(batch, BatchedDenseSample.from_samples(expected))

    def test_names_the_ways_that_work_for_mixed_sizes(self) -> None:
        with pytest.raises(
            ValueError, match=r"one shape and dtype.*create_coco_dataloader\(dataset=\.\.\., size=\.\.\.\)"
        ):
            default_collate([make_sample((17, 11)), make_sample((11, 17))])

    def test_names_what_is_no_sample(self) -> None:
        with pytest.raises(TypeError, match="expected DenseSamples, got tuple as sample 1; convert it in the dataset"):
            BatchedDenseSample.from_samples([make_sample((17, 11)), (1, 2)])  # type: ignore[list-item]

    @pytest.mark.parametrize("name", ["ragged", "padded", "staged"])
    def test_refuses_batches_with_advice(self, records: dict[str, Any], name: str) -> None:
        with pytest.raises(TypeError, match=r"got \w+, which is a batch already; pass batch_size=None"):
            default_collate([records[name]])

    def test_leaves_other_types_alone(self) -> None:
        other = InstanceMask(torch.zeros(1, 2, 2, dtype=torch.bool))
        assert default_collate([other, other]).shape == (2, 1, 2, 2)
        numbers, texts = default_collate([(1, "a"), (2, "b")])
        assert (numbers.tolist(), texts) == ([1, 2], ("a", "b"))
        with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
            default_collate([object()])
