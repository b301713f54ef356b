"""After a power loss at any moment: what `segpaste augment` and `segpaste replay` left is whole, and they resume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import write_instances, write_panoptic

from power_loss import Disk, Files, below, every_state, read_tree, restore, watched
from segpaste.augmenting import steps
from segpaste.cli import main

EAGER, LAZY = 0, 1


@pytest.fixture(scope="module", autouse=True)
def short_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "IMAGES_PER_STEP", 2)
        yield


class TestAugment:
    @pytest.fixture(scope="class")
    @staticmethod
    def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
        labels, images, maps = write_panoptic(tmp_path_factory.mktemp("world"))
        options = ["--num", "6", "--gallery", "3", "--out"]
        return ["augment", str(labels), "--images", str(images), "--panoptic-dir", str(maps), *options]

    @pytest.fixture(scope="class")
    @staticmethod
    def run(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Disk, Files]:
        """Return the possible states of the disk during a run, and the files that it left."""
        folder = tmp_path_factory.mktemp("run")
        with watched(folder) as disk:
            assert main([*words, str(folder / "out")]) == 0
        return disk, read_tree(folder / "out")

    def test_a_finished_step_has_its_files(self, run: tuple[Disk, Files]) -> None:
        disk, expected = run
        seen = set()
        for files in every_state(disk):
            for name in (name for name in files if name.startswith("out.partial/parts/") and name.endswith(".json")):
                seen.add(name)
                for item in json.loads(files[name]):
                    image = item["rows"]["image"]["file_name"]
                    for path in (f"images/{image}", f"panoptic/{image}"):
                        there = files.get(f"out.partial/files/{path}", files.get(f"out/{path}"))
                        assert there == expected[path], f"{name} is there, {path} is not"
        assert len(seen) == 3

    def test_a_published_folder_has_its_files(self, run: tuple[Disk, Files]) -> None:
        disk, expected = run
        published = [found for files in every_state(disk) if (found := below(files, "out/"))]
        assert published
        assert all(found == expected for found in published)
        assert [below(files, "out/") for files in disk.snapshots[-1]] == [expected, expected]

    @pytest.mark.parametrize("kind", [EAGER, LAZY])
    def test_resumes(self, run: tuple[Disk, Files], words: list[str], tmp_path: Path, kind: int) -> None:
        disk, expected = run
        step = ("rename", "out.partial/parts/000001.json")
        files = disk.snapshots[disk.events.index(step) + 1][kind]
        assert "out.partial/parts/000001.json" in files
        restore(files, tmp_path)
        assert main([*words, str(tmp_path / "out")]) == 0
        assert read_tree(tmp_path / "out") == expected


class TestReplay:
    def test_replayed_dataset(self, tmp_path: Path) -> None:
        labels, images = write_instances(tmp_path / "world")
        given = [str(labels), "--images", str(images)]
        assert main(["augment", *given, "--num", "2", "--gallery", "0", "--out", str(tmp_path / "first")]) == 0
        where = tmp_path / "again"
        where.mkdir()
        with watched(where) as disk:
            records = str(tmp_path / "first" / "replay.jsonl")
            assert main(["replay", records, "--dataset", *given, "--out", str(where / "out")]) == 0
        published = [found for files in every_state(disk) if (found := below(files, "out/"))]
        assert published
        assert all(found == read_tree(where / "out") for found in published)
