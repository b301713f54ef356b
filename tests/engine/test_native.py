"""The native library: its build, the inputs that it rejects, and equal bits from every instruction set."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch

from fresh_process import fresh_output
from samples import EVERY_IMAGE, assert_same, make_batch
from segpaste import BatchCopyPaste, seeding
from segpaste.augmentation import BatchCopyPasteConfig, IntraBatchSource, PlacementConfig
from segpaste.engine import use_backend
from segpaste.engine.native import build, jobs, library

LEVELS = {name: level for name, level in library._LEVELS.items() if name != "baseline"}


@cache
def digest_of_a_paste() -> str:
    """Return a digest of what pastes of every kind of pixel give."""
    found = hashlib.sha256()
    config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, layers=3, scale_range=(0.3, 2.0)))
    for dtype, inplace in product((torch.uint8, torch.float32, torch.float16, torch.bfloat16), (False, True)):
        batch = make_batch(4, size=(61, 83), max_instances=8, metric_depth=True, image_dtype=torch.uint8)
        batch = batch.derived(images=(batch.images.float() / 3).to(dtype))
        with use_backend("native"):
            out, report = BatchCopyPaste(config, inplace=inplace)(batch, return_report=True)
        assert report.num_placed.sum() > 0
        for name in ("images", "instance_masks", "boxes", "semantic_maps", "panoptic_maps", "depth", "normals"):
            found.update(getattr(out, name).contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class TestInstructionSets:
    @pytest.mark.parametrize("level", LEVELS)
    def test_all_give_the_same_bits(self, level: str) -> None:
        if library.load().segpaste_level() < LEVELS[level]:
            pytest.skip(f"this processor has no {level}")
        code = "from test_native import digest_of_a_paste; print(digest_of_a_paste())"
        assert fresh_output(code, SEGPASTE_ISA=level) == digest_of_a_paste()


@dataclass(frozen=True)
class Variant:
    """The library of one compiler, and the objects that it was linked from."""

    tools: build.Toolchain
    objects: list[Path]
    library: Path


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Variant]:
    """Return how to build the variant of a compiler, once."""

    @cache
    def built(compiler: str) -> Variant:
        if compiler == "zig":
            pytest.importorskip("ziglang", reason="pip install 'ziglang>=0.14'")
        elif shutil.which(compiler) is None:
            pytest.skip(f"needs {compiler}")
        folder = tmp_path_factory.mktemp(compiler.replace("+", "p"))
        tools = build.toolchain((compiler,), None)
        objects, path = build.compile_objects(tools, folder), folder / build.LIBRARY.name
        build.link(tools, objects, path)
        return Variant(tools, objects, path)

    return built


def binutils(*command: str) -> list[str]:
    """Return the lines that ``nm`` or ``readelf`` prints."""
    if sys.platform != "linux" or shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}, of Linux")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.xdist_group("native")
@pytest.mark.parametrize("compiler", ["g++", "zig"])
class TestCompilers:
    """Each compiler's library, built here."""

    def test_all_give_the_same_bits(self, compiler: str, variants: Callable[[str], Variant]) -> None:
        """They run in one process, since most of its time passes before the first paste."""
        path = str(variants(compiler).library)
        levels = [level for level in LEVELS.values() if level <= library.load().segpaste_level()] or [2]
        code = (
            "from test_native import digest_of_a_paste; from segpaste.engine.native import library; "
            "native = library.load(); print(native._name); "
            f"[print(native.segpaste_choose(level), digest_of_a_paste()) for level in {levels}]"
        )
        found = fresh_output(code, SEGPASTE_NATIVE_LIBRARY=path).splitlines()
        assert found == [path, *[f"0 {digest_of_a_paste()}"] * len(levels)]

    def test_instruction_sets_share_no_symbol(self, compiler: str, variants: Callable[[str], Variant]) -> None:
        """A function that two of them shared would be the one of whichever the linker took."""
        symbols = {
            path.stem: {
                line.split()[0]
                for line in binutils("nm", "--defined-only", "--extern-only", "--format=posix", str(path))
            }
            for path in variants(compiler).objects
        }
        assert len(symbols) == 1 + len(variants(compiler).tools.levels)
        assert all(symbols.values())
        shared = {(a, b): symbols[a] & symbols[b] for a, b in combinations(symbols, 2) if symbols[a] & symbols[b]}
        assert shared == {}

    def test_needs_libc_alone(self, compiler: str, variants: Callable[[str], Variant]) -> None:
        path = str(variants(compiler).library)
        needed = [line for line in binutils("readelf", "--dynamic", path) if "(NEEDED)" in line]
        assert [re.findall(r"\[(.+)\]", line) for line in needed] == [["libc.so.6"]]
        named = re.findall(r"GLIBC_(\d+)\.(\d+)", "\n".join(binutils("readelf", "--version-info", path)))
        assert named
        if compiler == "zig":  # gcc links with the C library of this machine
            assert max((int(major), int(minor)) for major, minor in named) <= (2, 17)


