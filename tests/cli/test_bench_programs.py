"""Timing helpers of `segpaste bench`: turns, ratios, growth, batches, peers; no test asserts on a time."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from segpaste import PaddedBatchedDenseSample
from segpaste.cli import bench

PROGRAMS = bench.load_programs()
(
    bank_reads,
    batches,
    detector,
    device,
    device_goals,
    device_steps,
    growth,
    loading,
    pasting,
    peers,
    plan,
    plots,
    programs,
    report,
    stand_ins,
    step,
    suite,
    timing,
) = (
    importlib.import_module(f"{PROGRAMS}.{name}")
    for name in (
        "bank_reads",
        "batches",
        "detector",
        "device",
        "device_goals",
        "device_steps",
        "growth",
        "loading",
        "pasting",
        "peers",
        "plan",
        "plots",
        "programs",
        "report",
        "stand_ins",
        "step",
        "suite",
        "timing",
    )
)

PEER_NAMES = [peer.name for peer in peers.PEERS]


def summary(median: float) -> dict[str, float]:
    return {"median_ms": median, "low_ms": median / 2, "high_ms": median * 3}


def same(one: PaddedBatchedDenseSample, other: PaddedBatchedDenseSample) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tree_leaves(one), tree_leaves(other), strict=True))


class TestTiming:
    def test_all_are_called_in_every_round_and_their_inputs_made_before(self) -> None:
        log: list[str] = []

        def contender(name: str) -> Any:
            return timing.Contender(lambda given: log.append(f"{name}{given}"), lambda: log.append(f"fresh {name}"))

        found = timing.in_turns({"a": contender("a"), "b": contender("b")}, rounds=3, warm_up=1)
        assert {name: len(values) for name, values in found.items()} == {"a": 3, "b": 3}
        assert log[:4] == ["fresh a", "aNone", "fresh b", "bNone"]
        for start in range(4, 16, 4):
            assert log[start : start + 2] == ["fresh a", "fresh b"]
            assert sorted(log[start + 2 : start + 4]) == ["aNone", "bNone"]

    def test_only_the_call_is_timed(self) -> None:
        inside: list[str] = []

        def clock(function: Any) -> float:
            before = len(inside)
            function()
            return float(len(inside) - before)

        busy = timing.Contender(lambda _: inside.append("call"), lambda: inside.extend(["fresh"] * 5))
        assert timing.in_turns({"busy": busy}, rounds=4, clock=clock) == {"busy": [1.0] * 4}

    def test_inputs_rotate(self) -> None:
        seen: list[int] = []
        one = timing.rotating([timing.Contender(seen.append, lambda i=i: i) for i in range(3)])
        timing.in_turns({"one": one}, rounds=4, warm_up=1)
        assert seen == [0, 1, 2, 0, 1]

    def test_summary_is_median_and_middle_half(self) -> None:
        assert timing.summary([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median_ms": 3.0, "low_ms": 2.0, "high_ms": 4.0}
        assert timing.summary([7.0]) == {"median_ms": 7.0, "low_ms": 7.0, "high_ms": 7.0}

    def test_ratio_is_of_the_medians(self) -> None:
        of, to = {"median_ms": 6.0, "low_ms": 4.0, "high_ms": 9.0}, {"median_ms": 2.0, "low_ms": 1.0, "high_ms": 8.0}
        assert timing.ratio(of, to) == (3.0, 2.0, 4.5)

    @pytest.mark.parametrize("power", [-1.0, 0.0, 0.5, 1.0, 2.0])
    def test_growth_exponent(self, power: float) -> None:
        assert timing.growth_exponent([(x, 3 * x**power) for x in (1, 2, 5, 11)]) == pytest.approx(power)


class TestPeers:
    def test_not_installed(self) -> None:
        install = "pip install 'no-such-package>=1'"
        peer = peers.Peer("Nobody", ".nobody:prepare", "anything", ("no-such-package",), install)
        found, skipped = peers.prepared(batches.random_boxes(2, 48, 3, torch.uint8), [peer])
        assert found == {}
        assert skipped == {"Nobody": f"no-such-package is not installed; {install}"}

    def test_does_not_import(self) -> None:
        peer = peers.Peer("Nobody", ".nobody:prepare", "anything", ("torch",), "give it up")
        with pytest.raises(
            peers.UnsupportedError, match=r"does not import here: ModuleNotFoundError: .*nobody.*; give it up"
        ):
            peer.prepare(batches.random_boxes(2, 48, 3, torch.uint8))

    def test_does_not_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_: Any) -> None:
            raise AttributeError("another version")

        monkeypatch.setattr(stand_ins, "prepare_list_based", fail)
        peer = next(peer for peer in peers.PEERS if peer.entry.endswith("list_based"))
        with pytest.raises(peers.UnsupportedError, match="does not run here: AttributeError: another version"):
            peer.prepare(batches.random_boxes(2, 48, 3, torch.uint8))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
    @pytest.mark.parametrize("peer", peers.PEERS, ids=PEER_NAMES)
    def test_runs_and_leaves_the_batch_alone(self, peer: Any, dtype: torch.dtype) -> None:
        batch = batches.random_boxes(3, 48, 4, dtype)
        before = batch.clone()
        found, skipped = peers.prepared(batch, [peer])
        if skipped:
            assert skipped[peer.name]
            pytest.skip(skipped[peer.name])
        (contender,) = found.values()
        for _ in range(3):
            contender.call(contender.fresh())
        assert same(batch, before)

    def test_own_writings_are_always_there(self) -> None:
        _, skipped = peers.prepared(batches.random_boxes(2, 48, 3, torch.float32))
        assert not {peer.name for peer in peers.PEERS if not peer.packages} & set(skipped)

    def test_every_peer_says_what_it_does_not_do(self) -> None:
        assert len(set(PEER_NAMES)) == len(PEER_NAMES)
        assert all(peer.does_not for peer in peers.PEERS)


class TestBatches:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
    def test_random_boxes(self, dtype: torch.dtype) -> None:
        batch = batches.random_boxes(3, 64, 5, dtype)
        assert batch.images.dtype == dtype
        assert batch.instance_masks is not None
        assert ((batch.instance_valid.sum(1) >= 1) & (batch.instance_valid.sum(1) <= 5)).all()
        areas = (batch.boxes[..., 2:] - batch.boxes[..., :2]).prod(-1)
        assert torch.equal(batch.instance_masks.sum((2, 3)), areas.long())

    def test_equal_squares(self) -> None:
        batch = batches.equal_squares(2, 48, max_instances=7, num_instances=3, side=8)
        assert batch.instance_masks is not None
        assert batch.instance_masks.sum((2, 3)).tolist() == [[64] * 3 + [0] * 4] * 2

    def test_panoptic_tiles(self) -> None:
        batch, config = batches.panoptic_tiles(2, 48, 8)
        assert batch.panoptic_maps is not None
        assert batch.instance_masks is not None
        ids = torch.arange(1, 9)[:, None, None]
        assert torch.equal(batch.panoptic_maps[:, None] == ids, batch.instance_masks)
        assert pasting.pasted_pixels(batch, config) > 0

    def test_restored_has_the_values_and_its_own_memory(self) -> None:
        batch = batches.random_boxes(2, 48, 3, torch.float32)
        own = batch.clone()
        place = own.images.data_ptr()
        own.images.zero_()
        assert pasting.restored(own, batch) is own
        assert same(own, batch)
        assert own.images.data_ptr() == place != batch.images.data_ptr()

    def test_contenders_leave_the_batch_alone(self) -> None:
        batch, config = batches.scenes(2, 48, 12)
        before = batch.clone()
        for contender in pasting.contenders(batch, config).values():
            contender.call(contender.fresh())
        assert same(batch, before)


class TestGrowth:
    def test_one_thing_grows_on_each_axis(self) -> None:
        sizes = plan.Growth()
        for axis in growth.axes(sizes):
            assert len(axis.values) == len(axis.sizes)
            changing = {key for key in axis.sizes[0] if len({values[key] for values in axis.sizes}) > 1}
            assert len(changing) == 1

    def test_exponents_are_of_the_medians(self) -> None:
        points = [{"x": x, "times": {"clone": summary(2.0 * x), "segpaste": summary(5.0)}} for x in (1, 4)]
        assert growth.exponents(points) == {"clone": pytest.approx(1.0), "segpaste": pytest.approx(0.0)}
        assert growth.exponents(points[:1]) == {}

    def test_points_keep_their_own_times(self) -> None:
        times = {"clone @ 1": summary(1), "clone again @ 1": summary(2), "clone @ 11": summary(3)}
        assert growth._of_point(times, 1) == {"clone": summary(1), "clone again": summary(2)}


class TestArithmetic:
    def test_images_per_second_and_core(self) -> None:
        assert loading.rate(8, summary(100.0), 2) == 40.0

    def test_bytes_per_second(self) -> None:
        assert device.bytes_per_second(6, summary(2.0)) == 3000.0

    def test_memory_beyond_the_outputs(self) -> None:
        assert report.beyond_outputs({"batch_bytes": 200, "new_bytes": 100, "peak_bytes": 110}) == 0.05

    def test_logarithmic_axis(self) -> None:
        assert plots.decades([0.5, 30.0]) == (0.1, 100.0)
        assert plots.decades([1.0]) == (1.0, 10.0)
        assert plots.powers(0.1, 100.0) == [0.1, 1.0, 10.0, 100.0]
        assert plots.position(10.0, 1.0, 100.0) == pytest.approx(0.5)


class TestPlans:
    def test_device_shapes(self) -> None:
        assert suite.plan_for("full", "cuda").shapes == plan.DEVICE_SHAPES
        assert suite.plan_for("quick", "cpu") is plan.QUICK

    @pytest.mark.parametrize("shapes", [plan.FULL.shapes, plan.HARD_SHAPES], ids=["cpu", "device"])
    def test_names_tell_shapes_apart(self, shapes: Any) -> None:
        names = [step.name_of(shape) for shape in shapes]
        assert len(set(names)) == len(names)

    def test_every_section_that_is_measured_is_reported(self) -> None:
        for name in ("cpu", "cuda"):
            assert set(suite.parts(plan.FULL, name)) <= set(report.SECTIONS)

    def test_a_device_sees_several_batches_and_the_peers_that_stay_on_it(self) -> None:
        found, skipped = step._device_contenders(plan.Shape(2, 48, 3), "cpu")
        others = {peer.name for peer in peers.PEERS if peer.on_device} - set(skipped)
        assert set(found) - {pasting.IN_PLACE} == {pasting.CLONE, pasting.AGAIN, pasting.OUT_OF_PLACE} | others
        inputs = [found[pasting.CLONE].fresh()[1] for _ in range(step.NUM_INPUTS)]
        assert len({batch.images.sum().item() for batch in inputs}) == step.NUM_INPUTS
        times = timing.in_turns(found, rounds=1, warm_up=1)
        assert all(len(values) == 1 for values in times.values())


class TestDetector:
    def test_a_step_and_two_pastes(self) -> None:
        found = detector.measure(plan.TINY, device="cpu")
        assert set(found["times"]) == {detector.STEP, pasting.OUT_OF_PLACE, pasting.IN_PLACE}
        assert found["batch"] == "2 × 48², 1..3, float32"
        text = report.detector(found)
        shares = [float(line.split("|")[3].strip(" %")) for line in text.splitlines() if line.endswith("% |")]
        times = found["times"]
        exact = [100 * times[name]["median_ms"] / times[detector.STEP]["median_ms"] for name in list(times)[1:]]
        assert shares == pytest.approx(exact, abs=0.01)


class TestDeviceSteps:
    """Tests that need no GPU: the clocks are those of the host here."""

    SHAPE = plan.Shape(2, (40, 56), 3, layers=2)

    def test_every_step_has_every_clock(self) -> None:
        clocks = dict.fromkeys((device_steps.HOST, device_steps.DEVICE), timing.wall_clock)
        found = device_steps.measure_shape(self.SHAPE, 2, "cpu", clocks)
        assert found["batch"] == "2 × 40 × 56, 1..3, 2 layers, float32"
        assert set(found["times"]) == set(clocks)
        assert all(set(times) == set(device_steps.STEPS) for times in found["times"].values())
        assert found["skipped"] == {}

    def test_each_step_has_inputs_of_its_own(self) -> None:
        """A paste in place changes no input of the other steps."""
        batch, config = step.made(self.SHAPE)
        before = batch.clone()
        for name, in_place in device_steps.STEPS.items():
            contender = device_steps._contender(name, batch, config, as_graph=False)
            given = [contender.fresh() for _ in range(2)]
            contender.call(given[1])
            assert (given[1].images is batch.images) == (not in_place)
            assert torch.equal(given[0].sample_seeds, given[1].sample_seeds) == (name == pasting.CLONE)
        assert same(batch, before)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    def test_what_cannot_be_captured_says_why(self) -> None:
        found = device_steps.measure_shape(self.SHAPE, 1, "cpu", {device_steps.GRAPH: timing.wall_clock})
        assert found["times"] == {device_steps.GRAPH: {}}
        assert set(found["skipped"]) == {f"{name}, graph" for name in device_steps.STEPS}

    def test_a_wait_and_a_step_without_a_graph_are_errors(self) -> None:
        row = {"batch": "one", "waits": {"in place": "called item", "clone": ""}, "skipped": {"in place, graph": "why"}}
        assert list(device_steps.errors([row])) == [
            "one, in place: waits: called item",
            "one, in place, graph: not captured: why",
        ]
        assert list(device_steps.errors([{**row, "waits": {}, "skipped": {}}])) == []

    def test_a_program_with_errors_exits_with_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", ["device_steps", "--quick"])
        monkeypatch.setattr(programs.timing, "keep_freed_memory", lambda: None)
        monkeypatch.setitem(programs.report.SECTIONS, "device_steps", lambda found: "table")
        with pytest.raises(SystemExit, match="it waits"):
            programs.main("device_steps", "", lambda *_: {"rows": [], "errors": ["it waits"]})
        with pytest.raises(SystemExit, match="too slow"):
            programs.main("device_steps", "", lambda *_: {"rows": [], "errors": [], "missed": ["too slow"]})
        programs.main("device_steps", "", lambda *_: {"rows": [], "errors": [], "missed": []})


class TestDeviceGoals:
    """Goals on made-up times; the clone takes 2 ms on the device."""

    FINE: ClassVar[dict[str, dict[str, float]]] = {
        "device": {pasting.CLONE: 2.0, pasting.OUT_OF_PLACE: 9.0, pasting.IN_PLACE: 1.0},
        "eager": {pasting.CLONE: 9.0, pasting.OUT_OF_PLACE: 6.0, pasting.IN_PLACE: 9.0},
        "graph": {pasting.CLONE: 9.0, pasting.OUT_OF_PLACE: 2.6},
        "host": {pasting.CLONE: 9.0, pasting.OUT_OF_PLACE: 9.0, pasting.IN_PLACE: 0.6},
    }

    def row(self, **times: dict[str, float]) -> dict[str, Any]:
        summaries = {
            clock: {name: timing.summary([value]) for name, value in by_step.items()}
            for clock, by_step in (self.FINE | times).items()
        }
        return {"batch": step.name_of(plan.DEVICE_SHAPES[0]), "times": summaries, "skipped": {}}

    def test_goals_that_just_hold(self) -> None:
        goals = device_goals.judged([self.row(), {**self.row(), "batch": "8 × 512², 1..32, float32"}])
        assert [goal["measured"] for goal in goals] == pytest.approx([3, 1.3, 0.5, 0.6])
        assert all(goal["holds"] for goal in goals)
        assert list(device_goals.missed(goals)) == []

    @pytest.mark.parametrize(
        ("clock", "name", "value", "expected"),
        [
            ("eager", pasting.OUT_OF_PLACE, 6.02, "segpaste, eager ≤ 3 ×: missed, measured 3.01"),
            ("graph", pasting.OUT_OF_PLACE, 2.62, "segpaste, graph ≤ 1.3 ×: missed, measured 1.31"),
            ("device", pasting.IN_PLACE, 1.02, "segpaste, in place, device ≤ 0.5 ×: missed, measured 0.51"),
            ("host", pasting.IN_PLACE, 0.61, "segpaste, in place, host ≤ 0.6 ms: missed, measured 0.61"),
        ],
    )
    def test_a_missed_goal_is_told(self, clock: str, name: str, value: float, expected: str) -> None:
        row = self.row(**{clock: {**self.FINE[clock], name: value}})
        goals = device_goals.judged([row])
        assert list(device_goals.missed(goals)) == [f"8 × 1024², 1..32, float32, {expected}"]
        text = report.device_steps({"rows": [row], "goals": goals})
        assert (text.count("| holds |"), text.count("| missed |")) == (3, 1)

    def test_a_goal_that_was_not_measured_is_missed(self) -> None:
        goals = device_goals.judged([self.row(graph={pasting.CLONE: 1.0})])
        assert [line.partition(": ")[2] for line in device_goals.missed(goals)] == ["missed, not measured"]

    def test_every_full_run_has_goals(self) -> None:
        """The rows are found by their names."""
        assert {step.name_of(shape) for shape in plan.HARD_SHAPES} > device_goals.BATCHES
        assert len(device_goals.BATCHES) == 3
        assert {goal.clock for goal in device_goals.GOALS} <= set(device_steps.CLOCKS)
        assert {goal.step for goal in device_goals.GOALS} <= set(device_steps.STEPS)


def test_every_way_to_read_a_crop_gives_the_same(tmp_path: Path) -> None:
    sizes = bank_reads.TINY
    banks = bank_reads.write_banks(tmp_path, sizes)
    wanted = banks[bank_reads.MEMMAP][3]
    for name, read in bank_reads.others(tmp_path, banks[bank_reads.MEMMAP]).items():
        found = read(3)
        if name == bank_reads.PNG:
            image, alpha = found
        else:
            image, alpha = (found[key].reshape(getattr(wanted, key).shape) for key in ("image", "alpha"))
        assert (image == wanted.image).all()
        assert (alpha == wanted.alpha).all()
    for bank in banks.values():
        assert (bank[3].image == wanted.image).all()
    singly, batch = bank_reads.mapped_copies(tmp_path / bank_reads.MEMMAP, sizes)
    singly(np.array([3]))
    batch(np.array([3, 0]))


def test_bank_reads_are_reported() -> None:
    found = bank_reads.markdown(bank_reads.measure(bank_reads.TINY))
    assert all(name in found for name in (*bank_reads.WRITERS, bank_reads.PNG, bank_reads.PICKLES, *bank_reads.SLOW))
