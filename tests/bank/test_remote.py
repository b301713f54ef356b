"""Banks in an object store: a real S3 server on loopback, behind a proxy that counts requests and can break off."""

from __future__ import annotations

import os
import pickle
import re
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from bank_cases import POINTS
from moto.server import ThreadedMotoServer
from test_formats import NAMES, NUM, SIZE, WRITERS, assert_equal, assert_sound, make_crop, read_all, write
from torch.utils.data import DataLoader, Dataset

from segpaste.bank import (
    BankError,
    BlockCache,
    InstanceBank,
    Layout,
    RemoteFolder,
    WebDatasetBank,
    WebDatasetWriter,
    open_bank,
    stage_bank_batch,
)
from segpaste.bank.format.record import GROUPS
from segpaste.bank.remote import object_store as store_module
from segpaste.types import StagedCrops

SHARD = "shard-000000.tar"


class Proxy:
    """Passes TCP connections on to a server; notes every request, and breaks answers off when told to."""

    def __init__(self, port: int) -> None:
        self.port, self.requests, self.num_cuts, self.only = port, list[str](), 0, ""
        self.delay_s, self.num_waiting, self.most_waiting = 0.0, 0, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, num: int, only: str = "") -> None:
        """Break off the next answers to requests that have ``only`` in their first line, in their bodies."""
        self.num_cuts, self.only = num, only
        self.requests.clear()

    def asked(self, *words: str) -> list[str]:
        return [line for line in self.requests if all(word in line for word in words)]

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.port))
        last = [""]

        def answer() -> None:
            with suppress(OSError):
                while data := server.recv(1 << 16):
                    if self.num_cuts > 0 and self.only in last[0]:
                        self.num_cuts -= 1
                        client.sendall(data[: data.find(b"\r\n\r\n") + 14])
                        break
                    client.sendall(data)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

        with client, server:
            threading.Thread(target=answer, daemon=True).start()
            with suppress(OSError):
                while data := client.recv(1 << 16):
                    for line in re.findall(rb"((?:GET|HEAD|PUT|POST|DELETE) \S+) HTTP/1.1\r\n", data):
                        last[0] = line.decode()
                        self.requests.append(last[0])
                    self._wait()
                    server.sendall(data)

    def _wait(self) -> None:
        """As for a store that is far away; how many requests wait together at most is noted."""
        if self.delay_s:
            self.num_waiting += 1
            self.most_waiting = max(self.most_waiting, self.num_waiting)
            time.sleep(self.delay_s)
            self.num_waiting -= 1


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield Proxy(server.get_host_and_port()[1])
    server.stop()


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store_module, "FIRST_PAUSE_S", 0.005)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture
def s3(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A file system of the bucket, for what is done behind the bank's back; not through the proxy."""
    for name, value in {
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    fs = fsspec.filesystem("s3", endpoint_url=f"http://127.0.0.1:{proxy.port}", use_listings_cache=False)
    if not fs.exists("bucket"):
        fs.mkdir("bucket")
    proxy.cut(0)
    yield fs
    proxy.cut(0)
    if fs.exists("bucket/bank"):
        fs.rm("bucket/bank", recursive=True)


URL = "s3://bucket/bank"


def names_at(fs: Any, path: str = "bucket/bank") -> list[str]:
    fs.invalidate_cache()
    return sorted(name.rpartition("/")[2] for name in fs.ls(path, detail=False)) if fs.exists(path) else []


def small_blocks(url: str, cache: Path, max_bytes: int | None = None) -> WebDatasetBank:
    return WebDatasetBank(RemoteFolder(url, cache=BlockCache(cache, max_bytes, block_bytes=4096)))


def write_large_shards(url: str) -> None:
    """So that only reads of crops fetch the blocks in the middle of a shard, such as that of crop 4."""
    layout = Layout(SIZE, GROUPS, POINTS)
    with WebDatasetWriter(url, layout, NAMES, shard_bytes=20_000) as writer:
        for index in range(NUM):
            writer.add(make_crop(layout, index))
        writer.finish()


class Steps(Dataset[StagedCrops]):
    """Two crops for each of two targets."""

    def __init__(self, bank: InstanceBank) -> None:
        self.bank = bank

    def __len__(self) -> int:
        return 5

    def __getitem__(self, step: int) -> StagedCrops:
        return stage_bank_batch(self.bank, np.arange(4 * step, 4 * step + 4).reshape(2, 2))


class TestRead:
    def test_what_was_built_to_it(self, s3: Any, tmp_path: Path) -> None:
        """The same bytes as on a disk, one shard at a time on this machine."""
        local = write("webdataset", tmp_path / "bank")
        layout = Layout(SIZE, GROUPS, POINTS)
        with WebDatasetWriter(URL, layout, NAMES, shard_bytes=6000, build_seed=7) as writer:
            for index in range(NUM):
                writer.add(make_crop(layout, index))
                assert len(list((tmp_path / "tmp").rglob("*.tar"))) <= 1
                assert "meta.json" not in names_at(s3)
            assert writer.finish() == URL
        assert list((tmp_path / "tmp").iterdir()) == []
        assert names_at(s3) == sorted(os.listdir(local))
        assert all(s3.cat_file(f"bucket/bank/{name}") == (local / name).read_bytes() for name in os.listdir(local))
        with open_bank(URL) as bank:
            assert bank.where == URL
            assert_sound(bank)
            assert bank.version == open_bank(local).version

    @pytest.mark.parametrize(("context", "num"), [("fork", 2), ("spawn", 1)])
    def test_each_process_by_itself(self, s3: Any, context: str, num: int) -> None:
        """Also where the parent has read before, and goes on."""
        write("webdataset", URL)
        bank = open_bank(URL)
        assert_sound(bank)
        with ProcessPoolExecutor(num, mp_context=get_context(context)) as pool:
            futures = [pool.submit(read_all, bank, seed) for seed in range(num)]
            assert read_all(bank, 99)
            assert all(future.result(timeout=120) for future in futures)
        assert_sound(bank)

    def test_training_without_a_cache(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that every read of a forked worker goes through its own file system."""
        monkeypatch.setenv("SEGPASTE_CACHE_BYTES", "0")
        write("webdataset", URL)
        bank = open_bank(URL)
        bank[0]
        loader = DataLoader(Steps(bank), None, num_workers=2, multiprocessing_context="fork", timeout=60)
        for step, staged in enumerate(loader):
            for n, image in enumerate(staged.images.flatten(0, 1)):
                np.testing.assert_array_equal(image, make_crop(bank.layout, 4 * step + n).image)
        assert step == 4

    def test_a_pickle_holds_its_options_and_nothing_open(self, s3: Any, proxy: Proxy, monkeypatch: Any) -> None:
        write("webdataset", URL)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        bank = open_bank(URL, storage_options={"endpoint_url": proxy.url, "key": "a", "secret": "b"})
        bank[0]
        pickled = pickle.dumps(bank)
        assert len(pickled) < 600
        assert_sound(pickle.loads(pickled))

    def test_each_block_is_fetched_once(self, s3: Any, proxy: Proxy, tmp_path: Path) -> None:
        write("webdataset", URL)
        bank = small_blocks(URL, tmp_path / "blocks")
        proxy.requests.clear()
        assert [bank[index].class_id for index in range(NUM)] == [index % len(NAMES) for index in range(NUM)]
        num_blocks = len(list((tmp_path / "blocks").glob("*-*")))
        assert num_blocks > len(bank.meta.files)
        assert len(proxy.requests) == len(proxy.asked("GET")) == num_blocks
        again = small_blocks(URL, tmp_path / "blocks")
        proxy.requests.clear()
        for index in range(NUM):
            assert_equal(again[index], make_crop(again.layout, index))
        assert proxy.requests == []

    @pytest.mark.parametrize("max_bytes", [None, 0], ids=["cache", "no cache"])
    def test_a_batch_waits_once(self, s3: Any, proxy: Proxy, max_bytes: int | None, tmp_path: Path) -> None:
        """Not for one block after the other; and each block is still fetched once."""
        write("webdataset", URL)
        bank = small_blocks(URL, tmp_path / "blocks", max_bytes)
        bank[0]
        order = np.random.default_rng(0).permutation(NUM)
        proxy.requests.clear()
        proxy.delay_s, proxy.most_waiting = 0.05, 0
        try:
            columns = bank.read(order)
        finally:
            proxy.delay_s = 0.0
        for n, index in enumerate(order.tolist()):
            np.testing.assert_array_equal(columns["image"][n], make_crop(bank.layout, index).image)
        assert 5 <= proxy.most_waiting <= 8
        fetched = proxy.asked("GET", "/bucket/bank/shard")
        if max_bytes is None:
            assert len(fetched) < len(list((tmp_path / "blocks").glob("*-*")))

    def test_one_error_of_a_batch(self, s3: Any, proxy: Proxy, tmp_path: Path) -> None:
        write_large_shards(URL)
        bank = small_blocks(URL, tmp_path / "blocks")
        bank[0]
        proxy.cut(1000, SHARD)
        with pytest.raises(BankError, match=rf"^{URL}/{SHARD}: cannot be read at \d+: "):
            bank.read(range(NUM))
        proxy.cut(0)
        assert_sound(bank)

    def test_one_listing_opens_it(self, s3: Any, proxy: Proxy) -> None:
        write("webdataset", URL)
        proxy.requests.clear()
        open_bank(URL)
        meta = "/bucket/bank/meta.json"
        assert [line.split("?")[0] for line in proxy.requests] == 2 * [f"HEAD {meta}", f"GET {meta}"] + ["GET /bucket"]


class TestConnection:
    def test_a_broken_answer_is_asked_for_again(self, s3: Any, proxy: Proxy) -> None:
        write("webdataset", URL)
        bank = open_bank(URL)
        proxy.cut(1, SHARD)
        assert_equal(bank[0], make_crop(bank.layout, 0))
        assert len(proxy.asked("GET", SHARD)) == 2

    def test_one_error_where_it_stays_broken(self, s3: Any, proxy: Proxy) -> None:
        write_large_shards(URL)
        bank = small_blocks(URL, Path(os.environ["SEGPASTE_CACHE"]))
        bank[0]
        proxy.cut(1000, SHARD)
        words = rf"^{URL}/{SHARD}: cannot be read at 8192: .+; tried {store_module.NUM_ATTEMPTS} times in \d+ s; once"
        with pytest.raises(BankError, match=words) as caught:
            bank[4]
        assert "\n" not in str(caught.value)
        assert len(proxy.asked("GET", SHARD)) == store_module.NUM_ATTEMPTS
        proxy.cut(0)
        assert_sound(bank)

    def test_nobody_listens(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(BankError, match=r"bank2/meta\.json: cannot be read: .*127\.0\.0\.1:9.*; tried 6 times"):
            open_bank("s3://bucket/bank2", storage_options={"endpoint_url": "http://127.0.0.1:9"})

    def test_a_build_that_cannot_go_on(self, s3: Any, proxy: Proxy, tmp_path: Path) -> None:
        layout = Layout(SIZE, GROUPS, POINTS)
        with WebDatasetWriter(URL, layout, NAMES, shard_bytes=3000) as writer:
            writer._destination.store.inner_retries = False  # type: ignore[attr-defined]
            for index in range(2):
                writer.add(make_crop(layout, index))
            proxy.cut(1000, "shard-000001")
            writer.add(make_crop(layout, 2))
            with pytest.raises(BankError, match=r"shard-000001\.tar: cannot be written: .*; tried 6 times"):
                writer.add(make_crop(layout, 3))
            there = names_at(s3)
            assert there in ([SHARD, "unfinished"], [SHARD, "shard-000001.tar", "unfinished"])  # only answers are cut
        assert names_at(s3) == []
        assert list((tmp_path / "tmp").iterdir()) == []


class TestStore:
    def test_no_bank(self, s3: Any, proxy: Proxy) -> None:
        for url in (URL, "s3://bucket/", "memory://nowhere"):
            with pytest.raises(BankError, match=r"expected a bank, a folder with meta\.json"):
                open_bank(url)
        assert len(proxy.asked("HEAD", "bank/meta.json")) == 1

    def test_no_bucket(self, s3: Any, proxy: Proxy) -> None:
        with pytest.raises(BankError, match=r"^s3://other/bank/meta\.json: cannot be read: .*; make the bucket, or"):
            open_bank("s3://other/bank")
        assert len(proxy.requests) == 2
        with pytest.raises(BankError, match=r"^s3://other/bank: cannot be listed: .*; make the bucket, or"):
            write("webdataset", "s3://other/bank")  # type: ignore[arg-type]

    def test_no_credentials(self, s3: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        with pytest.raises(BankError, match=r"s3://bucket/secret/meta\.json: .*; give credentials in the environment"):
            open_bank("s3://bucket/secret")
        assert proxy.requests == []

    def test_options_that_are_not_known(self, s3: Any) -> None:
        with pytest.raises(BankError, match=r"; check the URL and the storage_options"):
            open_bank(URL, storage_options={"colour": "red"})
        with pytest.raises(BankError, match=r"Protocol not known: swift.*; check the URL"):
            open_bank("swift://bucket/bank")

    @pytest.mark.parametrize("change", ["other", "cut", "gone"])
    def test_an_object_that_was_replaced(self, s3: Any, change: str, tmp_path: Path) -> None:
        """After the bank was opened, and after it was read: never bytes of both."""
        write_large_shards(URL)
        bank, fresh = small_blocks(URL, tmp_path / "blocks"), small_blocks(URL, tmp_path / "blocks")
        bank[0]
        whole = s3.cat_file(f"bucket/bank/{SHARD}")
        if change == "gone":
            s3.rm_file(f"bucket/bank/{SHARD}")
        else:
            s3.pipe_file(f"bucket/bank/{SHARD}", whole[::-1] if change == "other" else whole[:5000])
        for opened in (bank, fresh):
            with pytest.raises(BankError, match=rf"{SHARD}: .*it was replaced since the bank was opened; open"):
                opened[4]
        for index in (0, NUM - 1):
            assert_equal(bank[index], make_crop(bank.layout, index))
        with pytest.raises(BankError, match=f"{SHARD}: expected"):
            open_bank(URL).verify()


class TestBuild:
    def test_what_is_there_stays(self, s3: Any) -> None:
        write("webdataset", URL)
        with pytest.raises(BankError, match=f"^{URL}: expected a new or an empty folder"):
            write("webdataset", URL)
        assert_sound(open_bank(URL))

    def test_shards_of_others_stay(self, s3: Any) -> None:
        s3.pipe_file(f"bucket/bank/{SHARD}", b"mine")
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            write("webdataset", URL)
        assert names_at(s3) == [SHARD]

    def test_an_interrupted_build_leaves_nothing(self, s3: Any, tmp_path: Path) -> None:
        layout = Layout(SIZE, GROUPS, POINTS)
        with WebDatasetWriter(URL, layout, NAMES, shard_bytes=3000) as writer:
            for index in range(NUM):
                writer.add(make_crop(layout, index))
            assert SHARD in names_at(s3)
        assert names_at(s3) == []
        assert list((tmp_path / "tmp").iterdir()) == []

    def test_a_killed_build_does_not_open(self, s3: Any) -> None:
        """And the next one removes its rests, of which it has more than the new one writes over."""
        layout = Layout(SIZE, GROUPS, POINTS)
        writer = WebDatasetWriter(URL, layout, NAMES, shard_bytes=3000)
        for index in range(NUM):
            writer.add(make_crop(layout, index))
        writer._discard()
        num = len(names_at(s3))
        with pytest.raises(BankError, match="an interrupted build has none"):
            open_bank(URL)
        write("webdataset", URL)
        assert 3 < len(names_at(s3)) < num
        assert_sound(open_bank(URL))

    @pytest.mark.parametrize("kind", ["memmap", "lmdb"])
    def test_only_shards(self, kind: str, tmp_path: Path) -> None:
        with pytest.raises(BankError, match=f"expected format 'webdataset' for an object store, got '{kind}'"):
            WRITERS[kind]("memory://only", Layout(SIZE), NAMES)
        fsspec.filesystem("memory").put(str(write(kind, tmp_path / "bank")), "/only", recursive=True)
        with pytest.raises(BankError, match=f"in an object store, got '{kind}'; copy it to a local disk, or build"):
            open_bank("memory://only")
        fsspec.filesystem("memory").rm("/only", recursive=True)

    def test_a_file_url_is_a_path(self, tmp_path: Path) -> None:
        assert write("memmap", f"file://{tmp_path}/bank") == tmp_path / "bank"  # type: ignore[arg-type]
        assert_sound(open_bank(f"file://{tmp_path}/bank"))


class TestFaults:
    """As of the formats on a disk; in memory, for no connection matters."""

    @pytest.fixture
    def memory(self) -> Iterator[Any]:
        fs = fsspec.filesystem("memory")
        write("webdataset", "memory://bank")  # type: ignore[arg-type]
        yield fs
        fs.rm("/bank", recursive=True)

    def test_sound(self, memory: Any) -> None:
        assert_sound(open_bank("memory://bank/"))

    def test_a_flipped_byte_is_found(self, memory: Any) -> None:
        """Though the blocks of the sound one are in the cache."""
        assert_sound(open_bank("memory://bank"))
        for name in set(names_at(memory, "/bank")) - {"meta.json"}:
            whole = memory.cat_file(f"/bank/{name}")
            memory.pipe_file(f"/bank/{name}", whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
            with pytest.raises(BankError, match=f"{name}: expected SHA-256"):
                open_bank("memory://bank").verify()
            memory.pipe_file(f"/bank/{name}", whole)
        open_bank("memory://bank").verify()

    def test_a_shard_of_another_bank(self, memory: Any, tmp_path: Path) -> None:
        """It was there before the bank was opened, so its tag says nothing."""
        other = write("webdataset", tmp_path / "other", first=3)
        memory.pipe_file(f"/bank/{SHARD}", (other / SHARD).read_bytes())
        bank = open_bank("memory://bank")
        for _ in range(2):
            with pytest.raises(BankError, match=rf"{SHARD}: expected the bytes that meta\.json says, got others"):
                bank[0]

    def test_blocks_of_another_object_are_not_read(self, memory: Any) -> None:
        """Of the same name, length and bank, after the cache was filled."""
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
        with pytest.raises(BankError, match="replaced meanwhile"):
            pickle.loads(pickled)

    def test_more_than_there_is(self, memory: Any) -> None:
        reader = open_bank("memory://bank").folder.open(SHARD, "")
        with pytest.raises(BankError, match="expected 10 bytes at 999999, got 0; the object is shorter"):
            reader.read_into([memoryview(bytearray(10))], 999999)


def used_by(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*-*"))


def read_much(url: str, cache: Path, max_bytes: int, seed: int) -> int:
    """Random reads; the most that was in the cache at any time."""
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
        """On a disk, but read like an object store."""
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

    def test_counts_what_is_there(self, tmp_path: Path) -> None:
        """After a crash or a new bound the count may be wrong: nothing that matters."""
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
            with pytest.warns(RuntimeWarning, match="cannot be kept.*File too large; make room, or set SEGPASTE_CACHE"):
                assert_sound(small_blocks(url, cache))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert all(path.stat().st_size <= 2000 for path in cache.iterdir())
        assert not list(cache.glob("new-*"))

    def test_no_folder_for_it(self, url: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.warns(RuntimeWarning, match="cannot be kept"):
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
