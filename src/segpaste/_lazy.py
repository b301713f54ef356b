"""Packages whose names are imported when they are first used.

Such a package writes each of its names once, in the imports that type checkers read::

    if TYPE_CHECKING:
        from segpaste.viz.palette import class_color as class_color
    else:
        __getattr__, __dir__, __all__ = lazy_names(__name__)

``as`` makes the name public to type checkers (PEP 484); the two functions are those of PEP 562. A module of the package
may not have the name: once imported, it would stand in its place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of the package that is being imported."""
    namespace = vars(sys.modules[package])
    home_of = _read_homes(Path(namespace["__file__"]))

    def import_name(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home_of[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *home_of})

    return import_name, list_names, sorted(home_of)


def _read_homes(file: Path) -> dict[str, str]:
    """Return the module of each name that a file imports for type checkers."""
    blocks = [s for s in ast.parse(file.read_bytes()).body if isinstance(s, ast.If)]
    imports = [s for block in blocks for s in block.body if isinstance(s, ast.ImportFrom)]
    return {alias.name: str(s.module) for s in imports for alias in s.names}
