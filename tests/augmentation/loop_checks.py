"""One forward by every kernel, compared with the loops of `brute_force`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

import brute_force
from samples import CPU_BACKENDS, assert_backends_agree, assert_same, paste
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPasteConfig,
    IntraBatchSource,
    PasteReport,
    Placement,
    PlacementCounts,
)
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

EXACT = (
    "boxes",
    "labels",
    "instance_valid",
    "instance_ids",
    "instance_masks",
    "semantic_maps",
    "panoptic_maps",
    "depth_valid",
    "padding_mask",
)


class Recording(IntraBatchSource):
    """Source that keeps the placement as it was drawn."""

    placement: Placement
    counts: PlacementCounts

    def sample(self, *args: Any) -> Any:
        source, self.placement, self.counts = super().sample(*args)
        return source, self.placement, self.counts


class Drawn(Protocol):
    """Result of drawing, before pastes are settled."""

    placement: Placement
    counts: PlacementCounts


def run(
    batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> tuple[PaddedBatchedDenseSample, PasteReport, Recording]:
    """The forward by every kernel that runs on the CPU, which must agree; the reference's is returned."""
    before = batch.clone()
    outcomes = []
    for name in CPU_BACKENDS:
        recording = Recording(config.source.kind)
        with use_backend(name):
            out, report = paste(batch, config, recording)
        assert_same(batch, before)
        outcomes.append((out, report, recording))
    for out, report, _ in outcomes[1:]:
        assert_backends_agree((out, report), outcomes[0][:2])
    return outcomes[0]


def assert_image_equal(actual: Tensor, expected: np.ndarray[Any, Any], seen: np.ndarray[Any, Any]) -> None:
    """Exact for uint8 and wherever the target is seen; else 1e-5 of the range, and one rounding to half types."""
    unpasted = np.broadcast_to(seen < 0, expected.shape)
    values = actual.double().numpy()
    np.testing.assert_array_equal(values[unpasted], expected[unpasted])
    if actual.dtype == torch.uint8:
        np.testing.assert_array_equal(actual.numpy(), expected)
        return
    limit = max(1.0, float(np.abs(expected).max(initial=0)))
    rounding = 0.0 if actual.dtype == torch.float32 else torch.finfo(actual.dtype).eps
    assert (np.abs(values - expected) <= 1e-5 * limit + rounding * np.abs(expected)).all()


def assert_equal(
    out: PaddedBatchedDenseSample, report: PasteReport, recording: Drawn, expected: list[brute_force.Outcome]
) -> None:
    for b, outcome in enumerate(expected):
        for name in EXACT:
            if (value := getattr(out, name)) is not None:
                np.testing.assert_array_equal(value[b].numpy(), outcome.fields[name], err_msg=f"{name} of image {b}")
        assert_image_equal(out.images[b], outcome.fields["images"], outcome.visible_layer)
        if out.depth is not None:
            np.testing.assert_array_equal(out.depth[b].numpy(), outcome.fields["depth"])
        if out.normals is not None:
            np.testing.assert_array_equal(out.normals[b].numpy(), outcome.fields["normals"])
        np.testing.assert_array_equal(report.visible_layer[b].numpy(), outcome.visible_layer)
        assert report.slot_layer[b].tolist() == outcome.slot_layer
        assert report.slot_source[b].tolist() == outcome.slot_source
        settled = [row.nonzero().flatten().tolist() for row in report.placement.carried[b]]
        assert settled == outcome.carried
        assert torch.equal(report.drawn[b], recording.placement.carried[b])
        assert int(report.num_placed[b]) == sum(map(len, settled))
        dropped = dict(zip(DROP_REASONS, report.num_dropped[b].tolist(), strict=True))
        assert {reason: dropped[reason] for reason in outcome.dropped} == outcome.dropped
        for reason in ("no_source", "no_free_slot", "does_not_fit", "outside_region", "covers_too_much"):
            count = getattr(recording.counts, reason)
            assert dropped[reason] == (0 if count is None else int(count[b]))
        assert int(report.num_tried[b]) == int(report.num_placed[b]) + sum(dropped.values())


def assert_unchanged(out: PaddedBatchedDenseSample, batch: PaddedBatchedDenseSample, names: tuple[str, ...]) -> None:
    for name in names:
        one, other = getattr(out, name), getattr(batch, name)
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=name == "normals")
