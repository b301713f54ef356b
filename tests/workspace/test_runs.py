"""Runs that are interrupted, killed anywhere, resumed and published; folders of somebody else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from power_loss import below, every_state, read_tree, watched
from segpaste.workspace import NewFolder, Notes, Run, WholeFiles, Workspace, expect_free, write_whole

SCRIPTS = Path(__file__).parents[2] / "scripts"
with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
    import kill_runs

NUM_STEPS = 2


class PlaceError(ValueError):
    """Error that the runs of these tests raise."""


def work(out: Path, seed: int = 1, read: Callable[[int], None] = lambda step: None) -> None:
    """A run of some steps, each of two files and a note; ``read`` is called before each."""
    space = Workspace(out, PlaceError)
    space.expect_free()
    with space.claim({"seed": seed}):
        for step in (step for step in range(NUM_STEPS) if not space.notes.has(step)):
            read(step)
            with WholeFiles() as files:
                for name in ("image", "depth"):
                    files.write(space.files / name / f"{step}.txt", f"{name} {step} of seed {seed}".encode())
            space.notes.write(step, {"seed": seed + step})
        found = [space.notes.read(step) for step in range(NUM_STEPS)]
        write_whole(space.files / "table.json", json.dumps(found).encode())
        space.publish()


def interrupted_at(step: int, error: BaseException) -> Callable[[int], None]:
    def read(now: int) -> None:
        if now == step:
            raise error

    return read


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "out"
    work(out)
    assert names(out.parent) == ["out"]
    return read_tree(out)


@pytest.mark.slow
class TestKilledAnywhere:
    """Before every change of a name on the disk, in a run and in the run that resumes it."""

    def killed(self, out: Path, moment: int, seed: int = 1) -> bool:
        """Work in a child that dies before its change of this number, and return whether it died."""

        def work_there() -> int:
            work(out, seed)
            return 0

        return kill_runs.run_killed(work_there, kill_runs.Moment("changes", moment)) is None

    @pytest.mark.parametrize("again", [None, 17])
    def test_the_same_call_resumes(self, expected: dict[str, bytes], tmp_path: Path, again: int | None) -> None:
        moment, out, num_whole = 0, tmp_path / "out", 0
        while self.killed(out, moment):
            if again is not None:
                self.killed(out, again)
            if out.exists():
                assert read_tree(out) == expected, moment
                num_whole += 1
                with pytest.raises(PlaceError, match="expected --out to be new or an empty folder"):
                    work(out)
            else:
                work(out)
            assert read_tree(out) == expected, moment
            assert names(tmp_path) == ["out"], moment
            shutil.rmtree(out)
            moment += 1
        assert moment > 40
        assert num_whole > 3

    def test_another_call_begins_anew_or_is_refused(self, tmp_path: Path) -> None:
        """Other arguments replace the run until a step is done, then they are rejected."""
        moment, out, outcomes = 0, tmp_path / "out", []
        while self.killed(out, moment) and not out.exists():
            done = (tmp_path / "out.partial" / "parts" / "000000.json").exists()
            outcomes.append(done)
            if done:
                before = read_tree(tmp_path)
                with pytest.raises(PlaceError, match=r"seed 1 there, 2 now; delete .*out\.partial"):
                    work(out, seed=2)
                assert read_tree(tmp_path) == before
                shutil.rmtree(tmp_path / "out.partial")
            else:
                work(out, seed=2)
                assert all(b"of seed 2" in content for name, content in read_tree(out).items() if "table" not in name)
                assert names(tmp_path) == ["out"]
                shutil.rmtree(out)
            moment += 1
        assert outcomes == sorted(outcomes)
        assert {True, False} == set(outcomes)

    def test_a_published_folder_is_whole(self, expected: dict[str, bytes], tmp_path: Path) -> None:
        """This holds after a power loss, too, and also for files that a note names."""
        with watched(tmp_path) as disk:
            work(tmp_path / "out")
        assert [below(files, "out/") for files in disk.snapshots[-1]] == [expected, expected]
        for files in every_state(disk):
            assert below(files, "out/") in ({}, expected)
            for step in range(NUM_STEPS):
                if f"out.partial/parts/{step:06d}.json" in files:
                    places = [below(files, "out/"), below(files, "out.partial/files/")]
                    assert any(place.get(f"depth/{step}.txt") == expected[f"depth/{step}.txt"] for place in places)


class TestInterrupted:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), PlaceError("a bad photo"), OSError(28, "No space")])
    def test_it_says_what_is_kept(self, expected: dict[str, bytes], tmp_path: Path, error: BaseException) -> None:
        kept = f"{tmp_path / 'out.partial'} keeps what is finished; the same command resumes from there"
        with pytest.raises(type(error)) as caught:
            work(tmp_path / "out", read=interrupted_at(1, error))
        said = {KeyboardInterrupt: kept, PlaceError: f"a bad photo ({kept})"}
        assert str(caught.value) == said.get(type(error), "[Errno 28] No space")
        assert names(tmp_path) == ["out.partial"]
        seen: list[int] = []
        work(tmp_path / "out", read=seen.append)
        assert seen == [1]
        assert read_tree(tmp_path / "out") == expected

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), PlaceError("a bad photo")])
    def test_nothing_finished_nothing_left(self, tmp_path: Path, error: BaseException) -> None:
        with pytest.raises(type(error)) as caught:
            work(tmp_path / "out", read=interrupted_at(0, error))
        assert str(caught.value) == {KeyboardInterrupt: "nothing was finished"}.get(type(error), "a bad photo")
        assert names(tmp_path) == []

    def test_after_it_was_published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        remove, num = Run.remove, iter(range(9))

        def interrupt(run: Run) -> None:
            if next(num) == 0:
                raise KeyboardInterrupt
            remove(run)

        monkeypatch.setattr(Run, "remove", interrupt)
        with pytest.raises(KeyboardInterrupt, match="out is complete"):
            work(tmp_path / "out")
        assert names(tmp_path) == ["out"]


class TestClaim:
    def claim(self, out: Path, **fingerprint: Any) -> Workspace:
        """Claim a folder, and finish its first step."""
        space = Workspace(out, PlaceError)
        with space.claim(fingerprint):
            space.notes.write(0, [])
        return space

    def test_two_at_once(self, tmp_path: Path) -> None:
        space = Workspace(tmp_path / "out", PlaceError)
        with space.claim({"seed": 1}):
            with pytest.raises(PlaceError, match="another run is writing there; wait for it, or choose another --out"):
                self.claim(tmp_path / "out", seed=1)
            space.notes.write(0, [])
        assert self.claim(tmp_path / "out", seed=1).notes.has(0)

    def test_an_unreadable_fingerprint(self, tmp_path: Path) -> None:
        space = self.claim(tmp_path / "out", seed=1)
        (space.folder / "run.json").write_text("{")
        with pytest.raises(PlaceError, match="expected the fingerprint of an unfinished run"):
            self.claim(tmp_path / "out", seed=1)
        assert space.notes.has(0)

    def test_steps_without_their_files_do_not_count(self, tmp_path: Path) -> None:
        space = self.claim(tmp_path / "out")
        space.files.rmdir()
        with space.claim({}):
            assert not space.has_results()
            assert not space.notes.has(0)

    def test_killed_in_the_first_step(self, tmp_path: Path) -> None:
        """Nothing was finished, so the next run may have other arguments, and finds no file of the first."""
        left = Workspace(tmp_path / "out", PlaceError)
        for path in (left.files / "images" / "a.png", left.notes.path(0, "npz"), left.folder / ".x.1.partial"):
            write_whole(path, b"of seed 1")
        (left.folder / "run.json").write_text('{"seed": 1}')
        with left.claim({"seed": 2}):
            assert read_tree(left.folder).keys() == {"run.json"}
            left.notes.write(0, [])
        with pytest.raises(PlaceError, match="seed 2 there, 1 now"):
            self.claim(tmp_path / "out", seed=1)

    def test_what_a_killed_write_left_is_swept_up(self, tmp_path: Path) -> None:
        space = self.claim(tmp_path / "out")
        for name in ("a.png", ".a.png.123.partial"):
            write_whole(space.files / "images" / name, b"")
        with space.claim({}):
            assert names(space.files / "images") == ["a.png"]

    def test_a_foreign_folder_is_left_alone(self, tmp_path: Path) -> None:
        for name in ("mine.json", ".file.123.partial"):
            write_whole(tmp_path / "out.partial" / name, b"")
        before = read_tree(tmp_path)
        with pytest.raises(PlaceError, match=r"expected no folder, or one of an unfinished run, found mine\.json"):
            self.claim(tmp_path / "out")
        assert read_tree(tmp_path) == before

    def test_a_run_that_may_be_finished(self, tmp_path: Path) -> None:
        """The message does not tell the user to delete it; only files of the run are removed."""
        run = Run(tmp_path / "run", PlaceError, results=("last.pt",), owned=("log.csv",), what="a run", keeping=())

        def fail() -> None:
            with run.claim({"seed": 1}):
                for name in ("last.pt", "log.csv"):
                    write_whole(run.folder / name, b"")
                raise PlaceError("a bad loss")

        with pytest.raises(PlaceError) as caught:
            fail()
        assert str(caught.value) == "a bad loss"
        with pytest.raises(PlaceError, match="holds a run with other arguments: seed 1 there, 2 now; choose another"):
            run.claim({"seed": 2}).__enter__()
        write_whole(run.folder / "mine.txt", b"")
        (run.folder / "last.pt").unlink()
        with run.claim({"seed": 2}):
            assert names(run.folder) == ["mine.txt", "run.json"]
        assert names(run.folder) == ["mine.txt"]


class TestNames:
    def test_an_occupied_place_is_never_overwritten(self, tmp_path: Path) -> None:
        space = Workspace(tmp_path / "out", PlaceError)
        with space.claim({}):
            space.notes.write(0, [])
            write_whole(tmp_path / "out" / "mine.txt", b"mine")
            with pytest.raises(PlaceError, match="expected --out to be new or an empty folder, it is not"):
                space.publish()
        assert (tmp_path / "out" / "mine.txt").read_bytes() == b"mine"
        assert space.files.is_dir()
        with pytest.raises(PlaceError, match="expected --out"):
            space.expect_free()
        assert space.files.is_dir()

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_leads_to_where_the_files_go(self, expected: dict[str, bytes], tmp_path: Path, exists: bool) -> None:
        if exists:
            (tmp_path / "far").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "far")
        work(tmp_path / "link")
        assert read_tree(tmp_path / "far") == expected
        assert names(tmp_path) == ["far", "link"]

    def test_names_that_no_folder_can_get(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_whole(tmp_path / "file", b"")
        with pytest.raises(PlaceError, match=r"x: expected a path within folders, .*file is a file; choose"):
            expect_free(tmp_path / "file" / "x", PlaceError)
        with pytest.raises(PlaceError, match="file: expected a new or an empty folder, it is not"):
            expect_free(tmp_path / "file", PlaceError)
        (tmp_path / "mount").mkdir()
        monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "mount")
        with pytest.raises(PlaceError, match="expected a folder that can be renamed, it is a mount point"):
            Workspace(tmp_path / "mount", PlaceError).expect_free()

    def test_what_is_not_of_a_published_run_stays(self, tmp_path: Path) -> None:
        """Beside a folder that is taken: a run with files, and the notes of somebody else's."""
        write_whole(tmp_path / "out" / "mine.txt", b"")
        for others in (["run.json", "parts/0.json", "files/a"], ["run.json", "last.pt"], ["parts/0.json"]):
            for name in others:
                write_whole(tmp_path / "out.partial" / name, b"{}")
            before = read_tree(tmp_path)
            with pytest.raises(PlaceError, match="expected --out"):
                Workspace(tmp_path / "out", PlaceError).expect_free()
            assert read_tree(tmp_path) == before
            shutil.rmtree(tmp_path / "out.partial")


