"""`segpaste bank embed` and `dedupe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import one_error

from segpaste.bank import Crop, Layout, MemmapWriter, open_bank
from segpaste.bank.embed._statistics import statistics_embedding
from segpaste.cli import main


def run(*words: str) -> int:
    return main(["bank", *words])


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """Two classes of four crops, of which two of each are nearly the same."""
    rng = np.random.default_rng(0)
    with MemmapWriter(tmp_path / "bank", Layout((9, 9)), ("cup", "wok")) as writer:
        image = np.zeros((3, 9, 9), np.uint8)
        for i in range(8):
            image = rng.integers(0, 256, (3, 9, 9), dtype=np.uint8) if i % 4 != 1 else image // 2 * 2
            writer.add(Crop(image, np.ones((1, 9, 9), bool), i // 4, np.array([0, 0, 9, 9], np.int32)))
        return writer.finish()


def test_embed_and_dedupe(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embedded, unique = tmp_path / "embedded", tmp_path / "unique"
    assert run("embed", str(bank), "--out", str(embedded), "--format", "lmdb", "--batch-size", "3") == 0
    columns = open_bank(embedded).read(range(8))
    wanted = statistics_embedding(columns["image"], columns["alpha"]).astype(np.float16)
    np.testing.assert_array_equal(columns["embedding"], wanted)
    assert run("dedupe", str(embedded), "--out", str(unique), "--threshold", "0.99") == 0
    assert open_bank(unique).format == "lmdb"
    np.testing.assert_array_equal(open_bank(unique).read(range(6))["image"], columns["image"][[0, 2, 3, 4, 6, 7]])
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{embedded}: 8 crops with embeddings of statistics",
        f"{unique}: 6 of 8 crops, 2 near-duplicates left out",
        "  cup: 1",
        "  wok: 1",
    ]
    assert err == ""


def test_to_urls_and_from_them(bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shards = ("--format", "webdataset")
    assert run("embed", f"file://{bank}", "--out", "memory://embed-command/embedded", *shards) == 0
    assert run("dedupe", "memory://embed-command/embedded", "--out", f"file://{tmp_path}/unique") == 0
    assert len(open_bank(tmp_path / "unique")) == 6
    assert run("dedupe", str(tmp_path / "unique"), "--out", "memory://embed-command/unique") == 0
    assert len(open_bank("memory://embed-command/unique")) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "unique"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "{bank}", "--out", "{bank}"], "expected a new or an empty folder"),
        (["embed", "{bank}", "--out", "{new}", "--embedder", "clip"], "expected statistics, torchvision:NAME"),
        (["embed", "{bank}", "--out", "{new}", "--embedder", "timm:test_vit"], "nothing is downloaded"),
        (["embed", "{bank}", "--out", "{new}", "--batch-size", "0"], "an integer of at least 1, got '0'"),
        (["embed", "{bank}", "--out", "{new}", "size=1"], "expected options only, got size=..."),
        (["embed", "{new}", "--out", "{new}"], "expected a bank"),
        (["embed", "{bank}", "--out", "s3://b/o"], "s3://b/o: expected format 'webdataset' for an object store"),
        (["dedupe", "{bank}", "--out", "{new}"], "expected a bank with embeddings"),
        (["dedupe", "{bank}", "--out", "{new}", "--threshold", "2"], "a number above 0, up to 1, got '2'"),
    ],
)
def test_bad_input(words: Any, message: str, bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.iterdir())
    assert run(*(word.format(bank=bank, new=tmp_path / "new") for word in words)) == 2
    assert message in one_error(capsys)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["embed", "dedupe"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    assert f"segpaste bank {command}" in capsys.readouterr().out.partition("example")[2]
