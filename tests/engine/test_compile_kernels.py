"""How `scripts/compile_kernels.py` reads what a kernel needs, and what it calls too much; it compiles nothing here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("triton", reason="torch brings Triton along where it has it")

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_kernels.py"
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'render' for 'sm_90a'
ptxas info    : Function properties for render
    56 bytes stack frame, 24 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 209 registers, used 1 barriers, 56 bytes cumulative stack size
"""


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("compile_kernels", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_the_log_of_the_assembler_is_read(script: Any) -> None:
    found = script._read("render", 90, SimpleNamespace(shared=49153, num_warps=8), LOG)
    assert found == script.Compiled("render", 90, registers=209, spilled=120, shared=49153, warps=8)
    assert found.excesses == [
        "209 registers, at most 128",
        "120 bytes spilled, at most 0",
        "49153 bytes of shared memory, at most 49152",
    ]
    assert script.Compiled("render", 90, 128, 0, 49152, 8).excesses == []
    lines = script.table([found, script.Compiled("render", 90, 64, 0, 0, 4)])
    assert lines[2:] == ["| render | 90 | 2 | 64..209 | 120 | 49153 | 8 |"]


def test_a_kernel_from_a_cache_is_an_error(script: Any) -> None:
    with pytest.raises(RuntimeError, match="expected the assembler's log of render, got ''"):
        script._read("render", 90, SimpleNamespace(shared=0, num_warps=8), "")


def test_every_dtype_comes_in_every_layout(script: Any) -> None:
    seen = set()
    for _, batch in script.every_launch():
        images = batch.images
        last = not images.is_contiguous() and images.stride(1) == 1
        seen.add((images.dtype, "strided" if min(images.stride()) > 1 else "last" if last else "row-major"))
    assert {(d, way) for d in script.DTYPES for way in ("strided", "last", "row-major")} <= seen
