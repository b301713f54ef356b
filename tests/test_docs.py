"""Every Python snippet of the README and the docs runs; those of one page share their names, in order."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import re
import runpy
import textwrap
from pathlib import Path

import pytest

from segpaste import BatchCopyPaste
from segpaste.datasets import EpochDataLoader

ROOT = Path(__file__).parents[1]
FIRST_PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def snippets(page: Path) -> list[str]:
    """The bodies of the page's ```python fences."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_there_are_snippets() -> None:
    assert sum(len(snippets(page)) for page in PAGES) >= 5


def run_script(script: str, log: str) -> None:
    """Run a script as a separate process would, with its output in a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Return a context whose processes have the libraries loaded: to import them takes longer than most pages do."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision.tv_tensors", "segpaste.datasets.scenes"])
    return context


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, processes: multiprocessing.context.ForkServerContext) -> None:
    script, log = tmp_path / "snippets.py", tmp_path / "log.txt"
    body = "\n\n".join(snippets(page))
    indented = body.replace("\n", "\n    ")
    script.write_text(f'if __name__ == "__main__":\n    {indented}\n', encoding="utf-8")
    process = processes.Process(target=run_script, args=(str(script), str(log)))
    process.start()
    process.join(timeout=300)
    process.kill()
    assert process.exitcode == 0, f"{page.relative_to(ROOT)}:\n{log.read_text(encoding='utf-8')[-3000:]}"


def test_the_forward_that_is_shown_is_the_code() -> None:
    source = inspect.getsource(BatchCopyPaste.forward)
    body = textwrap.dedent(source.split('"""')[-1]).strip()
    page = (ROOT / "docs" / "guide" / "pipeline.md").read_text()
    assert textwrap.indent(body, "    ") in page
    assert len(body.splitlines()) <= 15
    signature = inspect.signature(BatchCopyPaste.forward)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert f"def forward{inspect.Signature(plain)}:\n{textwrap.indent(body, '    ')}" in page


def test_the_first_lines_of_readme_and_index_are_the_same() -> None:
    """They work with the batches of a loader with default arguments, which are padded to its number of slots."""
    readme, index = (shown(page) for page in FIRST_PAGES)
    assert readme[0] == index[0]
    slots = inspect.signature(EpochDataLoader).parameters["max_instances"].default
    found = re.findall(r"loader, max_instances=(\d+)", "".join(readme + index))
    assert found == [str(slots)] * 3


def test_readme_has_the_costs_of_the_page_on_throughput() -> None:
    text = FIRST_PAGES[0].read_text().split("docs/evidence/throughput.md")[1].split("\n\n")[0]
    least, most, step, worker = map(float, re.findall(r"\d+(?:\.\d+)?", text))
    rows = (ROOT / "docs" / "evidence" / "throughput.md").read_text().splitlines()
    arms = {
        name: next(line for line in rows if line.startswith(f"| {name} |")).split(" | ")
        for name in ("no paste", "segpaste, in the step", "segpaste, in the step, bank", "segpaste, sample in a worker")
    }
    of_step, paste, reading = 5, 6, 7  # columns, CPU ms of an image
    assert step == round(float(arms["no paste"][of_step]))
    assert least == float(arms["segpaste, in the step"][paste])
    assert most == float(arms["segpaste, in the step, bank"][paste])
    in_worker = float(arms["segpaste, sample in a worker"][reading]) - float(arms["no paste"][reading])
    assert worker == round(in_worker, 1)


def shown(page: Path) -> list[str]:
    """The bodies of the page's ```py fences, which do not run."""
    return re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


SECTIONS = "guide", "tasks", "presets", "reference"
LED = sorted(page for name in SECTIONS for page in (ROOT / "docs" / name).glob("*.md") if page.stem != "performance")


@pytest.mark.parametrize("page", [*LED, ROOT / "docs" / "examples.md"], ids=lambda p: str(p.relative_to(ROOT / "docs")))
def test_a_page_says_for_whom_it_is_and_what_comes_next(page: Path) -> None:
    """The first sentence begins with "For", and the page ends with a section of links, except the list of commands."""
    text = page.read_text(encoding="utf-8")
    title, first = text.split("\n\n")[:2]
    assert title.startswith("# ")
    assert re.match(r"For (those|everybody|readers)\b[^.]*[.:?]", first), first
    if page.stem != "command-line":
        last = text.rstrip("\n").rsplit("\n## ", 1)[1]
        assert last.startswith("Next\n\n")
        assert re.search(r"\]\([^)]+\)", last), last[:200]
        assert len(last.splitlines()) <= 6
