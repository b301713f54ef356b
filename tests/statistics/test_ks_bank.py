"""The bank half of the statistics gate: what is drawn from a bank and pasted, and mistakes on purpose, which show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import bank_population
import ks_snapshot
import numpy as np
import population
import pytest
import torch
from bank_draws import BATCH_SIZE, bank_counts, bank_images, drawn_crops, open_bank
from histograms import LIMIT, distances
from module_draws import NUM_IMAGES
from painting import Array
from test_ks_gate_fails import Mistake, make_mistake
from torch import Tensor

from samples import CPU_BACKENDS
from segpaste.bank import StoredBank
from segpaste.engine import native, reference, use_backend
from segpaste.engine.reference.draws import slots


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredBank]:
    with open_bank(tmp_path_factory.mktemp("statistics") / "bank") as opened:
        yield opened


class TestGate:
    def test_draws_as_the_reference_does(self, bank: StoredBank) -> None:
        found = bank_counts(bank, drawn_crops(bank))
        assert found.num_images == NUM_IMAGES
        lie_apart = distances(found, ks_snapshot.load()[ks_snapshot.BANK])
        assert set(lie_apart) == {"area", "pastes", "classes", "class_counts"}
        assert max(lie_apart.values()) <= LIMIT, lie_apart

    def test_all_writings_draw_alike(self, bank: StoredBank) -> None:
        """A measurement of one backend therefore holds for the others."""
        found = []
        for name in CPU_BACKENDS:
            with use_backend(name):
                found.append(list(bank_images(bank, drawn_crops(bank, BATCH_SIZE, seed=3), seed=3)))
        assert found[0] == found[1]
        assert sum(map(len, found[0])) > 50

    def test_the_bank_holds_the_population(self, bank: StoredBank) -> None:
        bank.verify()
        assert bank.class_frequencies == (12, 6, 3, 2, 1)
        expected = bank_population.crops()
        assert bank.crop_class_ids().tolist() == [crop.labels[0] for crop in expected]
        np.testing.assert_array_equal(bank.read(range(len(bank)))["alpha"], np.stack([c.masks for c in expected]))


class TestReference:
    def test_sees_everything_that_can_happen(self) -> None:
        """Images with no pastes, and with all that are allowed; each class but the one that is no thing."""
        rules, counts = bank_population.RULES, ks_snapshot.load()[ks_snapshot.BANK]
        assert (counts.pastes > 0).tolist() == [n <= rules.layers for n in range(len(counts.pastes))]
        assert not counts.area[: rules.min_area_px].any()
        assert (counts.classes > 0).tolist() == [c != population.UNKNOWN_CLASS for c in range(population.NUM_CLASSES)]


class TestSnapshot:
    def test_of_other_draws_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bank_population, "NUM_STAGED", 5)
        with pytest.raises(ValueError, match=r"ks_snapshot\.json: .* bank .*gen_ks_snapshot.* population"):
            ks_snapshot.load()

    def test_of_other_crops_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = bank_population.crops()
        monkeypatch.setattr(bank_population, "crops", lambda: found[1:])
        with pytest.raises(ValueError, match=r"bank .* population"):
            ks_snapshot.load()

    def test_without_the_bank_is_refused(self, tmp_path: Path) -> None:
        stored = json.loads(ks_snapshot.SNAPSHOT.read_text(encoding="utf-8"))
        del stored[ks_snapshot.BANK]
        path = tmp_path / "snapshot.json"
        path.write_text(ks_snapshot.dumps(stored), encoding="utf-8")
        with pytest.raises(ValueError, match=r"bank .* population"):
            ks_snapshot.load(path)

    def test_of_another_sampler_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "snapshot.json"
        monkeypatch.setattr(ks_snapshot, "NUM_HEAD", 50)
        path.write_text(ks_snapshot.dumps(ks_snapshot.made(50, seed=5)), encoding="utf-8")
        ks_snapshot.check_head(path)
        monkeypatch.setattr(ks_snapshot, "draw_bank_image", lambda *_: [])
        with pytest.raises(ValueError, match=r"bank .* sampler"):
            ks_snapshot.check_head(path)


def in_order(right: Mistake, seeds: Tensor, name: str, crops: Tensor) -> Tensor:
    """The first of the staged crops win."""
    return torch.arange(len(crops), 0, -1).expand(len(seeds), -1) << 2


def staged_crops_in_order(bank: StoredBank, monkeypatch: pytest.MonkeyPatch) -> Array:
    make_mistake(monkeypatch, "random_bits", "crop", in_order)
    return drawn_crops(bank)


def chosen_blindly(bank: StoredBank, monkeypatch: pytest.MonkeyPatch) -> Array:
    right = slots.random_where
    monkeypatch.setattr(slots, "random_where", lambda where, *draw: right(torch.ones_like(where), *draw))
    return drawn_crops(bank)


def front_to_back(bank: StoredBank, _: pytest.MonkeyPatch) -> Array:
    return np.resize(np.arange(len(bank)), (NUM_IMAGES, bank_population.NUM_STAGED))


def first_of_class(bank: StoredBank, _: pytest.MonkeyPatch) -> Array:
    class_ids = bank.crop_class_ids()
    return np.searchsorted(class_ids, class_ids[drawn_crops(bank)])


def as_they_occur(bank: StoredBank, _: pytest.MonkeyPatch) -> Array:
    return drawn_crops(bank, mode="tempered", temperature=0.0)


MISTAKES: dict[str, Callable[[StoredBank, pytest.MonkeyPatch], Array]] = {
    "staged crops are taken in order": staged_crops_in_order,
    "crops are chosen before it is known which can be pasted": chosen_blindly,
    "the bank is read from front to back": front_to_back,
    "of a class it is always the first crop": first_of_class,
    "classes are drawn as they occur": as_they_occur,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(mistake: str, bank: StoredBank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(native, "step")  # so that the three functions run one by one
    monkeypatch.setattr(native, "draw", reference.draw)  # the same draws, which a test can change
    crop_idx = MISTAKES[mistake](bank, monkeypatch)
    found = distances(bank_counts(bank, crop_idx), ks_snapshot.load()[ks_snapshot.BANK])
    assert max(found.values()) > LIMIT, found
