"""The trainer's command: placeholders, real processes that fail in many ways, and what they wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from segpaste.tuning.trainer import PLACEHOLDERS, Scores, Trainer, TrainerError, TuningError, read_scores

ENDING = "{config} {balance} {train} {val} {seed} {out}"
GOOD = {"scores": {"ball": 0.5, "cube": 1}}


def trainer_of(folder: Path, body: str) -> Trainer:
    """Return a trainer of Python code in which ``out`` is the file to write."""
    script = folder / "train.py"
    script.write_text(f"import json, os, signal, sys, time\nout = sys.argv[-1]\n{body}\n")
    return Trainer.parse(f"{sys.executable} '{script}' {ENDING}")


def train(folder: Path, body: str, **values: Any) -> Scores:
    trainer = trainer_of(folder, body)
    filled = {**dict.fromkeys(PLACEHOLDERS, "none"), "out": folder / "scores.json", **values}
    return trainer.train(filled, folder / "log.txt")


def write(value: Any) -> str:
    return f"open(out, 'w').write({json.dumps(value)!r})"


class TestCommand:
    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("python train.py {config} {train} {val} {seed}", r"expected {out} \(JSON file"),
            ("python train.py {train} {val} {seed} {out}", r"expected {config}"),
            ("python train.py {config} {val} {seed} {out}", r"expected {train} or {train_list}"),
            ("python train.py {config} {train} {val} {out}", r"expected {seed}"),
            (f"python train.py {ENDING} {{epochs}}", r"got {epochs}; correct it"),
            (f"python train.py {ENDING} {{}}", "not a plain name"),
            (f"python train.py {ENDING} {{seed:03d}}", "not a plain name"),
            (f"python train.py {ENDING} {{seed!r}}", "not a plain name"),
            (f"python train.py {ENDING} {{seed.real}}", "not a plain name"),
            (f"python train.py {ENDING} {{", "expected a command"),
            (f"python 'train.py {ENDING}", "No closing quotation"),
            (f"no-such-program {ENDING}", "found none called 'no-such-program'"),
            ("", "expected {config}"),
        ],
    )
    def test_refused(self, command: str, message: str) -> None:
        with pytest.raises(TuningError, match=message):
            Trainer.parse(command)

    def test_no_shell(self, tmp_path: Path) -> None:
        body = "json.dump({'scores': {' '.join(sys.argv[1:-1]): 1}}, open(out, 'w'))"
        words = {"config": "$(date) a;b", "train": "with space", "val": "*", "seed": 7, "balance": '"'}
        assert list(train(tmp_path, body, **words)) == ['$(date) a;b " with space * 7']

    def test_braces_of_ones_own(self) -> None:
        trainer = Trainer.parse(f"{sys.executable} '{{{{\"lr\": 1}}}}' {ENDING}")
        assert trainer.command(dict.fromkeys(PLACEHOLDERS, "x"))[1] == '{"lr": 1}'

    def test_a_changed_script_has_another_digest(self, tmp_path: Path) -> None:
        before = trainer_of(tmp_path, "one = 1").digests()
        assert trainer_of(tmp_path, "one = 2").digests() != before
        assert str(tmp_path / "train.py") in before


class TestScores:
    def test_read(self, tmp_path: Path) -> None:
        assert train(tmp_path, write(GOOD)) == {"ball": 0.5, "cube": 1.0}

    def test_null_is_left_out(self, tmp_path: Path) -> None:
        assert train(tmp_path, write({"scores": {"ball": None, "cube": 0}})) == {"cube": 0.0}

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("pass", "found no file"),
            ("open(out, 'w').write('0.5')", "got 0.5"),
            ("open(out, 'w').write('{')", "got no JSON"),
            ("open(out, 'wb').write(bytes([255]))", "got no JSON"),
            (write({}), "got {}"),
            (write({"scores": {}}), "at least one class"),
            (write({"scores": {"ball": None}}), "at least one class"),
            (write({"scores": [0.5]}), "got {"),
            (write({"scores": {"ball": "0.5"}}), "got \"0.5\" for 'ball'"),
            (write({"scores": {"ball": True}}), "got true for 'ball'"),
            ("json.dump({'scores': {'ball': float('nan')}}, open(out, 'w'))", "finite numbers.* got NaN for 'ball'"),
            ("json.dump({'scores': {'ball': float('inf')}}, open(out, 'w'))", "finite numbers.* got Infinity"),
            (f"{write(GOOD)}; sys.exit(3)", "exit code 0, got exit code 3"),
            ("raise ValueError('no such class')", "got exit code 1"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "got signal 9"),
        ],
    )
    def test_refused(self, tmp_path: Path, body: str, message: str) -> None:
        with pytest.raises(TrainerError, match=message) as raised:
            train(tmp_path, body)
        assert str(tmp_path / "train.py") in str(raised.value)

    def test_last_lines(self, tmp_path: Path) -> None:
        body = "print(*range(1000), sep='\\n', flush=True); print('broken', file=sys.stderr); sys.exit(1)"
        with pytest.raises(TrainerError) as raised:
            train(tmp_path, body)
        assert raised.value.last_lines.splitlines() == [*map(str, range(981, 1000)), "broken"]

    def test_file_of_text_that_is_no_unicode(self, tmp_path: Path) -> None:
        with pytest.raises(TrainerError) as raised:
            train(tmp_path, "sys.stdout.buffer.write(bytes([255, 10])); sys.exit(1)")
        assert raised.value.last_lines == "\ufffd"

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(TrainerError, match="found no file"):
            read_scores(tmp_path / "none.json")


def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    """The trainer and what it started, as workers of a loader."""
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"open({str(tmp_path / 'pids')!r} + '.partial', 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(tmp_path / 'pids')!r} + '.partial', {str(tmp_path / 'pids')!r})\n"
        "time.sleep(300)"
    )

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, body)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    for pid in (tmp_path / "pids").read_text().split():
        assert is_gone(int(pid))


def is_gone(pid: int) -> bool:
    """Wait until a process has ended; one that nobody waits for counts as ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if not state.stdout.strip() or state.stdout.strip().startswith("Z"):
            return True
        time.sleep(0.05)
    return False
