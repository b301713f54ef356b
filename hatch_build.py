"""Builds the native library when the package is installed; `src/segpaste/engine/native/build.py` does the work.

``SEGPASTE_NATIVE`` is ``require`` to fail where the library cannot be built, or ``skip`` to install without it; by
default a failure is a warning, and the slow reference runs.

``SEGPASTE_WHEEL_TARGET``, such as ``macos-arm64``, makes a wheel for another machine with the package ``ziglang``;
`scripts/build_wheels.py` makes all of them.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src", "segpaste", "engine", "native")


class NativeBuildHook(BuildHookInterface):
    """Puts the native library beside its sources, and into the wheel."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Return what must be installed to build: a compiler, where the machine has none and one is needed."""
        builder = _builder(self.root)
        if self.target_name == "wheel" and _wheel_target(builder) is not None:
            return ["ziglang>=0.14"]
        is_wanted = self.target_name == "wheel" and _mode() != "skip"
        return ["ziglang>=0.14"] if is_wanted and builder.needs_zig() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before the files of the wheel are gathered."""
        builder = _builder(self.root)
        target = _wheel_target(builder)
        if self.target_name == "wheel" and target is not None:
            self._folder = tempfile.TemporaryDirectory(prefix="segpaste-wheel-")
            library = builder.build(Path(self._folder.name) / builder.LIBRARY.name, target=target)
            self._ship(library, builder.WHEEL_TAGS[target], build_data)
            return
        if self.target_name != "wheel" or _mode() == "skip":
            return
        try:
            library = builder.build()
        except (OSError, RuntimeError) as error:
            if _mode() == "require":
                raise
            self.app.display_warning(f"segpaste is installed without its native library: {error}")
            return
        self._ship(library, _platform_tag(), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Forget the library of another machine."""
        if self._folder is not None:
            self._folder.cleanup()

    def _ship(self, library: Path, platform_tag: str, build_data: dict[str, Any]) -> None:
        build_data["force_include"][str(library)] = f"segpaste/engine/native/{library.name}"
        build_data["tag"] = f"py3-none-{platform_tag}"
        build_data["pure_python"] = False


def _mode() -> str:
    mode = os.environ.get("SEGPASTE_NATIVE", "")
    if mode not in ("", "require", "skip"):
        raise ValueError(f"SEGPASTE_NATIVE: expected require or skip, got {mode!r}")
    return mode


def _wheel_target(builder: ModuleType) -> tuple[str, str] | None:
    name = os.environ.get("SEGPASTE_WHEEL_TARGET", "")
    targets = {"-".join(target): target for target in builder.WHEEL_TAGS}
    if name and name not in targets:
        raise ValueError(f"SEGPASTE_WHEEL_TARGET: expected one of {', '.join(targets)}, got {name!r}")
    return targets.get(name)


def _builder(root: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("segpaste_native_build", Path(root) / NATIVE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _platform_tag() -> str:
    system, machine = platform.system(), platform.machine()
    return f"macosx_11_0_{machine}" if system == "Darwin" else f"{system.lower()}_{machine}"
