"""Ultralytics' trainer over two processes, whose pastes come from the whole dataset."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import cloudpickle  # type: ignore[import-not-found]
from checks_ultralytics import config, written
from ultralytics.models.yolo.segment import SegmentationTrainer
from ultralytics.utils.patches import torch_save

from segpaste import BatchCopyPaste
from segpaste.integrations.ultralytics import with_copy_paste

NUM_RANKS, NUM_EPOCHS = 2, 2


def test_ranks_paste_crops_of_their_own(tmp_path: Path) -> None:
    augment = BatchCopyPaste(config(kind="bank", crops_per_target=2))
    trainer_cls = with_copy_paste(SegmentationTrainer, augment, 16, balance="class_uniform")
    args = {"model": "yolo11n-seg.yaml", "data": str(written("scenes", "segment", tmp_path / "data")), "device": "cpu"}
    args |= {"project": str(tmp_path), "imgsz": 96, "batch": 4, "workers": 0, "epochs": NUM_EPOCHS, "seed": 3}
    fixed = {"val": False, "amp": False, "verbose": False}
    torch_save({"trainer": trainer_cls, "args": args | fixed}, tmp_path / "state.pt", pickle_module=cloudpickle)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = [sys.executable, str(Path(__file__).with_name("ultralytics_rank.py")), str(tmp_path / "state.pt")]
    world = {**os.environ, "WORLD_SIZE": str(NUM_RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = []
    for rank in range(NUM_RANKS):
        settings = {**world, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        command = [*script, str(tmp_path / f"{rank}.json")]
        running.append(
            subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0] * NUM_RANKS, printed[0][-3000:] + printed[1][-3000:]

    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(NUM_RANKS))
    for epoch in range(NUM_EPOCHS):
        steps = slice(4 * epoch, 4 * epoch + 4)  # 16 images, 2 ranks, 2 images each
        files = [name for one in (first, second) for step in one["files"][steps] for name in step]
        assert sorted(files) == sorted(f"{number}.png" for number in range(16))
    assert len(first["crops"]) == len(second["crops"]) == 4 * NUM_EPOCHS - 1
    assert all(mine != other for mine, other in zip(first["crops"], second["crops"], strict=True))
    assert first["weights"] == second["weights"]
    expected = [text.count("pastes expected in an epoch") for text in printed]
    assert expected == [1, 0]  # on the first rank only
    assert len(list(tmp_path.rglob("copy_paste_batch.jpg"))) == 1
