"""The callback and the DataModule for Lightning in trainings of two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_ranks import NUM_STEPS, PHOTOS, RESUMES_AT

import segpaste
from live_tensors import expect_flat
from segpaste.seeding import derive_seed, to_int64

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lightning_ranks")]

HERE = Path(__file__).parent
Runs = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return the output of the two ranks of each training, by its name."""
    folder = tmp_path_factory.mktemp("ranks")
    data = os.environ.get("SEGPASTE_TEST_DATA")
    words = [str(folder), *([str(Path(data).resolve())] if data else [])]
    paths = [Path(segpaste.__file__).parents[1], HERE, HERE.parent]
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PL_"))}
    settings |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(HERE / "lightning_ranks.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    names = sorted({path.stem.partition("-")[0] for path in folder.glob("*.json")})
    return {name: [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(2)] for name in names}


def seen(runs: Runs, name: str) -> list[list[Any]]:
    return [rank["seen"] for rank in runs[name]]


def test_twenty_steps_with_finite_losses_and_flat_memory(runs: Runs) -> None:
    for name in ("whole", "workers", *(name for name in PHOTOS if name in runs)):
        for rank in runs[name]:
            losses = torch.tensor([loss for *_, loss in rank["seen"]])
            assert len(losses) == NUM_STEPS
            assert losses.isfinite().all()
            expect_flat(rank["alive"])
            assert rank["num_val"] > 0


def test_photos_were_there(runs: Runs, test_data: Path) -> None:
    assert runs.keys() >= set(PHOTOS)


def test_the_same_seed_gives_the_same_losses(runs: Runs) -> None:
    assert seen(runs, "workers") == seen(runs, "whole")


def test_a_resumed_training_is_the_same(runs: Runs) -> None:
    """The run resumes in the middle of an epoch, on both ranks, though the checkpoint is that of the first."""
    assert seen(runs, "resumed") == [steps[RESUMES_AT:] for steps in seen(runs, "whole")]


def test_ranks_share_an_epoch(runs: Runs) -> None:
    """Every batch of a rank differs from the other rank's, and together they are the data."""
    for first in range(0, NUM_STEPS, 4):
        one, other = ([tuple(batch) for batch in rank["samples"][first : first + 4]] for rank in runs["whole"])
        assert {index for batch in (*one, *other) for index in batch} == set(range(14))
        assert not {index for batch in one for index in batch} & {index for batch in other for index in batch}
    seeds = [seed for steps in seen(runs, "whole") for step in steps for seed in step[0]]
    assert len(set(seeds)) == len(seeds)


def test_seeds_that_the_callback_gives(runs: Runs) -> None:
    """They depend on the first rank's seed, not on that of the second, and on the place: all are different."""
    found = [[seed for step in steps for seed in step[0]] for steps in seen(runs, "unseeded")]
    assert len({*found[0], *found[1]}) == len(found[0]) + len(found[1])
    for rank, seeds in enumerate(found):
        assert seeds[:2] == [to_int64(derive_seed(0, 0, rank, 0, row)) for row in range(2)]
