"""Import of optional dependencies, with an error that says which package to install.

The error names the package itself, not an extra of this project: a package index may have another project of the same
name, so no message tells a user to install an extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

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
}
"""Requirement in ``pyproject.toml`` that provides each package."""


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
