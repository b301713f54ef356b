"""Build the native library from ``src``: at install, or by ``python build.py``.

It needs only the standard library, since it runs before anything is installed. It uses the machine's C++ compiler or,
without one, that of the package ``ziglang``, which also compiles for other machines. The library depends on libc alone,
not on Python or torch, so one file serves every version of both.

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
from typing import NamedTuple

SOURCES = Path(__file__).parent / "src"
LIBRARY = Path(__file__).parent / "libsegpaste.so"
MARKER = b"segpaste-native:"
"""Marker before the digest in the library."""

_OPTIONS = (
    *("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-stack-protector", "-Wall", "-Wextra"),
)
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g", "-fno-omit-frame-pointer")
_LEVELS = {"x86_64": ("v2", "v3", "v4"), "aarch64": ("baseline",), "arm64": ("baseline",)}
_ZIG_TARGETS = {
    ("linux", "x86_64"): "x86_64-linux-gnu.2.17",
    ("linux", "aarch64"): "aarch64-linux-gnu.2.17",
    ("macos", "arm64"): "aarch64-macos.11.0",
    ("macos", "x86_64"): "x86_64-macos.11.0",
}
WHEEL_TAGS = {
    ("linux", "x86_64"): "manylinux_2_17_x86_64",
    ("linux", "aarch64"): "manylinux_2_17_aarch64",
    ("macos", "arm64"): "macosx_11_0_arm64",
}
"""Platform tags of wheels by (system, machine), for libraries compiled with zig."""


class BuildError(RuntimeError):
    """Raised if the library cannot be built; the message says why."""


def digest() -> str:
    """Return the digest of the sources and compiler options, 16 hexadecimal digits."""
    files = {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in SOURCES.rglob("*.[ch]pp")}
    parts = [name.encode() + b"\0" + files[name] for name in sorted(files)]
    return hashlib.sha256(b"\0".join([*parts, repr(_OPTIONS).encode()])).hexdigest()[:16]


def built_digest(library: Path = LIBRARY) -> str | None:
    """Return the digest that a library was built from, without loading it; None if there is none."""
    try:
        found = re.search(re.escape(MARKER) + rb"([0-9a-f]{16})", library.read_bytes())
    except OSError:
        return None
    return None if found is None else found[1].decode()


def is_current(library: Path = LIBRARY) -> bool:
    """Return whether the library was built from these sources."""
    return built_digest(library) == digest()


def system_compiler() -> str | None:
    """Return the machine's C++ compiler, ``CXX`` first; None if there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    return next((path for path in map(shutil.which, names) if path), None)


def needs_zig() -> bool:
    """Return whether the package ``ziglang`` must be installed before `build`."""
    return not is_current() and system_compiler() is None


class Toolchain(NamedTuple):
    """Compiler and linker commands for one machine.

    Attributes:
        command: compiler command.
        machine: architecture, such as ``"x86_64"``.
        levels: instruction sets.
        is_zig: True for the compiler of the package ``ziglang``.
        options: compiler options, after all others.
        links: linker options.
        linker: linker command; by default the compiler's.
    """

    command: tuple[str, ...]
    machine: str
    levels: tuple[str, ...]
    is_zig: bool = False
    options: tuple[str, ...] = ()
    links: tuple[str, ...] = ("-s",)
    linker: tuple[str, ...] = ()


def build(
    library: Path = LIBRARY, *, compiler: Sequence[str] | None = None, target: tuple[str, str] | None = None
) -> Path:
    """Build the library unless it is current; it appears under its name only when it is complete.

    Args:
        library: path of the library.
        compiler: the command to compile with, such as ``("g++",)``; by default the machine's, else zig's.
        target: (system, machine) to compile for, such as ``("macos", "arm64")``, which takes zig; by default this one.

    Raises:
        BuildError: there is no compiler, or it fails.
    """
    if target is None and is_current(library):
        return library
    return _build(library, toolchain(compiler, target))


