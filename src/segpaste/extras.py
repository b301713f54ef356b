"""Packages that segpaste needs or can use: their versions, and an import whose error says which package to install.

The error names the package itself, not an extra of this project: a package index may have another project of the same
name, so no message tells a user to install an extra.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib import import_module, metadata
from typing import Any

REQUIRED = {
    "torch": "torch>=2.11",
    "torchvision": "torchvision>=0.26",
    "numpy": "numpy>=2",
    "pydantic": "pydantic>=2.7",
    "yaml": "pyyaml>=6",
    "PIL": "pillow>=10.1",
    "deflate": "deflate>=0.7",
    "pycocotools": "pycocotools>=2.0.8",
    "tqdm": "tqdm>=4.66",
}
"""The requirement in ``pyproject.toml`` that provides each module that segpaste always needs."""

REQUIREMENT_OF = {
    "lmdb": "lmdb>=1.4.1",
    "OpenEXR": "OpenEXR>=3.3",
    "pyarrow": "pyarrow>=16",
    "fsspec": "fsspec>=2024.6",
    "s3fs": "s3fs>=2024.6",
    "gcsfs": "gcsfs>=2024.6",
    "aiohttp": "aiohttp>=3.9",
    "ray": "ray[data]>=2.40",
    "timm": "timm>=1.0.3",
    "open_clip": "open_clip_torch>=2.24",
    "safetensors": "safetensors>=0.4",
    "pytorch_metric_learning": "pytorch-metric-learning>=2.5",
    "tensorboard": "tensorboard>=2.14",
    "transformers": "transformers>=4.50",
    "pytorch_lightning": "pytorch-lightning>=2.5",
    "shtab": "shtab>=1.13",
    "supervision": "supervision>=0.28",
    "datumaro": "datumaro>=1.10",
    "fiftyone": "fiftyone>=1.5",
}
"""Requirement in ``pyproject.toml`` that provides each optional package."""
_FRAMEWORKS = {name: name for name in ("transformers", "ultralytics", "rfdetr", "mmdet", "detectron2", "accelerate")}


class MissingPackageError(ImportError):
    """Error raised when an optional package cannot be imported; the message says why and what to install."""


def require(module: str) -> Any:
    """Import a module of an optional dependency.

    Raises:
        MissingPackageError: the module cannot be imported; the message says why, and how to install its package.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, something that it needs is not
            raise _unusable(package, error) from error
        raise MissingPackageError(f"{package} is not installed: {_hint(package)}", name=package) from error
    except (ImportError, AttributeError) as error:
        raise _unusable(package, error) from error


def _unusable(package: str, error: Exception) -> MissingPackageError:
    text = f"{package} cannot be imported ({type(error).__name__}: {error}): {_hint(package)}"
    return MissingPackageError(text, name=package)


def _hint(package: str) -> str:
    return f"pip install '{REQUIREMENT_OF[package]}'"


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
