"""Class names come out of files: whatever they hold, no terminal obeys it and no page breaks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from segpaste._printable import in_html, printable
from segpaste.augmenting.summary import AugmentSummary
from segpaste.bank import BuildSummary, Crop, Layout, MemmapWriter
from segpaste.bank.read.class_draws import report_draws
from segpaste.cli import _errors, main
from segpaste.cli.bank import build_lines
from segpaste.viz import PastedObject, ReportItem, write_html_report

HOSTILE = "\x1b[31mcup\x9b2J\r\n\u202epuc<b>\u2028"
SAFE = r"\x1b[31mcup\x9b2J\r\n\u202epuc<b>\u2028"


@pytest.fixture
def bank(tmp_path: Path) -> str:
    size = (8, 8)
    with MemmapWriter(tmp_path / "bank", Layout(size, ["embedding"]), [HOSTILE, "lamp"]) as writer:
        for n in range(4):
            image, alpha = np.full((3, *size), 40, np.uint8), np.ones((1, *size), bool)
            box, embedding = np.array([0, 0, 8, 8], np.int32), np.ones(256, np.float16)
            writer.add(Crop(image, alpha, n % 2, box, embedding=embedding))
        writer.finish()
    return str(tmp_path / "bank")


def assert_safe(text: str) -> None:
    assert not [char for char in text if char != "\n" and not char.isprintable()]
    assert "cup" in text


class TestCommands:
    @pytest.mark.parametrize("words", [["bank", "info"], ["stats"], ["stats", "--balance", "class_uniform"]], ids=str)
    def test_what_is_printed(self, words: list[str], bank: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*words, bank]) == 0
        out = capsys.readouterr().out
        assert_safe(out)
        assert SAFE in out

    def test_json_holds_the_name_itself(self, bank: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "info", bank, "--json"]) == 0
        out = capsys.readouterr().out
        assert_safe(out)
        assert json.loads(out)["classes"][0]["name"] == HOSTILE

    def test_dedupe(self, bank: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "dedupe", bank, "--out", str(tmp_path / "few")]) == 0
        assert_safe(capsys.readouterr().out)

    def test_gallery(self, bank: str, tmp_path: Path) -> None:
        for name in ("page.html", "sheet.png"):
            assert main(["bank", "gallery", bank, "--out", str(tmp_path / name)]) == 0
        page = (tmp_path / "page.html").read_text()
        assert_safe(page)
        assert "<b>" not in page

    def test_build_andsummary(self) -> None:
        assert_safe("\n".join(build_lines(BuildSummary("bank", 1, (1,), {}), [HOSTILE], 64)))
        tally = AugmentSummary()
        tally.pasted[HOSTILE] += 1
        assert_safe("\n".join(tally.lines()))

    def test_draws(self) -> None:
        assert_safe(str(report_draws([HOSTILE], [3], np.ones(1), 3)))

    def test_errors(self, capsys: pytest.CaptureFixture[str]) -> None:
        _errors._print_line("error", f"expected cup, got {HOSTILE}")
        assert_safe(capsys.readouterr().err)


def test_report(tmp_path: Path) -> None:
    thing = PastedObject(class_name=HOSTILE, source=HOSTILE, scale=1.0, hflip=False)
    write_html_report(tmp_path / "report.html", [ReportItem(HOSTILE, (), (thing,))], {HOSTILE: 1}, HOSTILE)
    page = (tmp_path / "report.html").read_text()
    assert_safe(page)
    assert "<b>" not in page


def test_letters_of_every_script_stay() -> None:
    for name in ("cup 2", "чашка", "コップ", "می‌خواهم", "क्‍ष", "☕", "a\u00a0b", ""):
        assert printable(name) == name
    assert in_html("\x07<&>") == "\\x07&lt;&amp;&gt;"
