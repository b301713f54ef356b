"""Averages, weight files and checkpoints of a model that owns the augmentation, and sharded models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from owned_model import SAVED, Model, fill_freed_memory, held
from safetensors.torch import load_file, load_model, save_file, save_model
from timm.utils import ModelEma, ModelEmaV2, ModelEmaV3
from torch import Tensor, distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from samples import make_batch


class TestAverages:
    """An average keeps the schedule that it was made with, unchanged: integers are no weights."""

    @pytest.mark.parametrize("kind", [ModelEma, ModelEmaV2, ModelEmaV3])
    def test_of_timm(self, kind: Callable[..., nn.Module]) -> None:
        model = Model(is_changed=True)
        average = kind(model, decay=0.75)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1
        average.update(model)  # type: ignore[operator]
        inner = average.ema if kind is ModelEma else average.module
        assert isinstance(inner, Model)
        assert held(inner) == SAVED
        difference = model.head[0].weight - inner.head[0].weight
        assert torch.allclose(difference, torch.tensor(0.75))
        assert inner(make_batch(2)).shape[0] == 2

    def test_of_torch(self) -> None:
        model = Model(is_changed=True)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
        for _ in range(2):
            average.update_parameters(model)
        again = AveragedModel(Model())
        again.load_state_dict(average.state_dict())
        assert held(average.module) == held(again.module) == SAVED


class TestFiles:
    def test_safetensors(self, tmp_path: Path) -> None:
        model, path = Model(is_changed=True), tmp_path / "model.safetensors"
        save_model(model, str(path))
        missing, unexpected = load_model(found := Model(), path)
        assert (missing, unexpected, held(found)) == (set(), [], SAVED)
        save_file(model.state_dict(), path)
        (found := Model()).load_state_dict(load_file(path))
        assert held(found) == SAVED

    def test_accelerate(self, tmp_path: Path) -> None:
        accelerator = Accelerator(cpu=True)
        model = accelerator.prepare(Model(is_changed=True))
        accelerator.save_state(str(tmp_path / "state"))
        accelerator.save_model(model, str(tmp_path / "model"))
        model.augment.schedule.set(paste_prob=1.0, k_range=(3, 4))
        accelerator.load_state(str(tmp_path / "state"))
        assert held(model) == SAVED
        load_model(found := Model(), tmp_path / "model" / "model.safetensors")
        assert held(found) == SAVED

    @pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
    def test_distributed_checkpoints(self, tmp_path: Path) -> None:
        checkpoint.save(get_model_state_dict(Model(is_changed=True)), checkpoint_id=tmp_path)
        found = Model()
        state = get_model_state_dict(found)
        checkpoint.load(state, checkpoint_id=tmp_path)
        set_model_state_dict(found, state)
        assert held(found) == SAVED

    def test_weights_without_augmentation(self) -> None:
        model = Model(is_changed=True)
        weights = {name: value for name, value in model.state_dict().items() if name.startswith("head")}
        (found := Model()).load_state_dict(weights)
        assert held(found) == {"paste_prob": 1.0, "k_range": (1, 256), "class_temperature": 0.0}


@pytest.fixture
def group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
class TestSharded:
    def test_built_on_meta_and_sharded_over_gloo(self) -> None:
        """The recipe of torch: build on meta, shard, give it memory, load the weights."""
        weights, batch = Model(is_changed=True), make_batch(3, num_instances=3, max_instances=7)
        with torch.device("meta"):
            model = Model()
        mesh = distributed.init_device_mesh("cpu", (1,))
        fully_shard(model.head[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        fill_freed_memory()
        model.to_empty(device="cpu")
        untouched = model.augment(batch, return_report=True)[1]
        assert torch.equal(untouched.visible_layer, Model().augment(batch, return_report=True)[1].visible_layer)
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, weights.state_dict(), options=options)
        assert held(model) == SAVED
        model(batch).mean().backward()
        expected = weights(batch)
        assert torch.equal(model.augment(batch).images, weights.augment(batch).images)
        torch.testing.assert_close(model(batch), expected)
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        assert all(isinstance(value, Tensor) for value in state.values())
        (found := Model()).load_state_dict(state)
        assert held(found) == SAVED
