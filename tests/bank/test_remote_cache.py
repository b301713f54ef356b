"""Files in an object store that are not a bank's, and the cache of blocks on the disk."""

from __future__ import annotations

import os
import pickle
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from bank_cases import POINTS
from format_cases import NUM, SIZE, assert_equal, assert_sound, make_crop, write
from remote_cases import SHARD, names_at, small_blocks

from segpaste.bank import BankError, BlockCache, Layout, RemoteFolder, WebDatasetBank, open_bank
from segpaste.bank.schema.record import GROUPS

pytestmark = pytest.mark.usefixtures("own_cache")


class TestFaults:
    """Faults like those of the formats on a disk; in memory, since no connection matters."""

    @pytest.fixture
    def memory(self) -> Iterator[Any]:
        fs = fsspec.filesystem("memory")
        write("webdataset", "memory://bank")  # type: ignore[arg-type]
        yield fs
        fs.rm("/bank", recursive=True)

    def test_sound(self, memory: Any) -> None:
        assert_sound(open_bank("memory://bank/"))

    def test_a_flipped_byte_is_found(self, memory: Any) -> None:
        """The fault is found although the blocks of the sound bank are in the cache."""
        assert_sound(open_bank("memory://bank"))
        for name in set(names_at(memory, "/bank")) - {"meta.json"}:
            whole = memory.cat_file(f"/bank/{name}")
            memory.pipe_file(f"/bank/{name}", whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
            with pytest.raises(BankError, match=f"{name}: expected SHA-256"):
                open_bank("memory://bank").verify()
            memory.pipe_file(f"/bank/{name}", whole)
        open_bank("memory://bank").verify()

    def test_a_shard_of_another_bank(self, memory: Any, tmp_path: Path) -> None:
        """The shard was there before the bank was opened, so its tag says nothing."""
        other = write("webdataset", tmp_path / "other", first=3)
        memory.pipe_file(f"/bank/{SHARD}", (other / SHARD).read_bytes())
        bank = open_bank("memory://bank")
        for _ in range(2):
            with pytest.raises(BankError, match=rf"{SHARD}: expected the bytes that meta\.json says, got others"):
                bank[0]

    def test_blocks_of_another_object_are_not_read(self, memory: Any) -> None:
        """The object has the same name, length and bank, and is written after the cache was filled."""
        assert open_bank("memory://bank")[0].image[0, 0, 0] == make_crop(Layout(SIZE, GROUPS, POINTS), 0).image[0, 0, 0]
        memory.pipe_file(f"/bank/{SHARD}", bytes(len(memory.cat_file(f"/bank/{SHARD}"))))
        with pytest.raises(BankError, match=rf"{SHARD}: expected the bytes that meta\.json says, got others at 0"):
            open_bank("memory://bank")[0]

    @pytest.mark.parametrize(
        "change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: None], ids=["cut", "more", "no"]
    )
    def test_another_length(self, memory: Any, change: Callable[[bytes], bytes | None]) -> None:
        for name in set(names_at(memory, "/bank")) - {"meta.json"}:
            whole = memory.cat_file(f"/bank/{name}")
            memory.rm_file(f"/bank/{name}")
            if (changed := change(whole)) is not None:
                memory.pipe_file(f"/bank/{name}", changed)
            came = "no such file" if changed is None else len(changed)
            with pytest.raises(BankError, match=f"{name}: expected {len(whole)} bytes, got {came}"):
                open_bank("memory://bank")
            memory.pipe_file(f"/bank/{name}", whole)

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"images": []}'])
    def test_a_foreign_meta(self, memory: Any, text: str) -> None:
        memory.pipe_file("/bank/meta.json", text.encode())
        with pytest.raises(BankError, match=r"meta\.json"):
            open_bank("memory://bank")

    def test_a_pickle_of_a_bank_that_was_replaced(self, memory: Any) -> None:
        pickled = pickle.dumps(open_bank("memory://bank"))
        memory.rm("/bank", recursive=True)
        write("webdataset", "memory://bank", first=1)  # type: ignore[arg-type]
        with pytest.raises(BankError, match="replaced since"):
            pickle.loads(pickled)

    def test_more_than_there_is(self, memory: Any) -> None:
        reader = open_bank("memory://bank").folder.open(SHARD, "")
        with pytest.raises(BankError, match="expected 10 bytes at 999999, got 0; the object is shorter"):
            reader.read_into([memoryview(bytearray(10))], 999999)


