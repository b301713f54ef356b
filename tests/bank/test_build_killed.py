"""Builds that end too early leave nothing that opens, and the next one resumes to the same bytes."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from build_cases import FORMATS, Listed, build, fails_late, with_a_stray
from photo_folder import open_photos, write_photos

from on_disk import tree
from segpaste.bank import BankError, open_bank
from segpaste.bank.building import build_bank as build_module
from segpaste.datasets import CocoDetectionV2, DatasetError
from segpaste.types import DenseSample
from segpaste.workspace import Run


@pytest.mark.slow
class TestKilledAnywhere:
    """At every change of a name on the disk: the same call then makes the same bank, or says that it is there."""

    def killed(self, kind: str, out: Path, moment: int) -> bool:
        """Build in a child that dies before its operation of this number, and return whether it died."""
        if (child := os.fork()) == 0:
            left = iter(range(moment))

            def counted(function: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any, **options: Any) -> Any:
                    if next(left, None) is None:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*args, **options)

                return call

            for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "fsync"):
                setattr(os, name, counted(getattr(os, name)))
            build(Listed(3), out, format=kind)
            os._exit(0)
        return os.waitpid(child, 0)[1] == signal.SIGKILL

    @FORMATS
    def test_the_same_call_goes_on(self, kind: str, tmp_path: Path) -> None:
        build(Listed(3), tmp_path / "expected", format=kind)
        moment, out = 0, tmp_path / "bank"
        while self.killed(kind, out, moment):
            if (out / "meta.json").exists():
                with pytest.raises(BankError, match="expected a new or an empty folder"):
                    build(Listed(3), out, format=kind)
            else:
                build(Listed(3), out, format=kind)
            assert tree(out) == tree(tmp_path / "expected"), moment
            assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "expected"], moment
            shutil.rmtree(out)
            moment += 1
        assert moment > 20


class TestKilledAtTheEnd:
    """Builds that are killed when the bank has its name and its parts are still there."""

    def killed(self, out: Path, in_remove: Callable[[Path], None]) -> None:
        if (child := os.fork()) == 0:

            def die(run: Run) -> None:
                in_remove(run.folder)
                os.kill(os.getpid(), signal.SIGKILL)

            Run.remove = die  # type: ignore[method-assign]
            build(Listed(3), out)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL

    @pytest.mark.parametrize("stage", ["before", "within", "after"])
    def test_the_next_call_removes_them(self, stage: str, tmp_path: Path) -> None:
        def removes(work: Path) -> None:
            if stage != "before":
                shutil.rmtree(work / "parts")
            if stage == "after":
                (work / "run.json").unlink()

        self.killed(tmp_path / "bank", removes)
        assert (tmp_path / "bank.parts").is_dir()
        assert len(open_bank(tmp_path / "bank")) == 3
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            build(Listed(3), tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank"]

    def test_parts_of_another_build_stay(self, tmp_path: Path) -> None:
        """A bank that was moved there in the meantime says nothing about them."""
        with pytest.raises(DatasetError, match="not now"):
            build(Listed(70, fails_late), tmp_path / "bank")
        build(Listed(3), tmp_path / "moved", margin_frac=0.0)
        (tmp_path / "moved").rename(tmp_path / "bank")
        before = tree(tmp_path / "bank.parts")
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            build(Listed(70, with_a_stray), tmp_path / "bank")
        assert tree(tmp_path / "bank.parts") == before


def kill_this_process(index: int, sample: DenseSample) -> DenseSample:
    if index == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


class Slow(CocoDetectionV2):
    def __getitem__(self, index: int) -> DenseSample:
        time.sleep(0.01)
        return super().__getitem__(index)


def build_slowly(folder: Path, out: Path) -> None:
    build(Slow(folder, folder / "labels.json"), out)


def build_parts(photos: Any, out: Path, **options: Any) -> None:
    """Build, and interrupt it when all parts are finished."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_module, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt, match="keeps what is finished"):
            build(photos, out, **options)


