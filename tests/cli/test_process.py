"""The process of a command: what it imports, how it ends, and that a call from Python changes nothing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_world import write_instances

import segpaste
from segpaste.cli import _process, main
from small_bank import small_bank

COMMAND = "from segpaste.cli import entry; entry()"
NO_TORCH = """
import sys
from segpaste.cli import main
for words in {commands!r}:
    assert main(words) == 0
    assert not {{"torch", "torchvision", "lmdb", "PIL"}} & set(sys.modules), words
"""
FACTS = """
import atexit, gc, sys
from segpaste.cli import _process, entry

def print_facts():
    import torch
    put_off = isinstance(sys.modules.get("torch._dynamo"), _process._Later)
    print(put_off, gc.isenabled(), gc.get_freeze_count() > 0, torch.get_num_threads())

atexit.register(print_facts)
entry()
"""


def run(
    code: str, *words: object, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code, with arguments, in a process of its own."""
    merged = {**os.environ, "PYTHONPATH": str(Path(segpaste.__file__).parents[1]), **environment}
    merged.pop("PYTHONUNBUFFERED", None)
    kept = {name: value for name, value in merged.items() if value}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=kept, timeout=120)


def run_alone(body: str, exit_code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the body of a command in a process that belongs to it."""
    lines = [f"    {line}" for line in body.strip().splitlines()]
    code = ["from segpaste.cli import _process", "def command():", *lines, f"    return {exit_code}"]
    return run("\n".join([*code, "if __name__ == '__main__':", "    _process.run_alone(command)"]), **environment)


class TestImports:
    def test_banks_and_tables_need_no_torch(self, tmp_path: Path) -> None:
        bank, table = str(tmp_path / "bank"), str(write_instances(tmp_path)[0])
        small_bank(tmp_path / "bank", [0, 1, 0, 2])
        commands = [["stats", bank], ["bank", "info", bank], ["bank", "verify", bank]]
        commands += [["stats", bank, "--balance", "instance_aware"], ["stats", table, "--balance", "class_uniform"]]
        done = run(NO_TORCH.format(commands=commands))
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_paste_needs_neither_compiler_nor_threads(self, tmp_path: Path) -> None:
        words = ["augment", "scenes", "--size", "64", "--num", "2", "--out", tmp_path / "out", "--dry-run"]
        done = run(FACTS, *words, OMP_NUM_THREADS="")
        assert done.stdout.splitlines()[-1] == "True True True 1", done.stderr

    def test_the_compiler_comes_when_it_is_used(self) -> None:
        """By its name, and in a fork through a function of it; threads that are asked for are kept."""
        done = run_alone(
            """
with _process.importing():
    import torchvision, segpaste.types
import os, sys, torch
assert torch.get_num_threads() == 2
assert isinstance(torch._dynamo, _process._Later)
if (child := os.fork()) == 0:
    print(torchvision.ops.roi_align.__globals__["is_compile_supported"]("cpu"), type(torch._dynamo).__name__)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
import torch._dynamo.config
assert not [name for name, module in sys.modules.items() if isinstance(module, _process._Later)]
from torchvision.ops import roi_align
boxes = torch.tensor([[0.0, 1, 1, 5, 5]])
twice = torch.compile(lambda x: 2 * x, backend="eager")
print(roi_align(torch.ones(1, 1, 8, 8), boxes, 2).mean().item(), twice(torch.ones(1)).item())
""",
            OMP_NUM_THREADS="2",
        )
        assert done.stdout.split() == ["True", "module", "1.0", "2.0"], done.stderr


class TestEnd:
    @pytest.mark.parametrize("code", [0, 130])
    def test_handlers_run_and_output_arrives(self, code: int) -> None:
        done = run_alone(
            """
import atexit, os, sys
class Kept:
    def __del__(self, write=os.write):
        write(1, b"torn down")
sys.kept = Kept()
atexit.register(print, "handler", end="")
print("out", end=" ")
print("err", end="", file=sys.stderr)
""",
            code,
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, "out handler", "err")

    def test_child_processes_and_threads_finish(self, tmp_path: Path) -> None:
        done = run_alone(f"""
import multiprocessing, threading, time
from pathlib import Path
def write(name, seconds):
    time.sleep(seconds)
    Path({str(tmp_path)!r}, name).write_text(name)
multiprocessing.get_context("fork").Process(target=write, args=("process", 0.3)).start()
threading.Thread(target=write, args=("thread", 0.8)).start()
""")
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["process", "thread"]

    def test_what_only_a_cycle_keeps_is_ended(self) -> None:
        done = run_alone("""
import gc
gc.disable()
class Workers:
    def __init__(self):
        self.own = self
    def __del__(self):
        print("ended")
Workers()
""")
        assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr

    def test_a_profiler_sees_the_end(self) -> None:
        done = run_alone("""
import os, sys
class Kept:
    def __del__(self, write=os.write):
        write(1, b"torn down")
sys.kept = Kept()
sys.setprofile(lambda *_: None)
""")
        assert done.stdout.split() == ["torn", "down"]

    def test_errors_keep_their_exit_code(self, tmp_path: Path) -> None:
        assert run(COMMAND, "stats", tmp_path / "missing.json").returncode == 2
        assert run(COMMAND, "--version").returncode == 0
        defect = run(f"import segpaste.cli\nsegpaste.cli.parse = lambda words: 1 / 0\n{COMMAND}")
        assert (defect.returncode, defect.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")

    @pytest.mark.parametrize(("words", "code"), [(["stats"], 1), (["--help"], 120)])
    def test_nobody_reads_the_output(self, words: list[str], code: int, tmp_path: Path) -> None:
        dataset = [str(write_instances(tmp_path)[0])] if words == ["stats"] else []
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = run(COMMAND, *words, *dataset, stdout=write_end)
        os.close(write_end)
        assert (done.returncode, done.stderr) == (code, "")

    def test_a_full_disk_is_reported(self, tmp_path: Path) -> None:
        dataset = write_instances(tmp_path)[0]
        with Path("/dev/full").open("w") as full:
            done = run(COMMAND, "stats", dataset, stdout=full)
        assert done.returncode == 2
        assert done.stderr.startswith("segpaste: error: No space left on device")


def test_a_call_from_python_changes_nothing(tmp_path: Path) -> None:
    before, num_frozen = (torch.get_num_threads(), gc.isenabled(), type(torch._dynamo)), gc.get_freeze_count()
    assert main(["augment", "scenes", "--size", "64", "--num", "2", "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    assert main(["--version"]) == 0
    with _process.importing():
        assert gc.isenabled() == before[1]
    assert (torch.get_num_threads(), gc.isenabled(), type(torch._dynamo)) == before
    assert gc.get_freeze_count() <= num_frozen
