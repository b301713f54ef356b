"""Draws of a bank follow the formulas, are as many as `len` says, and repeat with the same seed."""

from __future__ import annotations

import math
import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from bank_cases import write_bank
from numpy.typing import NDArray

from segpaste.bank import BankError, BankSampler
from segpaste.bank.read.class_draws import MODES, ClassTable, DrawReport, class_probabilities, photo_fracs
from segpaste.samplers.by_class import SamplesOfClasses

TAIL = (1000, 316, 0, 100, 32, 10, 1)
"""Crops of each class; one has none."""


def reference_probabilities(counts: Any, mode: str, threshold: float, temperature: float, photos: Any) -> list[float]:
    """The papers' formulas, class by class."""
    weights = []
    for num, frac in zip(counts, photos, strict=True):
        if num == 0:
            weights.append(0.0)
        elif mode == "class_uniform":
            weights.append(1.0)
        elif mode == "natural":
            weights.append(num)
        elif mode == "tempered":
            weights.append(math.exp((1 - temperature) * math.log(num)))
        else:
            rarity = num / sum(counts)
            if mode == "instance_aware":
                rarity = (rarity * frac) ** 0.5
            weights.append(num * max(1.0, (threshold / rarity) ** 0.5))
    return [weight / sum(weights) for weight in weights]


def ids_of(counts: Any) -> NDArray[np.int64]:
    """Return the class ids in a shuffled order."""
    return np.random.default_rng(3).permutation(np.repeat(np.arange(len(counts)), counts))


