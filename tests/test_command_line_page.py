"""The page of the command line is what the parsers say."""

from __future__ import annotations

import pytest

from script_modules import script

PROGRAM = script("write_command_line")


def test_it_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["write_command_line.py", "--check"])
    PROGRAM.main()


def test_an_old_page_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["write_command_line.py", "--check"])
    monkeypatch.setattr(PROGRAM, "HEAD", "# Another head\n")
    with pytest.raises(SystemExit, match="run python"):
        PROGRAM.main()