def build_sanitized(library: Path) -> Path:
    """Build the library with gcc's checks of addresses and of undefined behaviour.

    The process that loads it must have loaded ``libasan.so`` before anything else (``LD_PRELOAD``).

    Raises:
        BuildError: there is no g++ with these checks.
    """
    # No -nodefaultlibs: the sanitizers have their own libraries.
    return _build(library, toolchain(("g++",), None)._replace(options=_SANITIZED, links=_SANITIZED))


def toolchain(compiler: Sequence[str] | None, target: tuple[str, str] | None) -> Toolchain:
    """Return the toolchain for a machine; the arguments are those of `build`.

    Raises:
        BuildError: there is no compiler, or none for this target.
    """
    here = ({"Darwin": "macos"}.get(platform.system(), platform.system().lower()), platform.machine())
    machine = (target or here)[1]
    if machine not in _LEVELS:
        raise BuildError(f"expected a machine among {', '.join(_LEVELS)}, got {machine}")
    if compiler is None and target is None and (found := system_compiler()) is not None:
        compiler = (found,)
    if compiler is not None and list(compiler) != ["zig"]:
        alone = ("-nostdlib++",) if "clang" in compiler[0] else ("-nodefaultlibs", "-lc")
        return Toolchain(tuple(compiler), machine, _LEVELS[machine], links=("-s", *alone))
    if importlib.util.find_spec("ziglang") is None:
        raise BuildError(
            "expected a C++ compiler (g++, clang++, or one that CXX names) or the package ziglang, got neither"
            if target is None
            else f"expected the package ziglang, which compiles for {'-'.join(target)}: pip install 'ziglang>=0.14'"
        )
    if (target or here) not in _ZIG_TARGETS:
        raise BuildError(
            f"expected a target among {', '.join('-'.join(t) for t in _ZIG_TARGETS)}, got {'-'.join(target or here)}"
        )
    zig, name = (sys.executable, "-m", "ziglang"), _ZIG_TARGETS[target or here]
    # Its C++ driver would first compile a C++ library, which takes a minute and is not linked.
    linker = (*zig, "cc", "-target", name)
    return Toolchain((*zig, "c++", "-target", name), machine, _LEVELS[machine], is_zig=True, linker=linker)


def compile_objects(tools: Toolchain, folder: Path) -> list[Path]:
    """Compile each instruction set, and the code that chooses among them, into ``v2.o`` ... ``library.o``.

    Raises:
        BuildError: the compiler fails.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a compiler
        return list(pool.map(lambda level: _compile(tools, level, folder), (*tools.levels, None)))


def link(tools: Toolchain, objects: Sequence[Path], library: Path) -> None:
    """Link objects into the library.

    Raises:
        BuildError: the linker fails.
    """
    _run([*(tools.linker or tools.command), "-shared", "-o", str(library), *map(str, objects), *tools.links])


def _build(library: Path, tools: Toolchain) -> Path:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".native-") as folder:
        whole = Path(folder) / library.name
        link(tools, compile_objects(tools, Path(folder)), whole)
        os.replace(whole, library)
    return library


def _compile(tools: Toolchain, level: str | None, folder: Path) -> Path:
    """Compile the functions of one instruction set or, with None, the code that chooses among them."""
    is_x86 = tools.machine == "x86_64"
    if tools.is_zig:
        architecture = f"-mcpu=x86_64{'' if level is None else '_' + level}" if is_x86 else None
    else:
        architecture = f"-march=x86-64-{level}" if is_x86 and level is not None else None
    out = folder / f"{level or 'library'}.o"
    if level is None:
        defines = [f'-DSEGPASTE_DIGEST="{MARKER.decode()}{digest()}"']
    else:
        defines = [f"-DSEGPASTE_NAMESPACE=segpaste_{level}_functions", f"-DSEGPASTE_FUNCTIONS=segpaste_{level}"]
    source = SOURCES / ("library.cpp" if level is None else "isa.cpp")
    options = [*_OPTIONS, *([architecture] if architecture else []), *tools.options, *defines]
    _run([*tools.command, *options, "-I", str(SOURCES), "-c", str(source), "-o", str(out)])
    return out


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr.strip()}")


def main() -> int:
    """Build the library from the command line; return 0 on success."""
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
