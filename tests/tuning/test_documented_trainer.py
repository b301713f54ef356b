"""The example of the page on tuning, for real: its dataset, its trainer, and its command with short runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

import pytest

from fresh_process import run_script
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")


def fence(kind: str) -> str:
    """Return the only code block of a kind."""
    (body,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(body)


ASKS = """
import os, sys
from multiprocessing.connection import Client
with Client({address!r}) as asked:
    asked.send((os.getcwd(), sys.argv[1:]))
    status, out, err = asked.recv()
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""


@pytest.fixture
def fresh_python(tmp_path: Path) -> Iterator[str]:
    """Arguments of Python with which it runs a script in a fresh process that shares the import of torch."""
    script = tmp_path / "fresh_python.py"
    with Listener(family="AF_UNIX") as listener:

        def serve() -> None:
            while True:
                with listener.accept() as asking:
                    folder, words = asking.recv()
                    if not words:
                        return
                    done = run_script(*words, folder=folder)
                    asking.send((done.returncode, done.stdout, done.stderr))

        script.write_text(ASKS.format(address=listener.address))
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield str(script)
        with Client(listener.address) as last:
            last.send(("", []))
        thread.join()


@pytest.mark.slow
def test_the_example_runs(
    tmp_path: Path, fresh_python: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(fence("python"), {})
    Path("train.py").write_text(fence("py"))
    lines = PAGE.replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if line.startswith("segpaste tune scenes.json"))
    words = shlex.split(line)[1:]
    where = words.index("--trainer") + 1
    words[where] = words[where].replace("python ", f"{sys.executable} -I {fresh_python} ", 1) + " --steps 10"
    assert main([*words, "--runs", "12"]) == 0
    assert "mean" in capsys.readouterr().out
    found = json.loads(Path("tuning/tune.json").read_text())
    assert len(found["runs"]) == 12
    assert set(found["classes"]) == {"plain ball", "striped cube", "checkered tower", "marbled slab"}
    assert BatchCopyPasteConfig.load("tuning/tuned.yaml").source.kind == "bank"
    scores = [run["scores"] for run in found["runs"] if run["seed"] == 1]
    assert scores[0] != scores[1]
