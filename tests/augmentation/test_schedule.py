"""Values that `Schedule` holds, rejects and draws; `test_compile` tests that a compiled step follows it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch

from samples import CPU_BACKENDS, EVERY_IMAGE, EVERY_OBJECT, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig, Schedule
from segpaste.engine import use_backend


def test_it_starts_with_what_the_config_says() -> None:
    schedule = Schedule(PlacementConfig(paste_prob=0.25, k_range=(2, 7), class_temperature=0.75))
    assert schedule.paste_prob == 0.25
    assert schedule.k_range == (2, 7)
    assert schedule.class_temperature == 0.75


def test_what_is_not_given_stays() -> None:
    def held() -> tuple[float, tuple[int, int], float]:
        return schedule.paste_prob, schedule.k_range, schedule.class_temperature

    schedule = Schedule(PlacementConfig(paste_prob=0.25, k_range=(2, 7), class_temperature=0.5))
    schedule.set(k_range=(1, 1))
    assert held() == (0.25, (1, 1), 0.5)
    schedule.set(paste_prob=1.0)
    assert held() == (1.0, (1, 1), 0.5)
    schedule.set(class_temperature=1)
    assert held() == (1.0, (1, 1), 1.0)
    schedule.at(0.5)
    assert held() == (1.0, (1, 1), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paste_prob": 1.1}, "0 <= paste_prob <= 1, got 1.1"),
        ({"paste_prob": float("nan")}, "0 <= paste_prob <= 1, got nan"),
        ({"paste_prob": "often"}, "a number as paste_prob, got 'often'"),
        ({"class_temperature": [0.5], "paste_prob": 0.5}, r"a number as class_temperature, got \[0.5\]"),
        ({"k_range": (-1, 2)}, r"got \(-1, 2\)"),
        ({"k_range": (3, 2), "paste_prob": 0.5}, r"got \(3, 2\)"),
        ({"k_range": (1, 1 << 31)}, "k_range"),
        ({"k_range": (1, 2, 3), "paste_prob": 0.5}, "k_range"),
        ({"k_range": 5}, "k_range"),
        ({"k_range": (1, 2.5)}, "k_range"),
        ({"class_temperature": 1.5, "paste_prob": 0.5, "k_range": (2, 2)}, "0 <= class_temperature <= 1, got 1.5$"),
        ({"class_temperature": -0.1}, "0 <= class_temperature <= 1, got -0.1$"),
        ({"class_temperature": float("nan")}, "0 <= class_temperature <= 1, got nan$"),
    ],
)
def test_refuses(options: dict[str, Any], message: str) -> None:
    schedule = Schedule(PlacementConfig(paste_prob=1.0))
    with pytest.raises(ValueError, match=message):
        schedule.set(**options)
    schedule.set()
    assert (schedule.paste_prob, schedule.k_range, schedule.class_temperature) == (1.0, (1, 256), 0.0)


def test_numbers_in_tensors_are_numbers() -> None:
    schedule = Schedule(PlacementConfig(paste_prob=1.0))
    schedule.set(paste_prob=torch.tensor(0.25), class_temperature=np.float32(0.5))
    schedule.at(torch.tensor(0.9))
    assert (schedule.paste_prob, schedule.class_temperature) == (0.25, 0.5)


@pytest.mark.parametrize("options", [{"k_range": (1, 2)}, {"class_temperature": 0.5, "paste_prob": 0.1}])
def test_classes_have_no_counts_and_no_temperature(options: dict[str, Any]) -> None:
    schedule = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True, source=EVERY_OBJECT)
    ).schedule
    with pytest.raises(ValueError, match="expected only paste_prob with emit_classmix"):
        schedule.set(**options)
    assert schedule.paste_prob == 1
    schedule.set(paste_prob=0.25)
    assert schedule.paste_prob == 0.25


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan")])
def test_progress_is_a_part_of_the_whole(progress: float) -> None:
    with pytest.raises(ValueError, match="0 <= progress <= 1"):
        Schedule(PlacementConfig(paste_prob=1.0)).at(progress)


def test_the_last_part_of_training_is_without_pastes() -> None:
    schedule = Schedule(PlacementConfig(paste_prob=0.5, fade_last=0.1))
    found = []
    for step in range(20):
        schedule.at(step / 20)
        found.append(schedule.paste_prob)
    assert found == [0.5] * 18 + [0.0] * 2
    schedule.set(paste_prob=0.75)  # not before it is asked for again
    assert schedule.paste_prob == 0.0
    schedule.at(0.0)
    assert schedule.paste_prob == 0.75


@pytest.mark.parametrize("num", [10, 20, 30, 60, 90, 300])
def test_the_last_part_starts_where_it_is_said_to(num: int) -> None:
    for last in range(1, num):
        schedule = Schedule(PlacementConfig(paste_prob=1.0, fade_last=last / num))
        schedule.at((num - last) / num)
        assert schedule.paste_prob == 0.0, last


def test_the_last_part_can_fade_out() -> None:
    schedule = Schedule(PlacementConfig(paste_prob=0.5, fade_last=0.4, fade_curve="linear"))
    found = []
    for step in range(11):
        schedule.at(step / 10)
        found.append(schedule.paste_prob)
    assert found == pytest.approx([0.5] * 7 + [0.375, 0.25, 0.125, 0.0], abs=1e-9)
    schedule.at(0.8)
    schedule.set(paste_prob=1.0)
    assert schedule.paste_prob == 0.5
    resumed = Schedule(PlacementConfig(paste_prob=0.5, fade_last=0.4, fade_curve="linear"))
    resumed.load_state_dict(schedule.state_dict())
    assert resumed.paste_prob == 0.5
    state = schedule.get_extra_state()
    state[-1] *= 4
    with pytest.raises(ValueError, match=r"0 <= kept of a state <= 1, got 2\.0"):
        resumed.set_extra_state(state)


def test_a_curve_without_a_last_part_is_refused() -> None:
    with pytest.raises(ValueError, match="fade_curve: expected fade_last above 0"):
        PlacementConfig(paste_prob=1.0, fade_curve="linear")


def test_without_a_last_part_pastes_go_on_to_the_end() -> None:
    schedule = Schedule(PlacementConfig(paste_prob=1.0))
    schedule.at(1.0)
    assert schedule.paste_prob == 1.0


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_a_step_follows_it(kernels: str) -> None:
    paste = BatchCopyPaste(
        BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fade_last=0.5), source=EVERY_OBJECT)
    )
    batch = make_batch(4, num_instances=3, max_instances=8)
    with use_backend(kernels):
        assert paste(batch, return_report=True)[1].num_tried.tolist() == [3, 3, 3, 3]
        paste.schedule.set(k_range=(2, 2))
        assert paste(batch, return_report=True)[1].num_tried.tolist() == [2, 2, 2, 2]
        paste.schedule.at(0.5)
        out, report = paste(batch, return_report=True)
    assert not report.num_tried.any()
    assert torch.equal(out.images, batch.images)


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
@pytest.mark.parametrize("grouping", ["image", "instance"])
def test_a_step_follows_its_temperature(kernels: str, grouping: Literal["image", "instance"]) -> None:
    """A module whose temperature was changed draws as one that was made with it."""

    def drawn(paste: BatchCopyPaste) -> torch.Tensor:
        with use_backend(kernels):
            return paste(batch, return_report=True)[1].drawn

    def made(temperature: float) -> BatchCopyPaste:
        options = {"k_range": (2, 2), "layers": 4, "grouping": grouping, "scale_range": (0.5, 0.6)}
        placement = PlacementConfig(**options, paste_prob=1.0, class_temperature=temperature)  # type: ignore[arg-type]
        return BatchCopyPaste(BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT))

    batch = make_batch(8, num_instances=8, max_instances=12)
    batch.labels[batch.instance_valid] = torch.tensor([1, 1, 1, 1, 1, 1, 2, 3]).repeat(8)
    paste, found = made(0.0), []
    for temperature in (0.0, 0.5, 1.0, 0.0):
        paste.schedule.set(class_temperature=temperature)
        found.append(drawn(paste))
        assert torch.equal(found[-1], drawn(made(temperature)))
    assert torch.equal(found[0], found[3])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


NARROW = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.uint32,
    torch.complex64,
    torch.float8_e4m3fn,
]
"""Types that do not hold fractions of 2**32 parts, signs of their sums, or numbers at all."""


class TestState:
    """What ``state_dict`` holds, and what is loaded."""

    def test_it_is_one_tensor_of_integers_in_memory_of_its_own(self) -> None:
        module = BatchCopyPaste(EVERY_IMAGE)
        module.schedule.set(paste_prob=0.5, k_range=(2, 5))
        (name, state), (_, again) = *module.state_dict().items(), *module.state_dict().items()
        assert name == "schedule._extra_state"
        assert torch.equal(state, torch.tensor([1 << 31, 2, 5, 0, 1 << 32]))
        assert (state.dtype, state.device.type, state.is_contiguous()) == (torch.int64, "cpu", True)
        assert state.untyped_storage().nbytes() == state.nbytes
        state.zero_()
        assert torch.equal(again, torch.tensor([1 << 31, 2, 5, 0, 1 << 32]))
        assert (module.schedule.paste_prob, module.schedule.k_range) == (0.5, (2, 5))

    @pytest.mark.parametrize(
        "saved",
        [
            {"paste_prob": 0.3, "k_range": [2, 7], "class_temperature": 0.75, "kept": 0.25},  # of older versions
            torch.tensor([round(0.3 * 2**32), 2, 7, 3 << 30, 1 << 30]),
            torch.tensor([round(0.3 * 2**32), 2, 7, 3 << 30, 1 << 30]).double(),  # averaged by others
        ],
        ids=["names", "integers", "floats"],
    )
    def test_states_that_are_loaded(self, saved: Any) -> None:
        config = PlacementConfig(paste_prob=1.0, fade_last=0.4, fade_curve="linear")
        found = Schedule(config)
        found.load_state_dict({"_extra_state": saved})
        assert found.limits.tolist() == [322122547, 2, 7, 3 << 30]
        assert (found.paste_prob, found.k_range, found.class_temperature) == (322122547 / 2**32, (2, 7), 0.75)
        again = Schedule(config)
        again.load_state_dict(found.state_dict())
        assert all(torch.equal(*pair) for pair in zip(found.tables, again.tables, strict=True))
        again.at(0.0)
        assert again.paste_prob == round(0.3 * 2**32) / 2**32

    @pytest.mark.parametrize(
        ("state", "message"),
        [
            (torch.zeros(4, dtype=torch.int64), r"a state of 5 finite numbers, got \[0, 0, 0, 0\]"),
            (torch.tensor([float("inf"), 1, 2, 0, 0]), "a state of 5 finite numbers, got .inf"),
            (
                Schedule(PlacementConfig()).get_extra_state().half(),
                r"\(float16\); only int64, float64 and float32 hold them, so cast other tensors only",
            ),
            (Schedule(PlacementConfig()).get_extra_state().bfloat16(), r"\(bfloat16\); only int64, float64"),
            (torch.tensor([1, 1, 2, 0, 0]).half(), r"\(float16\); only int64"),
            *(
                (
                    Schedule(PlacementConfig(paste_prob=0.3)).get_extra_state().to(dtype),
                    "only int64, float64 and float32",
                )
                for dtype in NARROW
            ),
            (torch.tensor([1, 3, 2, 0, 0]), r"k_range .*got \(3, 2\)"),
        ],
    )
    def test_states_that_are_refused(self, state: torch.Tensor, message: str) -> None:
        schedule = Schedule(PlacementConfig(paste_prob=0.25))
        with pytest.raises(ValueError, match=message):
            schedule.set_extra_state(state)
        assert schedule.limits.tolist() == [1 << 30, 1, 256, 0]

    def test_a_state_without_values_changes_nothing(self) -> None:
        schedule = Schedule(PlacementConfig(paste_prob=0.25))
        schedule.load_state_dict({"_extra_state": torch.empty(5, dtype=torch.int64, device="meta")})
        assert schedule.paste_prob == 0.25
