"""Lightning's `Trainer.fit` on two ranks: what its training steps see, whole runs and resumed ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from runs_checks import Processes, check_shares, expected, read
from runs_world import CONTAINERS, LIGHTNING_RUNS, NUM_SAMPLES, Record, write_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lightning")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lightning")
    write_world(made)
    return made


@pytest.fixture(scope="module")
def wanted(world: Path) -> dict[str, list[list[Record]]]:
    """Return the records of each rank, by variant; crops that are drawn in the process have no explicit rank.

    The loops that paste are compiled by this, before any run.
    """
    variants = {run.variant for run in LIGHTNING_RUNS.values()} - {"pool"}
    return {variant: expected(variant, world) for variant in variants}


@pytest.fixture(scope="module")
def folder(world: Path, wanted: dict[str, list[list[Record]]]) -> Path:
    """Return the folder of all finished runs: whole ones, and ones that new processes resumed."""
    for phase in ("whole", "resumed"):
        for limit_s in (90, 90, 300):
            # Python 3.11 waits for ever in the child of a fork beside a thread that begins or ends just then
            # (_PyThreadState_DeleteExcept takes a lock that nobody releases); a third hang is a failure.
            try:
                Processes("run_lightning.py", [str(world), phase], [{}]).finish(limit_s=limit_s)
                break
            except subprocess.TimeoutExpired:
                if limit_s == 300:
                    raise
    return world


@pytest.mark.parametrize("name", LIGHTNING_RUNS)
def test_ranks_share_the_data(folder: Path, name: str) -> None:
    """``use_distributed_sampler`` keeps its default, and no rank or epoch is given."""
    check_shares(read(folder, f"lightning-whole-{name}"), NUM_SAMPLES, num_repeated=1)


@pytest.mark.parametrize("name", [name for name, run in LIGHTNING_RUNS.items() if run.variant != "pool"])
def test_the_steps_see_what_explicit_ranks_see(folder: Path, wanted: dict[str, list[list[Record]]], name: str) -> None:
    """They are equal bit for bit, so that neither the workers nor where the loader is made matters."""
    assert read(folder, f"lightning-whole-{name}").records == wanted[LIGHTNING_RUNS[name].variant]


@pytest.mark.parametrize("name", LIGHTNING_RUNS)
def test_a_resumed_run_sees_what_the_whole_run_saw(folder: Path, name: str) -> None:
    """The run resumes at the checkpoint's step, in new processes that both load the checkpoint of rank 0."""
    whole, resumed = (read(folder, f"lightning-{phase}-{name}") for phase in ("whole", "resumed"))
    start = LIGHTNING_RUNS[name].resumes_at
    assert resumed.records == [records[start:] for records in whole.records]


@pytest.mark.parametrize("name", LIGHTNING_RUNS)
def test_nothing_is_warned_of(folder: Path, name: str) -> None:
    assert read(folder, f"lightning-whole-{name}").warnings == [[], []]


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_moved(folder: Path, name: str) -> None:
    """Lists of samples and ragged batches reach the training step as what they are."""
    facts = {"list": {"type": "list", "item": "DenseSample"}, "ragged": {"type": "BatchedDenseSample", "item": None}}
    assert read(folder, f"lightning-{name}").facts == [facts[name]] * 2