@pytest.mark.slow
@pytest.mark.xdist_group("native")
class TestOtherMachines:
    """Libraries of zig for machines that this one need not be."""

    @pytest.mark.parametrize(
        ("target", "magic", "at", "machine"),
        [
            (("linux", "aarch64"), b"\x7fELF\x02\x01", 18, 183),  # EM_AARCH64, a half word
            (("macos", "arm64"), b"\xcf\xfa\xed\xfe", 4, 0x000C),  # CPU_TYPE_ARM64, of which the lower half
        ],
    )
    def test_is_of_that_machine(
        self, target: tuple[str, str], magic: bytes, at: int, machine: int, tmp_path: Path
    ) -> None:
        pytest.importorskip("ziglang", reason="pip install 'ziglang>=0.14'")
        path = build.build(tmp_path / build.LIBRARY.name, target=target)
        found = path.read_bytes()
        assert found.startswith(magic)
        assert struct.unpack_from("<H", found, at) == (machine,)
        assert build.is_current(path)
        if (platform.system(), platform.machine()) == ("Linux", "aarch64") and target[0] == "linux":
            code = "from test_native import digest_of_a_paste; print(digest_of_a_paste())"
            assert fresh_output(code, SEGPASTE_NATIVE_LIBRARY=str(path)) == digest_of_a_paste()


class TestBuild:
    def test_what_is_current_is_left_alone(self, tmp_path: Path) -> None:
        copy = shutil.copy(build.LIBRARY, tmp_path / "libsegpaste.so")
        before = Path(copy).stat().st_mtime_ns
        assert build.build(Path(copy), compiler=("no such compiler",)).stat().st_mtime_ns == before

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises((build.BuildError, OSError)):
            build.build(tmp_path / "libsegpaste.so", compiler=("false",))
        assert list(tmp_path.iterdir()) == []


class TestLoading:
    def test_a_library_of_other_sources_is_refused(self, tmp_path: Path) -> None:
        stale = tmp_path / "libsegpaste.so"
        stale.write_bytes(build.LIBRARY.read_bytes().replace(build.digest().encode(), b"0" * 16))
        with pytest.raises(library.NativeError, match="was built from other sources: build it with"):
            library.load(stale)

    def test_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(library.NativeError, match="is missing: build it with"):
            library.load(tmp_path / "libsegpaste.so")

    def test_records_are_as_long_on_both_sides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A record that is longer on one side would be read beyond its end."""
        found: list[int] = []
        call = jobs.call

        def measured(name: str, words: list[int], *arguments: int) -> int:
            found.append(8 * len(words))
            return call(name, words, *arguments)

        monkeypatch.setattr(jobs, "call", measured)

        class OneByOne(IntraBatchSource):
            """A source of a user, whose result the module looks at."""

        with use_backend("native"):
            BatchCopyPaste(EVERY_IMAGE, OneByOne())(make_batch(2, size=(9, 11), max_instances=5))
            BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, emit_classmix=True))(
                make_batch(2, size=(9, 11), max_instances=5)
            )
        survey, draw, compose, rows, mixture, step = (ctypes.c_int64 * 6).in_dll(library.load(), "segpaste_sizes")
        assert found == [survey, draw, compose, survey, rows, mixture, compose]
        assert step == survey + draw + compose


class TestWorkspaces:
    def test_each_is_freed_once_with_its_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        freed = self.freed_in_a_thread(monkeypatch)
        assert len(freed) == len(set(freed)) == 3

    @pytest.mark.parametrize("moment", ["is_finalizing", "getpid"])
    def test_none_is_freed_that_a_thread_may_still_use(self, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """While the interpreter ends, other threads are at work; in a forked child their memory is as they left it."""
        if moment == "is_finalizing":
            monkeypatch.setattr(library.sys, "is_finalizing", lambda: True)
        else:
            found = os.getpid() + 1
            monkeypatch.setattr(
                library._ThreadMemory, "process", property(lambda _: found, lambda *_: None), raising=False
            )
        assert self.freed_in_a_thread(monkeypatch) == []

    @staticmethod
    def freed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
        freed: list[int] = []

        class Native:
            def __getattr__(self, name: str) -> Any:
                return freed.append if name == "segpaste_free_workspace" else getattr(real, name)

        real, native = library.load(), Native()
        monkeypatch.setattr(library, "load", lambda: native)
        thread = threading.Thread(target=library.workspaces, args=(3,))
        thread.start()
        thread.join()
        gc.collect()
        return freed

    def test_an_interrupt_between_two_lines_leaves_them_usable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Interrupted(list):  # type: ignore[type-arg]
            def append(self, value: Any) -> None:
                super().append(value)
                raise KeyboardInterrupt

        local = library._Local()
        local.workspaces = Interrupted()
        monkeypatch.setattr(library, "_LOCAL", local)
        with pytest.raises(KeyboardInterrupt):
            library.workspaces(2)
        local.workspaces = list(local.workspaces)
        assert len(library.workspaces(2)) == 2
        assert all(library.workspaces(2))


def test_names_of_draws_are_those_of_seeding() -> None:
    text = (build.SOURCES / "base" / "random.hpp").read_text()
    for name in (
        "source",
        "scale",
        "size",
        "hflip",
        "vflip",
        "turn",
        "quarters",
        "paste",
        "count",
        "slot",
        "layer",
        "translate",
        "stratum",
    ):
        assert f"constexpr u64 {name.upper()} = 0x{seeding.name_key(name) % (1 << 64):016x};" in text


@pytest.mark.parametrize("inplace", [False, True])
def test_more_threads_than_rows(inplace: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_BYTES_PER_THREAD", 1)
    before = torch.get_num_threads()
    batch = make_batch(3, size=(33, 47), max_instances=8)
    paste = BatchCopyPaste(EVERY_IMAGE, inplace=inplace)
    expected = paste(batch.clone())
    torch.set_num_threads(8)
    try:
        for _ in range(50):
            assert_same(paste(batch.clone()), expected)
    finally:
        torch.set_num_threads(before)
