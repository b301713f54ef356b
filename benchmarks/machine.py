"""Facts on which the figures depend: processor, versions, commit, allocator."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

import segpaste

from .timing import ALLOCATOR


def machine(packages: Iterable[str] = ()) -> dict[str, Any]:
    """The machine and the versions.

    Args:
        packages: more to tell the version of; those that are not installed are left out.
    """
    found: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "numpy": np.__version__,
        "segpaste": segpaste.__version__,
        "commit": _commit(),
        "allocator": _allocator(),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    names = (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _commit() -> str:
    """Return the commit of the checkout; nothing in an installed package."""
    folder = Path(__file__).parents[1]
    if not (folder / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return run.stdout.strip()


def _allocator() -> str:
    name = " ".join(platform.libc_ver()).strip() or "unknown"
    settings = " ".join(f"{key}={value}" for key in ALLOCATOR if (value := os.environ.get(key)))
    return f"{name} {settings or 'with its defaults'}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
