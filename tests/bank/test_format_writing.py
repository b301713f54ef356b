"""Inputs that a writer accepts and rejects, and the files that it leaves."""

from __future__ import annotations

import errno
import resource
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import POINTS
from format_cases import FORMATS, NAMES, SIZE, WRITERS, assert_sound, make_crop, write

from segpaste.bank import BankError, Crop, Layout, open_bank
from segpaste.bank.schema.record import GROUPS
from segpaste.bank.storage.files import HashedFile


def build_when_told(kind: str, path: Path, told: Any) -> None:
    layout = Layout(SIZE)
    with WRITERS[kind](path, layout, NAMES) as writer:
        told.send("started")
        told.recv()
        writer.add(make_crop(layout, 0))
        writer.finish()


@FORMATS
class TestWrite:
    def test_an_interrupted_build_leaves_nothing_that_opens(self, kind: str, tmp_path: Path) -> None:
        layout = Layout(SIZE)
        writer = WRITERS[kind](tmp_path / "bank", layout, NAMES)
        with writer:
            writer.add(make_crop(layout, 0))
        assert list(tmp_path.iterdir()) == []

    def test_a_killed_build_too(self, kind: str, tmp_path: Path) -> None:
        """The next build does not find the fragments of a killed one."""
        layout = Layout(SIZE, GROUPS, POINTS)
        writer = WRITERS[kind](tmp_path / "bank", layout, NAMES)
        writer.add(make_crop(layout, 0))
        writer._discard()
        for folder in (tmp_path / "bank", tmp_path / "bank.partial"):
            with pytest.raises(BankError, match="expected a bank"):
                open_bank(folder)
        del writer  # and with it the lock, as where its process ends
        assert_sound(open_bank(write(kind, tmp_path / "bank")))
        assert [path.name for path in tmp_path.iterdir()] == ["bank"]
        assert not (tmp_path / "bank" / "unfinished").exists()

    def test_while_another_process_builds(self, kind: str, tmp_path: Path) -> None:
        context = get_context("fork")
        ours, theirs = context.Pipe()
        child = context.Process(target=build_when_told, args=(kind, tmp_path / "bank", theirs))
        child.start()
        ours.recv()
        before = sorted((tmp_path / "bank.partial").iterdir())
        with pytest.raises(BankError, match=r"bank\.partial: another process builds a bank there; wait for it"):
            write(kind, tmp_path / "bank")
        assert sorted((tmp_path / "bank.partial").iterdir()) == before
        ours.send("go on")
        child.join()
        assert_sound(open_bank(tmp_path / "bank"), 1)

    @pytest.mark.parametrize("is_folder", [True, False])
    def test_a_folder_of_somebody_else(self, kind: str, is_folder: bool, tmp_path: Path) -> None:
        partial = tmp_path / "bank.partial"
        mine = partial / "mine.txt" if is_folder else partial
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
        words = (
            r"bank\.partial: expected no folder, or one of an unfinished bank, found (mine\.txt|something else); move"
        )
        with pytest.raises(BankError, match=words):
            write(kind, tmp_path / "bank")
        assert mine.read_text() == "mine"
        mine.unlink()
        assert_sound(open_bank(write(kind, tmp_path / "bank")))

    def test_what_is_finished_discards_nothing(self, kind: str, tmp_path: Path) -> None:
        """The next writer has created its folder in the meantime."""
        layout = Layout(SIZE)
        with WRITERS[kind](tmp_path / "bank", layout, NAMES) as writer:
            writer.finish()
            (tmp_path / "bank.partial").mkdir()
            (tmp_path / "bank.partial" / "mine.txt").write_text("mine")
        assert (tmp_path / "bank.partial" / "mine.txt").exists()

    def test_a_folder_that_is_there(self, kind: str, tmp_path: Path) -> None:
        write(kind, tmp_path / "bank")
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            write(kind, tmp_path / "bank")
        (tmp_path / "empty").mkdir()
        assert_sound(open_bank(write(kind, tmp_path / "empty")))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"image": np.zeros((3, 5, 8), np.uint8)}, r"expected image uint8 \[3, 5, 7\], got uint8 \[3, 5, 8\]"),
            ({"image": np.zeros((3, 5, 7), np.float32)}, "got float32"),
            ({"alpha": None}, "expected alpha, since the bank keeps core, got None"),
            ({"class_id": 3}, "expected class_id from 0 to 2, got 3"),
            ({"class_id": -1}, "got -1"),
            ({"scale": np.nan}, "crop 0: expected a scale from 9.53674e-07 to 1, got nan; correct it"),
            ({"scale": 1e9}, "crop 0: expected a scale from 9.53674e-07 to 1, got 1e\\+09"),
            ({"scale": 1e-30}, "crop 0: expected a scale from 9.53674e-07 to 1, got 1e-30"),
            ({"source_box": np.array([0, np.nan, 1, 1], np.float32)}, "crop 0: expected finite source_box, got"),
            ({"intrinsics": np.array([np.inf, 1, 0, 0], np.float32)}, "crop 0: expected finite intrinsics, got"),
            ({"intrinsics": np.array([1, 0, 0, 0], np.float32)}, "crop 0: expected focal lengths above 0, got"),
            ({"embedding": np.full(256, np.inf, np.float16)}, "crop 0: expected a finite embedding"),
            ({"embedding": np.array([0] * 255 + [np.nan], np.float16)}, "crop 0: expected a finite embedding"),
        ],
    )
    def test_what_does_not_fit(self, kind: str, change: dict[str, Any], words: str, tmp_path: Path) -> None:
        layout = Layout(SIZE, GROUPS, POINTS)
        values = {field.name: getattr(make_crop(layout, 0), field.name) for field in fields(Crop)}
        with WRITERS[kind](tmp_path / "bank", layout, NAMES) as writer:
            with pytest.raises(BankError, match=words):
                writer.add(Crop(**{**values, **change}))
            writer.add(make_crop(layout, 0))
            assert_sound(open_bank(writer.finish()), 1)

    def test_a_disk_that_is_full_from_the_start(self, kind: str, tmp_path: Path) -> None:
        """A limit of file sizes stands for the full disk; the writer leaves nothing."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
        try:
            with pytest.raises((OSError, BankError)):
                write(kind, tmp_path / "bank", num=3)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        layout = Layout(SIZE)
        with WRITERS[kind](tmp_path / "bank", layout, NAMES) as writer:
            writer.add(make_crop(layout, 0))
            monkeypatch.setattr(HashedFile, "append", full)
            monkeypatch.setattr(type(writer), "_put", full, raising=False)
            with pytest.raises(OSError, match="No space left"):
                writer.add(make_crop(layout, 1))
        assert list(tmp_path.iterdir()) == []
