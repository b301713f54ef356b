"""`segpaste train`: what it prints and writes."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_cases import SIZE, bits, clusters, train_words, write_numbers

import segpaste
from segpaste import cli
from segpaste._ranks import mark_own, mark_said
from segpaste.cli import _errors, main
from segpaste.encoder import (
    Assessment,
    AttributeEvidence,
    LabelledVectors,
    TrainConfig,
    equal_error_rate,
    load_encoder,
    min_dcf,
    training,
    validate,
)
from segpaste.encoder.checkpoints import read_checkpoint
from segpaste.encoder.training import make_objective


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return train_words(tmp_path)


class TestRunning:
    def test_in_just_that_spelling(
        self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        given = ["train", "train.csv", "test.csv", "data.sampler=segpaste.samplers.ExhaustiveNxMSampler"]
        assert main([*given, "trainer.losses=[mse,triplet]", "trainer.epochs=2", "data.N_classes_per_batch=3"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert "train              42 vectors of 6 classes\nbatches            4 of 3 x 4 = 12" in out
        assert "best               epoch" in out
        assert "files              runs/encoder/: attributes.csv, best.pt, last.pt, log.csv, run.json" in out
        found = load_encoder("runs/encoder")
        assert found.config["trainer"]["losses"] == ["mse", "triplet"]
        assert found.encoder.num_inputs == SIZE

    def test_a_file_under_the_words(self, words: list[str], tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text("trainer: {epochs: 9, losses: [sparsity], loss_weights: {sparsity: 2}}\n")
        assert main([*words, "--config", str(tmp_path / "c.yaml"), "trainer.epochs=1"]) == 0
        trainer = load_encoder(tmp_path / "run").config["trainer"]
        assert (trainer["epochs"], trainer["losses"], trainer["loss_weights"]["sparsity"]) == (1, ["sparsity"], 2)

    def test_a_file_that_has_no_table_where_words_go(
        self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "c.yaml").write_text("data: 3\n")
        assert main([*words, "--config", str(tmp_path / "c.yaml")]) == 2
        assert ": expected keys and values in data, got 3\n" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("sampler", "expected"),
        [
            ("Random", "2 in an epoch, 6 in total; few: data.sampler=segpaste.samplers.ExhaustiveNxMSampler takes all"),
            ("Exhaustive", "8 in an epoch, 24 in total\n"),
        ],
    )
    def test_it_says_how_many_steps(
        self, words: list[str], capsys: pytest.CaptureFixture[str], sampler: str, expected: str
    ) -> None:
        given = [
            *words,
            "trainer.losses=[mse]",
            "trainer.epochs=3",
            f"data.sampler=segpaste.samplers.{sampler}NxMSampler",
        ]
        assert main(given) == 0
        assert f"\nsteps              {expected}" in capsys.readouterr().out

    def test_other_columns(self, words: list[str], tmp_path: Path) -> None:
        for name in ("train.csv", "test.csv"):
            text = (tmp_path / name).read_text()
            (tmp_path / name).write_text(text.replace("label", "speaker").replace("embedding_", "v"))
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=1"]
        assert main([*given, "data.label_column=speaker", "data.embedding_prefix=v"]) == 0

    @pytest.mark.parametrize(
        ("label", "prefix"), [("no", ""), ("2", "0x"), ("2024-13-45", "'v'"), ("a: b", "null"), ("a #b", " v ")]
    )
    def test_names_that_are_something_else_in_yaml(
        self, words: list[str], tmp_path: Path, label: str, prefix: str
    ) -> None:
        for name in ("train.csv", "test.csv"):
            text = (tmp_path / name).read_text()
            (tmp_path / name).write_text(text.replace("label", label, 1).replace("embedding_", prefix.strip("'")))
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=1"]
        assert main([*given, f"data.label_column={label}", f"data.embedding_prefix={prefix}"]) == 0
        assert load_encoder(tmp_path / "run").encoder.num_inputs == SIZE

    def test_it_says_how_it_goes_on(
        self, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Progress lines replace the bar where there is no terminal, at intervals of some seconds at least."""
        given = [*words, "trainer.losses=[mse]"]
        assert main([*given, "trainer.epochs=1"]) == 0
        assert "epoch " not in capsys.readouterr().out.partition("best ")[0]
        monkeypatch.setattr(cli.train, "_SECONDS_BETWEEN_LINES", -1)
        assert main([*given, "trainer.epochs=3"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert "resumes            after epoch 1 of 3" in lines
        said = [line for line in lines if line.startswith("epoch ")]
        assert [line.partition(",")[0] for line in said] == [f"epoch              {i} of 3" for i in (2, 3)]
        assert all("loss " in line and "mAP " in line for line in said)

    def test_a_sampler_of_ones_own(self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sampler is in a file in the working directory of the command."""
        text = "from segpaste.samplers import RandomNxMSampler\nclass Own(RandomNxMSampler):\n    pass\n"
        (tmp_path / "own_sampler_here.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
        assert main([*words, "data.sampler=own_sampler_here.Own", "trainer.losses=[mse]", "trainer.epochs=1"]) == 0

    def test_a_sigterm_that_an_import_swallows(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        text = "import os, signal\nfrom segpaste.samplers import RandomNxMSampler as Own\n"
        text += "try:\n    os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException:\n    pass\n"
        (tmp_path / "swallowing_sampler.py").write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(tmp_path)
            assert main([*words, "data.sampler=swallowing_sampler.Own"]) == 130
        assert capsys.readouterr().err == "segpaste: interrupted: nothing was finished\n"
        assert not (tmp_path / "run").exists()

    def test_interrupted(self, words: list[str], tmp_path: Path) -> None:
        paths = [str(Path(segpaste.__file__).parents[1]), str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WAIT_AT": "2", "OMP_NUM_THREADS": "1"}
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=3", "data.sampler=encoder_cases.WaitingSampler"]
        process = subprocess.Popen(
            [sys.executable, "-m", "segpaste", *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            # What is started in the background, as whole test runs are, ignores SIGINT.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        log, deadline = tmp_path / "run" / "log.csv", time.monotonic() + 120
        while not log.exists() or len(log.read_text().splitlines()) < 3:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        kept = f"{tmp_path / 'run'} keeps what is finished; the same command resumes from there"
        assert err == f"segpaste: interrupted: {kept}\n"
        assert main(given) == 0
        assert len(log.read_text().splitlines()) == 4


class TestFirstEpoch:
    """A run that does not finish one leaves nothing, and the same command can be given again."""

    @pytest.mark.parametrize("log", ["csv", "both"])
    def test_a_loss_that_is_not_finite(self, words: list[str], tmp_path: Path, log: str) -> None:
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=1", f"trainer.log={log}"]
        assert main([*given, "trainer.learning_rate=1e30"]) == 2
        assert not (tmp_path / "run").exists()
        assert main(given) == 0

    @pytest.mark.parametrize("at", ["best.pt", "last.pt"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    def test_between_its_checkpoints(
        self, words: list[str], tmp_path: Path, at: str, error: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=1"]
        write = training.write_checkpoint

        def stop(path: Path, state: Any) -> None:
            if path.name == at:
                path.with_name(f".{path.name}.123.partial").write_bytes(b"half")  # as a kill leaves it
                raise error
            write(path, state)

        with monkeypatch.context() as patch:
            patch.setattr(training, "write_checkpoint", stop)
            assert main(given) == (130 if error is KeyboardInterrupt else 2)
        assert not (tmp_path / "run").exists()
        assert "keeps what is finished" not in capsys.readouterr().err
        assert main(given) == 0


class TestFigures:
    """Printed figures of the best epoch, and the data that they are measured on."""

    def test_with_two_files(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        assert main([*words, "trainer.losses=[mse,triplet]", "trainer.epochs=3"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"\nbest +epoch \d of 3, by the mAP of codes on 30 validation vectors\n", out)
        assert "\nmeasured on        the same vectors, which chose the epoch, so the figures are too good: give" in out
        assert "test vectors" not in out

    def test_with_three_files(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        """The third one has no effect on the run; its figures are those of the encoder that was kept."""
        given = [*words, "trainer.losses=[mse,triplet]", "trainer.epochs=3"]
        third = clusters(9, seed=3)
        assert main([*given, "--test", str(write_numbers(tmp_path / "third.csv", third))]) == 0
        out = capsys.readouterr().out
        assert "\nmeasured on        54 test vectors\n" in out
        assert "too good" not in out
        trained = load_encoder(tmp_path / "run")
        vectors, labels = torch.from_numpy(third.vectors), torch.from_numpy(third.labels)
        found = validate(trained.encoder, vectors, labels)
        assert f"retrieval mAP      {found.map_codes:.4f} by codes, {found.map_vectors:.4f} by the vectors" in out
        train_vectors = torch.from_numpy(clusters(7, seed=1).vectors)
        config = TrainConfig.model_validate(trained.config)
        first = validate(make_objective(train_vectors, 6, config).encoder, vectors, labels).map_codes
        assert f"without training   {first:.4f} by the codes of the first parameters, " in out
        assert re.search(r" 0\.[2-9]\d+ by 16 random projections\n", out)
        assert trained.evidence is not None
        codes = [trained.encoder.encode(torch.from_numpy(clusters(*of).vectors)).numpy() for of in ((7, 1), (5, 2))]
        evidence = AttributeEvidence.of(codes[0], clusters(7, 1).labels).calibrated(codes[1], clusters(5, 2).labels)
        assert trained.evidence.calibration == evidence.calibration
        assert (trained.evidence.log_ratios == evidence.log_ratios).all()
        before = bits(read_checkpoint(tmp_path / "run" / "last.pt"))
        assert main([*given, "--out", str(tmp_path / "other")]) == 0
        after = bits(read_checkpoint(tmp_path / "other" / "last.pt"))
        assert all((before[key] == after[key]).all() for key in before)

    def test_figures_of_the_vectors_beside_those_of_the_codes(
        self, words: list[str], tmp_path: Path, capsys: Any
    ) -> None:
        """Pair by pair, by the cosine of the vectors as they are in the file."""
        third = clusters(9, seed=3)
        given = [*words, "trainer.losses=[mse,triplet]", "trainer.epochs=3"]
        assert main([*given, "--test", str(write_numbers(tmp_path / "third.csv", third))]) == 0
        out = capsys.readouterr().out
        kinds: tuple[list[float], list[float]] = ([], [])
        for one, other in combinations(range(len(third)), 2):
            a, b = third.vectors[one].astype(float), third.vectors[other].astype(float)
            kinds[int(third.labels[one] != third.labels[other])].append(float(a @ b / np.sqrt((a @ a) * (b @ b))))
        eer, cost = equal_error_rate(*kinds), min_dcf(*kinds)
        assert f"\nraw vectors        EER {eer:.2%}, minDCF {cost:.3f}, by their cosine\n" in out
        assert re.search(r"\ndetection cost     minDCF [01]\.\d\d\d, where 1 % of the pairs are targets\n", out)

    def test_the_verdict_where_nothing_was_learnt(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        """The labels of the training set are drawn, so the codes are no better than without training."""
        rng = np.random.default_rng(3)
        data = clusters(20, seed=1)
        labels = rng.permutation(data.labels)
        write_numbers(tmp_path / "train.csv", LabelledVectors(data.vectors, labels, data.label_names))
        given = [*words, "trainer.losses=[triplet,angular_margin]", "trainer.epochs=1", "trainer.learning_rate=0.3"]
        assert main([*given, "--test", str(write_numbers(tmp_path / "third.csv", clusters(9, seed=3)))]) == 0
        out = capsys.readouterr().out
        codes = float(re.search(r"retrieval mAP +([\d.]+) by codes", out)[1])  # type: ignore[index]
        first, random = re.search(r"without training +([\d.]+) by .*, ([\d.]+) by", out).groups()  # type: ignore[union-attr]
        assert codes <= max(float(first), float(random))
        assert "\nverdict            NOTHING WAS LEARNT: the codes are no better than those without training" in out

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [
            ((0.9, 0.2, 0.3), True),
            ((0.3, 0.2, 0.3), False),
            ((0.3, 0.4, 0.2), False),
            ((0.3, 0.2, 0.4), False),
            ((math.nan, math.nan, math.nan), None),
        ],
    )
    def test_codes_must_be_better_than_both_controls(
        self, found: tuple[float, float, float], verdict: bool | None
    ) -> None:
        codes, untrained, random = found
        assessment = Assessment(9, True, codes, 0.5, untrained, random, 0.1, 0.5, None)
        assert assessment.has_learnt is verdict

    @pytest.mark.parametrize(("name", "what"), [("train", "training"), ("test", "validation")])
    def test_not_with_what_is_known_already(
        self, words: list[str], tmp_path: Path, capsys: Any, name: str, what: str
    ) -> None:
        assert main([*words, "--test", str(tmp_path / f"{name}.csv")]) == 2
        assert f"expected test vectors of their own, got those for {what}" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    def test_ratios_that_mislead(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        """The vectors of the test set carry no class; those before did."""
        rng = np.random.default_rng(0)
        third = LabelledVectors.of(2 * rng.normal(size=(90, SIZE)), rng.integers(0, 9, 90))
        given = [*words, "trainer.epochs=4", "--test", str(write_numbers(tmp_path / "third.csv", third))]
        assert main(given) == 0
        out = capsys.readouterr().out
        ratios = re.search(r"\nlikelihood ratios  EER [\d.]+%, Cllr ([\d.]+) \(at best ([\d.]+)\), of ", out)
        assert ratios is not None
        assert float(ratios[1]) > 1.1 > 1 >= float(ratios[2])
        assert "Cllr is 1 or more: THESE RATIOS ARE NO BETTER THAN NO EVIDENCE; do not use them\n" in out
        assert re.search(r"\nuncalibrated       Cllr [\d.]+; 1 or more: worse than no evidence, ", out)

    def test_calibration_mends_scores_that_mislead(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        """The vectors carry no class in any set, so that the evidence is no better than chance."""
        rng = np.random.default_rng(0)
        for name, num in (("train", 80), ("test", 120), ("third", 120)):
            data = LabelledVectors.of(rng.normal(size=(num, SIZE)), rng.integers(0, 20, num))
            write_numbers(tmp_path / f"{name}.csv", data)
        given = [*words[:-2], "trainer.device=cpu", "trainer.epochs=4", "model.num_attributes=64"]
        assert main([*given, "--test", str(tmp_path / "third.csv")]) == 0
        out = capsys.readouterr().out
        costs = re.search(r", Cllr ([\d.]+) .*\nuncalibrated       Cllr ([\d.]+); 1 or more: worse", out, re.DOTALL)
        assert costs is not None
        assert 0.98 < float(costs[1]) < 1.02 < 1.1 < float(costs[2])

    def test_no_pairs_to_calibrate_on(self, words: list[str], tmp_path: Path, capsys: Any) -> None:
        data = clusters(1, seed=2)
        write_numbers(tmp_path / "test.csv", data)
        assert main([*words, "trainer.losses=[mse]", "trainer.epochs=1"]) == 0
        assert (
            "\nlikelihood ratios  no figures: they need pairs of one class and pairs of two classes\n"
            in capsys.readouterr().out
        )
        assert load_encoder(tmp_path / "run").evidence is None


class TestOtherProcesses:
    """Only the first of several processes that torchrun started on a machine prints."""

    @pytest.mark.parametrize("given", [["no.csv", "none.csv"], ["no.csv"], ["no.csv", "none.csv", "trainer.epoch=1"]])
    def test_one_line_for_all(self, capsys: Any, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
        for rank in ("0", "1"):
            monkeypatch.setenv("LOCAL_RANK", rank)
            assert main(["train", *given]) == 2
            assert capsys.readouterr().err.count("\n") == (rank == "0")
        assert main(["train", *given, "--debug"]) == 2
        assert "Traceback" in capsys.readouterr().err

    @pytest.mark.parametrize(("mark", "said_by"), [(None, [True]), (mark_own, [True, False]), (mark_said, [])])
    def test_who_says_it(self, capsys: Any, mark: Any, said_by: list[bool]) -> None:
        """An error that only another process has is printed there; one that another process prints is not repeated."""
        for is_first in (True, False):
            error = ValueError("no room")
            if mark is not None:
                mark(error)
            with _errors.reported(debug=False, is_first=is_first) as outcome:
                raise error
            assert outcome.exit_code == 2
            assert capsys.readouterr().err == "segpaste: error: no room\n" * (is_first in said_by)

    def test_other_commands_speak(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert main(["bench", "--no-such-option"]) == 2
        assert capsys.readouterr().err.startswith("segpaste: error: ")