def used_by(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*-*"))


def read_much(url: str, cache: Path, max_bytes: int, seed: int) -> int:
    """Make random reads, and return the most bytes that were in the cache at any time."""
    bank, most = small_blocks(url, cache, max_bytes), 0
    for index in np.random.default_rng(seed).integers(0, NUM, 150).tolist():
        assert_equal(bank[index], make_crop(bank.layout, index))
        sizes = []
        for entry in os.scandir(cache):
            try:
                sizes.append(entry.stat().st_size)
            except FileNotFoundError:  # the other one removed it
                continue
        most = max(most, sum(sizes))
    return most


class TestCache:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        """Return the URL of a bank on disk that is read like an object store."""
        return f"file://{write('webdataset', tmp_path / 'bank')}"

    def test_damaged_blocks_are_fetched_again(self, url: str, tmp_path: Path) -> None:
        cache = tmp_path / "blocks"
        assert_sound(small_blocks(url, cache))
        blocks = sorted(cache.glob("*-*"))
        wholes = [path.read_bytes() for path in blocks]
        changes: list[Callable[[int], bytes]] = [
            lambda n: wholes[n][:-1],
            lambda n: b"",
            lambda n: bytes(len(wholes[n])),
            lambda n: wholes[n - 1],
            lambda n: wholes[n][:1000] + bytes([wholes[n][1000] ^ 1]) + wholes[n][1001:],
            lambda n: wholes[n][:-1] + bytes([wholes[n][-1] ^ 128]),
        ]
        for change in changes:
            for n, path in enumerate(blocks):
                path.write_bytes(change(n))
            assert_sound(small_blocks(url, cache))
            assert [path.read_bytes() for path in blocks] == wholes

    def test_two_processes_and_a_small_bound(self, url: str, tmp_path: Path) -> None:
        cache, bound = tmp_path / "blocks", 20_000
        with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
            futures = [pool.submit(read_much, url, cache, bound, seed) for seed in range(2)]
            most = [future.result(timeout=120) for future in futures]
        assert 8_000 < max(most) <= bound + 3 * 4096
        assert used_by(cache) <= bound
        assert not list(cache.glob("new-*"))

    def test_what_was_not_read_for_longest_goes(self, tmp_path: Path) -> None:
        cache = BlockCache(tmp_path / "blocks", max_bytes=4 * 1004)
        blocks = {n: bytes([n]) * 1000 for n in range(5)}
        for n in range(4):
            cache.write("key", n, blocks[n])
            os.utime(tmp_path / "blocks" / f"key-{n}", (n, n))
        assert cache.read("key", 0, 1000, 3, 5) == blocks[0][3:5]
        cache.write("key", 4, blocks[4])
        assert [n for n in range(5) if cache.read("key", n, 1000, 0, 1000) is not None] == [0, 3, 4]
        assert used_by(tmp_path / "blocks") <= 4 * 1004

    def test_folders_of_other_caches_stay(self, tmp_path: Path) -> None:
        (other := tmp_path / "blocks" / "annotations").mkdir(parents=True)
        os.utime(other, (0, 0))
        cache = BlockCache(tmp_path / "blocks", max_bytes=2 * 1004)
        for n in range(5):
            cache.write("key", n, bytes(1000))
        assert other.is_dir()
        assert cache.read("key", 4, 1000, 0, 1000) is not None
        assert used_by(tmp_path / "blocks") <= 2 * 1004

    def test_counts_what_is_there(self, tmp_path: Path) -> None:
        """After a crash or a new bound the count may be wrong, which is harmless."""
        for text in ("", "99999999999999999999", "words"):
            cache = BlockCache(tmp_path / "blocks", max_bytes=3000)
            cache.write("key", 0, bytes(1000))
            (tmp_path / "blocks" / "used").write_text(text)
            cache.write("key", 1, bytes(1000))
            assert cache.read("key", 1, 1000, 0, 1) == b"\0"
            assert int((tmp_path / "blocks" / "used").read_text()) == used_by(tmp_path / "blocks")

    def test_a_full_disk(self, url: str, tmp_path: Path) -> None:
        """A limit on the size of files: writing fails in the middle of a block."""
        cache = tmp_path / "blocks"
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        try:
            with pytest.warns(
                RuntimeWarning, match="cannot be cached.*File too large; make room, or set SEGPASTE_CACHE"
            ):
                assert_sound(small_blocks(url, cache))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert all(path.stat().st_size <= 2000 for path in cache.iterdir())
        assert not list(cache.glob("new-*"))

    def test_no_folder_for_it(self, url: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.warns(RuntimeWarning, match="cannot be cached"):
            assert_sound(small_blocks(url, tmp_path / "file" / "blocks"))

    def test_the_environment(self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert_sound(WebDatasetBank(RemoteFolder(url)))
        assert used_by(tmp_path / "cache") > 0
        monkeypatch.delenv("SEGPASTE_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        folder = RemoteFolder(url)
        assert folder.cache.folder == tmp_path / "xdg" / "segpaste" / "blocks"
        assert folder.cache.max_bytes == 20 << 30
        monkeypatch.setenv("SEGPASTE_CACHE_BYTES", "0")
        assert pickle.loads(pickle.dumps(folder)).cache.max_bytes == 0
        assert_sound(WebDatasetBank(RemoteFolder(url)))
        assert not (tmp_path / "xdg").exists()
        for value in ("5GB", "5e9", "-1", "\u00b2"):
            monkeypatch.setenv("SEGPASTE_CACHE_BYTES", value)
            with pytest.raises(BankError, match=rf"SEGPASTE_CACHE_BYTES: expected a number of bytes .* got '{value}'"):
                open_bank("memory://bank")
