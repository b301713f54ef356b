"""The programs that `scripts/check_gpu.sh` runs on a card, on the CPU: small batches, and streams of no device."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from benchmarks.device_operations import counting, fake_device
from benchmarks.launches import without_a_card

from segpaste import BatchCopyPaste

SCRIPTS = Path(__file__).parents[2] / "scripts"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cards are checked on Linux")
pytest.importorskip("triton", reason="torch brings Triton along where it has it")


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, ModuleType]]:
    names = ("device_cases", "launch_timing", "stress_kernels", "check_graphs")
    before = list(sys.path)
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path[:] = before


class Stream:
    """A stream of no device."""

    def wait_stream(self, other: Stream) -> None:
        assert isinstance(other, Stream)


class Graph:
    """A graph that is captured by running it."""

    num_replays = 0

    def replay(self) -> None:
        Graph.num_replays += 1


@pytest.fixture
def no_device(programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams, pauses and graphs without a card, so that each line that uses them runs."""
    stand_ins: dict[str, Any] = {
        "Stream": Stream,
        "current_stream": Stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "_sleep": lambda cycles: None,
        "synchronize": lambda: None,
        "CUDAGraph": Graph,
        "graph": lambda graph: contextlib.nullcontext(),
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(programs["launch_timing"], "DEVICE", "cpu")
    monkeypatch.setattr(programs["launch_timing"], "SIDE", 8)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / script), "--device", "cpu", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_stress_in_the_interpreter(tmp_path: Path) -> None:
    """The programs of each launch in an order that is drawn, and memory that is filled, change no bit."""
    done = run("stress_kernels.py", "--case", "rounds of removal", "--turns", "1", "--out", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 forwards, 4 repetitions, 0 differ" in done.stdout
    for row in json.loads((tmp_path / "out.json").read_text())["rows"]:
        assert row["pastes"] > 0
        assert row["turns"] == {"shuffled": 1, "filled": 1}
        assert {"draw_slots", "look", "look_until_settled", "paste"} <= set(row["kernels"])


@pytest.mark.slow
def test_two_processes() -> None:
    done = run("check_ranks.py")
    assert done.returncode == 0, done.stdout + done.stderr
    note = "pastes of native code were not compared with another backend"
    assert {f"rank {rank} on cpu by gloo: fine; {note}" for rank in (0, 1)} <= set(done.stdout.splitlines())


@pytest.mark.usefixtures("no_device")
class TestStress:
    def test_every_way_has_its_turns(self, programs: dict[str, ModuleType]) -> None:
        cases, stress = programs["device_cases"], programs["stress_kernels"]
        for name, case in cases.cases(cases.SMALL).items():
            for inplace in case.ways:
                stressed = stress.Stress(case, cases.SMALL, torch.device("cpu"), inplace=inplace)
                found = stressed.repeat("cuda", seconds=0, most=2)
                assert found["wrong"] == []
                assert found["pastes"] > 0, name
                assert found["turns"] == dict.fromkeys(programs["launch_timing"].WAYS["cuda"], 1)

    def test_a_bit_that_changes_is_told(self, programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
        cases, stress = programs["device_cases"], programs["stress_kernels"]
        case = cases.cases(cases.SMALL)["classes"]
        stressed = stress.Stress(case, cases.SMALL, torch.device("cpu"), inplace=False)
        real, num_calls = cases.forward, [0]

        def forward(*given: Any, **options: Any) -> Any:
            out, report = real(*given, **options)
            num_calls[0] += 1
            if num_calls[0] == 5:
                out.images[0, 0, 0, 0] += 1
            return out, report

        monkeypatch.setattr(cases, "forward", forward)
        assert stressed.repeat("cuda", seconds=0, most=1)["wrong"] == [
            "turn 1, on streams: images differs from the first"
        ]

    def test_a_first_result_that_is_not_the_cpus_is_told(
        self, programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases, stress = programs["device_cases"], programs["stress_kernels"]
        stressed = stress.Stress(cases.cases(cases.SMALL)["guards"], cases.SMALL, torch.device("cpu"), inplace=False)
        stressed.expected[0].labels[0, 0] += 1
        assert "first: labels differs from native" in stressed.repeat("cuda", seconds=0, most=1)["wrong"]


class TestGraphs:
    @pytest.mark.parametrize("inplace", [False, True])
    def test_other_values(self, inplace: bool, programs: dict[str, ModuleType]) -> None:
        cases, graphs = programs["device_cases"], programs["check_graphs"]
        for name, case in cases.cases(cases.SMALL).items():
            if inplace not in case.ways:
                continue
            expected = graphs.Expected.of(case, cases.SMALL)
            assert graphs.check_capture(expected, torch.device("cpu"), inplace=inplace) == [], name

    @pytest.mark.usefixtures("no_device")
    def test_what_was_captured_is_replayed(self, programs: dict[str, ModuleType]) -> None:
        outcomes, refills, before = iter(range(9)), list[int](), Graph.num_replays
        replay = programs["check_graphs"].captured(
            lambda: next(outcomes), lambda: refills.append(0), torch.device("cuda")
        )
        assert (replay(), replay()) == (3, 3)  # three calls of the warm-up came before
        assert Graph.num_replays == before + 2
        assert len(refills) == 4

    @pytest.mark.parametrize("inplace", [False, True])
    def test_no_case_does_what_cannot_be_captured(self, inplace: bool, programs: dict[str, ModuleType]) -> None:
        """Waits for the device, and tensors that come from the host, counted on fake CUDA tensors."""
        cases = programs["device_cases"]

        def fake(tensor: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")

        for name, case in cases.cases(cases.SMALL).items():
            if inplace not in case.ways:
                continue
            given, paste = case.made(cases.SMALL, 0), BatchCopyPaste(case.config, inplace=inplace)
            with fake_device(), without_a_card():
                for _ in range(2):
                    batch, staged = (part and part.map_tensors(fake) for part in given)
                    with counting() as found:
                        cases.forward(paste, batch, staged, reports=case.reports)
            assert found.num_launches > 5, name
            assert (found.waits.total(), found.host.total()) == (0, 0), name

    def test_a_graph_that_keeps_old_values_is_told(
        self, programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases, graphs = programs["device_cases"], programs["check_graphs"]

        def stale(call: Any, refill: Any, device: torch.device) -> Any:
            outcome = call()
            return lambda: outcome

        monkeypatch.setattr(graphs, "captured", stale)
        expected = graphs.Expected.of(cases.cases(cases.SMALL)["classes"], cases.SMALL)
        wrong = graphs.check_capture(expected, torch.device("cpu"), inplace=False)
        assert "batch 1: images differs from native" in wrong
        assert not any(line.startswith("batch 0") for line in wrong)

    @pytest.mark.slow
    def test_compiled(self, programs: dict[str, ModuleType]) -> None:
        cases, graphs = programs["device_cases"], programs["check_graphs"]
        expected = graphs.Expected.of(cases.cases(cases.SMALL)["floats, channels last"], cases.SMALL)
        assert graphs.check_compiled(expected, torch.device("cpu")) == []

    def test_a_capture_that_was_skipped_is_told(self, programs: dict[str, ModuleType]) -> None:
        found = programs["check_graphs"]._graphless({"cudagraph_skips": 2, "cudagraph_recorded_non_static_inputs": 0})
        assert list(found) == ["expected CUDA graphs, 2 were skipped", "expected CUDA graphs, none was recorded"]

    def test_what_is_raised_is_told(self, programs: dict[str, ModuleType]) -> None:
        def check(case: Any) -> list[str]:
            raise RuntimeError("operation not permitted when stream is capturing")

        found = programs["check_graphs"]._tried(check, None)
        assert found["wrong"] == ["RuntimeError: operation not permitted when stream is capturing"]
