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
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn


def run_fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as ``python -W ignore -c`` does; an environment variable set to nothing is left out."""
    merged = {name: value for name, value in {**os.environ, **environment}.items() if value}
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="segpaste-fresh-") as folder:
        request = {"code": code, "environment": merged, "path": sys.path, "folder": folder}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess([code], status, out, err)


def fresh_output(code: str, **environment: str) -> str:
    """Return what code prints in a fresh process, which must succeed."""
    done = run_fresh(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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
        if (child := os.fork()) == 0:
            _run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(code: str, environment: dict[str, str], path: list[str], folder: str) -> NoReturn:
    signal.alarm(120)
    for name, stream in (("out", 1), ("err", 2)):
        os.dup2(os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT), stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    status = 1
    try:
        exec(code, {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
