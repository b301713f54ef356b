"""Packages that segpaste needs or can use: their versions, and how to install missing ones."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib import import_module, metadata
from typing import Any

from segpaste.extras import REQUIREMENT_OF

REQUIRED = {
    "torch": "torch>=2.11",
    "torchvision": "torchvision>=0.26",
    "numpy": "numpy>=2",
    "pydantic": "pydantic>=2.7",
    "yaml": "pyyaml>=6",
    "PIL": "pillow>=10.1",
    "pycocotools": "pycocotools>=2.0.8",
    "tqdm": "tqdm>=4.66",
}
"""The requirement in ``pyproject.toml`` that provides each module that segpaste always needs."""

_FRAMEWORKS = {name: name for name in ("transformers", "ultralytics", "rfdetr", "mmdet", "detectron2", "accelerate")}


def packages(problems: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return name, version, requirement, role and state of each package.

    Roles are ``required``, ``kernels`` (Triton), ``extra`` and ``framework``; frameworks are listed only if installed.
    The state is ``ok``, ``missing``, ``too old`` or ``broken``. Required packages are imported, others only looked up.

    Args:
        problems: gets an entry for each required package that is not ok, and each installed one that is too old.
    """
    rows = [
        *_rows("required", REQUIRED, problems),
        *_rows("kernels", {"triton": "triton>=3.6"}, problems),
        *_rows("extra", REQUIREMENT_OF, problems),
        *_rows("framework", _FRAMEWORKS, problems),
    ]
    return [row for row in rows if row["role"] != "framework" or row["version"]]


def _rows(role: str, requirement_of: dict[str, str], problems: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    for module, requirement in requirement_of.items():
        name, least = _split(requirement)
        version, state, reason = _version(module, name), "ok", ""
        if importlib.util.find_spec(module) is None:
            state, reason = "missing", "is not installed"
        elif role == "required" and (error := _import_error(module)):
            state, reason = "broken", f"cannot be imported ({error})"
        elif version is not None and least and _numbers(version) < _numbers(least):
            state, reason = "too old", f"is version {version}"
        if state != "ok" and (role == "required" or state != "missing"):
            text = f"{name} {reason}: pip install '{requirement}'"
            problems.append({"severity": "error" if role == "required" else "remark", "message": text})
        hint = f"pip install '{requirement}'" if state in ("missing", "too old") else None
        yield {"name": name, "version": version, "requirement": requirement, "role": role, "state": state, "hint": hint}


def _split(requirement: str) -> tuple[str, str]:
    """Return the package of a requirement and its lowest version, empty without one."""
    name, _, least = requirement.partition(">=")
    return name.partition("[")[0], least


def _version(module: str, name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        found = importlib.util.find_spec(module)
        return None if found is None else str(getattr(import_module(module), "__version__", "unknown"))


def _import_error(module: str) -> str:
    try:
        import_module(module)
    except Exception as error:  # a broken shared library may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release, such as (2, 11) of 2.11+cpu."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+a-z]", version)[0]))
