"""Every format gives back what was written, whoever reads it, in however many processes and handles."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import write_bank
from format_cases import FORMATS, NAMES, NUM, SIZE, assert_sound, inherit, make_crop, read_all, read_inherited, write

from segpaste.bank import BankError, InstanceBank, StoredBank, open_bank
from segpaste.bank.format import BANKS
from segpaste.bank.schema.blocks import block_spans
from segpaste.bank.schema.record import GROUPS


@pytest.fixture(params=BANKS)
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredBank]:
    with open_bank(write(request.param, tmp_path / "bank")) as opened:
        yield opened


class TestRead:
    @pytest.mark.parametrize("groups", [(), ("provenance",), ("embedding", "intrinsics"), GROUPS], ids=str)
    @FORMATS
    def test_what_was_written(self, kind: str, groups: Any, tmp_path: Path) -> None:
        opened = open_bank(write(kind, tmp_path / "bank", groups=groups))
        assert type(opened) is BANKS[kind]
        assert isinstance(opened, InstanceBank)
        assert_sound(opened)
        assert (opened.crop_size, opened.class_names, opened.class_frequencies) == (SIZE, NAMES, (8, 8, 7))

    def test_many_in_any_order(self, bank: StoredBank) -> None:
        indices = [3, -1, 3, 0, 22, -23, 11]
        columns = bank.read(indices)
        for n, index in enumerate(indices):
            for name, rows in columns.items():
                np.testing.assert_array_equal(rows[n], getattr(make_crop(bank.layout, index % NUM), name))

    def test_some_columns(self, bank: StoredBank) -> None:
        columns = bank.read(np.array([4, 2]), ["alpha", "class_id"])
        assert list(columns) == ["alpha", "class_id"]
        assert columns["class_id"].tolist() == [1, 2]
        assert columns["alpha"].shape == (2, 1, *SIZE)
        with pytest.raises(KeyError):
            bank.read([0], ["colour"])

    def test_no_crop(self, bank: StoredBank) -> None:
        assert bank.read([])["image"].shape == (0, 3, *SIZE)
        for index in (NUM, -NUM - 1):
            with pytest.raises(IndexError, match=str(index)):
                bank[index]

    @FORMATS
    def test_an_empty_bank(self, kind: str, tmp_path: Path) -> None:
        opened = open_bank(write(kind, tmp_path / "bank", num=0))
        assert_sound(opened, 0)
        with pytest.raises(IndexError):
            opened[0]

    @pytest.mark.parametrize("indices", [[1.9], [True, False], [0.0]])
    def test_indices_that_are_no_integers(self, bank: StoredBank, indices: Any) -> None:
        with pytest.raises(IndexError, match="expected integers as indices"):
            bank.read(indices)
        with pytest.raises(TypeError, match="integer"):
            bank[1.9]  # type: ignore[index]

    def test_closed_it_opens_again(self, bank: StoredBank) -> None:
        bank.close()
        other = open_bank(bank.where)
        assert_sound(bank)
        bank.close()
        assert_sound(other)


class TestBytes:
    @FORMATS
    def test_two_builds_are_equal(self, kind: str, tmp_path: Path) -> None:
        one, other = write(kind, tmp_path / "one"), write(kind, tmp_path / "other")
        names = sorted(os.listdir(one))
        assert names == sorted(os.listdir(other))
        assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)

    @FORMATS
    def test_other_pixels_are_another_version(self, kind: str, tmp_path: Path) -> None:
        versions = {open_bank(write(kind, tmp_path / f"{first}", first=3 * first)).version for first in range(3)}
        assert len(versions) == 3


class TestBlocks:
    """Blocks of a data file that are compared on opening."""

    def test_places(self) -> None:
        assert block_spans(0) == []
        assert block_spans(5000) == [(0, 4096), (4096, 904)]
        assert block_spans(1 << 20)[:4] == [(0, 4096), (103507, 4096), (145575, 4096), (249082, 4096)]
        for size in (1 << 16, (1 << 16) + 1, 1 << 20, 10**9 + 7, 1 << 50):
            spans = block_spans(size)
            assert len(spans) == 16
            for i, (start, length) in enumerate(spans):
                assert (i * (size // 16) <= start, start + length <= size) == (True, True)

    def test_small_objects_in_large_crops(self, tmp_path: Path) -> None:
        """Rows of crops of a power of two do not fall on the same places of all blocks."""
        size, num = 256, 64
        alphas = np.zeros((2, num, 1, size, size), bool)
        alphas[1, :, :, 120:136] = True
        folders = [
            write_bank(tmp_path / f"{i}", [0] * num, size=(size, size), alphas=a).folder for i, a in enumerate(alphas)
        ]
        shutil.copy(Path(folders[1].where) / "alpha.dat", Path(folders[0].where) / "alpha.dat")
        with pytest.raises(BankError, match=r"alpha\.dat: expected the bytes that meta\.json says"):
            open_bank(folders[0].where)


class TestProcesses:
    def test_each_opens_the_files_itself(self, start_method: BaseContext, bank: StoredBank) -> None:
        """This also holds if the parent has read before, and continues."""
        assert_sound(bank)
        with ProcessPoolExecutor(3, start_method, inherit, (bank,)) as pool:
            futures = [pool.submit(read_inherited, seed) for seed in range(6)]
            assert read_all(bank, 99)
            assert all(future.result(timeout=120) for future in futures)
        assert_sound(bank)

    def test_a_pickle_holds_no_pixels(self, bank: StoredBank) -> None:
        bank[0]
        assert len(pickle.dumps(bank)) < 400 + len(bank.where)
        assert_sound(pickle.loads(pickle.dumps(bank)))

    @FORMATS
    def test_a_pickle_of_a_bank_that_was_replaced(self, kind: str, tmp_path: Path) -> None:
        pickled = pickle.dumps(open_bank(write(kind, tmp_path / "bank")))
        shutil.rmtree(tmp_path / "bank")
        write(kind, tmp_path / "bank", first=1)
        with pytest.raises(BankError, match="replaced since"):
            pickle.loads(pickled)


def second_names(path: Path) -> Iterator[Path]:
    """Other ways to name a folder, and a copy that shares its files."""
    link = path.with_name("link")
    link.symlink_to(path)
    yield link
    yield path / ".." / path.name
    shutil.copytree(path, path.with_name("copy"), copy_function=os.link)
    yield path.with_name("copy")


@FORMATS
class TestManyHandles:
    def test_under_another_name(self, kind: str, tmp_path: Path) -> None:
        """LMDB lets a process have one environment of a file, whatever it is called."""
        first = open_bank(write(kind, tmp_path / "bank"))
        first[0]
        for path in second_names(tmp_path / "bank"):
            other = open_bank(path)
            assert_sound(other)
            other.close()
            assert_sound(first)

    def test_what_is_dropped_gives_its_files_back(self, kind: str, tmp_path: Path) -> None:
        """The files are closed without `close`; and a child that drops its copy leaves the parent's open."""
        path = write(kind, tmp_path / "bank")
        gc.collect()
        at_first = len(os.listdir("/proc/self/fd"))
        kept: StoredBank | None = open_bank(path)
        kept[0]
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            open_bank(path)[1]
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before
        if (child := os.fork()) == 0:
            kept[2]
            kept = None
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert_sound(kept)
        kept = None
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == at_first < before
