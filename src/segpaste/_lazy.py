"""Packages that import their names on first use.

Such a package imports its names for type checkers, and lists the module of each name. A test compares the two::

    if TYPE_CHECKING:
        from segpaste.viz.palette import class_color as class_color

    _HOMES = {"segpaste.viz.palette": ("class_color",)}
    __getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)

The two functions are those of PEP 562. No module of the package may have the name of an exported object, because the
import of the module would replace the object.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], moved: Mapping[str, tuple[str, str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: name of the package.
        homes: the names that each module defines.
        moved: package and name under which a former name of this package is found now; its use warns.
    """
    namespace = vars(sys.modules[package])
    home_of = {name: module for module, names in homes.items() for name in names}

    def import_name(name: str) -> Any:
        if moved and name in moved:
            place, new = moved[name]
            warnings.warn(f"{package}.{name} is now {place}.{new}; import that", DeprecationWarning, stacklevel=2)
            return getattr(import_module(place), new)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(home_of[name])
        except AttributeError as error:  # Python would report it as "cannot import name", without the cause
            raise ImportError(
                f"{package}.{name}: importing {home_of[name]} failed with {type(error).__name__}: {error}. A package "
                "that it imports is too old, too new or broken: see the traceback, and `segpaste doctor` for versions",
                name=home_of[name],
            ) from error
        value = namespace[name] = getattr(module, name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *home_of, *(moved or ())})

    return import_name, list_names, sorted({*home_of, *(moved or ())})
