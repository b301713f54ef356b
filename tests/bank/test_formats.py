"""Every format gives back what was written, whoever reads it, and says so where its files are not those."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import POINTS, write_bank

from segpaste.bank import (
    BankError,
    Crop,
    InstanceBank,
    Layout,
    StoredBank,
    WebDatasetWriter,
    class_prototypes,
    near_duplicates,
    open_bank,
    stage_bank_batch,
)
from segpaste.bank import format as formats
from segpaste.bank.format import BANKS
from segpaste.bank.format.blocks import block_spans
from segpaste.bank.format.files import HashedFile
from segpaste.bank.format.meta import sealed
from segpaste.bank.format.record import GROUPS
from segpaste.bank.format.writer import FolderWriter

WRITERS: dict[str, Callable[..., FolderWriter]] = {
    **formats.WRITERS,
    "webdataset": partial(WebDatasetWriter, shard_bytes=6000),
}
FORMATS = pytest.mark.parametrize("kind", WRITERS)
NAMES = ("cup", "chair", "lamp")
SIZE = (5, 7)
NUM = 23


def make_crop(layout: Layout, index: int) -> Crop:
    """A pure function of its arguments, so that every process knows what it must read."""
    rng = np.random.default_rng(index)
    values: dict[str, Any] = {}
    for column in layout.columns:
        shape, dtype = layout.shape(column), np.dtype(column.dtype)
        if dtype.kind == "f":
            values[column.name] = rng.normal(size=shape).astype(dtype)
        else:
            values[column.name] = rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
        if column.name == "scale":
            values[column.name] = dtype.type(rng.uniform(0.1, 1))
        if column.name == "intrinsics":
            values[column.name] = np.abs(values[column.name]) + dtype.type(1)
        if column.name == "keypoints":
            values[column.name][:, 2] = rng.integers(1, 3, len(values[column.name]))
        if not shape:
            values[column.name] = values[column.name].item()
    return Crop(**{**values, "class_id": index % len(NAMES)})


def assert_equal(actual: Crop, expected: Crop) -> None:
    for field in fields(Crop):
        one, other = getattr(actual, field.name), getattr(expected, field.name)
        assert (one is None) == (other is None), field.name
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=field.name)
        else:
            assert one == other, field.name


def write(kind: str, path: Path, num: int = NUM, groups: Any = GROUPS, first: int = 0) -> Path:
    layout = Layout(SIZE, groups, POINTS)
    with WRITERS[kind](path, layout, NAMES, build_seed=7) as writer:
        for index in range(first, first + num):
            writer.add(make_crop(layout, index))
        return writer.finish()


def assert_sound(bank: StoredBank, num: int = NUM) -> None:
    bank.verify()
    assert len(bank) == num
    for index in range(num):
        assert_equal(bank[index], make_crop(bank.layout, index))
    np.testing.assert_array_equal(bank.crop_class_ids(), np.arange(num) % len(NAMES))


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


def read_all(bank: StoredBank, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    for index in rng.integers(0, NUM, 300).tolist():
        assert_equal(bank[index], make_crop(bank.layout, index))
    return True


class TestBlocks:
    """Which bytes of a data file opening compares."""

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
    def test_each_opens_the_files_itself(self, bank: StoredBank) -> None:
        """Also where the parent has read before, and goes on."""
        assert_sound(bank)
        with ProcessPoolExecutor(3, mp_context=get_context("fork")) as pool:
            futures = [pool.submit(read_all, bank, seed) for seed in range(6)]
            assert read_all(bank, 99)
            assert all(future.result(timeout=120) for future in futures)
        assert_sound(bank)

    def test_a_spawned_one_opens_them_itself(self, tmp_path: Path) -> None:
        """One process for the banks of all formats, for it takes seconds to start."""
        with ExitStack() as stack:
            banks = {kind: stack.enter_context(open_bank(write(kind, tmp_path / kind))) for kind in BANKS}
            for bank in banks.values():
                assert_sound(bank)
            pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            futures = {(kind, i): pool.submit(read_all, bank, i) for i in range(6) for kind, bank in banks.items()}
            found: dict[str, list[Any]] = {kind: [read_all(bank, 99)] for kind, bank in banks.items()}
            for (kind, _), future in futures.items():
                found[kind].append(future.exception(timeout=120) or future.result())
            assert found == dict.fromkeys(BANKS, [True] * 7)
            for bank in banks.values():
                assert_sound(bank)

    def test_a_pickle_holds_no_pixels(self, bank: StoredBank) -> None:
        bank[0]
        assert len(pickle.dumps(bank)) < 500
        assert_sound(pickle.loads(pickle.dumps(bank)))

    @FORMATS
    def test_a_pickle_of_a_bank_that_was_replaced(self, kind: str, tmp_path: Path) -> None:
        pickled = pickle.dumps(open_bank(write(kind, tmp_path / "bank")))
        shutil.rmtree(tmp_path / "bank")
        write(kind, tmp_path / "bank", first=1)
        with pytest.raises(BankError, match="replaced meanwhile"):
            pickle.loads(pickled)


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "meta.json")


def set_field(folder: Path, name: str, value: Any) -> None:
    path = folder / "meta.json"
    values = json.loads(path.read_text())
    if value is None:
        del values[name]
    else:
        values[name] = value
    path.write_text(json.dumps(values))


def forge(folder: Path, **changes: Any) -> None:
    """Change fields of the meta and give it the hash that it should have."""
    path = folder / "meta.json"
    values = {**json.loads(path.read_text()), **changes}
    values.pop("sha256")
    path.write_bytes(sealed(values))


def forget_blocks(folder: Path) -> None:
    """Make the bank one of a version that wrote no digests of blocks."""
    files = json.loads((folder / "meta.json").read_text())["files"]
    forge(folder, files={name: {"size": e["size"], "sha256": e["sha256"]} for name, e in files.items()})


@FORMATS
class TestFaults:
    def test_a_flipped_byte_is_found(self, kind: str, tmp_path: Path) -> None:
        """By `verify`, where the blocks that opening compares do not hold it."""
        folder = write(kind, tmp_path / "bank")
        forget_blocks(folder)
        for path in data_files(folder):
            whole = path.read_bytes()
            path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
            with pytest.raises(BankError, match=f"{path.name}: expected SHA-256"):
                BANKS[kind](folder).verify()
            path.write_bytes(whole)
        BANKS[kind](folder).verify()

    @pytest.mark.parametrize(
        "change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b""], ids=["cut", "more", "none"]
    )
    def test_another_length(self, kind: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        for path in data_files(folder):
            whole = path.read_bytes()
            path.write_bytes(change(whole))
            with pytest.raises(BankError, match=f"{path.name}: expected {len(whole)} bytes, got {len(change(whole))}"):
                open_bank(folder)
            path.write_bytes(whole)
        open_bank(folder)

    def test_a_file_is_gone(self, kind: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        for path in data_files(folder):
            path.rename(tmp_path / "away")
            with pytest.raises(BankError, match=f"{path.name}: .* got no such file"):
                open_bank(folder)
            (tmp_path / "away").rename(path)

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("sha256", None, "'sha256' among them"),
            ("sha256", "0" * 64, "of its own fields"),
            ("format", None, "'format' and"),
            ("num_crops", 22, "of its own fields"),
            ("format_version", 2, "expected format_version 1, got 2"),
        ],
    )
    def test_a_changed_meta(self, kind: str, name: str, value: Any, words: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        set_field(folder, name, value)
        with pytest.raises(BankError, match=words):
            open_bank(folder)

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"images": []}', '{"format": "memmap", "sha256": 5}'])
    def test_a_foreign_meta(self, kind: str, text: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        (folder / "meta.json").write_text(text)
        with pytest.raises(BankError, match=r"meta\.json"):
            open_bank(folder)

    def test_a_file_of_another_bank(self, kind: str, tmp_path: Path) -> None:
        """Of the same size: found by opening, before the bank is opened and before its first read."""
        folder, other = write(kind, tmp_path / "bank"), write(kind, tmp_path / "other", first=3)
        for path in data_files(folder):
            whole, swapped = path.read_bytes(), (other / path.name).read_bytes()
            if whole == swapped:  # the classes, and where crops lie
                continue
            bank = open_bank(folder)
            path.write_bytes(swapped)
            words = rf"{path.name}: expected (the bytes that meta\.json says|\d+ bytes), got"
            with pytest.raises(BankError, match=words):
                open_bank(folder)
            with pytest.raises(BankError, match=words):
                bank.read(range(NUM))
            path.write_bytes(whole)
        assert_sound(open_bank(folder))

    def test_a_bank_that_was_built_without_blocks(self, kind: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        forget_blocks(folder)
        assert_sound(open_bank(folder))

    def test_another_format(self, kind: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        for other in set(BANKS) - {kind}:
            with pytest.raises(BankError, match=f"expected a bank of format '{other}', got '{kind}'"):
                BANKS[other](folder)

    def test_no_bank(self, kind: str, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(BankError, match=r"expected a bank, a folder with meta\.json"):
                BANKS[kind](folder)


def build_when_told(kind: str, path: Path, told: Any) -> None:
    layout = Layout(SIZE)
    with WRITERS[kind](path, layout, NAMES) as writer:
        told.send("started")
        told.recv()
        writer.add(make_crop(layout, 0))
        writer.finish()


def opened_blocks(bank: StoredBank, column: str) -> Callable[[], Any]:
    """What computes with a column of the whole bank."""
    if column == "embedding":
        return lambda: (class_prototypes(bank), near_duplicates(bank))
    return lambda: stage_bank_batch(bank, [[4, 5]])


@FORMATS
class TestForged:
    """Numbers that do not fit, under a hash that does."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"num_crops": 10**30},
            {"num_crops": 2**40, "class_frequencies": [2**40, 0, 0]},
            {"crop_h": SIZE[1], "crop_w": SIZE[0] + 40},
            {"crop_h": 10**6},
            {"crop_h": 2**15, "crop_w": 2**15},
            {"class_frequencies": [NUM + 1, -1, 0]},
            {"groups": ["core", "provenance", "colours"], "has_embeddings": False},
            {"files": {}},
            {"files": {"../../../../etc/passwd": {"size": 1, "sha256": "0" * 64}}},
        ],
        ids=lambda c: " ".join(f"{k}={str(v)[:9]}" for k, v in c.items()),
    )
    def test_does_not_open(self, kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
        """Or, where only a read can tell, does not read."""
        folder = write(kind, tmp_path / "bank")
        forge(folder, **changes)
        with pytest.raises(BankError, match=r"bank(/meta\.json|/data\.mdb|/index\.parquet)?: "):
            open_bank(folder)[0]

    @pytest.mark.parametrize("value", ["24", 24.0, True, None, [24], -1.5], ids=repr)
    def test_what_is_no_integer(self, kind: str, value: Any, tmp_path: Path) -> None:
        """In every field that holds one."""
        folder = write(kind, tmp_path / "bank")
        whole = (folder / "meta.json").read_bytes()
        meta = json.loads(whole)
        file = min(meta["files"])
        counts, files = [value, *meta["class_frequencies"][1:]], {**meta["files"]}
        files[file] = {**files[file], "size": value}
        names = ("format_version", "num_crops", "crop_h", "crop_w", "num_classes", "build_seed")
        for name, changed in [*((n, value) for n in names), ("class_frequencies", counts), ("files", files)]:
            forge(folder, **{name: changed})
            with pytest.raises(BankError, match=rf"meta\.json: (expected )?{name}.*got {re.escape(repr(value))}"):
                open_bank(folder)
            (folder / "meta.json").write_bytes(whole)

    @pytest.mark.parametrize(
        ("names", "value"),
        [
            (("has_embeddings", "metric_depth"), 1),
            (("has_embeddings", "metric_depth"), "true"),
            (("segpaste_version", "format"), 5),
            (("class_names", "groups"), "core"),
            (("class_names", "groups"), [1, 2, 3]),
            (("built_from", "files"), []),
        ],
        ids=repr,
    )
    def test_another_type(self, kind: str, names: tuple[str, ...], value: Any, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        whole = (folder / "meta.json").read_bytes()
        for name in names:
            forge(folder, **{name: value})
            with pytest.raises(BankError, match=rf"meta\.json: {name}"):
                open_bank(folder)
            (folder / "meta.json").write_bytes(whole)

    def test_a_sparse_meta(self, kind: str, tmp_path: Path) -> None:
        """Nothing reads 64 GiB that take no place on the disk."""
        folder = write(kind, tmp_path / "bank")
        os.truncate(folder / "meta.json", 1 << 36)
        with pytest.raises(BankError, match=r"meta\.json: expected at most 268435456 bytes, got 68719476736"):
            open_bank(folder)

    @pytest.mark.parametrize("column", ["embedding", "scale"])
    def test_values_that_poison(self, kind: str, column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every reader names the crop; the writer here looks away."""
        monkeypatch.setattr("segpaste.bank.format.writer.first_fault", lambda columns: None)
        layout = Layout(SIZE, GROUPS, POINTS)
        for bad in (np.nan, np.inf, -np.inf, *([0.0, -1.0, 1e9] * (column == "scale"))):
            folder = tmp_path / f"{bad}"
            with WRITERS[kind](folder, layout, NAMES) as writer:
                for index in range(9):
                    crop = make_crop(layout, index)
                    if index == 5:
                        value: Any = bad
                        if column == "embedding":
                            value = crop.embedding.copy()  # type: ignore[union-attr]
                            value[200] = bad
                        crop = replace(crop, **{column: value})
                    writer.add(crop)
                opened = open_bank(writer.finish())
            for read in (
                lambda o=opened: o[5],
                lambda o=opened: o.read([1, -4], [column]),
                opened_blocks(opened, column),
            ):
                with pytest.raises(
                    BankError, match=rf"{re.escape(str(folder))}: crop 5: expected a .*{column}.*; the bank"
                ):
                    read()
            assert_equal(opened[4], make_crop(layout, 4))

    def test_classes_that_are_not_counted_so(self, kind: str, tmp_path: Path) -> None:
        folder = write(kind, tmp_path / "bank")
        forge(folder, class_frequencies=[9, 7, 7])
        with pytest.raises(BankError, match=r"expected classes as counted in meta\.json"):
            open_bank(folder).crop_class_ids()


@FORMATS
class TestReplaced:
    """A bank that another one takes the place of is never read as if it were the first."""

    def test_before_the_first_read(self, kind: str, tmp_path: Path) -> None:
        old = open_bank(write(kind, tmp_path / "bank"))
        shutil.rmtree(tmp_path / "bank")
        write(kind, tmp_path / "bank", first=1)
        with pytest.raises(BankError, match=r"expected the bank of version .* got another one"):
            old[0]

    def test_while_it_is_read(self, kind: str, tmp_path: Path) -> None:
        """What is open stays what it was, and the new one is the new one."""
        old = open_bank(write(kind, tmp_path / "bank"))
        assert_equal(old[0], make_crop(old.layout, 0))
        shutil.rmtree(tmp_path / "bank")
        new = open_bank(write(kind, tmp_path / "bank", first=1))
        assert_equal(new[0], make_crop(new.layout, 1))
        assert_equal(old[0], make_crop(old.layout, 0))
        assert_equal(pickle.loads(pickle.dumps(new))[3], make_crop(new.layout, 4))

    def test_between_reads(self, kind: str, tmp_path: Path) -> None:
        """Every later read is of the first bank or refused, also of a file that was not open yet."""
        old = open_bank(write(kind, tmp_path / "bank"))
        assert_equal(old[0], make_crop(old.layout, 0))
        shutil.rmtree(tmp_path / "bank")
        write(kind, tmp_path / "other", first=1)
        (tmp_path / "other").rename(tmp_path / "bank")
        refused = []
        for index in range(NUM):
            try:
                crop = old[index]
            except BankError as error:
                refused.append(str(error))
            else:
                assert_equal(crop, make_crop(old.layout, index))
        assert (len(refused) > 0) == (kind == "webdataset")
        assert all("got another one; open it again" in error for error in refused)


@pytest.mark.parametrize("extra", [-1, 1], ids=["shorter", "longer"])
def test_a_shard_that_changes_before_it_is_read(extra: int, tmp_path: Path) -> None:
    bank = open_bank(write("webdataset", tmp_path / "bank"))
    bank[0]
    shard, row = tmp_path / "bank" / "shard-000001.tar", int(np.flatnonzero(bank._index[0] == 1)[0])
    os.truncate(shard, shard.stat().st_size + extra)
    for _ in range(2):
        with pytest.raises(BankError, match=rf"{shard.name}: expected \d+ bytes, got \d+"):
            bank[row]


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
        """Without `close`; and a child that drops its copy leaves the parent's alone."""
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


def test_a_sparse_index(tmp_path: Path) -> None:
    """Of 64 GiB, which a forged meta states."""
    folder = write("webdataset", tmp_path / "bank")
    os.truncate(folder / "index.parquet", 1 << 36)
    files = json.loads((folder / "meta.json").read_text())["files"]
    files["index.parquet"] = {"size": 1 << 36, "sha256": "0" * 64}
    forge(folder, files=files)
    with pytest.raises(BankError, match=r"expected at most \d+ bytes of index\.parquet for 23 crops, got 68719476736"):
        open_bank(folder).crop_class_ids()


def test_an_index_of_other_bytes(tmp_path: Path) -> None:
    """Whichever bit is flipped, no read gives another crop."""
    folder = write("webdataset", tmp_path / "bank")
    forget_blocks(folder)
    whole = (folder / "index.parquet").read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole) * 8, 60).tolist():
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        (folder / "index.parquet").write_bytes(flipped)
        with pytest.raises(BankError, match=r"index\.parquet: expected other bytes"):
            open_bank(folder)[5]


@pytest.mark.parametrize("content", [lambda size: bytes(size), lambda size: b"\xff" * size], ids=["zeros", "ones"])
def test_a_file_that_is_no_lmdb(content: Callable[[int], bytes], tmp_path: Path) -> None:
    folder = write("lmdb", tmp_path / "bank")
    forget_blocks(folder)
    path = folder / "data.mdb"
    path.write_bytes(content(path.stat().st_size))
    bank = open_bank(folder)
    for use in (lambda: bank[0], bank.crop_class_ids):
        with pytest.raises(BankError, match=r"data\.mdb: cannot be read: .*; run segpaste bank verify"):
            use()


@FORMATS
class TestWrite:
    def test_an_interrupted_build_leaves_nothing_that_opens(self, kind: str, tmp_path: Path) -> None:
        layout = Layout(SIZE)
        writer = WRITERS[kind](tmp_path / "bank", layout, NAMES)
        with writer:
            writer.add(make_crop(layout, 0))
        assert list(tmp_path.iterdir()) == []

    def test_a_killed_build_too(self, kind: str, tmp_path: Path) -> None:
        """And the next one does not find its rests."""
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
        """Of a folder that the next writer has made meanwhile."""
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
            ({"alpha": None}, "expected alpha, for the bank keeps core, got None"),
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
        """A limit of file sizes; the writer leaves nothing."""
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


def test_a_truncated_file_while_it_is_open(tmp_path: Path) -> None:
    """A positioned read says so; a mapped file would kill the process."""
    for kind in ("memmap", "webdataset"):
        opened = open_bank(write(kind, tmp_path / kind))
        opened[NUM - 1]
        for path in data_files(Path(opened.where)):
            os.truncate(path, 10)
        with pytest.raises(BankError, match="shorter than when it was opened"):
            opened[NUM - 1]
