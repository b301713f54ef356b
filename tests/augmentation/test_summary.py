"""Summaries of reports add up, whatever the batches are."""

from __future__ import annotations

import pytest
import torch

from samples import CPU_BACKENDS, make_batch, paste
from segpaste.augmentation import DROP_REASONS, PasteReport, PasteSummary
from segpaste.engine import use_backend

pytestmark = pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")


def reports(kernels: str) -> list[PasteReport]:
    """Return reports of batches of several sizes, including an empty one and one without masks."""
    found = []
    with use_backend(kernels):
        for seed, num in enumerate((4, 1, 3, 0)):
            batch = make_batch(num, num_instances=3, max_instances=5, seed=seed)
            found.append(paste(batch)[1])
        found.append(paste(make_batch(2, modalities=()))[1])
    return found


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_it_adds_up_over_an_epoch(kernels: str) -> None:
    found = reports(kernels)
    summary = sum((PasteSummary.of(report) for report in found[1:]), PasteSummary.of(found[0]))
    counts = summary.to_dict()
    assert counts["num_images"] == 10
    assert counts["num_tried"] == sum(int(report.num_tried.sum()) for report in found) > 0
    assert counts["num_placed"] == sum(int(report.num_placed.sum()) for report in found) > 0
    for i, reason in enumerate(DROP_REASONS):
        assert counts[reason] == sum(int(report.num_dropped[:, i].sum()) for report in found)
    assert counts["num_tried"] == counts["num_placed"] + sum(counts[reason] for reason in DROP_REASONS)


def test_reports_and_sums_are_taken_as_they_are() -> None:
    found = reports("reference")
    expected = PasteSummary.of(found[0]) + PasteSummary.of(found[1])
    assert torch.equal((PasteSummary.of(found[0]) + found[1]).counts, expected.counts)
    assert torch.equal(sum(map(PasteSummary.of, found[:2])).counts, expected.counts)  # type: ignore[union-attr]
    with pytest.raises(TypeError):
        expected + "something"


def test_it_says_what_happened() -> None:
    summary = PasteSummary(torch.tensor([4, 9, 6, 0, 2, 1, 0, 0, 0, 0, 0, 0]))
    assert repr(summary) == "PasteSummary(4 images: 9 tried, 6 placed, no_free_slot 2, does_not_fit 1)"
