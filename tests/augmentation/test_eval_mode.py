"""Eval mode switches the paste off, as that of dropout, except for adapters that know that they train."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch
from compiled_and_eager import INSTANCE, assert_equal, make_input, make_module, num_graphs
from staged_cases import make_staged
from torch import nn

from samples import EVERY_OBJECT, OPTIONAL
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import DROP_REASONS, PasteReport, PasteSummary, PlacementConfig, SourceConfig
from segpaste.augmentation.modes import pasting
from segpaste.engine import use_backend
from segpaste.types import Modality, PaddedBatchedDenseSample

PAD = PlacementConfig(pad_to_multiple=16)
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"placement": PAD, "max_instances": 9},
    "without_maps": {"emit_instance": False, "emit_panoptic": False, "emit_depth": False},
    "classmix": {"emit_classmix": True, "emit_panoptic": False},
    "harmonized": {"harmonize": {"mode": "reinhard", "prob": 1.0}},
    "of_boxes": {"source": {"mask_from": "boxes", "whole_only": False}, "emit_panoptic": False},
}
RAGGED_DEPTH = float("nan"), float("inf")


def module_of(name: str, **options: Any) -> BatchCopyPaste:
    given = {"source": EVERY_OBJECT, **CONFIGS[name]}
    return BatchCopyPaste(BatchCopyPasteConfig.model_validate(given), **options)


def batch_of(name: str) -> PaddedBatchedDenseSample:
    if name == "of_boxes":
        batch = make_input(frozenset({Modality.INSTANCE}))
        return replace(batch, instance_masks=None, instance_ids=None)
    batch = make_input(frozenset(OPTIONAL) - ({Modality.PANOPTIC} if "class" in name else set()))
    assert batch.depth is not None
    batch.depth[:, :, 1, 1:3] = torch.tensor(RAGGED_DEPTH)
    return batch


def clone(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    return copy.deepcopy(batch)


def evaluated(module: BatchCopyPaste, batch: PaddedBatchedDenseSample) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing could be pasted, as it should be
        return module.eval()(batch, return_report=True)


def pastes(augment: Callable[[PaddedBatchedDenseSample], PaddedBatchedDenseSample]) -> bool:
    batch = make_input(INSTANCE)
    return not torch.equal(augment(batch).images, batch.images)


@pytest.mark.usefixtures("writing")
class TestForward:
    @pytest.mark.parametrize(
        ("name", "inplace"),
        [(name, inplace) for name in CONFIGS for inplace in (False, True) if not (inplace and name == "padded")],
    )
    def test_only_pads_and_cleans(self, name: str, inplace: bool) -> None:
        batch, given = batch_of(name), batch_of(name)
        trained = module_of(name)(clone(batch))
        out, report = evaluated(module_of(name, inplace=inplace), given)
        height, width = batch.canvas_size
        num_slots = batch.max_instances
        for field in fields(batch):
            value, before, after = (getattr(b, field.name) for b in (out, batch, trained))
            assert type(value) is type(after), f"{field.name} is emitted as in training"
            if not isinstance(value, torch.Tensor):
                continue
            assert (value.shape, value.dtype) == (after.shape, after.dtype), field.name
            if before is None:
                continue  # padding
            value = value[..., :height, :width] if value.shape[-2:] == out.canvas_size else value
            value = value[:, :num_slots] if before.ndim > 1 and before.shape[1] == num_slots else value
            expected = before
            if field.name == "depth":
                expected = before.nan_to_num(0.0, 0.0, 0.0)
            if field.name == "depth_valid":
                expected = before & batch.depth.isfinite()
            assert torch.equal(value, expected), field.name
            if inplace:
                assert getattr(out, field.name).data_ptr() == getattr(given, field.name).data_ptr(), field.name
        if out.depth is not None:
            assert bool(out.depth.isfinite().all())
        assert repr(PasteSummary.of(report)) == "PasteSummary(4 images: 4 tried, 0 placed, eval_mode 4)"
        assert report.num_intended.tolist() == [0] * 4
        assert PasteSummary.of(report).to_dict()["num_intended"] == 0
        assert bool((report.visible_layer == -1).all())
        assert not bool(report.drawn.any())

    @pytest.mark.parametrize("name", ["plain", "padded", "classmix", "harmonized"])
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste")
    def test_gradients_pass_through(self, name: str) -> None:
        batch = batch_of(name)
        images = (batch.images.float() / 255).requires_grad_()
        module = module_of(name).eval()
        out = module(replace(batch, images=images)).images
        out.sum().backward()
        assert images.grad is not None
        assert bool((images.grad >= 1).all())  # padding repeats the pixels of the border
        assert float(images.grad.sum()) == out.numel()
        for refusing in (
            module_of(name).train(),
            module_of(name, always=True).eval(),
            module_of(name, inplace=True).eval(),
        ):
            with pytest.raises(RuntimeError, match="expected no field that requires grad"):
                refusing(replace(batch, images=images))

    def test_train_and_always_switch_it_on(self) -> None:
        module = make_module(INSTANCE)
        with torch.no_grad():
            assert pastes(module)
            assert not pastes(module.eval())
            assert pastes(module.train())
        always = BatchCopyPaste(module.config, always=True).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert pastes(always)
        report = always(make_input(INSTANCE), return_report=True)[1]
        assert int(report.num_dropped[:, DROP_REASONS.index("eval_mode")].sum()) == 0

    def test_inside_a_model(self) -> None:
        model = nn.Sequential(make_module(INSTANCE)).eval()
        with torch.no_grad():
            assert not pastes(model)
        assert pastes(model.train())

    def test_crops_are_not_read(self) -> None:
        config = BatchCopyPasteConfig(source=SourceConfig(kind="bank"))
        batch = make_input(INSTANCE)
        out, _ = evaluated(BatchCopyPaste(config), batch)
        assert torch.equal(out.images, batch.images)
        with torch.no_grad():
            given = BatchCopyPaste(config).eval()(batch, staged=make_staged(4, 2))
        assert torch.equal(given.images, batch.images)


class TestWarning:
    def test_once_where_gradients_are_recorded(self) -> None:
        module, batch = make_module(INSTANCE).eval(), make_input(INSTANCE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with torch.no_grad():
                module(batch)
            with torch.inference_mode():
                module(batch)
        with pytest.warns(UserWarning, match=r"got eval mode.*call train\(\), or give always=True") as caught:
            module(batch)
        assert [w.filename for w in caught] == [__file__], "it does not name the caller's line"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(batch)

    def test_of_nothing_to_paste_still_comes_in_training(self) -> None:
        module = make_module(INSTANCE)
        alone = make_input(INSTANCE, batch_size=1)
        with pytest.warns(UserWarning, match="got eval mode"):
            module.eval()(alone)
        with pytest.warns(UserWarning, match="could paste nothing"):
            module.train()(alone)

    def test_flag(self) -> None:
        with pytest.raises(TypeError, match="always"):
            BatchCopyPaste(always=1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"BatchCopyPaste\(config, always=True\)"):
            BatchCopyPasteConfig.model_validate({"always": True})


class TestCompiled:
    @pytest.mark.parametrize(("backend", "inplace"), [("reference", False), ("native", True)])
    def test_follows_the_mode(self, backend: str, inplace: bool) -> None:
        modalities = INSTANCE | {Modality.DEPTH}
        module = make_module(modalities)
        module.inplace = inplace
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        with warnings.catch_warnings(), use_backend(backend):
            warnings.simplefilter("error", UserWarning)
            for is_training in (True, False, True, False):
                module.train(is_training)
                batch = make_input(modalities)
                with torch.no_grad():
                    expected = module(clone(batch), return_report=True)
                assert_equal(compiled(clone(batch), return_report=True), expected)
                assert bool(expected[1].num_placed.any()) == is_training
        assert num_graphs() == 2

    def test_always(self) -> None:
        module = BatchCopyPaste(make_module(INSTANCE).config, always=True).eval()
        compiled = torch.compile(module, fullgraph=True, backend="eager")
        assert pastes(compiled)
        assert pastes(compiled.train())
        assert pastes(compiled.eval())


class TestAdapters:
    """Those that know that they train; each of them is tried beside its own tests."""

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda module: module,
            nn.Sequential,
            lambda module: module.forward,
            lambda module: partial(module, return_report=False),
            lambda module: torch.compile(module, backend="eager"),
        ],
        ids=["module", "inside", "method", "partial", "compiled"],
    )
    def test_paste_in_eval_mode(self, wrap: Callable[[BatchCopyPaste], Any]) -> None:
        module = make_module(INSTANCE).eval()
        augment = wrap(module)
        with pasting(augment):
            assert pastes(augment)
        assert not module.training
        with pytest.raises(ZeroDivisionError), pasting(augment):
            _ = 1 / 0
        assert not module.training

    def test_functions_stay(self) -> None:
        with pasting(print):
            pass

    @pytest.mark.parametrize("with_crops", [False, True])
    def test_loader(self, with_crops: bool) -> None:
        batch = make_input(INSTANCE)
        source = SourceConfig(kind="bank") if with_crops else EVERY_OBJECT
        pool = [make_staged(4, 1)] if with_crops else None
        loader = BatchCopyPaste.from_dataloader(
            [batch], batch.max_instances, BatchCopyPasteConfig(source=source), source_pool=pool
        )
        loader.augment.eval()
        (out,) = loader
        assert not torch.equal(out.images, batch.images)
        assert not loader.augment.training
