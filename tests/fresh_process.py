"""Run code in fresh processes that share one import of torch, which takes seconds.

They are forks of one process that has imported torch and torchvision, with them Triton, and nothing of segpaste.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

SCRIPT = """
import os, runpy, sys
sys.argv = {argv!r}
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
COMMAND = """
import sys
from segpaste.cli import main
{before}
sys.exit(main({words!r}))
"""


class FreshProcess:
    """A process that runs Python code as ``python -W ignore -c`` does, in a session of its own."""

    def __init__(self, code: str, folder: str | Path = ".", **environment: str) -> None:
        self.code = code
        self._output = tempfile.TemporaryDirectory(prefix="segpaste-fresh-")
        for name in ("out", "err"):
            (Path(self._output.name) / name).touch()
        merged = {name: value for name, value in {**os.environ, **environment}.items() if value}
        how = {"environment": merged, "path": sys.path, "folder": os.path.abspath(folder), "output": self._output.name}
        self.pid = _ask({"code": code, **how})

    def output(self) -> str:
        """Return what it has printed so far."""
        return (Path(self._output.name) / "out").read_text()

    def wait_until(self, is_reached: Callable[[], Any]) -> None:
        """Wait until something is true that the process does."""
        deadline = time.monotonic() + 120
        while not is_reached():
            assert time.monotonic() < deadline, (self.output(), self.wait().stderr)
            time.sleep(0.005)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        status = _ask({"ended": self.pid})
        out, err = ((Path(self._output.name) / name).read_text() for name in ("out", "err"))
        self._output.cleanup()
        return subprocess.CompletedProcess([self.code], status, out, err)


def start_command(words: list[str], before: str = "") -> FreshProcess:
    """Start a command of segpaste, after other code."""
    return FreshProcess(COMMAND.format(words=words, before=before))


def run_fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code; an environment variable set to nothing is left out."""
    return FreshProcess(code, **environment).wait()


def run_script(script: str | Path, *words: str, folder: str | Path = ".") -> subprocess.CompletedProcess[str]:
    """Run a file of Python as a script, in a folder."""
    return FreshProcess(SCRIPT.format(argv=[str(script), *words]), folder).wait()


def fresh_output(code: str, **environment: str) -> str:
    """Return what code prints in a fresh process, which must succeed."""
    done = run_fresh(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _ask(request: dict[str, Any]) -> int:
    """Return the id of a new process, or the exit code of one that ends."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@cache
def _server() -> subprocess.Popen[str]:
    """Start the process to fork from; it ends when its input closes, at the latest with this process."""
    command = [sys.executable, "-W", "ignore", __file__]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _serve() -> None:
    import torchvision.tv_tensors  # noqa: F401 (with it comes torch)

    assert "segpaste" not in sys.modules
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif (answer := os.fork()) == 0:
            _run(**request)
        print(answer, flush=True)


def _run(code: str, environment: dict[str, str], path: list[str], folder: str, output: str) -> NoReturn:
    signal.alarm(300)  # ends what hangs
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in what is started in the background
    os.setsid()
    for name, stream in (("out", 1), ("err", 2)):
        os.dup2(os.open(Path(output) / name, os.O_WRONLY), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    status = 1
    try:
        exec(code, {"__name__": "__main__"})
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
