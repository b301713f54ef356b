"""`max_hidden_frac`: how much of an object of the target pastes may hide, by every kernel."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from samples import CPU_BACKENDS, EVERY_OBJECT, OPTIONAL, SCHEMA, assert_backends_agree, assert_same, make_batch, paste
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PasteReport,
    PlacementConfig,
)
from segpaste.engine import use_backend
from segpaste.invariants import Case, check_all
from segpaste.types import Modality, PaddedBatchedDenseSample

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)


crowded = partial(make_batch, 4, size=(19, 17), num_instances=4, max_instances=12)


def config(max_hidden_frac: float) -> BatchCopyPasteConfig:
    return BatchCopyPasteConfig(
        max_hidden_frac=max_hidden_frac,
        min_area_px=2,
        panoptic=PanopticConfig(taxonomy=SCHEMA, tau_stuff_frac=0.0, tau_stuff_px=0),
        placement=PlacementConfig(paste_prob=1.0, layers=2, scale_range=(0.7, 1.5), k_range=(2, 6)),
        source=EVERY_OBJECT,
    )


def hidden_and_all(batch: PaddedBatchedDenseSample, report: PasteReport) -> tuple[Tensor, Tensor]:
    """Return the pixels that pastes hide of each target object, and all its pixels, [B, K] each."""
    masks = batch.instance_masks
    return (masks & (report.visible_layer >= 0)[:, None]).flatten(2).sum(2), masks.flatten(2).sum(2)


@KERNELS
class TestLimit:
    @pytest.mark.parametrize(
        "modalities", [OPTIONAL, ("instance",), ("instance", "depth")], ids=["all", "bare", "depth"]
    )
    @pytest.mark.parametrize("limit", [0.0, 0.25, 0.5, 0.7])
    def test_no_object_loses_more(self, kernels: str, limit: float, modalities: tuple[Modality, ...]) -> None:
        """Objects that would have lost more lose nothing; without the limit there are some."""
        num_guarded = num_hidden = 0
        for start in range(6):
            batch = crowded(seed=start, modalities=modalities)
            with use_backend(kernels):
                out, report = paste(batch, config(limit))
                _, free = paste(batch, config(1.0))
            check_all(Case(batch, out, report, config(limit)))
            (hidden, area), (before, _) = hidden_and_all(batch, report), hidden_and_all(batch, free)
            most = Fraction(str(limit))
            assert (hidden * most.denominator <= area * most.numerator).all()
            num_guarded += int((before * most.denominator > area * most.numerator).sum())
            num_hidden += int((hidden > 0).sum())
        assert num_guarded > 3
        assert num_hidden == 0 if limit == 0 else num_hidden > 0

    def test_what_is_given_back_is_counted(self, kernels: str) -> None:
        """A paste that lies over one object alone is gone with a limit of 0, and the report says why."""
        batch = make_batch(2, size=(8, 8), num_instances=1, max_instances=4, modalities=("instance",))
        everywhere = torch.zeros_like(batch.instance_masks)
        everywhere[:, 0] = True
        batch = replace(batch, instance_masks=everywhere, boxes=batch.boxes.clone().index_fill_(1, torch.tensor(0), 0))
        batch.boxes[:, 0, 2:] = 8
        options = BatchCopyPasteConfig(
            max_hidden_frac=0, placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 0.5)), source=EVERY_OBJECT
        )
        with use_backend(kernels), pytest.warns(UserWarning, match="reverted 2"):
            out, report = BatchCopyPaste(options)(batch, return_report=True)
        assert report.num_dropped[:, DROP_REASONS.index("reverted")].tolist() == [1, 1]
        assert_same(out, replace(batch, sample_seeds=out.sample_seeds))

    def test_in_place(self, kernels: str) -> None:
        batch = replace(crowded(seed=3), sample_seeds=torch.arange(4))
        with use_backend(kernels):
            out = BatchCopyPaste(config(0.3))(batch)
            own = batch.clone()
            over = BatchCopyPaste(config(0.3), inplace=True)(own)
        assert over.images is own.images
        assert_same(over, out)


@pytest.mark.slow
def test_one_graph_equal_to_eager() -> None:
    module, counter = BatchCopyPaste(config(0.3)), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=counter)
    for start in range(3):
        batch = replace(crowded(seed=start), sample_seeds=torch.arange(4) + start)
        assert_backends_agree(compiled(batch, return_report=True), module(batch, return_report=True))
    assert counter.frame_count == 1


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_no_fraction(value: float) -> None:
    with pytest.raises(ValidationError, match="max_hidden_frac"):
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, max_hidden_frac=value, source=EVERY_OBJECT)
