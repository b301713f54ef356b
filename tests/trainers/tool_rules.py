"""Whether the tools of an environment do what the rules of `segpaste check --for` say; a check of each suite."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
with mock.patch.object(sys, "path", [str(ROOT / "tests" / "tools"), str(ROOT / "scripts"), *sys.path]):
    import prove_tools
    from observe import observe


def expect_rules(name: str, folder: Path) -> None:
    """Run the tools of a program on all probes in a folder; they must do what their rules say, and nothing else."""
    with mock.patch.object(sys, "path", [str(ROOT / "tests" / "tools"), *sys.path]):
        found = observe(name, folder)
    assert found
    results = {tool: {**of, "left_out": {}} for tool, of in found.items()}
    tools = {tool: prove_tools.TOOLS[tool] for tool in results}
    assert list(prove_tools.differences(results, prove_tools.traits_of_probes(folder / "traits"), tools)) == []