@pytest.fixture(scope="module")
def tail(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A long-tailed bank; the photo of a crop is its index modulo 400, so frequent classes share photos."""
    ids = ids_of(TAIL)
    return write_bank(
        tmp_path_factory.mktemp("tail") / "bank",
        ids.tolist(),
        size=(1, 1),
        image_ids=[i % 400 for i in range(len(ids))],
    )


class ClassesOnly:
    """Bank of any size with the attributes that a sampler reads, without pixels."""

    version = "0"

    def __init__(self, class_ids: NDArray[np.int64]) -> None:
        self.class_ids = class_ids
        self.class_frequencies = tuple(np.bincount(class_ids).tolist())
        self.class_names = tuple(f"class{c}" for c in range(len(self.class_frequencies)))

    def __len__(self) -> int:
        return len(self.class_ids)

    def crop_class_ids(self) -> NDArray[np.int64]:
        return self.class_ids


class TestProbabilities:
    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            # r = 1, sqrt(0.1 / 0.09), sqrt(0.1 / 0.01): 900, 94.868 and 31.623 of 1026.491
            ("repeat_factor", [0.876773, 0.092420, 0.030807]),
            # sqrt(f g) = 0.849, 0.15, 0.02, so r = 1, 1, sqrt(5): 900, 90 and 22.361 of 1012.361
            ("instance_aware", [0.889011, 0.088901, 0.022088]),
            # square roots: 30, 9.487 and 3.162 of 42.649
            ("tempered", [0.703414, 0.222439, 0.074146]),
            ("class_uniform", [1 / 3, 1 / 3, 1 / 3]),
            ("natural", [0.9, 0.09, 0.01]),
        ],
    )
    def test_three_classes_by_hand(self, mode: Any, expected: list[float]) -> None:
        got = class_probabilities([900, 90, 10], mode, threshold=0.1, photo_fracs=[0.8, 0.25, 0.04])
        np.testing.assert_allclose(got, expected, atol=1e-6)

    @pytest.mark.parametrize("mode", MODES)
    def test_reference(self, mode: Any) -> None:
        rng = np.random.default_rng(0)
        for _ in range(50):
            counts = rng.integers(0, 10 ** rng.integers(1, 6, 20)) * (rng.random(20) < 0.8) + np.eye(20, dtype=int)[0]
            fracs, threshold, temperature = rng.random(20) * 0.99 + 0.01, rng.random() + 1e-9, rng.random()
            got = class_probabilities(counts, mode, threshold=threshold, temperature=temperature, photo_fracs=fracs)
            wanted = reference_probabilities(counts.tolist(), mode, threshold, temperature, fracs)
            np.testing.assert_allclose(got, wanted, rtol=1e-12)

    def test_temperature_goes_from_one_end_to_the_other(self) -> None:
        counts = [900, 0, 90, 10]
        np.testing.assert_allclose(class_probabilities(counts, "tempered", temperature=0), [0.9, 0, 0.09, 0.01])
        np.testing.assert_allclose(
            class_probabilities(counts, "tempered", temperature=1), class_probabilities(counts, "class_uniform")
        )

    def test_natural_is_no_temperature(self) -> None:
        counts = [900, 0, 90, 10]
        np.testing.assert_allclose(
            class_probabilities(counts, "natural"), class_probabilities(counts, "tempered", temperature=0)
        )

    @pytest.mark.parametrize(
        ("counts", "mode", "options", "words"),
        [
            ([], "class_uniform", {}, "some of them above 0"),
            ([0, 0], "class_uniform", {}, "some of them above 0"),
            ([3, -1], "class_uniform", {}, "some of them above 0"),
            ([3], "balanced", {}, "or class_uniform, got 'balanced'"),
            ([3], "repeat_factor", {"threshold": 0}, "0 < threshold <= 1, got 0"),
            ([3], "tempered", {"temperature": 1.5}, "temperature <= 1, got 1.5"),
            ([3], "instance_aware", {}, "expected photo_fracs"),
            ([3, 1], "instance_aware", {"photo_fracs": [1.0]}, r"photo_fracs \[2\]"),
            ([3, 1], "instance_aware", {"photo_fracs": [1.0, 0.0]}, r"in \(0, 1\]"),
        ],
    )
    def test_bad_values(self, counts: Any, mode: Any, options: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            class_probabilities(counts, mode, **options)

    def test_photos_that_show_a_class(self, tmp_path: Path) -> None:
        bank = write_bank(tmp_path / "bank", [0, 0, 1, 0, 2, 2], image_ids=[5, 5, 5, 7, 8, 9], size=(1, 1))
        crops = SamplesOfClasses(bank.crop_class_ids(), 4)
        np.testing.assert_array_equal(photo_fracs(bank, crops), [2 / 4, 1 / 4, 2 / 4, 0])

    def test_a_bank_that_does_not_know_its_photos(self, tmp_path: Path) -> None:
        bank = write_bank(tmp_path / "bank", [0, 1])
        with pytest.raises(BankError, match="instance_aware: expected a bank that keeps provenance"):
            BankSampler(bank, mode="instance_aware")


class TestTables:
    def test_every_class_has_its_share_of_the_unit_interval(self) -> None:
        """The table is an exact partition, so its parts are measured on a fine grid."""
        for counts in ([900, 90, 10], [1], [0, 5, 0, 0, 5], [1] * 7, [10**6, 1, 0, 30]):
            probabilities = class_probabilities(counts, "repeat_factor", threshold=0.01)
            grid = (np.arange(10**6) + 0.5) / 10**6
            drawn = np.bincount(ClassTable(probabilities).draw(grid), minlength=len(counts))
            np.testing.assert_allclose(drawn / 10**6, probabilities, atol=2e-6 * len(counts))
            assert not drawn[np.array(counts) == 0].any()

    def test_ends_of_the_interval(self) -> None:
        table = ClassTable(np.array([0.0, 0.5, 0.5, 0.0]))
        assert set(table.draw(np.array([0.0, np.nextafter(1, 0), 0.25, 0.5, 0.75])).tolist()) <= {1, 2}

    @pytest.mark.parametrize("num_classes", [3, 300])
    def test_crops_of_each_class(self, num_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.bank.read.class_draws._CHUNK", 64)
        ids = np.random.default_rng(1).integers(0, num_classes - 1, 1000)
        crops = SamplesOfClasses(ids, num_classes)
        for c in range(num_classes):
            np.testing.assert_array_equal(crops.of_class(c), np.flatnonzero(ids == c))
            assert crops.counts[c] == (ids == c).sum()


class TestDistribution:
    @pytest.mark.parametrize("mode", sorted({*MODES} - {"natural"}))  # the rarest class has too few draws then
    def test_draws_are_within_one_percent_of_the_report(self, mode: Any, tail: Any) -> None:
        """The rarest class has over 100,000 draws, so that 1 % is more than three standard deviations."""
        num = 14_000_000
        sampler = BankSampler(tail, num, mode=mode, threshold=0.3, base_seed=11)
        classes, crops = np.zeros(len(TAIL), np.int64), np.zeros(len(tail), np.int64)
        for first in range(0, num, 1 << 18):
            drawn = sampler.draws(first, min(1 << 18, num - first))
            classes += np.bincount(drawn.classes, minlength=len(TAIL))
            crops += np.bincount(drawn.crops, minlength=len(tail))
        expected = np.array(sampler.report().expected_draws)
        some = np.array(TAIL) > 0
        assert expected[some].min() > 100_000
        assert not classes[~some].any()
        np.testing.assert_allclose(classes[some], expected[some], rtol=0.01)
        # within a class all crops alike: chi-square over the bank, five standard deviations
        wanted = (expected / np.maximum(TAIL, 1))[tail.crop_class_ids()]
        degrees = len(tail) - 1
        assert abs(((crops - wanted) ** 2 / wanted).sum() - degrees) < 5 * math.sqrt(2 * degrees)

    def test_report_before_any_draw(self, tmp_path: Path) -> None:
        bank = write_bank(tmp_path / "bank", ids_of((90, 9, 1)).tolist(), names=("cup", "chair", "wok"), size=(1, 1))
        report = BankSampler(bank, 300, mode="class_uniform").report()
        assert report.num_crops == (90, 9, 1)
        np.testing.assert_allclose(report.expected_draws, [100] * 3)
        np.testing.assert_allclose(report.factors, [0.3703704, 3.7037037, 33.3333333])
        assert str(report).splitlines()[1:] == [
            "cup            90   90.00%         100.0   33.33%    0.37",
            "chair           9    9.00%         100.0   33.33%    3.70",
            "wok             1    1.00%         100.0   33.33%   33.33",
        ]

    def test_report_says_where_nothing_is_balanced(self, tmp_path: Path) -> None:
        bank = write_bank(tmp_path / "bank", ids_of((900, 90, 10)).tolist(), size=(1, 1))
        line = "no class is drawn noticeably more often than it occurs: raise threshold, or use class_uniform"
        assert str(BankSampler(bank, threshold=1e-3).report()).splitlines()[-1] == line
        for options in ({}, {"threshold": 0.1}, {"mode": "class_uniform"}, {"mode": "tempered"}):
            assert line not in str(BankSampler(bank, **options).report())  # type: ignore[arg-type]
        balanced = write_bank(tmp_path / "balanced", ids_of((20, 20, 0)).tolist(), size=(1, 1))
        assert line not in str(BankSampler(balanced, threshold=1e-3).report())

    def test_the_default_balances_any_bank(self) -> None:
        """A class that is rarer than the mean is drawn more often, by the root of how much rarer it is."""
        for counts in ((900, 90, 10), (5, 0, 3), (1, 1), (1000, 316, 100, 32, 10, 3, 1)):
            has_crops = [num for num in counts if num]
            mean, total = 1 / len(has_crops), sum(counts)
            weights = [num * max(1.0, (mean * total / num) ** 0.5) if num else 0.0 for num in counts]
            np.testing.assert_allclose(class_probabilities(counts), np.array(weights) / sum(weights), rtol=1e-12)
        photos = [0.5, 0.4, 0.1]
        rarity = np.sqrt(np.array([0.9, 0.09, 0.01]) * photos)
        weights = [n * max(1.0, (rarity.mean() / r) ** 0.5) for n, r in zip((900, 90, 10), rarity, strict=True)]
        got = class_probabilities([900, 90, 10], "instance_aware", photo_fracs=photos)
        np.testing.assert_allclose(got, np.array(weights) / sum(weights), rtol=1e-12)

    def test_report_of_nothing(self) -> None:
        assert str(DrawReport(("cup",), (3,), (0.0,), (1.0,))).splitlines()[1].endswith("0.0    0.00%    1.00")

    def test_more_crops_than_a_multinomial_takes(self) -> None:
        """torch.multinomial refuses more than 2 ** 24."""
        num = (1 << 24) + 5
        ids = np.zeros(num, np.int64)
        ids[-3:] = 1
        bank: Any = ClassesOnly(ids)
        sampler = BankSampler(bank, 60_000, mode="class_uniform")
        drawn = np.array(list(sampler))
        assert set(drawn[drawn >= num - 3].tolist()) == {num - 3, num - 2, num - 1}
        assert abs((drawn < num - 3).sum() - 30_000) < 5 * math.sqrt(15_000)
        assert len(np.unique(drawn >> 20)) == 17


def epochs(sampler: BankSampler, num: int = 3) -> list[list[int]]:
    found = []
    for epoch in range(num):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


class TestEpochs:
    @pytest.mark.parametrize("num", [0, 1, 57, 20_000])
    def test_as_many_as_len_says(self, num: int, tail: Any) -> None:
        sampler = BankSampler(tail, num)
        assert len(sampler) == len(list(sampler)) == num

    def test_by_default_as_many_as_there_are_crops(self, tail: Any) -> None:
        assert len(BankSampler(tail)) == len(tail) == sum(TAIL)
        assert {len(BankSampler(tail, rank=r, num_replicas=4)) for r in range(4)} == {-(-sum(TAIL) // 4)}

    def test_an_epoch_is_a_function_of_its_number(self, tail: Any) -> None:
        one, other = epochs(BankSampler(tail, base_seed=5)), epochs(BankSampler(tail, base_seed=5))
        assert one == other
        assert one[0] != one[1] != one[2] != one[0]
        assert epochs(BankSampler(tail, base_seed=6))[0] != one[0]
        again = BankSampler(tail, base_seed=5)
        assert [list(again) for _ in range(3)] == one  # every pass is a new epoch
        again.set_epoch(1)
        assert list(again) == list(again) == one[1]  # and this one once it was set

    def test_golden(self) -> None:
        """The draws of a seed are part of the contract."""
        bank: Any = ClassesOnly(np.repeat(np.arange(len(TAIL)), TAIL))
        assert list(BankSampler(bank, 8, mode="class_uniform", base_seed=5)) == [
            1458,
            1404,
            1457,
            626,
            1441,
            1453,
            1436,
            1458,
        ]

    def test_draws_from_any_place(self, tail: Any) -> None:
        sampler = BankSampler(tail, 40_000)
        whole = list(sampler)
        assert sampler.draws(16_000, 1_000).crops.tolist() == whole[16_000:17_000]

    @pytest.mark.parametrize("num_drawn", [0, 1, 777, 16_384, 20_000])
    @pytest.mark.parametrize("replicas", ["independent", "disjoint"])
    def test_resumed_is_as_uninterrupted(self, num_drawn: int, replicas: Any, tail: Any) -> None:
        def fresh() -> BankSampler:
            return BankSampler(tail, 20_000, rank=1, num_replicas=3, replicas=replicas)

        whole = epochs(fresh())
        stopped = fresh()
        stopped.set_epoch(1)
        iterator = iter(stopped)
        assert [next(iterator) for _ in range(num_drawn)] == whole[1][:num_drawn]
        resumed = fresh()
        resumed.load_state_dict(stopped.state_dict())
        resumed.set_epoch(1)  # a training loop calls it before each epoch
        assert (resumed.state_dict()["epoch"], resumed.state_dict()["num_drawn"]) == (1, num_drawn)
        assert list(resumed) == whole[1][num_drawn:]
        resumed.set_epoch(2)
        assert list(resumed) == whole[2]

    def test_the_number_that_a_loop_used(self, tail: Any) -> None:
        """Workers draw ahead, so it may be less than what was handed out."""
        sampler = BankSampler(tail, 100)
        whole = list(sampler)
        sampler.load_state_dict(sampler.state_dict(num_drawn=30))
        assert list(sampler) == whole[30:]
        sampler.set_epoch(0)
        assert list(sampler) == whole

    def test_a_place_out_of_the_epoch(self, tail: Any) -> None:
        sampler = BankSampler(tail, 10)
        for num_drawn in (11, -1):
            with pytest.raises(ValueError, match=f"num_drawn from 0 to 10, got {num_drawn}"):
                sampler.load_state_dict(sampler.state_dict(num_drawn))

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"base_seed": 1}, "base_seed is 1 in the state and 0 here"),
            ({"mode": "class_uniform"}, "mode is 'class_uniform' in the state and 'repeat_factor' here"),
            ({"threshold": 0.5}, "threshold is 0.5 in the state and None here"),
            ({"num_samples": 9}, "num_samples is 9 in the state and 50 here"),
            ({"replicas": "disjoint"}, "replicas is 'disjoint' in the state"),
            ({"rank": 0, "num_replicas": 2}, "num_replicas is 2 in the state and 1 here"),
        ],
        ids=str,
    )
    def test_a_state_of_another_run(self, change: dict[str, Any], named: str, tail: Any) -> None:
        state = BankSampler(tail, **{"num_samples": 50, **change}).state_dict()
        sampler = BankSampler(tail, 50)
        with pytest.raises(
            ValueError, match=f"BankSampler: expected the state of a run with the same settings, got .*{named}"
        ):
            sampler.load_state_dict(state)
        assert list(sampler) == list(BankSampler(tail, 50))

    def test_a_state_of_another_bank(self, tail: Any, tmp_path: Path) -> None:
        other = write_bank(tmp_path / "bank", [0, 0, 1])
        with pytest.raises(ValueError, match=f"bank is '{other.version[:40]}.* in the state and '{tail.version[:40]}"):
            BankSampler(tail, 3).load_state_dict(BankSampler(other, 3).state_dict())


class TestReplicas:
    def test_independent_replicas_differ(self, tail: Any) -> None:
        found = [tuple(BankSampler(tail, 50, rank=rank, num_replicas=4)) for rank in range(4)]
        assert len(set(found)) == 4
        assert found[2] == tuple(BankSampler(tail, 50, rank=2, num_replicas=9))

    @pytest.mark.parametrize("num_replicas", [1, 2, 3, 4, 5])
    def test_disjoint_replicas_share_one_sequence(self, num_replicas: int, tail: Any) -> None:
        total = 60 * 500
        own = [
            list(BankSampler(tail, total // num_replicas, rank=rank, num_replicas=num_replicas, replicas="disjoint"))
            for rank in range(num_replicas)
        ]
        assert {len(drawn) for drawn in own} == {total // num_replicas}
        alone = list(BankSampler(tail, total, rank=0, num_replicas=1, replicas="disjoint"))
        assert [crop for turn in zip(*own, strict=True) for crop in turn] == alone
        assert Counter(crop for drawn in own for crop in drawn) == Counter(alone)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"rank": 2, "num_replicas": 2}, "0 <= rank < num_replicas, got 2 and 2"),
            ({"rank": -1, "num_replicas": 2}, "got -1 and 2"),
            ({"rank": 1}, "both rank and num_replicas or neither"),
            ({"num_replicas": 2}, "both rank and num_replicas or neither"),
            ({"replicas": "shared"}, "'independent' or 'disjoint', got 'shared'"),
            ({"num_samples": -1}, "num_samples: expected at least 0, got -1"),
            ({"base_seed": -1}, "0 <= base_seed"),
        ],
    )
    def test_bad_values(self, options: dict[str, Any], words: str, tail: Any) -> None:
        with pytest.raises(ValueError, match=words):
            BankSampler(tail, **options)

    @pytest.mark.parametrize("wrong", ["path", Path("path"), 5, None], ids=repr)
    def test_something_else_than_a_bank(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"BankSampler: expected an instance bank, got .*open_bank\(path\)"):
            BankSampler(wrong)

    @pytest.mark.parametrize("num_samples", [2.5, True, "3"])
    def test_draws_that_are_no_number(self, num_samples: Any, tail: Any) -> None:
        with pytest.raises(TypeError, match="BankSampler: num_samples: expected an integer, got"):
            BankSampler(tail, num_samples)

    def test_bad_epoch(self, tail: Any) -> None:
        with pytest.raises(ValueError, match="0 <= epoch"):
            BankSampler(tail).set_epoch(-1)

    def test_an_empty_bank(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected a bank with crops"):
            BankSampler(write_bank(tmp_path / "bank", [], names=("cup",)))

    def test_place_of_torch_distributed(self, tail: Any, tmp_path: Path) -> None:
        """Two processes of a gloo group, as DistributedSampler is used."""
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        workers = [context.Process(target=_in_group, args=(tail, tmp_path / "store", r, results)) for r in range(2)]
        for worker in workers:
            worker.start()
        found = dict(results.get() for _ in workers)
        for worker in workers:
            worker.join(timeout=60)
            assert worker.exitcode == 0
        assert found == {r: list(BankSampler(tail, rank=r, num_replicas=2, replicas="disjoint")) for r in range(2)}


def _in_group(bank: Any, store: Path, rank: int, results: Any) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    results.put((rank, list(BankSampler(bank, replicas="disjoint"))))
    dist.barrier()
    dist.destroy_process_group()
