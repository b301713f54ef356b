"""A paste is not differentiated: a field that requires grad is refused by name, in every mode, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from staged_cases import make_staged
from torch import Tensor

from samples import SCHEMA, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, IntraBatchSource
from segpaste.augmentation import HarmonizeConfig, PanopticConfig, SourceConfig
from segpaste.types import PaddedBatchedDenseSample

MODES: dict[str, dict[str, Any]] = {
    "out of place": {},
    "in place": {"inplace": True},
    "harmonize": {"harmonize": HarmonizeConfig(prob=1)},
    "classmix": {"emit_classmix": True},
    "bank": {"source": SourceConfig(kind="bank", value_range=1)},
    "nothing to paste": {"paste_nothing": True},
}
FLOATS = ("images", "boxes", "depth", "normals", "camera_intrinsics")


def made(mode: str) -> tuple[BatchCopyPaste, PaddedBatchedDenseSample, dict[str, Any]]:
    """Return a module, a batch for it, and further arguments of its call."""
    options = dict(MODES[mode])
    inplace, nothing = options.pop("inplace", False), options.pop("paste_nothing", False)
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA})
    module = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=panoptic, **options), inplace=inplace
    )
    slots: dict[str, Any] = {"num_instances": 0, "max_instances": 0} if nothing else {}
    batch = make_batch(image_dtype=torch.float32, metric_depth=True, **slots)
    bank = {"staged": make_staged(3, 1, with_surfaces=True, metric_depth=True)} if mode == "bank" else {}
    return module, batch, bank


def asking(batch: Any, name: str) -> Any:
    """Return the batch with one field that requires grad."""
    return replace(batch, **{name: getattr(batch, name).clone().requires_grad_()})


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
        yield


@pytest.mark.usefixtures("writing")
class TestRefused:
    @pytest.mark.parametrize("mode", MODES)
    def test_every_field_of_the_target(self, mode: str) -> None:
        module, batch, bank = made(mode)
        for name in FLOATS:
            message = rf"no field that requires grad.*got {name} of the target; give {name}\.detach\(\)"
            with pytest.raises(RuntimeError, match=message):
                module(asking(batch, name), **bank)
        out = module(asking(batch, "images").map_tensors(Tensor.detach), **bank)
        assert not out.images.requires_grad

    def test_a_field_computed_from_one(self) -> None:
        module, batch, _ = made("out of place")
        gain = torch.ones((), requires_grad=True)
        with pytest.raises(RuntimeError, match=r"got images of the target; give images\.detach\(\)"):
            module(replace(batch, images=batch.images * gain))

    def test_every_field_of_staged_crops(self) -> None:
        module, batch, bank = made("bank")
        for name in ("scales", "depth", "normals", "camera_intrinsics"):
            with pytest.raises(RuntimeError, match=rf"got {name} of the staged; give {name}\.detach\(\)"):
                module(batch, staged=asking(bank["staged"], name))

    def test_a_source_of_ones_own(self) -> None:
        class Learned(IntraBatchSource):
            def sample(self, target: Any, eligible: Any, request: Any) -> Any:
                return asking(target, "images"), *super().sample(target, eligible, request)[1:]

        with pytest.raises(RuntimeError, match=r"got images of the source; give images\.detach\(\)"):
            BatchCopyPaste(source=Learned())(make_batch(image_dtype=torch.float32))

    @pytest.mark.parametrize("no_grad", [torch.no_grad, torch.inference_mode], ids=lambda c: c.__name__)
    @pytest.mark.parametrize("mode", MODES)
    def test_nothing_where_grad_is_off(self, mode: str, no_grad: Callable[[], Any]) -> None:
        module, batch, bank = made(mode)
        expected = module(batch.clone(), **bank)
        for name in FLOATS:
            with no_grad():
                out = module(asking(batch.clone(), name), **bank)
            assert torch.equal(out.images, expected.images)
            assert torch.equal(out.depth, expected.depth)


class TestCompiled:
    @pytest.mark.parametrize("mode", ["out of place", "in place", "bank"])
    def test_one_graph_that_keeps_the_check(self, mode: str) -> None:
        module, batch, bank = made(mode)
        step = torch.compile(module, fullgraph=True, backend="eager")
        step(batch.clone(), **bank)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
        for name in ("images", "camera_intrinsics"):  # a new trace, for requires_grad is guarded
            with pytest.raises(RuntimeError, match=rf"got {name} of the target; give {name}\.detach\(\)"):
                step(asking(batch, name), **bank)
        if mode == "bank":
            with pytest.raises(RuntimeError, match="got depth of the staged"):
                step(batch, staged=asking(bank["staged"], "depth"))
        with torch.no_grad():
            step(asking(batch, "images"), **bank)

    def test_a_field_computed_in_the_graph(self) -> None:
        module, batch, _ = made("out of place")

        def step(gain: Tensor) -> PaddedBatchedDenseSample:
            return module(replace(batch, images=batch.images * gain))

        compiled = torch.compile(step, fullgraph=True, backend="eager")
        compiled(torch.ones(()))
        with pytest.raises(RuntimeError, match="got images of the target"):
            compiled(torch.ones((), requires_grad=True))
