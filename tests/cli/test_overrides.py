"""KEY=VALUE overrides: each key has one spelling, and no value is dropped silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segpaste.augmentation.config import values
from segpaste.augmentation.config.values import ConfigError
from segpaste.augmenting.settings import load_config
from segpaste.cli import _arguments, main
from segpaste.cli._errors import CommandError
from segpaste.encoder import TrainConfig


def test_augmented_datasets_have_a_paste_in_every_image_unless_a_key_says_otherwise() -> None:
    given = {"placement.paste_prob": 0.25}
    found = [
        load_config(None, keys, every_image=every).placement.paste_prob
        for keys in ({}, given)
        for every in (False, True)
    ]
    assert found == [0.5, 1.0, 0.25, 0.25]


class TestTwoSpellings:
    @pytest.mark.parametrize(
        "words",
        [
            ["data.N=4", "data={M: 2}"],
            ["data={M: 2}", "data.N=4"],
            ["data={M: 2}", "other=1", "data.N.inner=4"],
            ["data.N={inner: 4}", "data.N.inner=4"],
        ],
    )
    def test_refused(self, words: list[str]) -> None:
        with pytest.raises(CommandError, match=r"expected data(\.N)?=\.\.\. or data\.N(\.inner)?=\.\.\., got both"):
            _arguments.overrides(words)

    def test_keys_that_begin_alike(self) -> None:
        assert _arguments.overrides(["data=1", "data_set=2", "dat.a=3"]) == {"data": "1", "data_set": "2", "dat.a": "3"}

    @pytest.mark.parametrize(
        "command",
        [
            ["train", "no.csv", "none.csv", "data.N_classes_per_batch=4", "data={M_samples_per_class: 3}"],
            ["augment", "scenes", "--out", "out", "--num", "1", "placement.layers=2", "placement={k_range: [1, 2]}"],
            ["demo", "--out", "out", "placement={k_range: [1, 2]}", "placement.layers=2"],
        ],
    )
    def test_in_every_command_that_takes_them(
        self, command: list[str], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(command) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "got both; write one of them" in err
        assert not list(tmp_path.iterdir())


class TestOneKeyTwice:
    def test_in_a_value(self) -> None:
        with pytest.raises(ConfigError, match=r"data: expected the key N_classes_per_batch once, got it twice"):
            values.load_model(TrainConfig, None, {"data": "{N_classes_per_batch: 4, N_classes_per_batch: 5}"})

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("c.yaml", "data: {N_classes_per_batch: 4}\ntrainer: {epochs: 3}\ndata: {M_samples_per_class: 3}\n"),
            ("c.json", '{"data": {"N_classes_per_batch": 4}, "data": {"M_samples_per_class": 3}}'),
        ],
    )
    def test_in_a_file(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=rf"{name}: expected the key data once, got it twice"):
            values.load_model(TrainConfig, str(tmp_path / name), {})

    def test_keys_of_yaml_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text("base: &base {a: 1, 2: x}\nother: {<<: *base, a: 2}\n[1, 2]: list\n")
        with pytest.raises(ConfigError, match=r"c\.yaml: expected YAML or JSON, got text that does not parse"):
            values.read_file(tmp_path / "c.yaml")
        (tmp_path / "c.yaml").write_text("base: &base {a: 1, 2: x}\nother: {<<: *base, a: 2}\n")
        assert values.read_file(tmp_path / "c.yaml")["other"] == {"a": 2, 2: "x"}


def test_a_table_goes_over_the_file_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: {N_classes_per_batch: 4, drop_last: false}\n")
    found = values.load_model(TrainConfig, str(tmp_path / "c.yaml"), {"data": "{N_classes_per_batch: 5}"}).data
    assert (found.N_classes_per_batch, found.drop_last) == (5, False)
