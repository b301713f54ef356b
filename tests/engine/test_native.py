"""The native library: how it is built, what it refuses, and that every instruction set gives the same bits."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from samples import assert_same, make_batch
from segpaste import BatchCopyPaste, seeding
from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.engine.native import binding, build, library

LEVELS = {name: level for name, level in library._LEVELS.items() if name != "baseline"}


def digest_of_a_paste() -> str:
    """Return a digest of what pastes of every kind of pixel give."""
    found = hashlib.sha256()
    for dtype in (torch.uint8, torch.float32, torch.float16, torch.bfloat16):
        batch = make_batch(4, size=(61, 83), max_instances=8, metric_depth=True, image_dtype=torch.uint8)
        batch = batch.derived(images=(batch.images.float() / 3).to(dtype))
        out = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(layers=3, scale_range=(0.3, 2.0))))(batch)
        for name in ("images", "instance_masks", "boxes", "semantic_maps", "panoptic_maps", "depth", "normals"):
            found.update(getattr(out, name).contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def in_fresh_process(code: str, **environment: str) -> str:
    """Return what Python prints that can import this file."""
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    command = [sys.executable, "-W", "ignore", "-c", code]
    merged = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run(command, env=merged, capture_output=True, text=True, check=True).stdout.strip()


class TestInstructionSets:
    @pytest.mark.parametrize("level", LEVELS)
    def test_all_give_the_same_bits(self, level: str) -> None:
        if library.load().segpaste_level() < LEVELS[level]:
            pytest.skip(f"this processor has no {level}")
        code = "from test_native import digest_of_a_paste; print(digest_of_a_paste())"
        assert in_fresh_process(code, SEGPASTE_ISA=level) == digest_of_a_paste()

    def test_they_share_no_function(self) -> None:
        """A function that two of them shared would be the one of whichever the linker took."""
        if shutil.which("nm") is None:
            pytest.skip("needs nm")
        symbols = subprocess.run(["nm", "-C", build.LIBRARY], capture_output=True, text=True, check=False).stdout
        ours = [
            line.split(maxsplit=2)[2]
            for line in symbols.splitlines()
            if " T " in line or " t " in line or " W " in line
        ]
        assert not [name for name in ours if "operator" in name or "std::" in name]
        for level in LEVELS:
            own = {name for name in ours if f"segpaste_{level}_functions::" in name}
            assert not {name.replace(f"segpaste_{level}_functions::", "") for name in own} & set(ours)


class TestBuild:
    def test_what_is_current_is_left_alone(self, tmp_path: Path) -> None:
        copy = shutil.copy(build.LIBRARY, tmp_path / "libsegpaste.so")
        before = Path(copy).stat().st_mtime_ns
        assert build.build(Path(copy), compiler=("no such compiler",)).stat().st_mtime_ns == before

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises((build.BuildError, OSError)):
            build.build(tmp_path / "libsegpaste.so", compiler=("false",))
        assert list(tmp_path.iterdir()) == []

    def test_zig_gives_the_same_bits(self, tmp_path: Path) -> None:
        pytest.importorskip("ziglang", reason="pip install 'ziglang>=0.14'")
        other = build.build(tmp_path / "libsegpaste.so", compiler=("zig",))
        code = (
            f"import pathlib; from segpaste.engine.native import library; "
            f"library.load.__wrapped__.__defaults__ = (pathlib.Path({str(other)!r}),); "
            "from test_native import digest_of_a_paste; print(digest_of_a_paste())"
        )
        assert in_fresh_process(code) == digest_of_a_paste()


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
        """A record that is longer on one side would be read behind its end."""
        found: list[int] = []
        record = binding._record

        def measured(words: list[int]) -> Any:
            found.append(8 * len(words))
            return record(words)

        monkeypatch.setattr(binding, "_record", measured)
        with use_backend("native"):
            BatchCopyPaste()(make_batch(2, size=(9, 11), max_instances=5))
        assert found == list((ctypes.c_int64 * 3).in_dll(library.load(), "segpaste_sizes"))


def test_names_of_draws_are_those_of_seeding() -> None:
    text = (build.SOURCES / "random.hpp").read_text()
    for name in ("source", "scale", "size", "hflip", "paste", "count", "slot", "layer", "translate", "stratum"):
        assert f"constexpr u64 {name.upper()} = 0x{seeding.name_key(name) % (1 << 64):016x};" in text


@pytest.mark.parametrize("inplace", [False, True])
def test_more_threads_than_rows(inplace: bool) -> None:
    before = torch.get_num_threads()
    batch = make_batch(3, size=(33, 47), max_instances=8)
    paste = BatchCopyPaste(inplace=inplace)
    expected = paste(batch.clone())
    torch.set_num_threads(8)
    try:
        for _ in range(50):
            assert_same(paste(batch.clone()), expected)
    finally:
        torch.set_num_threads(before)