class TestNewFolder:
    def test_it_gets_its_name_when_it_is_published(self, tmp_path: Path) -> None:
        new = NewFolder(tmp_path / "out", PlaceError, "page")
        write_whole(new.folder / "a.html", b"a")
        assert names(tmp_path) == ["out.partial"]
        with pytest.raises(PlaceError, match=r"out\.partial: another process builds a page there"):
            NewFolder(tmp_path / "out", PlaceError, "page")
        new.publish()
        new.discard()
        assert read_tree(tmp_path) == {"out/a.html": b"a"}

    def test_it_is_discarded(self, tmp_path: Path) -> None:
        new = NewFolder(tmp_path / "out", PlaceError, "page")
        write_whole(new.folder / "a" / "b.html", b"b")
        new.discard()
        assert names(tmp_path) == []

    def test_a_foreign_folder(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "out.partial" / "mine.txt", b"")
        with pytest.raises(PlaceError, match=r"or one of an unfinished page, found mine\.txt; move it away"):
            NewFolder(tmp_path / "out", PlaceError, "page")
        assert names(tmp_path / "out.partial") == ["mine.txt"]


def test_notes(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "parts")
    assert not notes.has(12)
    notes.write(12, {"found": [1]})
    assert notes.has(12)
    assert notes.read(12) == {"found": [1]}
    assert notes.path(12, "rows") == tmp_path / "parts" / "000012.rows"
