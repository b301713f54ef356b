"""Steps in one call of the native library: the same bits as the three functions one by one, whatever came before."""

from __future__ import annotations

import copy
import ctypes
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from staged_cases import make_staged

from samples import SCHEMA, all_modality_subsets, assert_backends_agree, assert_same, make_batch, subset_id
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    HarmonizeConfig,
    IntraBatchSource,
    PanopticConfig,
    PlacementConfig,
    SourceConfig,
)
from segpaste.engine import use_backend
from segpaste.engine.native import jobs, library, steps
from segpaste.types import Modality, PaddedBatchedDenseSample

SUBSETS = [subset for subset in all_modality_subsets() if Modality.INSTANCE in subset]


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with use_backend("native"):
        yield


def config_of(**options: Any) -> BatchCopyPasteConfig:
    placement = {"paste_prob": 1.0, "layers": 3, "scale_range": (0.4, 2.0), "max_attempts": 3}
    placement |= options.pop("placement", {})
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8})
    return BatchCopyPasteConfig(placement=PlacementConfig(**placement), panoptic=panoptic, **options)


def roomy_batch(seed: int = 0, **options: Any) -> PaddedBatchedDenseSample:
    options = {"size": (41, 53), "max_instances": 9, "image_dtype": torch.float32, **options}
    return make_batch(4, seed=seed, **options)


def one_by_one(module: BatchCopyPaste) -> Any:
    """Let a module ask its source for a placement, as one of a user."""
    return mock.patch.object(type(module), "_draws_by_rule", False)


def both(
    module: BatchCopyPaste, batch: PaddedBatchedDenseSample, **options: Any
) -> tuple[tuple[PaddedBatchedDenseSample, Any], tuple[PaddedBatchedDenseSample, Any]]:
    """Output and report of a step at once, and one by one; in place on copies."""
    with mock.patch.object(steps, "load", wraps=steps.load) as load:
        at_once = module(batch.clone(), return_report=True, **options)
    assert load.called
    with one_by_one(module), mock.patch.object(steps, "load", side_effect=AssertionError):
        return at_once, module(batch.clone(), return_report=True, **options)


class TestEqualsOneByOne:
    @pytest.mark.parametrize("inplace", [False, True])
    @pytest.mark.parametrize("modalities", [pytest.param(s, id=subset_id(s)) for s in SUBSETS])
    def test_every_subset(self, modalities: frozenset[Modality], inplace: bool) -> None:
        module, num_pasted = BatchCopyPaste(config_of(), inplace=inplace), 0
        for seed in range(2):
            batch = roomy_batch(seed, modalities=modalities, metric_depth=Modality.DEPTH in modalities)
            at_once, expected = both(module, batch)
            assert_backends_agree(at_once, expected)
            num_pasted += int(expected[1].num_placed.sum())
        assert num_pasted > 0

    @pytest.mark.parametrize(
        "options",
        [
            {"placement": {"region": {0: (1, 2)}, "region_frac": 0.2}},
            {"placement": {"layers": 2, "grouping": "instance", "class_temperature": 0.7}},
            {"placement": {"position": "keep", "partial": "clip", "max_attempts": 1}},
            {"source": SourceConfig(kind="same_image")},
            {"source": SourceConfig(whole_only=False), "max_instances": 12},
            {"harmonize": HarmonizeConfig(prob=1.0)},
        ],
        ids=["regions", "instances", "kept places", "same image", "more slots", "harmonised"],
    )
    def test_options(self, options: dict[str, Any]) -> None:
        at_once, expected = both(BatchCopyPaste(config_of(**options)), roomy_batch(keypoints=True, crowd=True))
        assert_backends_agree(at_once, expected)
        assert expected[1].num_placed.sum() > 0

    @pytest.mark.parametrize("inplace", [False, True])
    @pytest.mark.parametrize("relative_to", ["crop", "photo"])
    def test_a_bank(self, relative_to: str, inplace: bool) -> None:
        source = SourceConfig.model_validate(
            {"kind": "bank", "crops_per_target": 2, "value_range": 1.0, "relative_to": relative_to}
        )
        module = BatchCopyPaste(config_of(source=source, placement={"layers": 1}), inplace=inplace)
        staged = make_staged(4, 3, with_surfaces=True, metric_depth=True)
        swapped = replace(staged, boxes=staged.boxes.transpose(0, 1).contiguous().transpose(0, 1))
        for crops in (staged, swapped):
            at_once, expected = both(module, roomy_batch(metric_depth=True), staged=crops)
            assert_backends_agree(at_once, expected)
            assert expected[1].num_placed.sum() > 0

    def test_masks_from_boxes(self) -> None:
        batch = roomy_batch(modalities=frozenset({Modality.IMAGE, Modality.SEMANTIC}))
        for inplace in (False, True):
            module = BatchCopyPaste(config_of(source=SourceConfig(mask_from="ellipse")), inplace=inplace)
            at_once, expected = both(module, batch)
            assert_backends_agree(at_once, expected)

    @pytest.mark.parametrize("size", [(0, 9), (1, 1)])
    def test_few_images(self, size: tuple[int, int]) -> None:
        batch = make_batch(size[0], max_instances=size[1], num_instances=1)
        at_once, expected = both(BatchCopyPaste(config_of()), batch)
        assert_backends_agree(at_once, expected)

    def test_who_is_asked_one_by_one(self) -> None:
        class Own(IntraBatchSource):
            pass

        batch, shared = roomy_batch(), config_of(placement={"fixed_share": True})
        for module in (BatchCopyPaste(config_of(), Own()), BatchCopyPaste(shared)):
            with mock.patch.object(steps, "load", side_effect=AssertionError):
                module(batch)


