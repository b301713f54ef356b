"""Choice of launches to compile, and how `scripts/compile_kernels.py` reads what a kernel needs, and what it reports as
too much; nothing is compiled here.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

pytest.importorskip("triton", reason="torch brings Triton along where it has it")

import triton
from cuda_compiles import CARDS, NUM_SHARES, launches_of
from kernel_launches import forwards
from kernel_values import COUNTS, Launch, covering, launch_of, missing, shares

SCRIPT = Path(__file__).parents[2] / "scripts" / "compile_kernels.py"
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'render' for 'sm_90a'
ptxas info    : Function properties for render
    56 bytes stack frame, 24 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 209 registers, used 1 barriers, 56 bytes cumulative stack size
"""


class Pair(NamedTuple):
    """Argument of `small`; fields that it does not read decide nothing."""

    one: torch.Tensor
    other: torch.Tensor | None
    unread: int


@triton.jit
def small(pair, size, step, is_set, FLAG: triton.language.constexpr):
    """A kernel that is not compiled."""
    if FLAG > 0 and (pair.other is not None or is_set):
        helper(pair.one, size, step)


@triton.jit
def helper(values, size, step):
    if size > 1:
        triton.language.store(values + step, 0)


@pytest.fixture(scope="module")
def launches() -> list[Launch]:
    return launches_of(islice(forwards(), 0, None, 7))


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


def test_a_kernel_that_is_not_launched_is_an_error(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "launches_of", lambda _: [])
    with pytest.raises(ValueError, match="expected names of kernels that are launched, got extent, past"):
        script.compile_all([90], kernels=["past", "extent"])


def test_the_log_is_asked_for_while_a_kernel_is_compiled(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on for no longer: other processes that compile kernels print nothing new."""

    def compiled_for(*_: Any) -> str:
        print(LOG if triton.knobs.nvidia.dump_ptxas_log else "")
        return "kernel"

    monkeypatch.setattr(script, "compiled_for", compiled_for)
    before = dict(os.environ)
    assert script._compiled(90, None) == ("kernel", f"{LOG}\n")
    assert (dict(os.environ), triton.knobs.nvidia.dump_ptxas_log) == (before, False)


def test_what_decides_the_code_of_a_kernel_is_read() -> None:
    """Constants, conditions, absent fields, dtypes and integers; of records only the fields that the kernel reads."""
    found = launch_of(small, (Pair(torch.zeros(4), None, 5), 1, 32, True), {"FLAG": 3, "num_warps": 4})
    assert found.values == {
        ("pair.one", "torch.float32"),
        ("pair.other", "None"),
        ("pair.other is not None", "False"),
        ("size", "1"),
        ("step", "16"),
        ("is_set", "bool"),
        ("FLAG", "small"),
        ("FLAG > 0", "True"),
    }
    assert missing([found]) == ["small: FLAG > 0 is never False", "small: pair.other is not None is never True"]


def test_counts_of_large_batches_are_compiled_for_every_version(launches: list[Launch]) -> None:
    """8 images with 300 masks of 1024 x 1024 have more than 2**31 values, so their count is 64 bits wide."""
    counts = {(name, count) for name, counts in COUNTS.items() for count in counts}
    for share in shares(launches, CARDS, NUM_SHARES):
        wide = {(of.name, value) for _, of in share for value, kind in of.values if kind == "wide"}
        assert counts <= wide


def test_shares_have_every_kernel_and_value(launches: list[Launch]) -> None:
    found = shares(launches, CARDS, NUM_SHARES)
    for name in {launch.name for launch in launches}:
        same = [(v, card, of) for v, share in enumerate(found) for card, of in share if of.name == name]
        decisive = {value for launch in launches if launch.name == name for value in launch.decisive}
        outcomes = {value for launch in launches if launch.name == name for value in launch.outcomes}
        assert {card for _, card, _ in same} == {*CARDS}
        assert {value for v, _, of in same if v == 0 for value in of.decisive} == decisive
        for version in range(1, NUM_SHARES):
            assert [v for v, _, _ in same if v == version]
            assert {value for v, _, of in same if v == version for value in of.outcomes} == outcomes


def test_pairs_are_covered_by_few_launches(launches: list[Launch]) -> None:
    chosen = covering(launches)
    for name in {launch.name for launch in launches}:
        pairs, of_chosen = ({p for of in some if of.name == name for p in of.pairs} for some in (launches, chosen))
        assert of_chosen == pairs
    assert len(chosen) < len({(launch.name, launch.values) for launch in launches})
