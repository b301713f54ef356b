"""Number of launches, waits and host tensors that an eager forward asks of a CUDA device, counted without one."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import pytest
import torch

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig, Schedule
from segpaste.augmentation.tables import _Copy
from segpaste.cli import bench
from segpaste.engine import use_backend
from segpaste.presets import list_presets

pytest.importorskip("triton", reason="torch brings Triton along where it has it")
PROGRAMS = bench.load_programs()
allocations, device_operations, launches = (
    importlib.import_module(f"{PROGRAMS}.{name}") for name in ("allocations", "device_operations", "launches")
)

MOST_WAITS, MOST_HOST_TENSORS = 0, 0
"""Ceilings of a forward after the first, with any preset and any subset of modalities."""

OUTSIDE_FEW = 1
"""Launches of such a forward that no engine function asks for; a batch without objects has no others. Crops into a
batch without masks have more, see `MOST_WITHOUT_MASKS` of the benchmark."""

OPTION_LAUNCHES = {
    "padded canvas": 13,
    "more slots": 13,
    "no seeds": 13,
    "report": 15,
    "candidate fraction": 13,
    "hidden objects": 11,
    "crowd": 13,
    "region": 14,
    "region of classes": 19,
    "scale of the photo": 16,
    "masks from boxes": 93,
    "masks from ellipses": 129,
    "fixed share": 44,
    "keypoints": 88,
}
"""Most launches with an option; docs/guide/performance.md has the same numbers."""

LARGEST = {case.preset: case for case in launches.cases(quick=True)}
CPU = torch.device("cpu")


class TestForward:
    @pytest.mark.parametrize("preset", list_presets())
    def test_stays_below_the_ceilings(self, preset: str) -> None:
        """This holds on every subset of modalities that the preset takes."""
        cases = [case for case in launches.cases() if case.preset == preset]
        for case, later in zip(cases, launches.count_later(cases), strict=True):
            assert later.num_launches <= case.most_launches, case
            assert later.waits.total() <= MOST_WAITS, case
            assert later.host.total() <= MOST_HOST_TENSORS, case
            is_usual = later.kernels and case.most_launches == launches.MOST_LAUNCHES
            assert later.outside.total() <= (OUTSIDE_FEW if is_usual else later.num_launches), case
        assert later.kernels

    @pytest.mark.parametrize("option", launches.OPTIONS)
    def test_options(self, option: str) -> None:
        counted = launches.count_later([case for case in launches.option_cases() if case.option == option])
        assert max(found.num_launches for found in counted) == OPTION_LAUNCHES[option]
        assert max(found.waits.total() for found in counted) <= MOST_WAITS
        assert max(found.host.total() for found in counted) <= MOST_HOST_TENSORS

    def test_in_place_needs_no_more_outside(self) -> None:
        _, later = launches.count(launches.Case("random_place", LARGEST["random_place"].modalities, inplace=True))
        assert not later.outside

    def test_a_batch_without_objects_is_not_looked_at(self) -> None:
        case = launches.Case("depth_aware", frozenset({launches.Modality.DEPTH}))
        for found in launches.count(case):
            assert found.num_launches == 3
            assert not found.waits


class TestErrors:
    ROW: ClassVar[dict[str, Any]] = {
        "preset": "mmdet",
        "modalities": "instance",
        "inplace": False,
        "option": "",
        "most": 12,
        "launches": 12,
        "waits": {},
    }

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, []),
            ({"option": "keypoints", "launches": 97}, []),
            ({"launches": 13}, ["mmdet, instance: 13 launches, expected at most 12"]),
            ({"inplace": True, "waits": {"item": 1}}, ["mmdet, instance, in place: waits for the device: item"]),
            ({"option": "crowd", "waits": {"nonzero": 1}}, ["mmdet, instance, crowd: waits for the device: nonzero"]),
        ],
    )
    def test_they_are_told(self, changes: dict[str, Any], expected: list[str]) -> None:
        assert list(launches.errors([self.ROW | changes])) == expected


class TestMemory:
    @pytest.mark.parametrize("modalities", allocations.PLANES.values(), ids=allocations.PLANES)
    def test_in_place_goal(self, modalities: Any) -> None:
        case = launches.Case("documents", frozenset(modalities), inplace=True)
        found = allocations.peak(case, (8, 64, (2048, 2048)))
        assert found["new_bytes"] <= found["peak_bytes"] < 0.001 * found["batch_bytes"]

    def test_a_report_copies_no_masks(self) -> None:
        case = launches.Case("documents", frozenset(allocations.PLANES["image and masks"]), inplace=True)
        found = allocations.peak(case, (8, 64, (2048, 2048)), reports=True)
        layers = 8 * 2048**2 * 2
        assert found["peak_bytes"] - layers < 0.001 * found["batch_bytes"]

    def test_few_slots_need_planes(self) -> None:
        """The images are float32, next to which the rest is small."""
        case = launches.Case("documents", frozenset(allocations.PLANES["panoptic"]), inplace=True)
        found = allocations.peak(case, (8, 10, (512, 512)))
        assert found["peak_bytes"] == pytest.approx(8 * 3 * 4 * 512**2, rel=0.02)

    def test_out_of_place_the_outputs_count(self) -> None:
        case = launches.Case("documents", frozenset(allocations.PLANES["image and masks"]))
        found = allocations.peak(case, (8, 64, (512, 512)))
        assert found["batch_bytes"] < found["new_bytes"] + 1000 < found["peak_bytes"] < 1.05 * found["batch_bytes"]

    def test_freed_memory_does_not_count(self) -> None:
        with device_operations.fake_device(), allocations.allocating() as mode:
            given = torch.empty(1000, device="cuda")
            for _ in range(3):
                given = given + 1
            view = given[:10]
        assert mode.peak == 8000
        assert view.numel() == 10


class TestCases:
    def test_every_preset_with_every_subset_that_it_takes(self) -> None:
        cases = list(launches.cases())
        assert {case.preset for case in cases} == set(list_presets())
        assert len({case.modalities for case in cases if case.preset == "random_place"}) == 19
        assert {(case.inplace, case.padding) for case in cases} == {(False, False), (False, True), (True, True)}
        assert len(set(cases)) == len(cases)


class TestCounting:
    def count(self, function: Any) -> Any:
        with device_operations.fake_device(), device_operations.counting() as found:
            function(torch.empty(3, 4, device="cuda"))
        return found

    @pytest.mark.parametrize(
        "free",
        [
            lambda t: t[1:].view(-1)[None].expand(2, -1, -1).transpose(0, 1),
            lambda t: torch.empty_like(t).unbind(1),
            lambda t: t.contiguous().detach(),
            lambda t: t[:0] + 1,
            lambda t: torch.ones(3) + 1,
        ],
    )
    def test_views_and_allocations_are_free(self, free: Any) -> None:
        assert self.count(free).to_dict() == device_operations.Operations().to_dict()

    @pytest.mark.parametrize(
        ("work", "launches", "waits", "host"),
        [
            (lambda t: t + 1, 1, 0, 0),
            (lambda t: t.t().contiguous(), 1, 0, 0),
            (lambda t: t[0].fill_(1), 1, 0, 0),
            (lambda t: bool(t.any()), 1, 1, 0),
            (lambda t: t.cpu(), 1, 1, 0),
            (lambda t: torch.ones(3).to(t.device), 1, 1, 1),
            (lambda t: torch.ones(3).to(t.device, non_blocking=True), 1, 0, 1),
            (lambda t: torch.tensor([1, 2], device="cuda"), 1, 1, 1),
            (lambda t: t[0].copy_(torch.ones(4)), 1, 1, 1),
            (lambda t: t.nonzero(), 1, 1, 0),
        ],
    )
    def test_what_counts(self, work: Any, launches: int, waits: int, host: int) -> None:
        found = self.count(work)
        assert (found.num_launches, found.waits.total(), found.host.total()) == (launches, waits, host)


class TestTables:
    """The module stays on the CPU while its batches are elsewhere."""

    def test_a_copy_follows_in_its_own_memory(self) -> None:
        table = torch.arange(4)
        copy = _Copy(table, CPU)
        copy.follow(table)
        before = copy.values
        assert torch.equal(copy.values, table)
        table[1] = 7
        copy.follow(table)
        assert copy.values is before
        assert torch.equal(copy.values, table)
        replaced = torch.arange(4) + 1
        copy.follow(replaced)
        assert torch.equal(copy.values, replaced)
        with torch.inference_mode():
            other = torch.zeros(4, dtype=torch.int64)
            copy.follow(other)
            other += 2
        copy.follow(other)
        assert copy.values.tolist() == [2, 2, 2, 2]

    def test_they_are_moved_once_and_follow_the_schedule(self) -> None:
        schedule = Schedule(PlacementConfig(paste_prob=1.0))

        def moved() -> int:
            with device_operations.counting() as found:
                tables = schedule.tables_on(torch.device("cuda", 0))
            assert all(table.device.type == "cuda" for table in tables)
            return int(found.num_launches)

        with device_operations.fake_device():
            assert [moved(), moved()] == [5, 0]
            schedule.limits[0] = 3
            assert [moved(), moved()] == [1, 0]
            with device_operations.counting() as found:
                schedule.set(paste_prob=0.5)
            assert (found.num_launches, found.waits.total()) == (1, 0)
            assert moved() == 0
            schedule.to("cuda")
            assert [moved(), moved()] == [0, 0]

    def test_a_module_on_the_device_of_its_batch_needs_no_copies(self) -> None:
        module = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}))
        with use_backend("reference"):
            assert all(a is b for a, b in zip(module.schedule.tables_on(CPU), module.schedule.tables, strict=True))

    def test_copies_are_not_pickled(self) -> None:
        schedule = Schedule(PlacementConfig(paste_prob=1.0))
        copies = schedule._copies
        with device_operations.fake_device():
            schedule.tables_on(torch.device("cuda", 0))
        assert copies._held
        function, arguments = copies.__reduce__()
        assert not function(*arguments)._held
