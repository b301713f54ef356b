"""Import of optional dependencies, with an error that says which package to install.

The error names the package itself, not an extra of this project: a package index may have another project of the same
name, so no message tells a user to install an extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

REQUIREMENT_OF = {
    "lmdb": "lmdb>=1.4",
    "OpenEXR": "OpenEXR>=3.3",
    "pyarrow": "pyarrow>=16",
    "fsspec": "fsspec>=2024.6",
    "s3fs": "s3fs>=2024.6",
    "gcsfs": "gcsfs>=2024.6",
    "aiohttp": "aiohttp>=3.9",
    "ray": "ray[data]>=2.40",
    "timm": "timm>=1",
    "open_clip": "open_clip_torch>=2.24",
    "safetensors": "safetensors>=0.4",
    "pytorch_metric_learning": "pytorch-metric-learning>=2.5",
    "tensorboard": "tensorboard>=2.14",
    "transformers": "transformers>=4.50",
    "pytorch_lightning": "pytorch-lightning>=2.5",
}
"""Requirement in ``pyproject.toml`` that provides each package."""


class MissingPackageError(ImportError):
    """Error raised when an optional package is not installed; the message says how to install it."""


def require(module: str) -> Any:
    """Import a module of an optional dependency.

    Raises:
        MissingPackageError: the module cannot be imported; the message says how to install its package.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{package} is not installed: pip install '{REQUIREMENT_OF[package]}'", name=package
        ) from error
