"""After a power loss at any moment: a file that was written before is the old one or the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from power_loss import below, every_state, watched
from segpaste import viz
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.encoder.checkpoints import RunLog, write_checkpoint
from segpaste.workspace import Workspace, write_whole


def save_checkpoint(path: Path, turn: int) -> None:
    write_checkpoint(path, {"turn": turn})


def save_log(path: Path, turn: int) -> None:
    log = RunLog(path.parent, "csv", [])
    log.add({"epoch": turn, "loss": 0.5})
    log.close()


def save_config(path: Path, turn: int) -> None:
    BatchCopyPasteConfig.model_validate({"placement": {"layers": 1 + turn}}).save(path)


def save_gallery(path: Path, turn: int) -> None:
    viz.gallery_png(path, [[np.full((5, 4, 3), turn, np.uint8)]])


def save_report(path: Path, turn: int) -> None:
    viz.write_html_report(path, [], {"turn": turn}, "a report")


@pytest.mark.parametrize(
    ("save", "name"),
    [
        (save_checkpoint, "last.pt"),
        (save_log, "log.csv"),
        (save_config, "config.yaml"),
        (save_config, "config.json"),
        (save_gallery, "gallery.png"),
        (save_report, "report.html"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
class TestFiles:
    def test_old_or_new(self, tmp_path: Path, save: Callable[[Path, int], None], name: str) -> None:
        path = tmp_path / name
        save(path, 0)
        old = path.read_bytes()
        with watched(tmp_path) as disk:
            save(path, 1)
        new = path.read_bytes()
        assert old != new
        assert [files[name] for files in disk.snapshots[-1]] == [new, new]
        assert {files[name] for files in every_state(disk)} <= {old, new}

    def test_in_a_new_folder(self, tmp_path: Path, save: Callable[[Path, int], None], name: str) -> None:
        with watched(tmp_path) as disk:
            save(tmp_path / "a" / "b" / name, 0)
        new = (tmp_path / "a" / "b" / name).read_bytes()
        assert disk.snapshots[-1] == ({f"a/b/{name}": new}, {f"a/b/{name}": new})


def test_a_published_folder_is_on_the_disk_before_its_run_is_removed(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "out", ValueError)
    with watched(tmp_path) as disk:
        with space.claim({}):
            write_whole(space.files / "a.txt", b"a")
            space.notes.write(0, [])
            space.publish()
        disk.note("end", tmp_path)
    assert [below(files, "out/") for files in disk.snapshots[-1]] == [{"a.txt": b"a"}] * 2


class TestDisk:
    """The shim itself: it tells careless ways of writing apart from whole ones."""

    def test_written_in_place(self, tmp_path: Path) -> None:
        with watched(tmp_path) as disk:
            (tmp_path / "a.txt").write_bytes(b"content")
            disk.note("end", tmp_path)
        assert disk.snapshots[-1] == ({"a.txt": b""}, {})

    def test_renamed_and_not_flushed(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"old")
        with watched(tmp_path) as disk:
            (tmp_path / "new.txt").write_bytes(b"new")
            (tmp_path / "new.txt").replace(tmp_path / "a.txt")
        assert disk.snapshots[-1] == ({"a.txt": b""}, {"a.txt": b"old"})
        assert disk.events == [("rename", "a.txt")]
