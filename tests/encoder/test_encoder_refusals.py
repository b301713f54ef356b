"""`segpaste train` and what can be wrong: the keys in its help, one clear line for each fault."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from encoder_cases import SIZE, train_words

from segpaste.augmentation.config import values
from segpaste.augmentation.config.base import known_fields
from segpaste.cli import main
from segpaste.encoder import TrainConfig


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return train_words(tmp_path)


def test_help_lists_every_key_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    out = capsys.readouterr().out
    shown = dict(re.findall(r"([a-z]+\.[A-Za-z0-9_.]+)=(\S+)", out.partition("examples:")[0]))
    assert sorted(shown) == sorted(dict(known_fields(TrainConfig)))
    defaults = values.flat(TrainConfig().model_dump())
    others = {key: text for key, text in shown.items() if "|" not in text and key != "trainer.losses"}
    assert {key: yaml.safe_load(text) for key, text in others.items()} == {key: defaults[key] for key in others}


class TestRefusing:
    @pytest.mark.parametrize(
        ("word", "message"),
        [
            ("data.sampler=no.such.Class", "data.sampler: expected the path of a sampler of N x M batches"),
            ("data.sampler=segpaste.samplers.NoSuch", "'segpaste.samplers.NoSuch' (AttributeError: module"),
            ("data.sampler=torch.utils.data.RandomSampler", "'torch.utils.data.RandomSampler', which is none"),
            ("data.sampler=segpaste.samplers.NxMSampler", "'segpaste.samplers.NxMSampler', which is none"),
            ("data.sampler=Sampler", "'Sampler', which is none"),
            ("data.N_classes_per_batch=7", "expected at least N = 7 classes, as many as a batch has, got 6; lower N"),
            (
                "data.smapler=x",
                "expected a key of the configuration, got 'data.smapler'; the nearest is 'data.sampler'",
            ),
            ("epochs=3", "got 'epochs'; the nearest is 'trainer.epochs'"),
            (
                "trainer.losses=[mse,triple]",
                "trainer.losses.1: expected mse, triplet, sparsity or angular_margin, got 'triple'",
            ),
            ("trainer.losses=[mse,mse]", "trainer.losses: expected each loss once, got mse, mse"),
            ("trainer.losses=[]", "trainer.losses: "),
            ("trainer.loss_weights={mes: 1}", "the nearest is 'trainer.loss_weights.mse'"),
            ("trainer.seed=2024-13-45", "trainer.seed: expected a value such as 3"),
            ("trainer.learning_rate=1e300", "trainer.learning_rate: expected at most "),
            ("data.M_samples_per_class=100000000000000000000", "data.M_samples_per_class: expected at most"),
            ("data.M_samples_per_class=1", "expected at least 2 classes in a batch and 2 samples of each for triplets"),
            ("model.hidden=1000000000000", "model.hidden: expected at most "),
            ("data.sampler=.a.B", "data.sampler: expected the path of a sampler of N x M batches"),
            ("data.sampler=broken_sampler.Own", "'broken_sampler.Own' (SyntaxError: "),
            ("data.sampler=ending_sampler.Own", "'ending_sampler.Own' (SystemExit: usage)"),
            ("data.sampler=encoder_cases.OwnArguments", "data.sampler encoder_cases.OwnArguments: TypeError: "),
            ("data.sampler=encoder_cases.Failing", "data.sampler encoder_cases.Failing: KeyError: 'speaker'"),
            ("trainer.epochs=0", "trainer.epochs: expected at least 1, got 0"),
            ("data.label_column=class", "line 1: expected a column 'class' of labels"),
        ],
    )
    def test_a_word(
        self,
        words: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        word: str,
        message: str,
    ) -> None:
        (tmp_path / "broken_sampler.py").write_text("class Own(:\n")
        (tmp_path / "ending_sampler.py").write_text("raise SystemExit('usage')\n")
        monkeypatch.syspath_prepend(tmp_path)
        given = [other for other in words if other.partition("=")[0] != word.partition("=")[0]]
        assert main([*given, word]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("segpaste: error: ")
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "run").exists()

    def test_a_value_that_is_not_finite(
        self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with (tmp_path / "test.csv").open("a") as file:
            file.write("class 0," + ",".join(["nan"] * SIZE) + "\n")
        assert main(words) == 2
        expected = f"{tmp_path / 'test.csv'}: line 32, column 'embedding_0': expected a finite number, got 'nan'"
        assert capsys.readouterr().err == f"segpaste: error: {expected}\n"

    def test_no_such_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["train", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]) == 2
        assert (
            capsys.readouterr().err
            == f"segpaste: error: {tmp_path / 'a.csv'}: No such file or directory; check the path\n"
        )

    def test_another_run_is_there(self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The run may be finished, so the message does not tell the user to delete it."""
        given = [*words, "trainer.losses=[mse]", "trainer.epochs=1"]
        assert main(given) == 0
        assert main([*given, "trainer.learning_rate=0.01"]) == 2
        err = capsys.readouterr().err
        assert "run holds a run with other arguments: trainer.learning_rate 0.001 there, 0.01 now; " in err
        assert err.endswith("; choose another folder (--out)\n")
        assert "delete" not in err

    def test_without_the_extra(
        self, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("", ".distances", ".losses"):
            monkeypatch.setitem(sys.modules, f"pytorch_metric_learning{name}", None)
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "error: pytorch_metric_learning " in err
        assert "pip install 'pytorch-metric-learning>=2.5'" in err
