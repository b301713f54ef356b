"""Files that are not a bank's, or not as they were written: every format says so."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import POINTS
from format_cases import FORMATS, NAMES, NUM, SIZE, WRITERS, assert_equal, assert_sound, make_crop, write

from segpaste.bank import BankError, Layout, StoredBank, class_prototypes, near_duplicates, open_bank, stage_bank_batch
from segpaste.bank.format import BANKS
from segpaste.bank.format.data_files import Readers
from segpaste.bank.schema.meta import sealed
from segpaste.bank.schema.record import GROUPS


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
        """`verify` finds it where the blocks that are compared on opening do not hold it."""
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
            ("sha256", None, "including 'format' and 'sha256'"),
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
        """A file of the same size is found when the bank is opened, and before its first read."""
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


def opened_blocks(bank: StoredBank, column: str) -> Callable[[], Any]:
    """Return a function that computes with a column of the whole bank."""
    if column == "embedding":
        return lambda: (class_prototypes(bank), near_duplicates(bank))
    return lambda: stage_bank_batch(bank, [[4, 5]])


@FORMATS
class TestForged:
    """Numbers that are inconsistent, under a hash that is correct."""

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
            {"has_embeddings": False},
            {"files": {}},
            {"files": {"../../../../etc/passwd": {"size": 1, "sha256": "0" * 64}}},
        ],
        ids=lambda c: " ".join(f"{k}={str(v)[:9]}" for k, v in c.items()),
    )
    def test_does_not_open(self, kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
        """The bank does not open, or does not read where only a read can tell."""
        folder = write(kind, tmp_path / "bank")
        forge(folder, **changes)
        with pytest.raises(BankError, match=r"bank(/meta\.json|/data\.mdb|/index\.parquet)?: "):
            open_bank(folder)[0]

    @pytest.mark.parametrize("value", ["24", 24.0, True, None, [24], -1.5], ids=repr)
    def test_what_is_no_integer(self, kind: str, value: Any, tmp_path: Path) -> None:
        """Every field that holds an integer is tested."""
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
        """Every reader names the crop; the writer here skips its checks."""
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
        with pytest.raises(BankError, match=r"expected the class counts of meta\.json"):
            open_bank(folder).crop_class_ids()


@FORMATS
class TestReplaced:
    """A bank that is replaced by another one is never read as if it were the first."""

    def test_before_the_first_read(self, kind: str, tmp_path: Path) -> None:
        old = open_bank(write(kind, tmp_path / "bank"))
        shutil.rmtree(tmp_path / "bank")
        write(kind, tmp_path / "bank", first=1)
        with pytest.raises(BankError, match=r"expected the bank of version .* got another one"):
            old[0]

    def test_while_it_is_read(self, kind: str, tmp_path: Path) -> None:
        """The open bank keeps its content, and the new one has the new content."""
        old = open_bank(write(kind, tmp_path / "bank"))
        assert_equal(old[0], make_crop(old.layout, 0))
        shutil.rmtree(tmp_path / "bank")
        new = open_bank(write(kind, tmp_path / "bank", first=1))
        assert_equal(new[0], make_crop(new.layout, 1))
        assert_equal(old[0], make_crop(old.layout, 0))
        assert_equal(pickle.loads(pickle.dumps(new))[3], make_crop(new.layout, 4))

    def test_between_reads(self, kind: str, tmp_path: Path) -> None:
        """Every later read gives the first bank or fails, also in a file that was not open yet."""
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
        assert (len(refused) > 0) == isinstance(old._opened(), Readers)  # which opens files when they are first read
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


def test_few_shards_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readers, "most", 2)
    before = len(os.listdir("/proc/self/fd"))
    bank = open_bank(write("webdataset", tmp_path / "bank"))
    assert len(bank.meta.files) > 4
    for index in (*range(NUM), 0):
        assert_equal(bank[index], make_crop(bank.layout, index))
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    opened: list[int] = []
    monkeypatch.setattr(
        Readers, "of", lambda self, names, of=Readers.of: opened.append(len({*names})) or of(self, names)
    )
    every = bank.read(range(NUM), ["class_id", "image"])  # of more files than may be open
    assert every["class_id"].tolist() == bank.crop_class_ids().tolist()
    assert all(np.array_equal(image, make_crop(bank.layout, n).image) for n, image in enumerate(every["image"]))
    assert max(opened) == 2


def test_a_sparse_index(tmp_path: Path) -> None:
    """A forged meta states an index of 64 GiB."""
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
        with pytest.raises(BankError, match=r"index\.parquet: expected the bytes that meta.json says, got others"):
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


def test_a_truncated_file_while_it_is_open(tmp_path: Path) -> None:
    """A positioned read says so; a mapped file would kill the process."""
    for kind in ("memmap", "webdataset"):
        opened = open_bank(write(kind, tmp_path / kind))
        opened[NUM - 1]
        for path in data_files(Path(opened.where)):
            os.truncate(path, 10)
        with pytest.raises(BankError, match="shorter than when it was opened"):
            opened[NUM - 1]
