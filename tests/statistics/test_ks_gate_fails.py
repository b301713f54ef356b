"""The statistics gate sees mistakes: each is made on purpose in the draws, and must move a distance over the limit."""

from __future__ import annotations

from collections.abc import Callable

import ks_snapshot
import population
import pytest
import torch
from histograms import LIMIT, distances
from module_draws import make_module, module_counts, module_images, population_batch
from torch import Tensor

from segpaste import seeding
from segpaste.augmentation import IntraBatchSource, Placement, PlacementCounts, PlacementRequest
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

pytestmark = pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")

Mistake = Callable[..., Tensor]


class TorchDraws(IntraBatchSource):
    """The draws in torch operations, which a test can reach into; pixels are compiled all the same."""

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        with use_backend("reference"):
            return super().sample(target, eligible, request)


def measured(modality: str) -> dict[str, float]:
    found = module_counts(make_module(modality, TorchDraws()), modality)
    return distances(found, ks_snapshot.load()[modality])


def make_mistake(monkeypatch: pytest.MonkeyPatch, function: str, name: str, mistake: Mistake) -> None:
    """Let one draw be made by ``mistake(right, seeds, name, *arguments)`` instead of the function ``right``."""
    right = getattr(seeding, function)

    def drawn(seeds: Tensor, drawn_name: str, *arguments: Tensor | int) -> Tensor:
        if drawn_name == name:
            return mistake(right, seeds, name, *arguments)
        return right(seeds, drawn_name, *arguments)

    monkeypatch.setattr(seeding, function, drawn)


def in_order(right: Mistake, seeds: Tensor, name: str, layers: Tensor, slots: Tensor) -> Tensor:
    """The first slots of the first layer win."""
    return torch.arange(layers.numel() * slots.numel(), 0, -1).view(1, len(layers), -1).expand(len(seeds), -1, -1) << 2


def next_row(right: Mistake, seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """The nearest row behind that has something to give."""
    bits = right(seeds, name, *indices)
    rows = torch.arange(bits.shape[0])
    return (len(rows) - (rows - rows[:, None]) % len(rows))[:, None].expand(bits.shape) << 2


def never_negative(right: Mistake, seeds: Tensor, name: str, low: Tensor, high: Tensor, *indices: Tensor) -> Tensor:
    return right(seeds, name, low.clamp(min=0), high.clamp(min=0), *indices)


def log_uniform(right: Mistake, seeds: Tensor, name: str, low: Tensor, high: Tensor, *indices: Tensor) -> Tensor:
    share = right(seeds, name, 0, 1 << 30, *indices).double() / (1 << 30)
    return (low * (share * (high / low).log()).exp()).long()


def always_the_most(right: Mistake, seeds: Tensor, name: str, low: int, high: int, *indices: Tensor) -> Tensor:
    return torch.full_like(seeds, high)


@pytest.mark.parametrize("modality", population.MODALITIES)
class TestSlotsInOrder:
    def test_are_seen(self, modality: str, monkeypatch: pytest.MonkeyPatch) -> None:
        make_mistake(monkeypatch, "random_bits", "slot", in_order)
        found = measured(modality)
        assert max(found.values()) > LIMIT, found

    def test_it_is_the_order_that_is_seen(self, modality: str) -> None:
        """Without a mistake the same way of drawing gives the very same images."""
        one, other = (
            list(module_images(make_module(modality, source), population_batch(modality), 200, seed=5))
            for source in (TorchDraws(), IntraBatchSource())
        )
        assert one == other


MISTAKES = {
    "the source is always the next row": ("panoptic", "random_bits", "source", next_row),
    "translations are never negative": ("instance", "random_integers", "translate", never_negative),
    "the logarithm of the scale is uniform": ("instance", "random_integers", "scale", log_uniform),
    "the count is always the largest": ("depth", "random_integers", "count", always_the_most),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_other_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modality, *made = MISTAKES[mistake]
    make_mistake(monkeypatch, *made)
    found = measured(modality)
    assert max(found.values()) > LIMIT, found
