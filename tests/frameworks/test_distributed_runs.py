"""DistributedDataParallel, FSDP and Accelerate on two ranks: what training steps see, whole runs and resumed ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from owned_model import SAVED
from run_apart import PROBABILITIES
from runs_checks import Processes, check_shares, expected, of_launcher, read
from runs_world import MID_STEPS, NUM_EPOCHS, NUM_RANKS, NUM_SAMPLES, STEPS, TORCH_RUNS, Record, write_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distributed")]

FRAMEWORKS = ["ddp", "accelerate"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("distributed")
    write_world(made)
    return made


@pytest.fixture(scope="module")
def wanted(world: Path) -> dict[str, list[list[Record]]]:
    """Return the records of each rank, by variant. This compiles the loops that paste, before any run."""
    return {variant: expected(variant, world) for variant in {run.variant for run in TORCH_RUNS.values()}}


@pytest.fixture(scope="module")
def folder(world: Path, wanted: dict[str, list[list[Record]]]) -> Path:
    """Return the folder of all finished runs."""
    Processes("run_distributed.py", [str(world)], of_launcher()).finish()
    return world


@pytest.mark.parametrize("name", TORCH_RUNS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
class TestRuns:
    def test_ranks_share_the_data(self, folder: Path, framework: str, name: str) -> None:
        drops = name == "scenes"
        shared = (NUM_SAMPLES + 1, 0) if drops else (NUM_SAMPLES, 1)
        check_shares(read(folder, f"{framework}-whole-{name}"), *shared)

    def test_the_steps_see_what_explicit_ranks_see(
        self, folder: Path, wanted: dict[str, list[list[Record]]], framework: str, name: str
    ) -> None:
        assert read(folder, f"{framework}-whole-{name}").records == wanted[TORCH_RUNS[name].variant]

    def test_a_resumed_run_sees_what_the_whole_run_saw(self, folder: Path, framework: str, name: str) -> None:
        whole, resumed = (read(folder, f"{framework}-{phase}-{name}") for phase in ("whole", "resumed"))
        assert resumed.records == [records[MID_STEPS:] for records in whole.records]

    def test_nothing_is_warned_of(self, folder: Path, framework: str, name: str) -> None:
        assert read(folder, f"{framework}-whole-{name}").warnings == [[], []]


@pytest.mark.parametrize("name", TORCH_RUNS)
def test_a_pass_before_the_process_group_is_refused(folder: Path, name: str) -> None:
    """Every rank would read as rank 0; the constructor is allowed, since launchers come before groups."""
    for rank in range(NUM_RANKS):
        content = json.loads((folder / "records" / f"too-early-{name}-{rank}.json").read_text())
        assert content["error"].startswith("RuntimeError"), content["error"]
        assert "WORLD_SIZE" in content["error"]
        assert "init_process_group" in content["error"]


@pytest.mark.parametrize("name", TORCH_RUNS)
def test_an_epoch_that_is_repeated_is_warned_of(folder: Path, name: str) -> None:
    """Ranks still share the data: no rank may advance alone."""
    whole, repeated = (read(folder, f"ddp-{phase}-{name}") for phase in ("whole", "repeated"))
    first = [[r._replace(step=r.step % STEPS) for r in records[:STEPS]] * NUM_EPOCHS for records in whole.records]
    assert [[r._replace(step=r.step % STEPS) for r in records] for records in repeated.records] == first
    for told in repeated.warnings:
        assert told
        assert len(set(told)) == len(told), "each loader and sampler says it once"
        assert all("set_epoch(epoch)" in message for message in told)


def test_nothing_of_the_augmentation_is_broadcast(folder: Path) -> None:
    """Ranks keep schedules of their own; the buffers of the norm beside it are broadcast."""
    told = read(folder, "ddp-apart")
    norms = ["head.1.running_mean", "head.1.running_var", "head.1.num_batches_tracked"]
    for rank, (found, probability) in enumerate(zip(told.facts, PROBABILITIES, strict=True)):
        expected = {"paste_prob": probability, "k_range": [1, 1 + rank], "on_device": True}
        assert found == {"broadcast": norms, **expected}
    assert told.warnings == [[], []]


def test_a_sharded_model_pastes_and_is_saved_as_a_whole_one(folder: Path) -> None:
    """Built on meta and sharded over both ranks: only weights are split, and rank 0 hands its schedule to all."""
    told = read(folder, "fsdp")
    weights = ["head.0.bias", "head.0.weight", "head.1.bias", "head.1.weight"]
    schedule = SAVED | {"k_range": list(SAVED["k_range"])}
    every = {"sharded": weights, "before_weights": True, "loaded": schedule, "pastes": True}
    assert told.facts == [every | {"gathered": schedule}, every | {"gathered": None}]
    assert told.warnings == [[], []]


@pytest.mark.parametrize("name", TORCH_RUNS)
def test_accelerate_returns_the_loader_itself(folder: Path, name: str) -> None:
    assert read(folder, f"accelerate-whole-{name}").facts == [{"is_the_same": True}] * NUM_RANKS


@pytest.mark.parametrize("name", ["nxm", "nxm_batches", "bank"])
class TestSamplersUnderAccelerate:
    @pytest.mark.parametrize("way", ["prepared", "dispatched"])
    def test_a_sampler_that_is_sharded_twice_is_refused(self, folder: Path, name: str, way: str) -> None:
        """Half of the data would never be read."""
        for rank in range(NUM_RANKS if way == "prepared" else 1):
            content = json.loads((folder / "records" / f"accelerate-{way}-{name}-{rank}.json").read_text())
            assert content["error"] is not None, content
            assert content["error"].startswith("RuntimeError"), content["error"]
            assert "that accelerator.prepare has not changed" in content["error"]

    def test_left_out_of_prepare_each_rank_reads_its_part(self, folder: Path, name: str) -> None:
        num_samples = 12 if name == "bank" else 24
        assert read(folder, f"accelerate-left-out-{name}").facts == [{"num_samples": num_samples}] * NUM_RANKS