def build_on_a_full_disk(folder: Path, out: Path, limit: int, kind: str, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        build(open_photos(folder), out, format=kind)
    except Exception as error:
        answer.put(str(error))
    else:
        answer.put("")


class TestGoingOn:
    def test_after_a_kill(self, folder: Path, expected: dict[str, str], tmp_path: Path) -> None:
        child = get_context("fork").Process(target=build_slowly, args=(folder, tmp_path / "bank"))
        child.start()
        first = tmp_path / "bank.parts" / "parts" / "000000.json"
        while not first.exists():
            assert child.is_alive()
            time.sleep(0.005)
        child.kill()
        child.join()
        assert not (tmp_path / "bank").exists()
        with pytest.raises(BankError, match="expected a bank"):
            open_bank(tmp_path / "bank.parts")
        seen = []
        photos = open_photos(folder)
        read = photos._read_sample
        photos._read_sample = lambda record: seen.append(record["id"]) or read(record)  # type: ignore[method-assign,func-returns-value]
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected
        assert len(set(seen)) <= 70 - 32 + 1
        assert os.listdir(tmp_path) == ["bank"]

    @pytest.mark.parametrize("workers", [1, 2])
    def test_after_a_photo_was_repaired(
        self, workers: int, expected: dict[str, str], tmp_path: Path, folder: Path
    ) -> None:
        own = write_photos(tmp_path / "photos")
        whole = (own / "3.png").read_bytes()
        (own / "3.png").write_bytes(whole[:90])
        with pytest.raises(DatasetError, match=r"3\.png.*bank\.parts keeps what is finished; the same call resumes"):
            build(open_photos(own), tmp_path / "bank", workers=workers)
        assert not (tmp_path / "bank").exists()
        (own / "3.png").write_bytes(whole)
        build(open_photos(own), tmp_path / "bank", workers=workers)
        assert tree(tmp_path / "bank") == expected

    def test_nothing_finished_nothing_left(self, tmp_path: Path) -> None:
        def no_masks(index: int, sample: DenseSample) -> DenseSample:
            return DenseSample(image=sample.image, boxes=sample.boxes, labels=sample.labels)

        with pytest.raises(BankError, match="image 0: expected instance_masks, got none; objects are cut out by their"):
            build(Listed(3, no_masks), tmp_path / "bank")
        assert list(tmp_path.iterdir()) == []

    def test_not_with_other_arguments(self, photos: CocoDetectionV2, expected: dict[str, str], tmp_path: Path) -> None:
        build_parts(photos, tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank.parts"]
        with pytest.raises(
            BankError, match=r"unfinished run with other arguments: margin_frac 0\.0625 there, 0\.5 now"
        ):
            build(photos, tmp_path / "bank", margin_frac=0.5)
        build(photos, tmp_path / "bank", format="memmap", workers=2)
        assert tree(tmp_path / "bank") == expected

    def test_killed_in_the_first_part(self, photos: CocoDetectionV2, tmp_path: Path) -> None:
        """Nothing was finished, so the next build may have other arguments."""
        build(photos, tmp_path / "expected", margin_frac=0.5)
        parts = tmp_path / "bank.parts" / "parts"
        parts.mkdir(parents=True)
        (parts.parent / "run.json").write_text('{"margin_frac": 0.25}')
        (parts / "000000.images").write_text("half of a part")
        build(photos, tmp_path / "bank", margin_frac=0.5)
        assert tree(tmp_path / "bank") == tree(tmp_path / "expected")
        assert not parts.parent.exists()

    def test_a_part_that_was_changed(
        self, photos: CocoDetectionV2, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The changed part is found, and written again by the next call."""
        write = build_module._write

        def change(maker: Any, *args: Any) -> Any:
            part = maker.notes.path(1, "rows")
            content = bytearray(part.read_bytes())
            content[5] ^= 1
            part.write_bytes(content)
            return write(maker, *args)

        with monkeypatch.context() as patch:
            patch.setattr(build_module, "_write", change)
            with pytest.raises(BankError, match=r"000001\.rows: expected the file as it was written, got a changed"):
                build(photos, tmp_path / "bank")
        assert [path.name for path in tmp_path.iterdir()] == ["bank.parts"]
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected

    @pytest.mark.parametrize("harm", ["no rows", "cut rows", "empty json", "cut json", "no object"])
    def test_a_part_that_lost_a_file(
        self, harm: str, photos: CocoDetectionV2, expected: dict[str, str], tmp_path: Path
    ) -> None:
        """A crash of the machine may leave such a part; it counts as not done."""
        build_parts(photos, tmp_path / "bank")
        rows, found = (tmp_path / "bank.parts" / "parts" / f"000001.{kind}" for kind in ("rows", "json"))
        if harm == "no rows":
            rows.unlink()
        else:
            path = rows if harm == "cut rows" else found
            length = 0 if harm == "empty json" else path.stat().st_size // 2
            path.write_bytes(b"[1]" if harm == "no object" else path.read_bytes()[:length])
        build(photos, tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected

    def test_not_with_another_fingerprint(self, tmp_path: Path) -> None:
        """The part does not belong to the bank."""
        build_parts(Listed(2), tmp_path / "bank", fingerprint={"folder": "a"})
        with pytest.raises(BankError, match='with other arguments: folder "a" there, "b" now'):
            build(Listed(2), tmp_path / "bank", fingerprint={"folder": "b"})
        build(Listed(2), tmp_path / "bank", fingerprint={"folder": "a"})
        build(Listed(2), tmp_path / "other")
        assert tree(tmp_path / "bank") == tree(tmp_path / "other")

    def test_a_worker_that_is_killed(self, tmp_path: Path) -> None:
        with pytest.raises(BankError, match="a worker process was killed"):
            build(Listed(70, kill_this_process), tmp_path / "bank", workers=2)
        assert not (tmp_path / "bank").exists()

    @pytest.mark.parametrize(("limit", "kind"), [(3_000, "memmap"), (32_000, "memmap"), (32_000, "lmdb")])
    def test_a_full_disk(self, limit: int, kind: str, folder: Path, expected: dict[str, str], tmp_path: Path) -> None:
        """The disk is full while writing a part's file, and the bank's own."""
        context = get_context("fork")
        answer = context.Queue()
        child = context.Process(target=build_on_a_full_disk, args=(folder, tmp_path / "bank", limit, kind, answer))
        child.start()
        message = answer.get(timeout=60)
        child.join()
        assert re.search(
            rf"{tmp_path}/bank.*(File too large|is the disk full)|File too large: .*{tmp_path}/bank", message
        )
        assert not (tmp_path / "bank").exists()
        assert not (tmp_path / "bank.partial").exists()
        assert (tmp_path / "bank.parts").exists() == (limit > 3_000)
        assert not list(tmp_path.rglob(".*.partial"))
        build(open_photos(folder), tmp_path / "bank")
        assert tree(tmp_path / "bank") == expected
