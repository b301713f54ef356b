"""What `segpaste check --for` says of the tools of this environment; run by `test_trainers`."""

from __future__ import annotations

from pathlib import Path

from tool_rules import expect_rules


def test_the_tools_do_what_their_rules_say(tmp_path: Path) -> None:
    expect_rules("transformers", tmp_path)
