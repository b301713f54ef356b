"""Compiled code needs as many launches as eager code and no table from the host, counted without a CUDA device."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from samples import EVERY_OBJECT, OPTIONAL, SCHEMA, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig, PlacementConfig, Schedule
from segpaste.augmentation.tables import DeviceCopies
from segpaste.cli import bench
from segpaste.engine import operators
from segpaste.presets import list_presets
from segpaste.types import PaddedBatchedDenseSample

META, CUDA, CPU = torch.device("meta"), torch.device("cuda", 0), torch.device("cpu")


def program(name: str) -> Any:
    """The benchmark of this name."""
    pytest.importorskip("triton", reason="torch brings Triton along where it has it")
    return importlib.import_module(f"{bench.load_programs()}.{name}")


class TestOperators:
    @pytest.mark.parametrize(
        ("preset", "inplace"), [*product(list_presets(), [False]), ("classmix", True), ("random_place", True)]
    )
    def test_they_add_no_launch(self, preset: str, inplace: bool) -> None:
        launches = program("launches")
        largest = {case.preset: case for case in launches.cases(quick=True)}[preset]
        case = replace(largest, inplace=inplace)
        found, (_, eager) = program("compiled_launches").count(case), launches.count(case)
        assert found.kernels
        assert found.to_dict() == eager.to_dict()

    def test_what_they_copy(self) -> None:
        """A row-major tensor that the operator owns alone comes back as it is."""
        given = torch.arange(6)
        alone, shared = torch.zeros(2, 3), torch.ones(4)
        found = [given, alone, given[2:], alone.t(), torch.ones(2, 3).t(), shared[:2], shared[2:]]
        results = operators._own(found, [None, given])
        assert [result is tensor for result, tensor in zip(results, found, strict=True)] == [0, 1, 0, 0, 0, 1, 0]
        assert all(torch.equal(result, tensor) for result, tensor in zip(results, found, strict=True))
        assert all(result.is_contiguous() for result in results)
        assert len({result.untyped_storage().data_ptr() for result in [given, *results]}) == 8


def module() -> BatchCopyPaste:
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA})
    return BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, panoptic=panoptic, source=EVERY_OBJECT))


def batch() -> PaddedBatchedDenseSample:
    return make_batch(3, max_instances=5, modalities=frozenset(OPTIONAL)).to(META)


class Recorder:
    """Backend of `torch.compile` that keeps the graphs, and the tensors that each call gives them."""

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.calls: list[list[Tensor]] = []

    def __call__(self, graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs.append(graph)

        def run(*given: Tensor) -> Any:
            self.calls.append([*given])
            return graph(*given)

        return run

    @property
    def devices(self) -> set[torch.device]:
        """Devices of all tensors in the graphs."""
        nodes = [node for graph in self.graphs for node in graph.graph.nodes]
        values = [node.meta.get("example_value") for node in nodes]
        return {value.device for value in values if isinstance(value, Tensor)}


def is_among(tensor: Tensor, others: list[Tensor]) -> bool:
    return any(tensor is other for other in others)


class TestTables:
    """The module stays on the CPU; the meta device stands in for another one, since it has shapes only."""

    def test_no_graph_copies_them(self) -> None:
        paste, recorder = module(), Recorder()
        compiled = torch.compile(paste, fullgraph=True, backend=recorder)
        for _ in range(2):
            compiled(batch())
            paste.schedule.set(paste_prob=0.25, k_range=(1, 2))
        assert len(recorder.graphs) == 1
        assert recorder.devices == {META}
        assert paste.schedule.limits.device == CPU

    def test_inside_a_step(self) -> None:
        paste, recorder = module(), Recorder()
        torch.compile(lambda batch: paste(batch).images.sum(), fullgraph=True, backend=recorder)(batch())
        assert recorder.devices == {META}

    def test_each_module_has_its_own(self) -> None:
        """Code that was compiled for one of two like modules must not read the tables of the other."""
        pastes, recorder = (module(), module()), Recorder()
        for paste in pastes:
            torch.compile(paste, fullgraph=True, backend=recorder)(batch())
        for paste, inputs in zip(pastes, recorder.calls, strict=True):
            assert is_among(paste.schedule.tables_on(META).limits, inputs)

    def test_a_module_that_is_moved_later(self) -> None:
        paste, recorder = module(), Recorder()
        compiled = torch.compile(paste, fullgraph=True, backend=recorder)
        compiled(batch())
        paste.to(META)
        compiled(batch())
        before, after = recorder.calls
        assert not is_among(paste.schedule.limits, before)
        assert is_among(paste.schedule.limits, after)

    def test_an_exported_program_leaves_no_copies(self) -> None:
        """It is traced on tensors without values, which later calls of the module must not meet."""
        paste = module()
        torch.export.export(paste, (batch(),), strict=False)
        assert not paste.schedule._copies._held

    def test_the_host_waits_for_the_first_copy_alone(self) -> None:
        """After that any stream may read it."""
        device_operations, schedule = program("device_operations"), Schedule(PlacementConfig(paste_prob=1.0))

        def waits(work: Callable[[], object]) -> int:
            with device_operations.counting() as found:
                work()
            return int(found.waits.total())

        with device_operations.fake_device():
            assert waits(lambda: schedule.tables_on(CUDA)) == 5
            assert waits(lambda: schedule.set(paste_prob=0.5)) == 0
            schedule.limits[1] = 2
            assert waits(lambda: schedule.tables_on(CUDA)) == 0

    def test_copies_follow_a_module_that_was_moved(self) -> None:
        """Back on the first device, compiled code reads them again."""
        table = torch.arange(3)
        copies = DeviceCopies(lambda: [table])
        copies.hold_copies(CPU, table)
        table[0] = 7
        copies.refresh([table])
        assert torch.equal(copies._held[CPU][0].values, table)
