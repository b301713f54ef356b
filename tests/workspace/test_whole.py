"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from segpaste.workspace.whole import WholeFiles, flush, is_partial, make_folder, publish, sweep, write_whole

pytestmark = pytest.mark.usefixtures("real_fsync")


def pieces(*given: bytes | BaseException) -> Iterator[bytes]:
    """The pieces of a file, or an error in between."""
    for piece in given:
        if isinstance(piece, BaseException):
            raise piece
        yield piece


class TestWriteWhole:
    @pytest.mark.parametrize("content", [b"ab", bytearray(b"ab"), memoryview(b"ab"), [b"a", b"b"], pieces(b"a", b"b")])
    def test_content(self, tmp_path: Path, content: bytes) -> None:
        assert write_whole(tmp_path / "new" / "file", content).read_bytes() == b"ab"
        assert os.listdir(tmp_path / "new") == ["file"]

    @pytest.mark.parametrize("name", ["x" * 242, "x" * 255, "é" * 127], ids=len)
    def test_long_names(self, tmp_path: Path, name: str) -> None:
        def content() -> Iterator[bytes]:
            (half,) = os.listdir(tmp_path)
            assert is_partial(half)
            (tmp_path / half.replace(f".{os.getpid()}.", ".1.")).touch()
            yield b"whole"

        assert write_whole(tmp_path / name, content()).read_bytes() == b"whole"
        sweep(tmp_path)
        assert os.listdir(tmp_path) == [name]

    def test_no_final_name_before_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "file"

        def content() -> Iterator[bytes]:
            yield b"half"
            assert not path.exists()
            yield b" whole"

        assert write_whole(path, content()).read_bytes() == b"half whole"

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("no")])
    def test_failure_leaves_the_old_file_and_no_other(self, tmp_path: Path, error: BaseException) -> None:
        path = write_whole(tmp_path / "file", b"old")
        with pytest.raises(type(error)) as caught:
            write_whole(path, pieces(b"new", error))
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]
        assert not isinstance(error, OSError) or f"No space left on device: '{path}'" in str(caught.value)

    def test_error_about_another_file_keeps_its_name(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"photo\.png"):
            write_whole(tmp_path / "file", ((tmp_path / name).read_bytes() for name in ["photo.png"]))

    def test_folder_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"")
        with pytest.raises(FileExistsError, match=r"/x"):
            write_whole(tmp_path / "x" / "file", b"")

    def test_mode_follows_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            assert write_whole(tmp_path / "file", b"").stat().st_mode & 0o777 == 0o640
        finally:
            os.umask(before)

    def test_failed_flush_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match=r"Input/output error: '.*/file'"):
            write_whole(tmp_path / "file", b"new")
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
    def test_file_system_without_flush_of_folders(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        real = os.fsync

        def for_files_only(descriptor: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                raise OSError(number, os.strerror(number))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", for_files_only)
        assert write_whole(tmp_path / "file", b"new").read_bytes() == b"new"


class TestWholeFiles:
    def test_names_appear_together(self, tmp_path: Path) -> None:
        with WholeFiles() as files:
            files.write(tmp_path / "a" / "1", b"one")
            files.write(tmp_path / "2", b"two")
            assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name[0] != "."] == []
        assert (tmp_path / "a" / "1").read_bytes() == b"one"
        assert (tmp_path / "2").read_bytes() == b"two"

    def test_error_in_the_block_leaves_nothing(self, tmp_path: Path) -> None:
        def write() -> None:
            with WholeFiles() as files:
                files.write(tmp_path / "1", b"one")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write()
        assert os.listdir(tmp_path) == []

    def test_second_file_of_a_name_counts(self, tmp_path: Path) -> None:
        with WholeFiles() as files:
            files.write(tmp_path / "1", b"a longer one")
            files.write(tmp_path / "1", b"two")
        assert (tmp_path / "1").read_bytes() == b"two"

    def test_all_files_are_flushed_before_the_first_rename(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls, fsync, replace = [], os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor)))
        monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("rename"), replace(old, new)))
        with WholeFiles() as files:
            for number in range(3):
                files.write(tmp_path / str(number), b"")
        assert calls == ["fsync"] * 3 + ["rename"] * 3 + ["fsync"]


class TestFolders:
    def test_publish_into_an_empty_folder(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "new" / "a" / "file", b"whole")
        (tmp_path / "out").mkdir()
        publish(tmp_path / "new", tmp_path / "out")
        assert (tmp_path / "out" / "a" / "file").read_bytes() == b"whole"
        assert os.listdir(tmp_path) == ["out"]

    def test_publish_replaces_nothing(self, tmp_path: Path) -> None:
        for name in ("new", "out"):
            write_whole(tmp_path / name / "file", name.encode())
        with pytest.raises(OSError, match="not empty"):
            publish(tmp_path / "new", tmp_path / "out")
        assert (tmp_path / "out" / "file").read_bytes() == b"out"

    def test_flush_reaches_every_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_whole(tmp_path / "a" / "b" / "file", b"")
        write_whole(tmp_path / "a" / "file", b"")
        (tmp_path / "a" / "link").symlink_to("nowhere")
        flushed, real = [], os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
        flush(tmp_path / "a")
        assert sorted(flushed) == [str(tmp_path / name) for name in ("a", "a/b", "a/b/file", "a/file")]
        assert flushed[-1] == str(tmp_path / "a")

    def test_make_folder(self, tmp_path: Path) -> None:
        for _ in range(2):
            make_folder(tmp_path / "a" / "b")
        assert (tmp_path / "a" / "b").is_dir()
        write_whole(tmp_path / "file", b"")
        with pytest.raises(FileExistsError):
            make_folder(tmp_path / "file")


class TestSweep:
    NAMES = (".file.123.partial", ".a.b.7.partial")
    OTHERS = (".file.partial", "file.123.partial", ".file.123.partial.png", ".hidden")

    def test_only_half_written_files_are_removed(self, tmp_path: Path) -> None:
        for name in (*self.NAMES, *self.OTHERS):
            write_whole(tmp_path / "folder" / name, b"")
        sweep(tmp_path)
        assert sorted(os.listdir(tmp_path / "folder")) == sorted(self.OTHERS)
