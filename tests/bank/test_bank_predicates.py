"""Predicates of the loader: by crop or by column; they keep the classes' shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import write_bank
from bank_loader_cases import EvenPhotos, crop_idx, is_even, mixed_bank
from numpy.typing import NDArray

from segpaste.bank import BankError, Crop, CropPredicate, create_bank_dataloader
from segpaste.bank.read.predicates import walk


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return mixed_bank(tmp_path_factory.mktemp("loader") / "bank")


class NoWoks:
    reads = ("class_id",)

    def accept(self, columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        return columns["class_id"] != 3


class TestPredicates:
    @pytest.mark.parametrize("predicate", [is_even, EvenPhotos()], ids=["function", "columns"])
    def test_only_accepted_crops_and_every_class_keeps_its_draws(self, predicate: Any, bank: Any) -> None:
        options: dict[str, Any] = {"batch_size": 20, "steps": 200, "mode": "class_uniform"}
        plain = create_bank_dataloader(bank, **options)
        loader = create_bank_dataloader(bank, **options, predicate=predicate)
        ids, classes = np.array(crop_idx(list(loader))), bank.crop_class_ids()
        before = np.array(crop_idx(list(plain)))
        assert (ids % 2 == 0).all()
        np.testing.assert_array_equal(classes[ids], classes[before])
        np.testing.assert_array_equal(ids[before % 2 == 0], before[before % 2 == 0])
        assert loader.stats.num_drawn == plain.stats.num_drawn == tuple(np.bincount(classes[ids]).tolist())
        assert plain.stats.num_rejected == (0, 0, 0, 0)

    def test_uniform_over_what_is_accepted(self, bank: Any) -> None:
        """Chi-square over all accepted crops, five standard deviations; of classes below and above max_tries."""
        loader = create_bank_dataloader(
            bank, batch_size=500, steps=80, mode="class_uniform", predicate=EvenPhotos(), max_tries=30
        )
        drawn = np.bincount(crop_idx(list(loader)), minlength=len(bank))
        classes, even = bank.crop_class_ids(), np.arange(len(bank)) % 2 == 0
        num = np.bincount(classes[even], minlength=4)
        assert (num > 0).all()
        wanted = (40_000 / 4 / num)[classes[even]]
        degrees = len(wanted) - 1
        assert ((drawn[even] - wanted) ** 2 / wanted).sum() < degrees + 5 * np.sqrt(2 * degrees)

    def test_rejections_are_counted(self, bank: Any) -> None:
        seen: list[int] = []

        def odd_cups(crop: Crop) -> bool:
            assert crop.image_id is not None
            accepted = crop.class_id != 0 or crop.image_id % 2 == 1
            if not accepted:
                seen.append(crop.class_id)
            return accepted

        loader = create_bank_dataloader(bank, batch_size=10, steps=30, predicate=odd_cups)
        list(loader)
        assert loader.stats.num_rejected == (len(seen), 0, 0, 0)
        assert len(seen) > 50

    def test_a_walk_knows_nothing_of_its_batch(self, bank: Any) -> None:
        one = create_bank_dataloader(bank, batch_size=30, steps=4, predicate=is_even)
        other = create_bank_dataloader(bank, batch_size=2, crops_per_target=5, steps=12, predicate=is_even)
        assert crop_idx(list(one)) == crop_idx(list(other))

    def test_a_walk_knows_nothing_of_the_replicas(self, bank: Any) -> None:
        """The replicas share one sequence."""
        options: dict[str, Any] = {"batch_size": 5, "predicate": is_even, "replicas": "disjoint"}
        alone = crop_idx(list(create_bank_dataloader(bank, steps=6, rank=0, num_replicas=1, **options)))
        own = [crop_idx(list(create_bank_dataloader(bank, steps=3, rank=r, num_replicas=2, **options))) for r in (0, 1)]
        assert [crop for turn in zip(*own, strict=True) for crop in turn] == alone

    def test_the_same_crop_is_replaced_by_several(self, bank: Any) -> None:
        plain = crop_idx(list(create_bank_dataloader(bank, batch_size=50, steps=20)))
        replaced = crop_idx(list(create_bank_dataloader(bank, batch_size=50, steps=20, predicate=is_even)))
        index = next(crop for crop in plain if crop % 2 and bank[crop].class_id == 0)
        others = {new for old, new in zip(plain, replaced, strict=True) if old == index}
        assert len(others) > 3

    @pytest.mark.parametrize("num_workers", [0, 1])
    @pytest.mark.parametrize(
        ("max_tries", "tried"), [(2, "tried 2 of them, drawn from 3"), (3, "tried all 3"), (100, "tried all 3")]
    )
    def test_giving_up_says_what_was_tried(self, max_tries: int, tried: str, num_workers: int, bank: Any) -> None:
        loader = create_bank_dataloader(
            bank, batch_size=9, mode="class_uniform", predicate=NoWoks(), max_tries=max_tries, num_workers=num_workers
        )
        with pytest.raises(BankError) as caught:
            list(loader)
        assert "expected a crop of class 'wok' that it accepts" in str(caught.value)
        assert tried in str(caught.value)
        assert "\n" not in str(caught.value)
        assert loader.stats.num_rejected[:3] == (0, 0, 0)
        assert loader.stats.num_rejected[3] > 0

    def test_a_class_that_is_rejected_but_never_drawn(self, tmp_path: Path) -> None:
        rare = write_bank(tmp_path / "bank", [0] * 3000 + [1])
        assert len(list(create_bank_dataloader(rare, batch_size=1, steps=3, predicate=_is_first_class))) == 3

    def test_a_column_that_is_not_there(self, bank: Any) -> None:
        class Near:
            reads = ("embedding",)

            def accept(self, columns: Any) -> Any:
                raise AssertionError

        assert isinstance(Near(), CropPredicate)
        with pytest.raises(ValueError, match="expected a bank with embedding, got one with image, alpha"):
            create_bank_dataloader(bank, batch_size=2, predicate=Near())

    def test_an_answer_of_another_shape(self, bank: Any) -> None:
        class OneForAll:
            reads = ("class_id",)

            def accept(self, columns: Any) -> Any:
                return True

        with pytest.raises(ValueError, match=r"expected accept to return bool \[2\], got bool \[\]"):
            list(create_bank_dataloader(bank, batch_size=2, predicate=OneForAll()))

    def test_walks(self) -> None:
        places = walk(3, np.array([0, 1, 2]), np.array([4, 100, 10]), 10)
        assert sorted(places[0, :4].tolist()) == [0, 1, 2, 3]
        assert sorted(places[2].tolist()) == list(range(10))
        assert places[1].max() < 100
        assert len(set(places[1].tolist())) > 5
        np.testing.assert_array_equal(walk(3, np.array([2]), np.array([10]), 10), places[2:])


def _is_first_class(crop: Crop) -> bool:
    return crop.class_id == 0
