"""This machine: cores, memory, limits of control groups, and the environment variables that change what runs."""

from __future__ import annotations

import difflib
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLES = {
    "SEGPASTE_BACKEND",
    "SEGPASTE_CACHE",
    "SEGPASTE_CACHE_BYTES",
    "SEGPASTE_HYPOTHESIS",
    "SEGPASTE_ISA",
    "SEGPASTE_NATIVE",
    "SEGPASTE_NATIVE_LIBRARY",
    "SEGPASTE_TEST_DATA",
    "SEGPASTE_WHEEL_TARGET",
}
"""Environment variables that segpaste, its build and its tests read."""

_OTHER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET")
_SMALL_SHM = 1 << 30
_NO_LIMIT = 1 << 60  # control groups of version 1 use a huge number for no limit


def machine(problems: list[dict[str, str]], root: Path = Path("/")) -> dict[str, Any]:
    """Return system, cores, memory and limits; unknown ones are None.

    Args:
        problems: gets a remark for a small shared memory.
        root: root of the file system.
    """
    shm = root / "dev" / "shm"
    shm_bytes = shutil.disk_usage(shm).total if shm.is_dir() else None
    if shm_bytes is not None and shm_bytes < _SMALL_SHM:
        text = f"/dev/shm holds {shm_bytes >> 20} MiB: loader workers may be killed; start containers with --shm-size"
        problems.append({"severity": "remark", "message": text})
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": affinity,
        "cgroup_cores": cgroup_cores(root),
        "memory_bytes": _meminfo(root, "MemTotal"),
        "available_bytes": _meminfo(root, "MemAvailable"),
        "cgroup_memory_bytes": cgroup_memory(root),
        "shared_memory_bytes": shm_bytes,
        "open_files": _open_files(),
    }


def cgroup_memory(root: Path = Path("/")) -> int | None:
    """Return the smallest memory limit of this process's control groups in bytes; None without one."""
    limits = []
    for folder in _group_folders(root, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            text = _text(folder / name)
            if text.isdecimal() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return min(limits, default=None)


def cgroup_cores(root: Path = Path("/")) -> float | None:
    """Return the lowest limit of cores of this process's control groups; None without a limit."""
    limits = []
    for folder in _group_folders(root, "cpu"):
        words = _text(folder / "cpu.max").split() or [
            _text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            limits.append(int(words[0]) / int(words[1]))
    return min(limits, default=None)


def _group_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's groups and their parents, in the tree of version 2 or those of version 1."""
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if number != "0" and controller not in names.split(","):
            continue
        mounts = [""] if number == "0" else [names, controller]
        for mount in mounts:
            top = root / "sys" / "fs" / "cgroup" / mount
            parts = Path(group.lstrip("/")).parts
            yield from (top.joinpath(*parts[:num]) for num in range(len(parts) + 1))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def variables(problems: list[dict[str, str]]) -> dict[str, str]:
    """Return the environment variables that change what runs; an unknown SEGPASTE name is a remark."""
    found = {name: value for name, value in sorted(os.environ.items()) if name.startswith("SEGPASTE_")}
    for name in sorted(found.keys() - VARIABLES):
        near = difflib.get_close_matches(name, VARIABLES, 1)
        text = f"{name}: segpaste reads no such variable" + (f"; the nearest is {near[0]}" if near else "; unset it")
        problems.append({"severity": "remark", "message": text})
    return found | {name: os.environ[name] for name in _OTHER_VARIABLES if name in os.environ}


def _meminfo(root: Path, key: str) -> int | None:
    for line in _text(root / "proc" / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == key:
            return int(rest.split()[0]) << 10
    return None


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
