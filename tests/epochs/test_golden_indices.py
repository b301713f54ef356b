"""The indices of every sampler and loader equal those of golden_indices.json."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from index_digests import FILE, LABELS, NUM_REPLICAS, readers

from small_bank import small_bank

GOLDEN: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
NAMES = list(dict.fromkeys(name.rpartition("/")[0] for name in GOLDEN))


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[], list[str]]]:
    bank = small_bank(tmp_path_factory.mktemp("indices") / "bank", LABELS)
    return {name: first for name, first, _ in readers(bank)}


def test_every_reader_is_recorded(computed: dict[str, Callable[[], list[str]]]) -> None:
    assert list(computed) == list(GOLDEN)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_indices_are_the_same(name: str, computed: dict[str, Callable[[], list[str]]]) -> None:
    """The first seeds are compared; `index_digests` compares all."""
    keys = [f"{name}/{num_replicas}" for num_replicas in NUM_REPLICAS]
    assert {key: computed[key]() for key in keys} == {key: GOLDEN[key][:1] for key in keys}
