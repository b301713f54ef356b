"""Every Python snippet of the README and the docs runs; those of one page share their names, in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def snippets(page: Path) -> list[str]:
    """The bodies of the page's ```python fences."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_there_are_snippets() -> None:
    assert sum(len(snippets(page)) for page in PAGES) >= 5


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "snippets.py"
    body = "\n\n".join(snippets(page))
    indented = body.replace("\n", "\n    ")
    script.write_text(f'if __name__ == "__main__":\n    {indented}\n', encoding="utf-8")
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{page.relative_to(ROOT)}:\n{run.stderr[-3000:]}"
