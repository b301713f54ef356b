"""A module inside of other people's models: moved, converted, copied, and run beside defaults and transforms of torch.

Whatever is done to the model, its pastes are those of the config.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call, functionalize, grad, stack_module_state
from torch.fx.experimental.proxy_tensor import make_fx

from samples import CPU_BACKENDS, EVERY_OBJECT, SCHEMA, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import PanopticConfig
from segpaste.engine import use_backend
from segpaste.engine.native import library
from segpaste.types import PaddedBatchedDenseSample

OBJECTS = {"grouping": "instance", "layers": 3, "class_temperature": 0.75, "k_range": (1, 3), "paste_prob": 0.875}
OBJECTS |= {"class_sizes": {c: {"low": 3, "high": 5} for c in range(3)}, "region": dict.fromkeys(range(3), (1, 2, 11))}
CONFIG = BatchCopyPasteConfig(
    placement=OBJECTS,  # type: ignore[arg-type]
    panoptic=PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {1: 3}}),
    source=EVERY_OBJECT,
)


class Model(nn.Module):
    def __init__(self, config: BatchCopyPasteConfig = CONFIG) -> None:
        super().__init__()
        self.augment = BatchCopyPaste(config)
        self.head = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2))

    def forward(self, batch: PaddedBatchedDenseSample) -> Tensor:
        found: Tensor = self.head(self.augment(batch).images.float())
        return found


def batch_of(seed: int = 0) -> PaddedBatchedDenseSample:
    return make_batch(4, num_instances=4, max_instances=9, seed=seed)


def pastes(model: Any, batch: PaddedBatchedDenseSample) -> list[Tensor]:
    out, report = model.augment(batch, return_report=True)
    tables = [*model.augment.schedule.tables_on(batch.device), *model.augment.classes.tables_on(batch.device)]
    return [out.images, out.labels, out.instance_masks, report.drawn, report.visible_layer, *tables]


def on_meta() -> Model:
    with torch.device("meta"):
        return Model()


def without_weights() -> Model:
    with init_empty_weights(include_buffers=True):
        return Model()


def of_fakes() -> Model:
    with FakeTensorMode():
        return Model()


def assigned(model: Model) -> Model:
    model.load_state_dict(Model().state_dict(), assign=True)
    return model


def loaded(model: Model, **options: Any) -> Model:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    found: Model = torch.load(file, weights_only=False, **options)
    return found


def copied(model: Model) -> Model:
    model.augment = copy.copy(model.augment)
    return model


WAYS: dict[str, Callable[[], Any]] = {
    "built on meta, to_empty": lambda: on_meta().to_empty(device="cpu"),
    "built on meta, assigned": lambda: assigned(on_meta()),
    "moved to meta, to_empty": lambda: Model().to("meta").to_empty(device="cpu"),
    "moved to meta, assigned": lambda: assigned(Model().to("meta")),
    "moved to meta, converted, assigned": lambda: assigned(Model().to("meta").half()),
    "to_empty": lambda: Model().to_empty(device="cpu"),
    "init_empty_weights": lambda: without_weights().to_empty(device="cpu"),
    "built of fake tensors": of_fakes,
    "type": lambda: Model().type(torch.float64),
    "type by name": lambda: Model().type("torch.HalfTensor"),
    "half": lambda: Model().half(),
    "bfloat16": lambda: Model().bfloat16(),
    "double": lambda: Model().double(),
    "to dtype": lambda: Model().to(torch.float16),
    "share_memory": lambda: Model().share_memory(),
    "deepcopy": lambda: copy.deepcopy(Model()),
    "deepcopy of meta": lambda: copy.deepcopy(Model().to("meta")),
    "copy": lambda: copied(Model()),
    "pickle": lambda: pickle.loads(pickle.dumps(Model())),
    "torch.save": lambda: loaded(Model()),
    "torch.load on meta": lambda: loaded(Model(), map_location="meta"),
}


@pytest.fixture
def memory_of_others() -> None:
    """Fill freed memory with large numbers, which ``to_empty`` may hand out again."""
    for size in (2, 4, 9, 12, 13, 18, 26, 257, 512):
        for _ in range(50):
            torch.full((size,), 1 << 40, dtype=torch.int64)


@pytest.mark.usefixtures("memory_of_others")
class TestMoved:
    @pytest.mark.parametrize("way", WAYS)
    def test_the_pastes_are_those_of_the_config(self, way: str) -> None:
        batch = batch_of()
        expected, found = pastes(Model(), batch), pastes(WAYS[way](), batch)
        assert expected[3].any()
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)

    @pytest.mark.parametrize("way", ["moved to meta, to_empty", "deepcopy", "half", "torch.save"])
    def test_and_of_the_schedule(self, way: str) -> None:
        def scheduled() -> Model:
            model = before()
            model.augment.schedule.set(paste_prob=0.5, k_range=(2, 2), class_temperature=0.25)
            return model

        before, batch = Model, batch_of()
        changed = scheduled()
        moved = {
            "moved to meta, to_empty": lambda: changed.to("meta").to_empty(device="cpu"),
            "deepcopy": lambda: copy.deepcopy(changed),
            "half": lambda: changed.half(),
            "torch.save": lambda: loaded(changed),
        }[way]()
        for one, other in zip(pastes(moved, batch), pastes(scheduled(), batch), strict=True):
            assert torch.equal(one, other)

    def test_a_copy_has_a_schedule_of_its_own(self) -> None:
        model = Model()
        other = copy.deepcopy(model)
        other.augment.schedule.set(paste_prob=0.0)
        assert (model.augment.schedule.paste_prob, int(model.augment.schedule.limits[0])) == (0.875, 7 << 29)

    def test_a_schedule_in_shared_memory_stays_there(self) -> None:
        model = Model().share_memory()
        model.augment.schedule.set(paste_prob=0.5)
        assert model.augment.schedule.limits.is_shared()
        assert int(model.augment.schedule.limits[0]) == 1 << 31

    def test_tables_that_are_lost_are_made_again_on_the_device_of_a_batch(self) -> None:
        """Also if the schedule changes while they are lost."""
        model, batch = Model().to("meta"), batch_of()
        assert model.augment.schedule.limits.is_meta
        for prob in (0.5, 0.25):
            model.augment.schedule.set(paste_prob=prob)
            assert int(model.augment.schedule.tables_on(batch.device).limits[0]) == round(prob * 2**32)


@contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


DEFAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "default device": lambda: default_device("meta"),
    "device": lambda: torch.device("meta"),
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
}


class TestDefaults:
    @pytest.mark.parametrize("backend", CPU_BACKENDS)
    @pytest.mark.parametrize("default", DEFAULTS)
    def test_a_default_device_or_dtype_changes_nothing(self, default: str, backend: str) -> None:
        with use_backend(backend):
            batch = batch_of()
            expected = pastes(Model(), batch)
            model = Model()
            with DEFAULTS[default]():
                model.augment.schedule.set(paste_prob=0.25)
                model.augment.schedule.set(paste_prob=0.875)
                outs = [pastes(model, batch), pastes(Model(), batch)]
                drawn = model.augment(replace(batch, sample_seeds=None)).sample_seeds
        assert (drawn.device.type, len(drawn.unique())) == ("cpu", 4)
        for out in outs:
            assert all(map(torch.equal, out, expected))

    @pytest.mark.parametrize("default", ["default device", "float64"])
    def test_samples_are_made_read_and_batched_as_without(self, default: str) -> None:
        from segpaste.datasets.scenes import SceneConfig, scene_batch

        def batch() -> PaddedBatchedDenseSample:
            return scene_batch(batch_size=2, max_instances=5, config=SceneConfig(height=16, width=24), seed=1)

        expected = batch()
        with DEFAULTS[default]():
            found = batch()
            ragged = found.to_batched()
        for name in ("images", "boxes", "labels", "instance_masks", "semantic_maps", "depth", "normals"):
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
        assert ragged.images.device.type == ragged.boxes[0].device.type == "cpu"


def images_of(batch: PaddedBatchedDenseSample, model: Model) -> Callable[[Tensor], Tensor]:
    return lambda images: model.augment(replace(batch, images=images)).images


class TestTransformed:
    """Code of torch that runs a model on tensors without memory, or on wrapped ones."""

    def test_fake_tensors_give_fake_tensors(self) -> None:
        model, batch = Model(), batch_of()
        expected = pastes(model, batch)
        with FakeTensorMode() as mode:
            out = model.augment(batch.map_tensors(mode.from_tensor))
            model.augment.schedule.set(paste_prob=0.5)
            model.augment.schedule.set(paste_prob=0.875)
        assert isinstance(out.images, FakeTensor)
        assert out.images.shape == batch.images.shape
        assert all(map(torch.equal, pastes(model, batch), expected))

    def test_functionalize_and_make_fx(self) -> None:
        model, batch = Model(), batch_of()
        run = images_of(batch, model)
        expected = run(batch.images)
        assert not torch.equal(expected, batch.images)
        assert torch.equal(functionalize(run)(batch.images), expected)
        assert torch.equal(make_fx(run)(batch.images)(batch.images), expected)

    def test_gradients_of_a_model_that_owns_it(self) -> None:
        model, batch = Model().eval(), batch_of()
        model.augment.train()
        model(batch).mean().backward()
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        found = grad(lambda values: functional_call(model, values, (batch,)).mean())(parameters)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            torch.testing.assert_close(found[name], parameter.grad)

    def test_ensembles_stack_the_state(self) -> None:
        parameters, buffers = stack_module_state([Model(), Model()])
        assert {name.split(".")[0] for name in (*parameters, *buffers)} == {"head"}

    @pytest.mark.parametrize("kind", ["meta", "fake", "functional"])
    def test_native_code_gets_no_address_of_nothing(self, kind: str) -> None:
        boxes, given = torch.zeros(2, 3), library.address
        get = {
            "meta": lambda: given(boxes.to("meta")),
            "fake": lambda: given(FakeTensorMode().from_tensor(boxes)),
            "functional": lambda: functionalize(lambda t: t + given(t))(boxes),
        }[kind]
        with pytest.raises(ValueError, match="expected tensors whose values are in the memory of the CPU, got a"):
            get()
        assert given(torch.zeros(0)) == 0
