"""Arguments that the samplers of N classes accept and reject, what they report, and their use in loaders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nxm_cases import BOTH, LABELS, TAIL
from torch.utils.data import DataLoader, TensorDataset

from fresh_process import fresh_output
from segpaste.samplers import ExhaustiveNxMSampler, LeftOut, NxMSampler, RandomNxMSampler, epoch_batches


class TestLabels:
    def test_anything_that_has_classes(self) -> None:
        expected = list(ExhaustiveNxMSampler(LABELS, 2, 2))
        dataset = TensorDataset(LABELS)
        dataset.targets = LABELS  # type: ignore[attr-defined]
        named = [["bee", "cat", "dog"][i] for i in LABELS.tolist()]
        words = np.array(named, object)
        numbers = (LABELS.tolist(), LABELS.numpy(), LABELS.to(torch.uint8), tuple(LABELS.tolist()), dataset)
        numbers += LABELS.numpy().astype(object), list(LABELS), list(LABELS.numpy())
        scalars = np.empty(len(LABELS), object)
        scalars[:] = list(LABELS)
        numbers += (scalars,)
        for labels in (*numbers, named, words):
            assert list(ExhaustiveNxMSampler(labels, 2, 2)) == expected

    @pytest.mark.parametrize(
        ("labels", "got"),
        [
            (["a", None, "b"], "NoneType None at position 1"),
            ([1, 0, None], "NoneType None at position 2"),
            (["a", 1, "b"], "int 1 at position 1"),
            ([0, "a", 1], "str 'a' at position 1"),
            ([0, 1.5, 1], r"float 1\.5 at position 1"),
            ([0, 1 << 70, 1], "more than 64 bits"),
        ],
    )
    def test_objects_that_are_no_classes(self, labels: list[Any], got: str) -> None:
        with pytest.raises(ValueError, match=got):
            ExhaustiveNxMSampler(np.array(labels, object), 2, 2)

    def test_a_dataset_that_calls_something_else_labels(self) -> None:
        """Such labels may be class names; the attribute with one entry per sample is taken."""
        dataset = TensorDataset(LABELS)
        dataset.labels = ["bee", "cat", "dog"]  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=r"expected as many as the 10 samples of the TensorDataset, got 3 in its"):
            ExhaustiveNxMSampler(dataset, 2, 2)
        dataset.targets = LABELS  # type: ignore[attr-defined]
        assert list(ExhaustiveNxMSampler(dataset, 2, 2)) == list(ExhaustiveNxMSampler(LABELS, 2, 2))

    def test_bank(self) -> None:
        class Bank:
            def crop_class_ids(self) -> np.ndarray[Any, Any]:
                return LABELS.numpy()

        assert list(ExhaustiveNxMSampler(Bank(), 2, 2)) == list(ExhaustiveNxMSampler(LABELS, 2, 2))

    @pytest.mark.parametrize(
        ("labels", "got"),
        [
            ([0.5, 1.5], "list of shape [2] and dtype float64"),
            (torch.zeros(3), "Tensor of shape [3] and dtype float32"),
            (torch.zeros(3, 1, dtype=torch.int64), "Tensor of shape [3, 1] and dtype int64"),
            ([], "list of shape [0]"),
            (np.zeros(0, np.int64), "none"),
            ([[0], [1, 2]], "list (setting an array element"),
            (None, "NoneType"),
            (TensorDataset(torch.zeros(3)), "TensorDataset"),
            ([0, None], "the NoneType None at position 1"),
            ([0, "a", "a"], "both in one list"),
            (torch.zeros(3, dtype=torch.complex64), "Tensor of shape [3] and dtype complex64"),
            ([["a", "b"]], "list of shape [1, 2] and dtype <U1"),
        ],
    )
    def test_others_are_refused(self, labels: Any, got: str) -> None:
        with pytest.raises(ValueError, match=r"ExhaustiveNxMSampler: labels: expected the class of each sample") as e:
            ExhaustiveNxMSampler(labels, 2, 2)
        assert f"got {got}" in str(e.value)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"N_classes_per_batch": 4}, "expected at least N = 4 classes, as many as a batch has, got 3"),
            ({"N_classes_per_batch": 0}, "expected integers, at least one class in a batch"),
            ({"N_classes_per_batch": 2.0}, "one sample of each, got N = 2.0 and M = 2"),
            ({"N_classes_per_batch": True}, "one sample of each, got N = True and M = 2"),
            ({"M_samples_per_class": 0}, "one sample of each, got N = 2 and M = 0"),
            ({"M_samples_per_class": "2"}, "one sample of each, got N = 2 and M = '2'"),
            ({"batch_size": 5}, "expected a batch size of N * M = 2 * 2 = 4, got 5"),
            ({"rank": 2, "num_replicas": 2}, "expected integers 0 <= rank < num_replicas, got 2 and 2"),
            ({"rank": 0.5, "num_replicas": 2}, "expected integers 0 <= rank < num_replicas, got 0.5 and 2"),
            ({"rank": 0, "num_replicas": 2.5}, "expected integers 0 <= rank < num_replicas, got 0 and 2.5"),
            ({"rank": 1}, "expected both rank and num_replicas or neither"),
            ({"base_seed": -1}, "NxMSampler: expected 0 <= base_seed"),
        ],
    )
    @pytest.mark.parametrize("sampler_type", BOTH)
    def test_refused(self, sampler_type: type[NxMSampler], arguments: dict[str, Any], message: str) -> None:
        given_ = {"N_classes_per_batch": 2, "M_samples_per_class": 2} | arguments
        with pytest.raises(ValueError, match=re.escape(message)):
            sampler_type(LABELS, **given_)

    @pytest.mark.parametrize("num_drawn", [-4, 3, 16])
    def test_foreign_state(self, num_drawn: int) -> None:
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        with pytest.raises(ValueError, match=f"expected num_drawn from 0 to 12 in steps of 4, got {num_drawn}"):
            sampler.load_state_dict(sampler.state_dict(num_drawn))

    @pytest.mark.parametrize(
        "change",
        [
            {"labels": LABELS.flip(0)},
            {"N_classes_per_batch": 1, "M_samples_per_class": 4},
            {"shuffle": False},
            {"drop_last": False},
            {"base_seed": 1},
            {"rank": 0, "num_replicas": 2},
        ],
        ids=str,
    )
    def test_state_of_another_sampler(self, change: dict[str, Any]) -> None:
        given_: dict[str, Any] = {"labels": LABELS, "N_classes_per_batch": 2, "M_samples_per_class": 2}
        state = ExhaustiveNxMSampler(**given_).state_dict(0)
        ExhaustiveNxMSampler(**given_).load_state_dict(state)
        other = ExhaustiveNxMSampler(**(given_ | change))
        for name in change:
            named = "num_replicas" if name == "rank" else name
            with pytest.raises(
                ValueError, match=f"expected the state of a run with the same settings, got one in which .*{named} is "
            ):
                other.load_state_dict(state)
        for wrong in ({}, {"epoch": 0, "num_drawn": 0}, None, 5):
            with pytest.raises(ValueError, match="expected a state that its own state_dict returned, got"):
                other.load_state_dict(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="sampler is 'ExhaustiveNxMSampler' in the state and 'RandomNxM"):
            RandomNxMSampler(**given_).load_state_dict(state)

    def test_state_is_json(self) -> None:
        sampler = ExhaustiveNxMSampler(LABELS, np.int64(2), np.int32(2))  # type: ignore[arg-type]
        assert json.loads(json.dumps(sampler.state_dict(np.int64(4)))) == sampler.state_dict(4)  # type: ignore[arg-type]

    def test_state_is_that_of_every_replica(self) -> None:
        states = [ExhaustiveNxMSampler(LABELS, 2, 2, rank=rank, num_replicas=2).state_dict(4) for rank in range(2)]
        assert states[0] == states[1]

    def test_a_pass_begins_when_its_first_index_is_drawn(self) -> None:
        sampler, expected = ExhaustiveNxMSampler(TAIL, 4, 1), ExhaustiveNxMSampler(TAIL, 4, 1)
        iterators = [iter(sampler), (i for batch in iter(sampler.batch_sampler()) for i in batch)]
        sampler.set_epoch(1)
        expected.set_epoch(1)
        assert [list(iterator) for iterator in iterators] == [list(expected)] * 2

    @pytest.mark.parametrize("go_on", ["set_epoch", "load_state_dict", "iter"])
    def test_an_iteration_that_was_left_does_not_count(self, go_on: str) -> None:
        sampler = ExhaustiveNxMSampler(TAIL, 4, 1)
        left = iter(sampler)
        assert len([next(left) for _ in range(5)]) == 5
        if go_on == "set_epoch":
            sampler.set_epoch(1)
            sampler.set_epoch(0)
        elif go_on == "load_state_dict":
            sampler.load_state_dict(sampler.state_dict(num_drawn=0))
        else:
            next(iter(sampler))
        assert len([next(left) for _ in range(5)]) == 5
        assert sampler.state_dict()["num_drawn"] == 0

    @pytest.mark.parametrize("seed", [-1, 1 << 64])
    def test_seed_out_of_range(self, seed: int) -> None:
        with pytest.raises(ValueError, match=rf"expected 0 <= seed < 2\*\*64, got {seed}"):
            epoch_batches(LABELS, 2, 2, seed=seed)

    def test_attributes(self) -> None:
        sampler = ExhaustiveNxMSampler(["dog", "bee", "dog", "cat"], 2, 3, rank=1, num_replicas=2)
        assert sampler.classes.tolist() == ["bee", "cat", "dog"]
        assert (sampler.num_samples, sampler.batch_size, sampler.rank, sampler.num_replicas) == (4, 6, 1, 2)

    def test_base_is_refused(self) -> None:
        with pytest.raises(TypeError, match="use one of its subclasses"):
            NxMSampler(LABELS, 2, 2)

    def test_negative_epoch(self) -> None:
        with pytest.raises(ValueError, match="0 <= epoch"):
            ExhaustiveNxMSampler(LABELS, 2, 2).set_epoch(-1)


class TestReport:
    def test_classes_that_are_left_out(self) -> None:
        """A random sampler reports classes in no batch, not the samples beyond the M that it draws of a class."""
        left_out = RandomNxMSampler([0] * 9 + [1] * 9 + [2] * 4, 2, 2, shuffle=False).report().left_out
        assert left_out == ((2, 4, 4),)
        assert RandomNxMSampler(TAIL, 5, 1).report().left_out == ()
        report = ExhaustiveNxMSampler(TAIL, 4, 1).report()
        assert report.left_out == (LeftOut(label=0, num_samples=100, num_left_out=88),)
        assert str(report).endswith("left out           88 of 100 samples of class 0")

    def test_repeats(self) -> None:
        """One sample of six is taken a second time; the batch that is repeated for a replica is not counted."""
        sampler = ExhaustiveNxMSampler([0, 0, 0, 1, 2], 2, 1, drop_last=False, rank=0, num_replicas=2)
        report = sampler.report()
        assert (report.num_batches, report.num_repeated_batches) == (3, 1)
        assert (report.num_covered, report.num_repeats) == (5, 1)


class TestLoaders:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_batches_of_a_loader(self, num_workers: int) -> None:
        """As a sampler with the batch size, and as a batch sampler, a loader gives the same batches."""
        dataset = TensorDataset(torch.arange(10))
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        expected = sampler.epoch_batches().tolist()
        sampler.set_epoch(0)
        for options in ({"sampler": sampler, "batch_size": 4}, {"batch_sampler": sampler.batch_sampler()}):
            loader = DataLoader(dataset, num_workers=num_workers, **options)  # type: ignore[arg-type]
            assert len(loader) == 3
            assert [batch.tolist() for (batch,) in loader] == expected

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_sampler": None}, "got this sampler of indices; write .*batch_sampler=sampler.batch_sampler"),
            ({"sampler": None, "batch_size": 3}, "expected batch_size=4.* got 3; write .*sampler.batch_sampler"),
            ({"sampler": None}, "expected batch_size=4.* got 1; write"),
        ],
    )
    def test_a_loader_that_reads_it_otherwise_is_told_what_to_write(
        self, options: dict[str, Any], message: str
    ) -> None:
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        given = {name: sampler if value is None else value for name, value in options.items()}
        with pytest.raises(ValueError, match=message):
            next(iter(DataLoader(TensorDataset(LABELS), **given)))
        assert len(next(iter(DataLoader(TensorDataset(LABELS), batch_sampler=sampler.batch_sampler())))[0]) == 4
        assert next(iter(DataLoader(TensorDataset(LABELS), sampler=sampler, batch_size=None)))[0].ndim == 0

    @pytest.mark.parametrize("drop_last", [False, True])
    def test_a_batch_sampler_has_the_attributes_of_torchs(self, drop_last: bool) -> None:
        """Frameworks read them: no batch is short, also where the sampler takes classes again."""
        batches = ExhaustiveNxMSampler(LABELS, 2, 2, drop_last=drop_last).batch_sampler()
        assert (batches.batch_size, batches.drop_last) == (4, True)
        assert all(len(batch) == batches.batch_size for batch in batches)

    @pytest.mark.parametrize("num_workers", [0, 1])
    @pytest.mark.parametrize("how", ["sampler", "batch_sampler", "one by one"])
    def test_going_on(self, how: str, num_workers: int) -> None:
        """A loader with workers asks for two iterators, and uses the second; the next pass is the next epoch."""
        dataset = TensorDataset(torch.arange(10))
        expected = ExhaustiveNxMSampler(LABELS, 2, 2)
        epochs = [list(expected) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        options: dict[str, Any] = {
            "sampler": {"sampler": sampler, "batch_size": 4},
            "batch_sampler": {"batch_sampler": sampler.batch_sampler()},
            "one by one": {"sampler": sampler, "batch_size": None},
        }[how]
        loader = DataLoader(dataset, num_workers=num_workers, persistent_workers=num_workers > 0, **options)
        for epoch, num_drawn in ((0, 8), (1, 4)):
            sampler.load_state_dict(sampler.state_dict(num_drawn))
            assert torch.cat([batch.reshape(-1) for (batch,) in loader]).tolist() == epochs[epoch][num_drawn:]
            assert torch.cat([batch.reshape(-1) for (batch,) in loader]).tolist() == epochs[epoch + 1]
            assert (sampler.state_dict()["epoch"], sampler.state_dict()["num_drawn"]) == (epoch + 1, 12)


def test_torch_distributed_says_which_replica(tmp_path: Path) -> None:
    """Two real processes on gloo, each alone on its machine: the global rank, not the one on the machine."""
    code = f"""
import datetime, os, torch.distributed as dist
from segpaste.samplers import ExhaustiveNxMSampler
rank = int(os.fork() == 0)
os.environ["LOCAL_RANK"] = "0"
meet = {{"init_method": "file://{tmp_path}/ranks", "timeout": datetime.timedelta(seconds=60)}}
dist.init_process_group("gloo", rank=rank, world_size=2, **meet)
indices = list(ExhaustiveNxMSampler([0] * 5 + [1] * 3 + [2] * 2, 2, 2, shuffle=False))
os.write(1, f"{{dist.get_rank()}} {{indices}}\\n".encode())  # at once, for both write into one file
dist.destroy_process_group()
if rank:
    os._exit(0)
assert os.wait()[1] == 0
"""
    lines = sorted(fresh_output(code).splitlines())
    assert lines == ["0 [0, 1, 5, 6, 7, 5, 4, 0]", "1 [8, 9, 2, 3, 0, 1, 5, 6]"]
