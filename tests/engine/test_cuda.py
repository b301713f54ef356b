"""The Triton kernels, each time in a process of its own, whose environment says how Triton runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fresh_process import fresh_output, run_fresh

pytest.importorskip("triton", reason="torch brings Triton along where it has it")

HERE = Path(__file__).parent
OLDEST_TRITON = "3.6"
"""The one of torch 2.11; the Makefile has the same number."""

ITS_NUMPY = "2.3"
"""The newest with which the interpreter of that Triton works; in the Makefile, too."""

OTHERS = ("looks", "draws", "crop", "traffic", "extend")
FILES = [("cuda_checks.py",), ("cuda_in_place.py", *(f"{name}_checks.py" for name in OTHERS))]
"""What one process checks: starting it takes as long as the checks of a file."""

INTERPRETED = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
"""Variable of a process that compiles kernels where there is a CUDA device, and else interprets them."""

RANDOM_BATCHES = {OLDEST_TRITON: ("--num", "6", "--pasted", "3"), None: ("--num", "16", "--pasted", "7")}
"""By version of Triton, None for the installed one. As many as the last number paste something: count again if options
are added to `scripts/hostile_configs.py`, since each changes what is drawn after it. Both runs flip and turn layers."""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python; a variable set to nothing is left out."""
    merged = {k: v for k, v in {**os.environ, "TRITON_INTERPRET": "", **environment}.items() if v}
    return subprocess.run([sys.executable, *arguments], env=merged, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize("names", FILES, ids=["composition", "looks, draws, crops"])
def test_they_agree_with_the_reference(names: tuple[str, ...]) -> None:
    """All checks of some files: compiled where there is a CUDA device, else in Triton's interpreter."""
    checks = [str(HERE / name) for name in names]
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *checks, PYTEST_ADDOPTS="", **INTERPRETED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize("version", RANDOM_BATCHES)
def test_they_agree_on_random_batches(version: str | None) -> None:
    """The first of those that `scripts/hostile_batches.py` draws, by native code, the reference and the interpreter."""
    script = HERE.parents[1] / "scripts" / "hostile_batches.py"
    command = [str(script), "--seed", "1", *RANDOM_BATCHES[version], "--backend", "reference", "triton"]
    done = run("-W", "ignore", *command, **path_to(version), **INTERPRETED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 batches that failed" in done.stdout


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize(("share", "version"), list(enumerate([OLDEST_TRITON, None])))
def test_they_compile_without_a_device(share: int, version: str | None, tmp_path: Path) -> None:
    """They round every product and quotient, since the last bit of a depth decides visibility, within the ceilings.

    Triton 3.6 and the installed Triton share the launches and the cards: see `kernel_values.shares`. An unexpected line
    names a fault, or what no launch has.
    """
    compiles = [str(HERE / "cuda_compiles.py"), str(share)]
    done = run("-W", "ignore", *compiles, TRITON_CACHE_DIR=str(tmp_path), **path_to(version))
    assert done.returncode == 0, done.stdout + done.stderr
    used, *lines = done.stdout.splitlines()
    assert used.startswith(f"triton {version or ''}")
    of_draws = ("find_pixels", "survey_rows", "choose_rows", "draw_slots", "place_layers", "keep_part")
    of_classes, of_looks = ("choose_classes", "find_fragments"), ("tables", "look", "look_until_settled")
    of_pixels, of_inputs = ("fill_masks", "keep", "paste", "write"), ("extend", "stage")
    names = (*of_draws, *of_classes, *of_looks, *of_pixels, *of_inputs)
    assert [line for line in lines if line not in {f"{card} {name}" for card in (80, 90, 100) for name in names}] == []
    assert {line.split()[1] for line in lines} == {*names}


def path_to(version: str | None) -> dict[str, str]:
    """Return the variable with which a process imports this version of Triton, None for the installed one."""
    folders = [] if version is None else [str(triton_folder(version))]
    return {"PYTHONPATH": os.pathsep.join([*folders, *sys.path])}


def triton_folder(version: str) -> Path:
    """Return the folder in which `make test` has installed this Triton and its NumPy, beside the environment's own."""
    folder = Path(sys.prefix) / f"triton-{version}"
    if not (folder / "triton").is_dir() or not list(folder.glob(f"numpy-{ITS_NUMPY}.*")):
        name = Path(sys.prefix).name
        target = f"{name}/.triton-{version}-numpy-{ITS_NUMPY}"
        pytest.fail(f"expected Triton {version} and NumPy {ITS_NUMPY} in {folder}; run `make VENV={name} {target}`")
    return folder


def test_on_the_cpu_they_say_what_to_do() -> None:
    code = """
from samples import make_batch
from segpaste.augmentation import BatchCopyPaste
from segpaste.engine import use_backend
with use_backend("triton"):
    BatchCopyPaste()(make_batch(2, max_instances=8))
"""
    done = run_fresh(code, TRITON_INTERPRET="")
    assert done.returncode == 1
    expected = (
        "RuntimeError: segpaste's triton backend: expected tensors on a CUDA device, got cpu; move the batch to one,"
    )
    assert done.stderr.splitlines()[-1].startswith(expected)
    assert "TRITON_INTERPRET=1" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("block_triton", "expected"), [(False, "triton 0"), (True, "reference 1")])
def test_a_cuda_device_takes_them(block_triton: bool, expected: str) -> None:
    """Without Triton there is one warning, and the reference."""
    code = f"""
import sys, warnings
if {block_triton}:
    sys.modules["triton"] = None
import torch
from segpaste.engine import engine_for
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = {{engine_for(torch.device("cuda", i)).__name__.rpartition(".")[2] for i in range(3)}}
print(*names, sum("install triton" in str(w.message) for w in caught))
"""
    assert fresh_output(code, TRITON_INTERPRET="") == expected


def test_importing_segpaste_imports_no_triton_kernels() -> None:
    code = """
import sys, segpaste
segpaste.BatchCopyPaste()
print([m for m in sys.modules if m.startswith("segpaste.engine.triton")])
"""
    assert fresh_output(code) == "[]"
