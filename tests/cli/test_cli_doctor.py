"""`segpaste doctor`: what it finds here, what it calls broken, and the limits of control groups."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from segpaste import extras
from segpaste._version import __version__
from segpaste.augmentation.self_test import self_test
from segpaste.bank.storage.block_cache import cache_state
from segpaste.cli import doctor, main
from segpaste.datasets.scenes import SceneConfig, scene_batch
from segpaste.engine import backend_state, native, select
from segpaste.workspace import machine

ROOT = Path(__file__).parents[2]
SMALL = SceneConfig(height=64, width=80)


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["doctor", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def run(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["doctor"])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class TestHere:
    def test_facts(self, found: Any, capsys: pytest.CaptureFixture[str]) -> None:
        assert found["healthy"]
        assert found["schema"] == 1
        assert found["segpaste"]["version"] == __version__
        versions = {row["name"]: row["version"] for row in found["packages"]}
        assert versions["torch"] == torch.__version__.partition("+")[0]
        assert found["backends"]["chosen"]["cpu"] in ("native", "reference")
        states = {row["backend"]: row["state"] for row in found["self_test"]}
        assert states["reference"] == states["native"] == "ok"
        assert found["machine"]["memory_bytes"] > 1 << 28
        assert not any(problem["severity"] == "error" for problem in found["problems"])

    def test_text_is_one_block_without_the_home_folder(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "examine", lambda: EXAMPLE)
        monkeypatch.setenv("HOME", "/home/someone")
        code, text = run(capsys)
        assert code == 1
        assert "/home/someone" not in text
        assert "~/lib.so, code for v4, 2 threads" in text
        assert "lmdb" in text
        assert "missing: pip install 'lmdb>=1.4.1'" in text
        assert "limited to 1.5 by a control group" in text
        assert text.endswith("errors\n  odd\\x1b\n\nsomething is broken, see the errors above\n")


EXAMPLE: dict[str, Any] = {
    "healthy": False,
    "problems": [{"severity": "error", "message": "odd\x1b"}],
    "segpaste": {"version": "1", "folder": "/home/someone/segpaste"},
    "python": {"version": "3", "executable": "/home/someone/python"},
    "machine": {
        **dict.fromkeys(("memory_bytes", "available_bytes", "cgroup_memory_bytes", "shared_memory_bytes"), 1 << 30),
        "system": "Linux",
        "processor": "x",
        "cores": 4,
        "usable_cores": 2,
        "cgroup_cores": 1.5,
        "open_files": 9,
    },
    "packages": [
        {
            "name": "lmdb",
            "version": None,
            "requirement": "lmdb>=1.4.1",
            "role": "extra",
            "state": "missing",
            "hint": "pip install 'lmdb>=1.4.1'",
        }
    ],
    "variables": {"SEGPASTE_ISA": "v4"},
    "cache": {},
    "backends": {
        "chosen": {"cpu": "native"},
        "asked_for": None,
        "native": {"file": "/home/someone/lib.so", "level": "v4", "error": None},
        "cuda": {"built_for": None, "devices": [], "triton_error": None},
        "torch_threads": 2,
        "runs_in_parallel": True,
    },
    "self_test": [{"backend": "native", "device": "cpu", "state": "ok", "reason": None, "seconds": 0.5}],
}


class TestBroken:
    """Each is an error or a remark, by the function that finds it."""

    def problems(self, function: Any) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        function(found)
        return found

    def test_a_library_that_is_named_and_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEGPASTE_NATIVE_LIBRARY", str(tmp_path / "none.so"))
        (problem,) = self.problems(backend_state.backends)
        assert problem["severity"] == "error"
        assert "none.so is missing: build it" in problem["message"]

    def test_a_library_of_other_sources(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "lib.so").write_bytes(b"segpaste-native:0123456789abcdef")
        monkeypatch.setattr(backend_state.build, "LIBRARY", tmp_path / "lib.so")
        (problem,) = self.problems(backend_state.backends)
        assert problem["severity"] == "error"
        assert "was built from other sources" in problem["message"]

    def test_no_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend_state.build, "LIBRARY", tmp_path / "lib.so")
        (problem,) = self.problems(backend_state.backends)
        assert problem["severity"] == "remark"

    def test_a_backend_that_does_not_exist(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(select, "_asked_for", "fast")
        (problem,) = self.problems(backend_state.backends)
        assert problem["message"] == "SEGPASTE_BACKEND: expected one of reference, native, triton, got 'fast'"

    def test_an_unknown_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEGPASTE_BACKND", "native")
        (problem,) = self.problems(machine.variables)
        assert problem == {
            "severity": "remark",
            "message": "SEGPASTE_BACKND: segpaste reads no such variable; the nearest is SEGPASTE_BACKEND",
        }

    def test_a_bound_of_the_cache_that_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEGPASTE_CACHE_BYTES", "1GB")
        (problem,) = self.problems(cache_state)
        assert problem["severity"] == "error"

    def test_a_cache_in_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "file" / "blocks"))
        (problem,) = self.problems(cache_state)
        assert problem["severity"] == "remark"

    @pytest.mark.parametrize(
        ("requirement", "state"), [("torch>=999", "too old"), ("torch>=2.11", "ok"), ("torch", "ok")]
    )
    def test_a_version(self, monkeypatch: pytest.MonkeyPatch, requirement: str, state: str) -> None:
        monkeypatch.setattr(extras, "REQUIRED", {"torch": requirement})
        problems: list[dict[str, str]] = []
        (row, *_) = extras.packages(problems)
        assert row["state"] == state
        assert [problem["severity"] for problem in problems] == ["error"] * (state != "ok")

    def test_a_package_that_is_missing_or_broken(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "segpaste_test_broken.py").write_text("import no_such_module_anywhere")
        monkeypatch.syspath_prepend(tmp_path)
        names = ("no_such_module_anywhere", "segpaste_test_broken")
        monkeypatch.setattr(extras, "REQUIRED", {name: f"{name}>=1" for name in names})
        monkeypatch.setattr(extras, "_version", lambda module, name: None)
        problems: list[dict[str, str]] = []
        first, second, *_ = extras.packages(problems)
        assert (first["state"], first["hint"]) == ("missing", "pip install 'no_such_module_anywhere>=1'")
        assert second["state"] == "broken"
        assert [problem["severity"] for problem in problems[:2]] == ["error", "error"]
        assert not doctor.examine()["healthy"]
        assert "self_test" not in doctor.examine()

    def test_a_backend_that_differs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        step = native.step

        def wrong(*args: Any, **options: Any) -> Any:
            pasted = step(*args, **options)
            images = pasted.batch.images.clone()
            images[0, 0, 0, 0] ^= 1
            return pasted._replace(batch=replace(pasted.batch, images=images))

        monkeypatch.setattr(native, "step", wrong)
        problems: list[dict[str, str]] = []
        rows = {row["backend"]: row["state"] for row in self_test(scene_batch(3, 12, SMALL), problems)}
        assert rows["native"] == "differs"
        assert "self-test: native differs: from the reference in image.images" in problems[0]["message"]

    def test_a_backend_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "step", lambda *args, **options: 1 / 0)
        problems: list[dict[str, str]] = []
        rows = {row["backend"]: row["state"] for row in self_test(scene_batch(3, 12, SMALL), problems)}
        assert rows["native"] == "failed"
        assert "ZeroDivisionError" in problems[0]["message"]


class TestLimits:
    """Files of control groups, as the kernel writes them."""

    def test_version_2(self, tmp_path: Path) -> None:
        files = {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": "3000000\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.high": "2000000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        }
        root = plant(tmp_path, files)
        assert (machine.cgroup_memory(root), machine.cgroup_cores(root)) == (2_000_000, 1.5)

    def test_version_1(self, tmp_path: Path) -> None:
        files = {
            "proc/self/cgroup": "4:memory:/x\n2:cpu,cpuacct:/y\n1:cpuset:/z\n",
            "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4000000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpu,cpuacct/y/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/y/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpuset/z/cpu.cfs_quota_us": "1\n",
        }
        root = plant(tmp_path, files)
        assert (machine.cgroup_memory(root), machine.cgroup_cores(root)) == (4_000_000, 0.5)

    def test_no_limit(self, tmp_path: Path) -> None:
        root = plant(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"})
        assert (machine.cgroup_memory(root), machine.cgroup_cores(root)) == (None, None)
        assert machine.machine([], tmp_path / "nowhere")["memory_bytes"] is None

    def test_memory(self, tmp_path: Path) -> None:
        root = plant(tmp_path, {"proc/meminfo": "MemTotal:  2048 kB\nMemAvailable: 1 kB\n"})
        facts = machine.machine([], root)
        assert (facts["memory_bytes"], facts["available_bytes"]) == (2048 << 10, 1 << 10)


def test_required_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(extras.REQUIRED.values()) == sorted(project["dependencies"])


def test_every_variable_is_known() -> None:
    """Those that the sources read from the environment."""
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")] + [(ROOT / "hatch_build.py").read_text()]
    read = {name for text in texts for name in re.findall(r"environ\S*?\W(SEGPASTE_[A-Z_]+)", text)}
    assert {"SEGPASTE_BACKEND", "SEGPASTE_CACHE"} <= read <= machine.VARIABLES
