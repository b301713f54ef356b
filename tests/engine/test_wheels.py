"""A wheel for this machine, built by zig, and installed where no compiler is found."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from script_modules import SCRIPTS, script
from segpaste.engine.native import build

TARGET = {"Darwin": "macos"}.get(platform.system(), platform.system().lower()), platform.machine()
PASTE = """
from segpaste import BatchCopyPaste
from segpaste.datasets.scenes import scene_batch
from segpaste.engine import use_backend
from segpaste.engine.native import library
with use_backend("native"):
    out, report = BatchCopyPaste()(scene_batch(2, 24), return_report=True)
assert report.num_placed.sum() > 0
print(library.load()._name)
"""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("native")]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("build_wheels")


@pytest.fixture(scope="module")
def wheel(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ziglang", reason="pip install 'ziglang>=0.14'")
    if TARGET not in build.WHEEL_TAGS:
        pytest.skip(f"no wheels are made for {'-'.join(TARGET)}")
    out = tmp_path_factory.mktemp("wheels")
    built: Path = program.build_wheel("-".join(TARGET), out)
    assert list(out.iterdir()) == [built]  # and no half of one
    return built


def test_tag_and_contents(wheel: Path) -> None:
    tag = f"py3-none-{build.WHEEL_TAGS[TARGET]}"
    assert wheel.name.endswith(f"-{tag}.whl")
    archive = zipfile.ZipFile(wheel)
    (described,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
    lines = archive.read(described).decode().splitlines()
    assert f"Tag: {tag}" in lines
    assert "Root-Is-Purelib: false" in lines
    libraries = [name for name in archive.namelist() if name.endswith((".so", ".dylib", ".dll"))]
    assert libraries == ["segpaste/engine/native/libsegpaste.so"]
    assert build.MARKER + build.digest().encode() in archive.read(libraries[0])


@pytest.mark.skipif(TARGET != ("linux", "x86_64"), reason="the page has the size for Linux on x86-64")
def test_documented_size_of_the_core(program: ModuleType, wheel: Path) -> None:
    page = (SCRIPTS.parent / "docs" / "decisions" / "wheel-size.md").read_text(encoding="utf-8")
    (megabytes,) = re.findall(r"^\| native core.* \| ([\d.]+) \|$", page, re.MULTILINE)
    assert 1e6 * float(megabytes) == pytest.approx(program.parts_of(wheel)["native core"], rel=0.05)


def test_pastes_where_there_is_no_compiler(wheel: Path, tmp_path: Path) -> None:
    bare = {**{name: value for name, value in os.environ.items() if not name.startswith("SEGPASTE_")}, "PATH": ""}
    folder = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index", "--quiet"]
    run = subprocess.run([*pip, "--target", folder, wheel], env=bare, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    bare |= {"PYTHONPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", PASTE], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(folder / "segpaste" / "engine" / "native" / "libsegpaste.so")


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    environment = {**os.environ, "SEGPASTE_WHEEL_TARGET": "amiga-m68k"}
    run = subprocess.run(command, cwd=SCRIPTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "SEGPASTE_WHEEL_TARGET: expected one of linux-x86_64, " in run.stderr + run.stdout
    assert list(tmp_path.iterdir()) == []
