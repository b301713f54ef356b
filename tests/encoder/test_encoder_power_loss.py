"""After a power loss at any moment: each file of a training is whole or not there."""

from __future__ import annotations

from pathlib import Path

from encoder_cases import clusters, config

from power_loss import below, every_state, read_tree, watched
from segpaste.encoder import train


class TestTraining:
    def test_run(self, tmp_path: Path) -> None:
        data = clusters(6, 0)
        with watched(tmp_path) as disk:
            train(data, data, config(losses=["mse"], epochs=2), tmp_path / "run")
        expected = read_tree(tmp_path / "run")
        assert {"last.pt", "best.pt", "log.csv", "run.json"} <= expected.keys()
        assert [below(files, "run/") for files in disk.snapshots[-1]] == [expected, expected]
        for files in every_state(disk):
            found = below(files, "run/")
            assert all(found.get(name, b"whole") for name in expected)
            assert not found.keys() & {"last.pt", "best.pt"} or "run.json" in found
