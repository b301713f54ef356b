"""Every tensor that the package makes names its device, and its dtype where the default dtype would decide it.

``torch.set_default_device`` and ``torch.set_default_dtype`` of a user must not change a batch, a table or a buffer.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch.utils._device import _device_constructors
from torchvision import tv_tensors

import segpaste

SOURCES = sorted(Path(segpaste.__file__).parent.rglob("*.py"))
FACTORIES = {function.__name__ for function in _device_constructors() if getattr(torch, function.__name__, None)}
TAGGED = {name for name in ("Image", "Mask", "BoundingBoxes", "KeyPoints") if hasattr(tv_tensors, name)}
WITHOUT_DTYPE = {"arange", "as_tensor", "asarray", "randint", "randperm", "tril_indices", "triu_indices"}
"""Factories of integers, and of what has a dtype."""


def missing(source: str) -> list[str]:
    """Return the calls of factories in a source that name no device, or no dtype, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        is_factory, is_tagged = owner == "torch" and name in FACTORIES, owner == "tv_tensors" and name in TAGGED
        named = {keyword.arg for keyword in node.keywords}
        if (is_factory or is_tagged) and "device" not in named:
            found.append(f"{node.lineno}: {name} without device")
        if is_factory and name not in WITHOUT_DTYPE and "dtype" not in named:
            found.append(f"{node.lineno}: {name} without dtype")
    return found


def test_every_factory_call_names_its_device_and_dtype() -> None:
    found = {str(path): missing(path.read_text()) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("torch.zeros(3)", ["1: zeros without device", "1: zeros without dtype"]),
        ("x.to(torch.tensor([1], dtype=d))", ["1: tensor without device"]),
        ("torch.arange(3)", ["1: arange without device"]),
        ("torch.arange(3, device=d) + torch.as_tensor(x, device=d)", []),
        ("tv_tensors.Image(x)", ["1: Image without device"]),
    ],
)
def test_the_check_finds_them(source: str, lines: list[str]) -> None:
    assert missing(source) == lines


def test_factories_are_called_by_their_full_names() -> None:
    """The check sees ``torch.zeros``, not ``from torch import zeros``."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in ("torch", "torchvision.tv_tensors"):
                assert not {alias.name for alias in node.names} & (FACTORIES | TAGGED), path
