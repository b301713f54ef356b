"""Banks in an object store, a real S3 server on loopback: reading and building them, and what the store refuses."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from bank_cases import POINTS
from format_cases import NAMES, NUM, SIZE, WRITERS, assert_equal, assert_sound, make_crop, read_all, write
from moto.server import ThreadedMotoServer
from remote_cases import SHARD, URL, Proxy, names_at, small_blocks, update_environment, write_large_shards
from torch.utils.data import DataLoader, Dataset

from segpaste.bank import BankError, InstanceBank, Layout, WebDatasetWriter, open_bank, stage_bank_batch
from segpaste.bank.schema.record import GROUPS
from segpaste.bank.storage import _object_store as store_module
from segpaste.types import StagedCrops

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield Proxy(server.get_host_and_port()[1])
    server.stop()


@pytest.fixture
def s3(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a file system of the bucket that bypasses the proxy and the open bank."""
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
        """The bytes are the same as on a disk, one shard at a time on this machine."""
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

    def test_each_process_by_itself(self, start_method: BaseContext, s3: Any) -> None:
        """This also holds if the parent has read before, and continues."""
        write("webdataset", URL)
        bank = open_bank(URL)
        assert_sound(bank)
        with ProcessPoolExecutor(2, start_method, update_environment, (dict(os.environ),)) as pool:
            futures = [pool.submit(read_all, bank, seed) for seed in range(2)]
            assert read_all(bank, 99)
            assert all(future.result(timeout=120) for future in futures)
        assert_sound(bank)

    def test_training_without_a_cache(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every read of a forked worker then uses its own file system."""
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
        """It does not wait for one block after the other, and each block is still fetched once."""
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
        words = rf"^{URL}/{SHARD}: cannot be read at 8192: .+; tried {store_module.NUM_ATTEMPTS} times in \d+ s; check"
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
        with pytest.raises(BankError, match=r"^s3://other/bank/meta\.json: cannot be read: .*; create the bucket, or"):
            open_bank("s3://other/bank")
        assert len(proxy.requests) == 2
        with pytest.raises(BankError, match=r"^s3://other/bank: cannot be listed: .*; create the bucket, or"):
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
        """The object is replaced after the bank was opened, and after it was read: no read mixes the bytes of both."""
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
        """The next build removes its fragments, which are more than the objects that it writes."""
        layout = Layout(SIZE, GROUPS, POINTS)
        writer = WebDatasetWriter(URL, layout, NAMES, shard_bytes=3000)
        for index in range(NUM):
            writer.add(make_crop(layout, index))
        writer._discard()
        num = len(names_at(s3))
        with pytest.raises(BankError, match="found none; check the path, or run an interrupted build again"):
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
