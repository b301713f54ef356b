"""Build the native library from ``src``: at install, or by ``python build.py``.

It needs nothing but the standard library, for it runs before anything is installed. The machine's own C++ compiler is
used, and where there is none that of the package ``ziglang``. The library needs libc alone, no Python and no torch, so
one file serves every version of both.

Each instruction set is compiled from the same source, in a namespace of its own, for an explicit target. Products and
sums are never fused, so that all of them, and all compilers, give the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).parent / "src"
LIBRARY = Path(__file__).parent / "libsegpaste.so"
MARKER = b"segpaste-native:"
"""Stands before the digest in the library."""

_OPTIONS = (
    *("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-stack-protector", "-Wall", "-Wextra"),
)
_LEVELS = {"x86_64": ("v2", "v3", "v4"), "aarch64": ("baseline",), "arm64": ("baseline",)}
_ZIG_TARGETS = {
    ("linux", "x86_64"): "x86_64-linux-gnu.2.17",
    ("linux", "aarch64"): "aarch64-linux-gnu.2.17",
    ("macos", "arm64"): "aarch64-macos.11.0",
    ("macos", "x86_64"): "x86_64-macos.11.0",
}


class BuildError(RuntimeError):
    """The library cannot be built here; the text says why."""


def digest() -> str:
    """Return the digest of the sources and of how they are compiled, 16 hexadecimal digits."""
    parts = [path.name.encode() + b"\0" + path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]pp"))]
    return hashlib.sha256(b"\0".join([*parts, repr(_OPTIONS).encode()])).hexdigest()[:16]


def built_digest(library: Path = LIBRARY) -> str | None:
    """Return the digest that a library was built from, without loading it; None if there is none."""
    try:
        found = re.search(re.escape(MARKER) + rb"([0-9a-f]{16})", library.read_bytes())
    except OSError:
        return None
    return None if found is None else found[1].decode()


def is_current(library: Path = LIBRARY) -> bool:
    """Tell whether the library was built from these sources."""
    return built_digest(library) == digest()


def system_compiler() -> str | None:
    """Return the machine's C++ compiler, ``CXX`` first; None if there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    return next((path for path in map(shutil.which, names) if path), None)


def needs_zig() -> bool:
    """Tell whether the package ``ziglang`` must be installed before `build`."""
    return not is_current() and system_compiler() is None


def build(
    library: Path = LIBRARY, *, compiler: Sequence[str] | None = None, target: tuple[str, str] | None = None
) -> Path:
    """Build the library, unless it is current; it appears under its name only when it is whole.

    Args:
        library: where to put it.
        compiler: the command to compile with, such as ``("g++",)``; by default the machine's, else zig's.
        target: (system, machine) to compile for, such as ``("macos", "arm64")``, which takes zig; by default this one.

    Raises:
        BuildError: there is no compiler, or it fails.
    """
    here = ({"Darwin": "macos"}.get(platform.system(), platform.system().lower()), platform.machine())
    if target is None and is_current(library):
        return library
    machine = (target or here)[1]
    if machine not in _LEVELS:
        raise BuildError(f"expected a machine among {', '.join(_LEVELS)}, got {machine}")
    command, is_zig = _command(compiler, target or here, is_foreign=target is not None)
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".native-") as folder:
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a compiler
            units = (*_LEVELS[machine], None)
            objects = list(pool.map(lambda level: _compile(command, is_zig, level, Path(folder)), units))
        whole = Path(folder) / library.name
        links = () if is_zig else ("-nostdlib++",) if "clang" in command[0] else ("-nodefaultlibs", "-lc")
        _run([*command, "-shared", "-s", "-o", str(whole), *map(str, objects), *links])
        os.replace(whole, library)
    return library


def _command(compiler: Sequence[str] | None, target: tuple[str, str], *, is_foreign: bool) -> tuple[list[str], bool]:
    """Return the compiler's command, and whether it is zig's."""
    if compiler is None and not is_foreign and (found := system_compiler()) is not None:
        compiler = (found,)
    if compiler is not None and list(compiler) != ["zig"]:
        return list(compiler), False
    if importlib.util.find_spec("ziglang") is None:
        raise BuildError(
            "expected a C++ compiler (g++, clang++, or one that CXX names) or the package ziglang, got neither"
        )
    if target not in _ZIG_TARGETS:
        raise BuildError(
            f"expected a target among {', '.join('-'.join(t) for t in _ZIG_TARGETS)}, got {'-'.join(target)}"
        )
    return [sys.executable, "-m", "ziglang", "c++", "-target", _ZIG_TARGETS[target]], True


def _compile(command: Sequence[str], is_zig: bool, level: str | None, folder: Path) -> Path:
    """Compile the functions of one instruction set, or with None what chooses among them."""
    architecture = () if level is None or level == "baseline" else (f"-march=x86-64-{level}",)
    if is_zig and architecture:
        architecture = (f"-mcpu=x86_64_{level}",)
    elif is_zig and level is None and any("x86_64" in word for word in command):
        architecture = ("-mcpu=x86_64",)
    out = folder / f"{level or 'library'}.o"
    if level is None:
        defines = [f'-DSEGPASTE_DIGEST="{MARKER.decode()}{digest()}"']
    else:
        defines = [f"-DSEGPASTE_NAMESPACE=segpaste_{level}_functions", f"-DSEGPASTE_FUNCTIONS=segpaste_{level}"]
    source = SOURCES / ("library.cpp" if level is None else "isa.cpp")
    _run([*command, *_OPTIONS, *architecture, *defines, "-c", str(source), "-o", str(out)])
    return out


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr.strip()}")


def main() -> int:
    """Build; 0 if it went well."""
    parser = argparse.ArgumentParser(description="Build the native library of segpaste.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=LIBRARY, help="where to put it")
    parser.add_argument("--zig", action="store_true", help="compile with the package ziglang")
    options = parser.parse_args()
    try:
        build(options.out, compiler=("zig",) if options.zig else None)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
