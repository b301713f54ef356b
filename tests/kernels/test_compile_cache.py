"""Where compiled loops are kept, also where they cannot be; and that no fork comes between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from segpaste.kernels import _cpu_compile, compiles_first, use_kernels


def test_compiled_loops_go_where_numba_is_told(tmp_path: Path) -> None:
    """And code that checks bounds lies apart from code that does not."""
    code = "from segpaste.kernels import _cpu_compile as c; print(c._CACHE)"
    folders = set()
    for extra in ({}, {"NUMBA_CACHE_DIR": str(tmp_path)}, {"NUMBA_BOUNDSCHECK": "1"}):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **extra}, capture_output=True, text=True, check=True
        )
        folders.add(run.stdout.strip())
    assert len(folders) == 3
    assert any(folder.startswith(str(tmp_path)) for folder in folders)


def test_it_is_known_whether_loops_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cpu_compile, "_CACHE", tmp_path)
    assert compiles_first()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "_cpu_step.paste_rows-21.py311.nbi").touch()
    assert not compiles_first()
    monkeypatch.setattr(_cpu_compile, "_CACHE", None)
    assert compiles_first()
    with use_kernels("reference"):
        assert not compiles_first()


class TestWhereLoopsAreKept:
    def test_a_folder_that_cannot_be_written_is_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once; and never from or to a folder of somebody else."""
        wanted, own = tmp_path / "read-only", tmp_path / "own" / "digest"
        (wanted / "kernels").mkdir(parents=True)
        (wanted / "kernels" / "loop.nbc").write_text("kept")
        can_write = _cpu_compile._can_write
        monkeypatch.setattr(_cpu_compile, "_can_write", lambda folder: folder != wanted and can_write(folder))
        assert _cpu_compile._choose_cache(wanted, own) == own
        assert (own / "kernels" / "loop.nbc").read_text() == "kept"
        (own / "kernels" / "loop.nbc").write_text("newer")
        assert _cpu_compile._choose_cache(wanted, own) == own
        assert (own / "kernels" / "loop.nbc").read_text() == "newer"
        assert own.parent.stat().st_mode & 0o077 == 0
        monkeypatch.setattr(os, "getuid", lambda: own.stat().st_uid + 1)
        assert _cpu_compile._choose_cache(wanted, own) is None

    def test_nowhere(self) -> None:
        nowhere = Path("/proc/segpaste")
        assert _cpu_compile._choose_cache(nowhere, nowhere / "own") is None

    @pytest.mark.parametrize("temporary", [True, False])
    def test_loops_run_wherever_they_are_kept(self, temporary: bool, tmp_path: Path) -> None:
        code = """
import tempfile, warnings
if not {temporary}:
    tempfile.tempdir = "/proc/segpaste"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from segpaste.kernels import _cpu_compile, _cpu_layout
import numpy as np
extent = np.zeros((1, 2), np.int64)
_cpu_layout.find_extents(np.zeros((1, 3, 5), np.bool_), extent)
print(_cpu_compile._CACHE, extent.tolist(), sum("keep its compiled loops nowhere" in str(w.message) for w in caught))
"""
        environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/segpaste", "TMPDIR": str(tmp_path)}
        run = subprocess.run(
            [sys.executable, "-c", code.format(temporary=temporary)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        folder, rest = run.stdout.strip().split(maxsplit=1)
        assert folder.startswith(str(tmp_path)) if temporary else folder == "None"
        assert rest == f"[[5, 3]] {int(not temporary)}"


def test_a_fork_waits_for_a_thread_that_compiles() -> None:
    """Else the child, which inherits the lock, waits for ever."""
    code = """
import os, signal, threading, time
from segpaste.kernels import _cpu_compile, compiles_first, use_kernels
from numba.core.compiler_lock import global_compiler_lock
taken = threading.Event()
def compile():
    with global_compiler_lock:
        taken.set()
        time.sleep(0.3)
threading.Thread(target=compile).start()
taken.wait()
if (child := os.fork()) == 0:
    signal.alarm(10)
    with global_compiler_lock:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "0"
