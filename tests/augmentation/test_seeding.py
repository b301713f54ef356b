"""`segpaste.seeding`: golden values, an independent np.uint64 version of every draw, and a look at the distribution."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import brute_force_draws
from segpaste import seeding
from segpaste.datasets import EpochDataLoader
from segpaste.samplers import ExhaustiveNxMSampler
from segpaste.seeding import derive_seed

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["scale", "hflip", "translate", "", "a name with spaces, and é"])
INDICES = st.lists(st.integers(-3, 2**40), max_size=3)


class TestDeriveSeed:
    @pytest.mark.parametrize(
        ("numbers", "expected"),
        [
            ((0, 0, 0, 0, 0), 0x8C833BF21DCE342C),
            ((1, 2, 3, 4, 5), 0xF64683CA46720DEA),
            ((42, 0, 0, 0, 7), 0xB68AB5ECA1103C7D),
            ((7, 0, 0, 0, 42), 0xE0AAABE1202CB02F),
            ((2**64 - 1,) * 5, 0xC553CFD70B0FCD6E),
        ],
    )
    def test_golden_values(self, numbers: tuple[int, ...], expected: int) -> None:
        assert seeding.derive_seed(*numbers) == expected

    @given(numbers=st.tuples(*[UINT64] * 5))
    def test_is_its_definition(self, numbers: tuple[int, ...]) -> None:
        digest = hashlib.sha256(struct.pack("<5Q", *numbers)).digest()
        assert seeding.derive_seed(*numbers) == struct.unpack("<Q", digest[:8])[0]

    @pytest.mark.parametrize("position", range(5))
    @pytest.mark.parametrize("value", [-1, 2**64, -(2**70)])
    def test_refuses_what_64_bits_cannot_hold(self, position: int, value: int) -> None:
        numbers = [0] * 5
        numbers[position] = value
        name = ("base_seed", "epoch", "rank", "worker_id", "sample_idx")[position]
        with pytest.raises(ValueError, match=rf"0 <= {name} < 2\*\*64, got {value}"):
            seeding.derive_seed(*numbers)

    @given(value=UINT64)
    def test_to_int64_keeps_the_bits(self, value: int) -> None:
        kept = seeding.to_int64(value)
        assert torch.tensor(kept, dtype=torch.int64).numpy().view(np.uint64) == np.uint64(value)
        assert seeding.to_int64(kept) == kept


class TestDraws:
    def test_mixes_like_the_published_generator(self) -> None:
        """The first five outputs of SplitMix64 from state 1234567."""
        golden, key = 0x9E3779B97F4A7C15, seeding.name_key("scale")
        states = [(1234567 + (i + 1) * golden) % 2**64 for i in range(5)]
        seeds = torch.tensor([seeding.to_int64(s) ^ key for s in states])
        published = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ]
        assert [b % 2**64 for b in seeding.random_bits(seeds, "scale").tolist()] == published

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((0, "scale"), 0x7A4807433B5BDC76),
            ((0, "scale", 0), 0xD395C612281FB7B0),
            ((1, "scale", 0), 0x27644C60BBCA958B),
            ((-1, "slot", 3, 7), 0xCF9395517D705501),
            ((2**63 - 1, "", 5), 0x726D33A227125161),
        ],
    )
    def test_golden_bits(self, arguments: tuple[int, str, int], expected: int) -> None:
        seed, name, *indices = arguments
        bits = seeding.random_bits(torch.tensor(seed), name, *(torch.tensor(i) for i in indices))
        assert int(bits) % 2**64 == expected

    @given(seed=INT64, name=NAMES, indices=INDICES, low=st.integers(-(2**30), 2**30), span=st.integers(-2, 2**31 - 1))
    def test_equal_the_uint64_writing(self, seed: int, name: str, indices: list[int], low: int, span: int) -> None:
        seeds, tensors = torch.tensor([seed]), [torch.tensor(i) for i in indices]
        assert int(seeding.random_bits(seeds, name, *tensors)) % 2**64 == brute_force_draws.bits(seed, name, *indices)
        assert int(seeding.random_u32(seeds, name, *tensors)) == brute_force_draws.u32(seed, name, *indices)
        both = seeding.random_u32_together((seeds, name), (seeds, "share"))
        assert [int(found) for found in both] == [brute_force_draws.u32(seed, key) for key in (name, "share")]
        high = low + span - 1
        expected = brute_force_draws.integer(seed, name, low, high, *indices)
        for bounds in ((low, high), (torch.tensor(low), torch.tensor(high))):
            assert int(seeding.random_integers(seeds, name, *bounds, *tensors)) == expected

    @pytest.mark.parametrize("probability", [0.0, 1e-9, 0.3, 0.5, 0.9999, 1.0])
    def test_bernoulli_equals_the_uint64_writing(self, probability: float) -> None:
        seeds = torch.arange(-50, 50)
        drawn = seeding.random_bernoulli(seeds, "paste", probability, torch.tensor(2))
        assert drawn.dtype == torch.bool
        expected = [brute_force_draws.bernoulli(s, "paste", probability, 2) for s in range(-50, 50)]
        assert drawn.tolist() == expected
        if probability in (0.0, 1.0):
            assert set(expected) == {bool(probability)}

    @given(seeds=st.lists(INT64, min_size=1, max_size=9), num=st.integers(1, 9))
    def test_do_not_depend_on_their_neighbours(self, seeds: list[int], num: int) -> None:
        """Any batch size, any order, any number of indices."""
        layers = torch.arange(num)
        whole = seeding.random_bits(torch.tensor(seeds)[:, None], "scale", layers)
        rows = torch.randperm(len(seeds), generator=torch.Generator().manual_seed(len(seeds)))
        shuffled = seeding.random_bits(torch.tensor(seeds)[rows, None], "scale", layers)
        assert torch.equal(shuffled, whole[rows])
        alone = seeding.random_bits(torch.tensor(seeds[:1])[:, None], "scale", layers[:1])
        assert torch.equal(alone, whole[:1, :1])
        twice = seeding.random_bits(torch.tensor(seeds)[:, None], "scale", torch.arange(num + 5))
        assert torch.equal(twice[:, :num], whole)

    def test_compiled_equals_the_uint64_writing(self) -> None:
        def draws(seeds: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, ...]:
            rows, columns = torch.arange(4), torch.arange(3)[:, None]
            wide = seeds[:, None, None]
            return (
                seeding.random_bits(wide, "slot", columns, rows),
                seeding.random_integers(wide, "translate", low, high, columns, rows),
                seeding.random_bernoulli(seeds, "paste", 0.4),
            )

        seeds = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 1234567, -987654321])
        low, high = torch.tensor([-7, 0, 5, 100]), torch.tensor([-3, 0, 4, 2**31 + 98])
        for function in (draws, torch.compile(draws, fullgraph=True)):
            bits, integers, hits = function(seeds, low, high)
            for b, seed in enumerate(seeds.tolist()):
                assert bool(hits[b]) == brute_force_draws.bernoulli(seed, "paste", 0.4)
                for j, k in np.ndindex(3, 4):
                    assert int(bits[b, j, k]) % 2**64 == brute_force_draws.bits(seed, "slot", j, k)
                    bounds = int(low[k]), int(high[k])
                    expected = brute_force_draws.integer(seed, "translate", *bounds, j, k)
                    assert int(integers[b, j, k]) == expected


class TestDistribution:
    """Consecutive seeds and indices, the worst that users give, look uniform and independent."""

    SEEDS = torch.arange(20_000)

    def test_leading_and_trailing_bits(self) -> None:
        bits = seeding.random_bits(self.SEEDS, "scale").numpy().view(np.uint64)
        for shift in (0, 30, 58):
            assert_uniform(np.bincount((bits >> np.uint64(shift)) & np.uint64(63), minlength=64))

    def test_over_indices(self) -> None:
        values = seeding.random_integers(torch.tensor(5), "scale", 0, 16, torch.arange(20_000))
        assert_uniform(np.bincount(values, minlength=17))

    @pytest.mark.parametrize("num", [2, 7, 100])
    def test_integers(self, num: int) -> None:
        values = seeding.random_integers(self.SEEDS, "count", -3, num - 4)
        assert_uniform(np.bincount(values + 3, minlength=num))

    def test_bernoulli(self) -> None:
        hits = int(seeding.random_bernoulli(self.SEEDS, "hflip", 0.3).sum())
        assert_uniform(np.array([hits, 20_000 - hits]), np.array([0.3, 0.7]))

    @pytest.mark.parametrize(
        ("one", "other"),
        [(("a", 0), ("b", 0)), (("a", 0), ("a", 1)), (("a", 1, 2), ("a", 2, 1)), (("a", 0, 0), ("a", 0))],
    )
    def test_independent(self, one: tuple[str, int], other: tuple[str, int]) -> None:
        """Two draws of one seed: other names, other indices, indices exchanged, one index more."""
        x, y = (
            seeding.random_integers(self.SEEDS, name, 0, 7, *(torch.tensor(i) for i in indices))
            for name, *indices in (one, other)
        )
        assert_uniform(np.bincount(8 * x + y, minlength=64))


def test_to_int64_at_the_sign_bit() -> None:
    assert [seeding.to_int64(2**63 + n) for n in (-1, 0)] == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(("probability", "want"), [(0.0, [0, 0, 0, 0]), (0.5, [1, 1, 0, 0]), (1.0, [1, 1, 1, 1])])
def test_bernoulli_at_its_threshold(probability: float, want: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    bits = torch.tensor([0, 2**31 - 1, 2**31, 2**32 - 1])
    monkeypatch.setattr(seeding, "random_u32", lambda *_: bits)
    assert seeding.random_bernoulli(torch.zeros(4, dtype=torch.int64), "paste", probability).tolist() == want


@pytest.mark.parametrize("seed", [1.5, "1", None])
def test_what_is_no_integer_is_an_error_that_names_the_argument(seed: Any) -> None:
    """Every argument that gives a run's seed is checked."""
    for make in (
        lambda: derive_seed(seed, 0, 0, 0, 0),
        lambda: ExhaustiveNxMSampler([0, 1], 1, 1, base_seed=seed),
        lambda: EpochDataLoader([], batch_size=1, base_seed=seed),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=f"expected an integer as base_seed, .* got {seed!r}"):
            make()


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_numpy_draws_the_same_bits(seed: int) -> None:
    first, second = np.arange(-3, 5, dtype=np.int64)[:, None], np.array([0, 2**62], np.int64)
    seeds = torch.tensor(seeding.to_int64(seed))
    for indices in ((), (first,), (first, second)):
        bits = seeding.random_bits_numpy(seed, "a name", *indices)
        expected = seeding.random_bits(seeds, "a name", *map(torch.from_numpy, indices))
        assert bits.dtype == np.uint64
        assert bits.view(np.int64).tolist() == expected.tolist()
    for place in ((), (0,), (5, 2**62), (2**64 - 3,)):
        numbers = [torch.tensor(seeding.to_int64(number)) for number in place]
        assert (
            seeding.random_bits_of(seed, "a name", *place)
            == int(seeding.random_bits(seeds, "a name", *numbers)) % 2**64
        )
