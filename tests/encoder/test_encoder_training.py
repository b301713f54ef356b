"""Training in this process learns, stops and resumes bit for bit, and rejects files that are not its own."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_cases import bits, clusters, config

import segpaste
from segpaste.encoder import (
    CheckpointError,
    TrainConfig,
    VectorsError,
    load_encoder,
    open_training,
    train,
    training,
    validate,
)
from segpaste.encoder.checkpoints import read_checkpoint, write_checkpoint

TRAIN, VALIDATION = clusters(7, seed=1), clusters(5, seed=2)
ALL_LOSSES = ["mse", "triplet", "sparsity", "angular_margin"]


def stop_after(num: int, out: Path, given: TrainConfig) -> None:
    with open_training(TRAIN, VALIDATION, given, out) as run:
        for _ in zip(range(num), run.epochs(), strict=False):
            pass


def check_equal(out: Path, other: Path) -> None:
    """Checkpoints and log, bit for bit."""
    for name in ("last.pt", "best.pt"):
        mine, theirs = read_checkpoint(out / name), read_checkpoint(other / name)
        assert mine["history"] == theirs["history"]
        a, b = bits(mine), bits(theirs)
        assert a.keys() == b.keys()
        assert all(a[key].tobytes() == b[key].tobytes() for key in a)
    assert (out / "log.csv").read_bytes() == (other / "log.csv").read_bytes()


class TestLearning:
    def test_codes_separate_what_vectors_do_not(self, tmp_path: Path) -> None:
        given = config(losses=["mse", "triplet"], epochs=30, learning_rate=0.005)
        result = train(clusters(20, seed=1, noise=1.5), clusters(10, seed=2, noise=1.5), given, tmp_path / "run")
        first, best = result.history[0], result.best
        assert best["map_codes"] > first["map_codes"] + 0.1
        assert best["map_codes"] > best["map_vectors"]
        assert best["mse"] < 0.7 < first["mse"]
        assert best["map_codes"] == max(row["map_codes"] for row in result.history)

    def test_random_labels_do_not_generalise(self, tmp_path: Path) -> None:
        data = clusters(20, seed=1)
        shuffled = replace(data, labels=np.random.default_rng(0).permutation(data.labels))
        given = config(losses=["triplet"], epochs=15, learning_rate=0.005)
        test_set = clusters(10, seed=2)
        taught = train(data, test_set, given, tmp_path / "taught").history[-1]["map_codes"]
        control = train(shuffled, test_set, given, tmp_path / "control").history[-1]["map_codes"]
        assert taught > control + 0.2

    def test_sparsity_reaches_its_target(self, tmp_path: Path) -> None:
        given = config(losses=["sparsity"], sparsity_target=0.25, epochs=30, learning_rate=0.01)
        assert abs(train(TRAIN, VALIDATION, given, tmp_path / "run").history[-1]["active_frac"] - 0.25) < 0.07

    def test_a_loss_that_is_not_finite(self, tmp_path: Path) -> None:
        given = config(losses=["mse"], learning_rate=1e30)
        with pytest.raises(ValueError, match=r"epoch \d: expected a finite loss, got .*; lower trainer.learning_rate"):
            train(TRAIN, VALIDATION, given, tmp_path / "run")


class TestFiles:
    def test_the_best_is_what_was_measured(self, tmp_path: Path) -> None:
        result = train(TRAIN, VALIDATION, config(epochs=6, learning_rate=0.05), tmp_path / "run")
        assert result.best["epoch"] < 6
        trained = load_encoder(tmp_path / "run")
        assert trained.figures == result.best
        assert trained.label_names == TRAIN.label_names
        assert TrainConfig.model_validate(trained.config) == config(epochs=6, learning_rate=0.05)
        figures = validate(trained.encoder, torch.from_numpy(VALIDATION.vectors), torch.from_numpy(VALIDATION.labels))
        assert figures.row().items() <= trained.figures.items()

    def test_the_log(self, tmp_path: Path) -> None:
        result = train(TRAIN, VALIDATION, config(losses=ALL_LOSSES, log="both"), tmp_path / "run")
        with (tmp_path / "run" / "log.csv").open() as file:
            rows = [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]
        assert rows == list(result.history)
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
        assert rows[0]["loss"] == pytest.approx(sum(rows[0][f"loss_{name}"] for name in ALL_LOSSES), rel=1e-6)

    def test_tensorboard_has_every_epoch_once(self, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        given = config(losses=["mse"], log="tensorboard")
        stop_after(3, tmp_path / "run", given)
        result = train(TRAIN, VALIDATION, given, tmp_path / "run")
        events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
        events.Reload()
        found = [(event.step, event.value) for event in events.Scalars("mse")]
        assert found == [(row["epoch"], pytest.approx(row["mse"])) for row in result.history]
        assert not (tmp_path / "run" / "log.csv").exists()

    @pytest.mark.parametrize(("before", "now"), [("csv", "tensorboard"), ("both", "csv"), ("both", "tensorboard")])
    def test_a_log_that_is_not_written_any_more(self, tmp_path: Path, before: str, now: str) -> None:
        """It would end in the middle, beside one that is whole."""
        stop_after(2, tmp_path / "run", config(losses=["mse"], log=before))
        train(TRAIN, VALIDATION, config(losses=["mse"], log=now), tmp_path / "run")
        assert (tmp_path / "run" / "log.csv").exists() == (now == "csv")
        assert len(list((tmp_path / "run").glob("tensorboard/events*"))) == (now == "tensorboard")

    def test_a_checkpoint_that_does_not_fit(self, tmp_path: Path) -> None:
        """The system's error is raised, which torch would hide; the earlier file stays, and nothing beside it."""
        file, limits = tmp_path / "last.pt", resource.getrlimit(resource.RLIMIT_FSIZE)
        write_checkpoint(file, {"values": torch.ones(3)})
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
            for num in (1 << 15, 1 << 18):
                with pytest.raises(OSError, match="File too large"):
                    write_checkpoint(file, {"values": torch.zeros(num), "others": torch.zeros(num)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert read_checkpoint(file)["values"].tolist() == [1, 1, 1]
        assert os.listdir(tmp_path) == ["last.pt"]

    def test_a_file_that_is_no_checkpoint(self, tmp_path: Path) -> None:
        (tmp_path / "best.pt").write_bytes(b"something")
        with pytest.raises(CheckpointError, match=r"best\.pt: expected a checkpoint of segpaste train"):
            load_encoder(tmp_path)
        torch.save({"weight": torch.zeros(1)}, tmp_path / "best.pt")
        with pytest.raises(CheckpointError, match=r"best\.pt: expected a checkpoint of segpaste train"):
            load_encoder(tmp_path / "best.pt")


class TestGoingOn:
    @pytest.mark.parametrize("losses", [["mse", "triplet"], ALL_LOSSES])
    def test_bit_equal(self, tmp_path: Path, losses: list[str]) -> None:
        given = config(losses=losses, epochs=5, weight_decay=0.01)
        train(TRAIN, VALIDATION, given, tmp_path / "whole")
        stop_after(2, tmp_path / "run", given)
        assert len((tmp_path / "run" / "log.csv").read_text().splitlines()) == 3
        torch.rand(7)  # the state of the global generator does not count
        stop_after(1, tmp_path / "run", given)
        train(TRAIN, VALIDATION, given, tmp_path / "run")
        check_equal(tmp_path / "run", tmp_path / "whole")

    @pytest.mark.parametrize("name", ["best.pt", "last.pt", "log.csv"])
    def test_killed_before_a_file_has_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        given = config(epochs=4, losses=["mse"])
        train(TRAIN, VALIDATION, given, tmp_path / "whole")
        replace_file, count = os.replace, []

        def killed(source: Any, target: Any) -> None:
            count.extend([target] * (Path(target).name == name))
            if len(count) == 2:
                raise KeyboardInterrupt
            replace_file(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                train(TRAIN, VALIDATION, given, tmp_path / "run")
        train(TRAIN, VALIDATION, given, tmp_path / "run")
        check_equal(tmp_path / "run", tmp_path / "whole")

    def test_a_finished_run_is_left_alone_and_more_epochs_added(self, tmp_path: Path) -> None:
        given = config(losses=["mse"])
        result = train(TRAIN, VALIDATION, given, tmp_path / "run")
        written = (tmp_path / "run" / "last.pt").read_bytes()
        assert train(TRAIN, VALIDATION, given, tmp_path / "run") == result
        assert (tmp_path / "run" / "last.pt").read_bytes() == written
        train(TRAIN, VALIDATION, config(losses=["mse"], epochs=6), tmp_path / "run")
        train(TRAIN, VALIDATION, config(losses=["mse"], epochs=6), tmp_path / "whole")
        check_equal(tmp_path / "run", tmp_path / "whole")
        with pytest.raises(
            ValueError, match=r"trainer\.epochs: expected at least the 6 that are finished in .*, got 4"
        ):
            train(TRAIN, VALIDATION, given, tmp_path / "run")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"learning_rate": 0.1}, r"trainer\.learning_rate 0\.001 there, 0\.1 now"),
            ({"loss_weights": {"mse": 3}}, r"trainer\.loss_weights\.mse 1\.0 there, 3\.0 now"),
            ({"data": {"M_samples_per_class": 3}}, r"data\.M_samples_per_class 2 there, 3 now"),
        ],
    )
    def test_not_with_another_config(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        stop_after(1, tmp_path / "run", config(losses=["mse"]))
        with pytest.raises(
            CheckpointError, match=rf"a run with other arguments: {message}; choose another folder \(--out\)"
        ):
            train(TRAIN, VALIDATION, config(losses=["mse"], **change), tmp_path / "run")

    def test_with_settings_that_change_nothing(self, tmp_path: Path) -> None:
        stop_after(1, tmp_path / "run", config(losses=["mse"], device="cpu"))
        given = config({"label_column": "speaker"}, losses=["mse"], device="auto", backend="gloo", log="both")
        assert len(train(TRAIN, VALIDATION, given, tmp_path / "run").history) == 4

    @pytest.mark.parametrize("which", ["train", "validation"])
    def test_not_with_other_data(self, tmp_path: Path, which: str) -> None:
        stop_after(1, tmp_path / "run", config(losses=["mse"]))
        sets = {"train": TRAIN, "validation": VALIDATION, which: clusters(7, seed=3)}
        with pytest.raises(CheckpointError, match=f"with other arguments: {which} "):
            train(sets["train"], sets["validation"], config(losses=["mse"]), tmp_path / "run")

    def test_not_with_a_checkpoint_from_elsewhere(self, tmp_path: Path) -> None:
        stop_after(1, tmp_path / "one", config(losses=["mse"]))
        stop_after(1, tmp_path / "two", config(losses=["sparsity"]))
        (tmp_path / "one" / "last.pt").write_bytes((tmp_path / "two" / "last.pt").read_bytes())
        with pytest.raises(CheckpointError, match=r"last\.pt: expected a checkpoint of this run, got one of another"):
            train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "one")

    def test_killed_before_the_first_epoch(self, tmp_path: Path) -> None:
        """Nothing is saved yet, so other arguments may replace the run; a checkpoint is never replaced."""
        script = (
            "import os, signal, sys\n"
            "from encoder_cases import clusters, config\n"
            "from segpaste.encoder import open_training\n"
            "given = config(losses=['mse'], seed=7, log='both')\n"
            "with open_training(clusters(7, seed=1), clusters(5, seed=2), given, sys.argv[1]):\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        paths = [str(Path(segpaste.__file__).parents[1]), str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], env=environment, check=False)
        assert killed.returncode == -signal.SIGKILL
        left = sorted(path.name for path in (tmp_path / "run").iterdir())
        assert left == ["run.json", "tensorboard"]
        given = config(losses=["mse"], epochs=1)
        with pytest.raises(KeyboardInterrupt), open_training(TRAIN, VALIDATION, given, tmp_path / "run"):
            raise KeyboardInterrupt
        assert not (tmp_path / "run").exists()
        train(TRAIN, VALIDATION, given, tmp_path / "run")
        (tmp_path / "run" / "last.pt").unlink()  # the best one is left
        with pytest.raises(CheckpointError, match=r"trainer\.seed 0 there, 1 now"):
            train(TRAIN, VALIDATION, config(losses=["mse"], epochs=1, seed=1), tmp_path / "run")

    def test_two_at_once(self, tmp_path: Path) -> None:
        with (
            open_training(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run"),
            pytest.raises(CheckpointError, match="another run is writing there"),
        ):
            train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run")

    def test_nothing_is_left_where_nothing_was_finished(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(training, "validate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_what_somebody_kept_is_left(self, tmp_path: Path) -> None:
        train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run")
        (tmp_path / "run" / "last.pt").unlink()
        with (
            pytest.raises(KeyboardInterrupt),
            open_training(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run"),
        ):
            raise KeyboardInterrupt
        assert load_encoder(tmp_path / "run").figures["epoch"] > 0

    def test_no_room_for_the_first_file(self, tmp_path: Path) -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
            with pytest.raises(OSError, match="File too large"):
                train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not (tmp_path / "run").exists()

    def test_a_folder_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(CheckpointError, match=r"found mine\.txt"):
            train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_no_result_before_an_epoch(self, tmp_path: Path) -> None:
        with (
            open_training(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run") as run,
            pytest.raises(ValueError, match="run: expected a run with a finished epoch, got none"),
        ):
            run.result()

    def test_a_checkpoint_that_lacks_something(self, tmp_path: Path) -> None:
        stop_after(1, tmp_path / "run", config(losses=["mse"]))
        write_checkpoint(tmp_path / "run" / "last.pt", {})
        with pytest.raises(CheckpointError, match="expected a checkpoint of this run"):
            train(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run")


class TestSettings:
    def test_validation_vectors_of_another_length(self, tmp_path: Path) -> None:
        short = replace(VALIDATION, vectors=VALIDATION.vectors[:, :5])
        with pytest.raises(VectorsError, match="expected validation vectors of 11 numbers, as for training, got 5"):
            train(TRAIN, short, config(), tmp_path / "run")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"columns": ("v1", "v2")},
                "validation vectors of the columns v1 to v2, as for training, got the columns v0 to v1",
            ),
            (
                {"embedder": "timm:a"},
                "validation vectors of the embedder timm:a, as for training, got the embedder statistics",
            ),
        ],
    )
    def test_validation_vectors_of_something_else(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        known = replace(VALIDATION, columns=("v0", "v1"), embedder="statistics")
        with pytest.raises(VectorsError, match=message):
            train(replace(TRAIN, **change), known, config(), tmp_path / "run")
        train(replace(TRAIN, **change), VALIDATION, config(losses=["mse"], epochs=1), tmp_path / "run")

    def test_the_last_step_that_diverges(self, tmp_path: Path) -> None:
        """No loss is taken after it."""
        given = config({"N_classes_per_batch": 6, "M_samples_per_class": 7}, losses=["mse"], learning_rate=1e30)
        with pytest.raises(ValueError, match=r"epoch 1: expected a finite loss, got (inf|nan); lower trainer.learn"):
            train(TRAIN, VALIDATION, given, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_a_device_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        with pytest.raises(ValueError, match=r"trainer\.device: expected at least 1 CUDA devices, got 0; use cpu"):
            train(TRAIN, VALIDATION, config(device="cuda"), tmp_path / "run")

    def test_nccl_on_the_cpu(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"trainer\.backend: expected gloo on the CPU, got nccl"):
            train(TRAIN, VALIDATION, config(backend="nccl"), tmp_path / "run")

    def test_the_seed(self, tmp_path: Path) -> None:
        """It sets the first parameters and the batches; the global generator is neither read nor advanced."""
        found = []
        for number, seed in enumerate((0, 0, 1)):
            before = torch.random.get_rng_state()
            with open_training(TRAIN, VALIDATION, config(seed=seed), tmp_path / f"run{number}") as run:
                parameters = torch.cat([p.flatten() for p in run.encoder.parameters()]).tolist()
                found.append((parameters, run.sampler.epoch_batches().tolist()))
            assert torch.equal(torch.random.get_rng_state(), before)
            torch.rand(3)
        assert found[0] == found[1]
        assert all(one != other for one, other in zip(found[0], found[2], strict=True))

    def test_the_report_has_the_names_of_the_labels(self, tmp_path: Path) -> None:
        data = {"sampler": "segpaste.samplers.RandomNxMSampler", "N_classes_per_batch": 4}
        with open_training(TRAIN, VALIDATION, config(data), tmp_path / "run") as run:
            left_out = run.report().left_out
        assert len(left_out) == 2
        assert {row[0] for row in left_out} <= set(TRAIN.label_names)

    def test_determinism_is_restored(self, tmp_path: Path) -> None:
        assert not torch.are_deterministic_algorithms_enabled()
        with open_training(TRAIN, VALIDATION, config(losses=["mse"]), tmp_path / "run"):
            assert torch.are_deterministic_algorithms_enabled()
        assert not torch.are_deterministic_algorithms_enabled()
