"""Compiled code serves any number of batch sizes, and configs of other numbers, with few graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from compiled_and_eager import INSTANCE, assert_equal, make_input, make_module, num_graphs
from torch.utils.data import DataLoader

from samples import EVERY_OBJECT, OPTIONAL, FromBatch, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.types import BatchedDenseSample, Modality, PaddedBatchedDenseSample

SIZES = (4, 2, 1, 3, 9)
"""The first, a smaller last one, 1, and others."""

KINDS: dict[str, tuple[dict[str, Any], bool]] = {
    "share": ({"placement": {"fixed_share": True, "paste_prob": 0.5}}, False),
    "classmix": ({"emit_classmix": True}, True),
    "layers": ({"placement": {"grouping": "instance", "layers": 3, "region": {1: (1, 11)}}}, True),
    "boxes": ({"source": {"mask_from": "boxes", "whole_only": False}}, False),
}
"""Options, and whether they paste in place."""


def module_of(options: dict[str, Any], *source: Any, **arguments: Any) -> BatchCopyPaste:
    options = {"source": EVERY_OBJECT, **options}
    config = BatchCopyPasteConfig.model_validate(
        {**options, "placement": {"paste_prob": 1.0, **options.get("placement", {})}}
    )
    return BatchCopyPaste(config, *source, **arguments)


def inputs(size: int, kind: str, *, with_seeds: bool) -> PaddedBatchedDenseSample:
    modalities = frozenset(OPTIONAL) - {Modality.PANOPTIC}
    batch = make_input(modalities, batch_size=size, size=(16, 24), with_seeds=with_seeds)
    return replace(batch, instance_masks=None, instance_ids=None) if kind == "boxes" else batch


@pytest.mark.slow
class TestBatchSizes:
    @pytest.mark.parametrize("kind", KINDS)
    def test_any_number_of_them_takes_three_graphs(self, kind: str) -> None:
        options, inplace = KINDS[kind]
        eager = module_of(options)
        compiled = torch.compile(module_of(options, inplace=inplace), fullgraph=True, backend="eager")
        for size in SIZES:
            batch = inputs(size, kind, with_seeds=kind != "share")
            out, report = compiled(batch.clone(), return_report=True)
            assert_equal((out, report), eager(replace(batch, sample_seeds=out.sample_seeds), return_report=True))
        assert num_graphs() <= 3

    def test_of_another_source(self) -> None:
        source = inputs(max(SIZES), "plain", with_seeds=True)
        compiled = torch.compile(module_of({}, FromBatch(source)), fullgraph=True, backend="eager")
        for size in SIZES:
            batch = inputs(size, "plain", with_seeds=True)
            assert_equal(compiled(batch), module_of({}, FromBatch(source))(batch))
        assert num_graphs() <= 3

    def test_of_epochs_without_seeds_through_inductor(self) -> None:
        """As a loader of samples gives them, with a smaller last batch, and ten sizes."""
        samples = make_samples(10, modalities=INSTANCE, size=(12, 16))
        module = make_module(INSTANCE)
        compiled = torch.compile(module, fullgraph=True)
        sizes = set()
        for batch_size in (4, 9, 7, 5, 6, 8, 10):
            for ragged in DataLoader(samples, batch_size, collate_fn=BatchedDenseSample.from_samples):  # type: ignore[arg-type]
                batch = ragged.to_padded(max_instances=6)
                assert batch.sample_seeds is None
                out = compiled(batch)
                assert_equal(out, module(replace(batch, sample_seeds=out.sample_seeds)))
                sizes.add(out.batch_size)
        assert sizes == set(range(1, 11))
        assert num_graphs() <= 3


NUMBERS: list[dict[str, Any]] = [
    {"placement": {"scale_range": (0.25, 1 + i / 10), "hflip_probability": i / 20, "k_range": (1, 2 + i)}}
    for i in range(4)
]
NUMBERS += [
    {"placement": {"max_attempts": 3 + i, "partial": "clip", "min_visible_frac": 0.1 * (i + 1)}} for i in range(3)
]
NUMBERS += [{"placement": {"max_cover_frac": 0.9, "candidate_frac": 0.5}}, {"min_area_px": 3}, {"tile_size": 8}]
NUMBERS += [{"min_residual_area_frac": 0.3, "min_residual_area_px": 4, "max_box_shift_px": 2}, {"max_hidden_frac": 0.5}]


@pytest.mark.slow
class TestConfigs:
    def test_other_numbers_share_a_graph(self) -> None:
        """A sweep, or a module for each dataset, in one process: torch allows eight graphs for one function."""
        batch, seen = inputs(4, "plain", with_seeds=True), set()
        for options in NUMBERS:
            out = torch.compile(module_of(options), fullgraph=True, backend="eager")(batch)
            assert_equal(out, module_of(options)(batch))
            seen.add(out.images.sum().item())
        assert len(NUMBERS) == 12
        assert len(seen) > 6
        assert num_graphs() == 1

    def test_of_harmonisation_too(self) -> None:
        """Each mode takes a graph."""
        numbers = [{"prob": (i + 1) / 12, "surround_px": 2 + i, "max_gain": 1.5 + i} for i in range(10)]
        numbers += [{"feather_px": 2}, {"blur_px": 0.75}]
        batch, seen = inputs(4, "plain", with_seeds=True), set()
        for values in numbers:
            options = {"harmonize": {"mode": "reinhard", **values}}
            out = torch.compile(module_of(options), fullgraph=True, backend="eager")(batch)
            assert_equal(out, module_of(options)(batch))
            seen.add(out.images.sum().item())
        assert len(seen) > 6
        assert num_graphs() == 1

    def test_classes_of_regions_too(self) -> None:
        """They are numbers; how many there are chooses shapes."""
        sets: list[dict[int, tuple[int, ...]]] = [dict.fromkeys(range(12), (i, i + 1)) for i in range(11)]
        batch, seen = inputs(4, "plain", with_seeds=True), set()
        for region in sets:
            options = {"placement": {"region": region}}
            out = torch.compile(module_of(options), fullgraph=True, backend="eager")(batch)
            assert_equal(out, module_of(options)(batch))
            seen.add(out.images.sum().item())
        assert len(seen) > 1
        assert num_graphs() == 1

    def test_regions_of_other_numbers_of_classes(self) -> None:
        sets = [{1: tuple(range(1, 2 + i))} for i in range(4)] + [{1: (1,), 2 + i: (2, 3)} for i in range(3)]
        batch = inputs(4, "plain", with_seeds=True)
        for region in sets:
            options = {"placement": {"region": region}}
            out = torch.compile(module_of(options), fullgraph=True, backend="eager")(batch)
            assert_equal(out, module_of(options)(batch))
        assert num_graphs() <= 6

    def test_rules_are_numbers_in_an_exported_program(self) -> None:
        batch = inputs(2, "plain", with_seeds=True)
        module = module_of(NUMBERS[3])
        program = torch.export.export(module, (batch,), strict=False)
        assert_equal(program.module()(batch), module(batch))