class TestResults:
    @pytest.mark.parametrize("inplace", [False, True])
    def test_they_become_tensors_only_for_a_report(self, inplace: bool) -> None:
        module, batch = BatchCopyPaste(config_of(), inplace=inplace), roomy_batch()
        expected, report = module(batch.clone(), return_report=True)
        assert report.num_placed.sum() > 0
        with mock.patch.object(steps.Layout, "record", side_effect=AssertionError):
            assert_same(module(batch.clone()), expected)

    def test_they_outlive_other_steps(self) -> None:
        module, batch = BatchCopyPaste(config_of()), roomy_batch()
        _, report = module(batch, return_report=True)
        before = copy.deepcopy(report)
        for seed in range(1, 4):
            module(roomy_batch(seed))
        assert_same(report, before)
        assert_same(pickle.loads(pickle.dumps(report)), before)

    def test_no_two_share_memory(self) -> None:
        _, report = BatchCopyPaste(config_of())(roomy_batch(), return_report=True)
        for tensor in (report.placement.translate, report.slot_layer, report.slot_lost, report.drawn):
            before = copy.deepcopy(report)
            tensor.zero_()
            changed = [name for name in ("slot_layer", "slot_lost", "drawn") if not same(report, before, name)]
            assert len(changed) <= 1


def same(one: Any, other: Any, name: str) -> bool:
    return torch.equal(getattr(one, name), getattr(other, name))


class TestForms:
    """What steps of one kind have in common is packed once, and holds nothing that a module may change."""

    def test_they_are_packed_once(self) -> None:
        module = BatchCopyPaste(config_of())
        module(roomy_batch())
        before = steps._packed.cache_info()
        for seed in range(3):
            module(roomy_batch(seed))
        copy.deepcopy(module)(roomy_batch(5))
        after = steps._packed.cache_info()
        assert (after.misses, after.hits) == (before.misses, before.hits + 4)

    def test_a_record_is_as_long_on_both_sides(self) -> None:
        lengths = list[int]()

        class Measured(jobs.Form):
            def __init__(self, words: Any) -> None:
                lengths.append(8 * len(words))
                super().__init__(words)

        steps._packed.cache_clear()
        with mock.patch.object(steps, "Form", Measured):
            BatchCopyPaste(config_of())(roomy_batch())
        assert lengths == [(ctypes.c_int64 * 6).in_dll(library.load(), "segpaste_sizes")[-1]]

    @pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copies_have_their_own_schedule(self, twin: Callable[[BatchCopyPaste], BatchCopyPaste]) -> None:
        module, batch = BatchCopyPaste(config_of()), roomy_batch()
        expected = module(batch, return_report=True)
        other = twin(module)
        assert_same(other(batch, return_report=True), expected)
        if twin is not copy.copy:
            other.schedule.set(paste_prob=0.0)
            assert other(batch, return_report=True)[1].num_placed.sum() == 0
        assert_same(module(batch, return_report=True), expected)

    def test_changes_of_a_module_count(self) -> None:
        module, batch = BatchCopyPaste(config_of()), roomy_batch()
        expected = module(batch, return_report=True)
        module.schedule.set(k_range=(1, 1))
        assert (module(batch, return_report=True)[1].num_placed <= 1).all()
        module.schedule.set(k_range=(1, 256))
        module.inplace = True
        assert_same(module(batch.clone(), return_report=True), expected)
        module.inplace = False
        module.to("meta")
        assert_same(module(batch, return_report=True), expected)
        module.source = IntraBatchSource("same_image")
        placement = module(batch, return_report=True)[1].placement
        assert placement.layer_valid.any()
        assert (placement.source_idx == torch.arange(4)[:, None])[placement.layer_valid].all()

    def test_two_threads_share_a_module(self) -> None:
        module = BatchCopyPaste(config_of(), inplace=True)
        batches = [roomy_batch(seed, size=(40 + seed % 3, 50)) for seed in range(40)]
        expected = [module(batch.clone(), return_report=True) for batch in batches]
        with ThreadPoolExecutor(2) as pool:
            found = [*pool.map(lambda batch: module(batch.clone(), return_report=True), batches)]
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
