"""A real training on two processes of torchrun, on banks of scenes, is killed half-way and resumes bit for bit."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from encoder_cases import bits
from torch import Tensor

import segpaste
from segpaste.cli import main
from segpaste.encoder import LabelledVectors, TrainConfig, read_vectors
from segpaste.encoder.checkpoints import read_checkpoint
from segpaste.encoder.training import make_objective
from segpaste.samplers import ExhaustiveNxMSampler

NUM_EPOCHS, WAIT_AT = 5, 3


def make_bank(folder: Path, num_scenes: int, seed: int) -> Path:
    """The objects of some scenes, with embeddings."""
    plain, embedded = folder / f"plain{seed}", folder / f"embedded{seed}"
    size = ["--num", str(num_scenes), "--seed", str(seed), "--size", "64", "--crop-size", "24"]
    assert main(["bank", "build", "scenes", *size, "--out", str(plain)]) == 0
    assert main(["bank", "embed", str(plain), "--out", str(embedded)]) == 0
    return embedded


def start(folder: Path, out: Path, wait_at: int | None = None) -> subprocess.Popen[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["train", str(folder / "embedded1"), str(folder / "embedded2"), "--out", str(out), "trainer.device=cpu"]
    words += ["data.sampler=encoder_cases.WaitingSampler", "data.N_classes_per_batch=3", "data.M_samples_per_class=2"]
    words += ["trainer.losses=[triplet,angular_margin]", f"trainer.epochs={NUM_EPOCHS}", "model.num_attributes=16"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    paths = [str(Path(segpaste.__file__).parents[1]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    if wait_at is not None:
        environment["WAIT_AT"] = str(wait_at)
    return subprocess.Popen(
        [*command, "--master-port", str(port), "-m", "segpaste", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Torchrun and its two processes, which are in sessions of their own."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)


def finished(process: subprocess.Popen[str]) -> str:
    """Return the output of a run that ends well."""
    try:
        stdout, stderr = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        kill(process)
        raise
    assert process.returncode == 0, stderr
    return stdout


class Reference(NamedTuple):
    """Parameters, first moments of AdamW by parameter, and the mean loss of each epoch."""

    parameters: dict[str, Tensor]
    moments: dict[int, Tensor]
    losses: list[float]


def in_one_process(data: LabelledVectors, given: TrainConfig) -> Reference:
    """Return the result of the same batches in one process, the gradients of two at a time averaged by hand.

    AdamW steps by gradients over their own size, so that a wrong scale shows in the moments only.
    """
    vectors, labels = torch.from_numpy(data.vectors), torch.from_numpy(data.labels)
    objective = make_objective(vectors, len(data.label_names), given)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=given.trainer.learning_rate, weight_decay=0)
    samplers = [ExhaustiveNxMSampler(data.labels, 3, 2, rank=rank, num_replicas=2) for rank in range(2)]
    means = []
    for epoch in range(given.trainer.epochs):
        losses = []
        for sampler in samplers:
            sampler.set_epoch(epoch)
        for pair in zip(*(sampler.replica_batches() for sampler in samplers), strict=True):
            optimizer.zero_grad()
            for rows in map(torch.from_numpy, pair):
                loss = objective(vectors[rows], labels[rows])[0]
                (loss / 2).backward()
                losses.append(loss.item())
            optimizer.step()
        means.append(sum(losses) / len(losses))
    moments = {i: optimizer.state[parameter].get("exp_avg") for i, parameter in enumerate(objective.parameters())}
    known = {i: moment for i, moment in moments.items() if moment is not None}
    return Reference(objective.state_dict(), known, means)


@pytest.mark.slow
def test_killed_and_gone_on(tmp_path: Path) -> None:
    train_bank = make_bank(tmp_path, 12, seed=1)
    make_bank(tmp_path, 6, seed=2)
    whole = finished(start(tmp_path, tmp_path / "whole"))
    killed = start(tmp_path, tmp_path / "run", wait_at=WAIT_AT)
    log = tmp_path / "run" / "log.csv"
    deadline = time.monotonic() + 200
    while not log.exists() or len(log.read_text().splitlines()) < 1 + WAIT_AT:
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill(killed)
    assert len(read_checkpoint(tmp_path / "run" / "last.pt")["history"]) == WAIT_AT

    again = finished(start(tmp_path, tmp_path / "run"))
    goes_on = f"resumes            after epoch {WAIT_AT} of {NUM_EPOCHS}\n"
    assert again.count(goes_on) == 1
    assert again.replace(goes_on, "") == whole.replace(f"{tmp_path / 'whole'}/", f"{tmp_path / 'run'}/")
    for name in ("last.pt", "best.pt"):
        mine, theirs = read_checkpoint(tmp_path / "run" / name), read_checkpoint(tmp_path / "whole" / name)
        assert mine["history"] == theirs["history"]
        a, b = bits(mine), bits(theirs)
        assert a.keys() == b.keys()
        assert all(a[key].tobytes() == b[key].tobytes() for key in a)
    assert log.read_bytes() == (tmp_path / "whole" / "log.csv").read_bytes()
    assert theirs["fingerprint"]["processes"] == 2
    expected = in_one_process(read_vectors(train_bank), TrainConfig.model_validate(mine["config"]))
    found = read_checkpoint(tmp_path / "run" / "last.pt")
    for part in ("encoder", "losses"):
        for key, value in found[part].items():
            assert torch.allclose(value, expected.parameters[f"{part}.{key}"], atol=1e-5), key
    states = found["optimizer"]["state"]
    assert states.keys() == expected.moments.keys()
    for index, moment in expected.moments.items():
        assert torch.allclose(states[index]["exp_avg"], moment, rtol=1e-3, atol=1e-6), index
    assert [row["loss"] for row in found["history"]] == pytest.approx(expected.losses, rel=1e-4)

    foreign = start(tmp_path, train_bank)  # only the first process looks, and all of them end
    _, err = foreign.communicate(timeout=120)
    assert foreign.returncode != 0
    assert err.count(f"segpaste: error: {train_bank}: expected no folder, or one of a run, found ") == 1
    # Torchrun ends the other process by a signal if it is not as quick.
    assert len(re.findall(r"exitcode  : (?:2|-15) ", err)) == 2
    assert "exitcode  : 2 " in err
    assert not (train_bank / "last.pt").exists()
