"""The statistics gate: the module draws as the plain loop sampler does, for every modality."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import ks_snapshot
import numpy as np
import population
import pytest
import scipy.stats
from histograms import LIMIT, Counts, class_distances, critical_distance, distances, ks_distance
from module_draws import NUM_IMAGES, make_module, module_counts, module_images, population_batch

from samples import CPU_BACKENDS
from segpaste.engine import use_backend
from segpaste.invariants import batch_violations

each_modality = pytest.mark.parametrize("modality", population.MODALITIES)


class TestGate:
    @each_modality
    def test_draws_as_the_reference_does(self, modality: str) -> None:
        found = module_counts(make_module(modality), modality)
        assert found.num_images == NUM_IMAGES
        measured = distances(found, ks_snapshot.load()[modality])
        assert set(measured) == {"area", "pastes", "classes", "class_counts"}
        assert max(measured.values()) <= LIMIT, measured

    @each_modality
    def test_all_writings_draw_alike(self, modality: str) -> None:
        """A measurement of one backend therefore holds for the others."""
        found = []
        for name in CPU_BACKENDS:
            with use_backend(name):
                found.append(list(module_images(make_module(modality), population_batch(modality), 100, seed=3)))
        assert found[0] == found[1]
        assert sum(map(len, found[0])) > 50

    @each_modality
    def test_the_population_is_true_to_the_containers(self, modality: str) -> None:
        assert batch_violations(population_batch(modality), tight_boxes=True) == []


class TestReference:
    @each_modality
    def test_sees_everything_that_can_happen(self, modality: str) -> None:
        """Images with no pastes, and with all that are allowed; each class but the one that is no thing."""
        rules, counts = population.RULES[modality], ks_snapshot.load()[modality]
        assert counts.pastes[0] > 0
        assert counts.pastes[rules.k_range[1]] > 0
        assert not counts.pastes[rules.k_range[1] + 1 :].any()
        assert not counts.area[: rules.min_area_px].any()
        offered = [modality != "panoptic" or c != population.UNKNOWN_CLASS for c in range(population.NUM_CLASSES)]
        assert (counts.classes > 0).tolist() == offered

    def test_is_the_same_for_the_same_seed(self) -> None:
        one, again, other = (list(ks_snapshot.reference_images("depth", 20, seed)) for seed in (1, 1, 2))
        assert one == again != other
        assert one[:10] == list(islice(ks_snapshot.reference_images("depth", 50, 1), 10))


class TestDistance:
    def test_is_the_definition(self) -> None:
        """Two samples are compared, one value after the other."""
        rng = np.random.default_rng(0)
        for _ in range(50):
            one, other = (rng.integers(0, rng.integers(2, 9), rng.integers(1, 12)) for _ in range(2))
            expected = max(abs(np.mean(one <= x) - np.mean(other <= x)) for x in range(9))
            counts = [np.bincount(sample, minlength=9) for sample in (one, other)]
            assert ks_distance(*counts) == pytest.approx(expected, abs=1e-12)

    def test_of_the_same_and_of_the_disjoint(self) -> None:
        assert ks_distance(np.array([1, 0, 3]), np.array([2, 0, 6])) == 0
        assert ks_distance(np.array([1, 1, 0]), np.array([0, 0, 5])) == 1

    def test_is_that_of_the_worst_row(self) -> None:
        assert ks_distance(np.array([[1, 1], [3, 1]]), np.array([[1, 1], [1, 3]])) == 0.5

    def test_of_the_most_frequent_classes(self) -> None:
        one = Counts.of([[(0, 1), (2, 1)], [(2, 1)], []])
        other = Counts.of([[(2, 1), (2, 1)], [(0, 1)], []])
        assert class_distances(one, other) == {2: pytest.approx(1 / 3), 0: 0.0, 1: 0.0, 3: 0.0, 4: 0.0}
        assert list(class_distances(one, other, most=1)) == [2]

    def test_critical_value_is_that_of_the_asymptotic_distribution(self) -> None:
        distance = critical_distance(5_000, 50_000, 0.01)
        assert distance < LIMIT
        scale = math.sqrt(5_000 * 50_000 / 55_000)
        assert scipy.stats.kstwobign.sf(distance * scale) == pytest.approx(0.01, rel=1e-4)

    def test_counts_images_and_pastes(self) -> None:
        counts = Counts.of([[], [(0, 5), (0, 7), (2, 5)], [(2, 1)]])
        assert counts.pastes.tolist() == [1, 1, 0, 1, 0, 0, 0]
        assert counts.classes.tolist() == [2, 0, 2, 0, 0]
        assert {a: int(n) for a, n in enumerate(counts.area) if n} == {1: 1, 5: 2, 7: 1}
        assert counts.class_counts[:3, :3].tolist() == [[2, 0, 1], [3, 0, 0], [1, 2, 0]]
        assert not any(distances(counts, Counts.from_json(counts.to_json())).values())


class TestSnapshot:
    def test_is_of_today_and_small(self) -> None:
        ks_snapshot.check_head()
        text = ks_snapshot.SNAPSHOT.read_text(encoding="utf-8")
        assert len(text) < 64_000
        assert text == ks_snapshot.dumps(json.loads(text))
        assert json.loads(text)["num_images"] == 10 * NUM_IMAGES == 50_000

    def test_same_seed_same_bytes(self) -> None:
        one, again = (ks_snapshot.dumps(ks_snapshot.made(60, seed=5)) for _ in range(2))
        assert one == again != ks_snapshot.dumps(ks_snapshot.made(60, seed=6))

    def test_of_other_rules_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rules = replace(population.RULES["semantic"], paste_prob=0.71)
        monkeypatch.setitem(population.RULES, "semantic", rules)
        with pytest.raises(ValueError, match=r"ks_snapshot\.json: .* semantic .*gen_ks_snapshot.* population"):
            ks_snapshot.load()

    def test_of_another_sampler_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "snapshot.json"
        monkeypatch.setattr(ks_snapshot, "NUM_HEAD", 50)
        path.write_text(ks_snapshot.dumps(ks_snapshot.made(50, seed=5)), encoding="utf-8")
        ks_snapshot.check_head(path)
        monkeypatch.setattr(ks_snapshot, "draw_image", lambda *_: [])
        with pytest.raises(ValueError, match="sampler"):
            ks_snapshot.check_head(path)
