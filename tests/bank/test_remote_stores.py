"""Banks over HTTP and in Google Cloud Storage: a server with ranges and an emulator of the store, both on loopback."""

from __future__ import annotations

import functools
import http.server
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import gcsfs.core
import pytest
from format_cases import NUM, assert_equal, assert_sound, make_crop, write
from remote_cases import SHARD, small_blocks, write_large_shards

from segpaste.bank import BankError, open_bank
from segpaste.bank.storage import _object_store as store_module
from segpaste.bank.storage._object_store import GOOGLE_TIMEOUT_S, ObjectStore

pytestmark = pytest.mark.usefixtures("own_cache")


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, with ``Range`` and an ETag, as static servers give them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, with_body: bool) -> None:
        path = Path(self.translate_path(self.path))
        self.server.requests.append(self.command)  # type: ignore[attr-defined]
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = whole = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            data = whole[int(asked[1]) : int(asked[2] or len(whole)) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {asked[1]}-{int(asked[1]) + len(data) - 1}/{len(whole)}")
        else:
            self.send_response(200)
        self.send_header("ETag", f'"{hash(whole)}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "site").mkdir()
    handler = functools.partial(Ranges, directory=str(tmp_path / "site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.requests = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class TestHttp:
    @pytest.fixture
    def url(self, site: Any) -> str:
        return f"http://127.0.0.1:{site.server_address[1]}/bank"

    def test_reads(self, site: Any, url: str, tmp_path: Path) -> None:
        write("webdataset", tmp_path / "site" / "bank")
        assert_sound(open_bank(url))
        site.requests.clear()
        bank = small_blocks(url, tmp_path / "blocks")
        columns = bank.read(range(NUM))
        assert (columns["image"][7] == make_crop(bank.layout, 7).image).all()
        site.requests.clear()
        bank.read(range(NUM))
        assert site.requests == []

    def test_no_bank(self, url: str) -> None:
        with pytest.raises(BankError, match=r"expected a bank, a folder with meta\.json"):
            open_bank(url)

    @pytest.mark.parametrize("change", ["other", "cut", "gone"])
    def test_replaced(self, url: str, change: str, tmp_path: Path) -> None:
        folder = tmp_path / "site" / "bank"
        write_large_shards(folder)
        bank, fresh = small_blocks(url, tmp_path / "blocks"), small_blocks(url, tmp_path / "other")
        assert_equal(bank[0], make_crop(bank.layout, 0))
        whole = (folder / SHARD).read_bytes()
        if change == "gone":
            (folder / SHARD).unlink()
        else:
            (folder / SHARD).write_bytes(whole[::-1] if change == "other" else whole[:5000])
        with pytest.raises(BankError, match=rf"{SHARD}: "):
            fresh[4]
        assert_equal(bank[0], make_crop(bank.layout, 0))

    def test_it_cannot_be_written(self, url: str) -> None:
        with pytest.raises(BankError, match="cannot be written"):
            write_large_shards(url)


EMULATOR = """
import http.server, logging
http.server.HTTPServer = http.server.ThreadingHTTPServer  # else a connection without a request stops all others
from gcp_storage_emulator.server import create_server
logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api._httpd.server_address[1], flush=True)
"""
"""Google's store at a free port, in a process of its own: in this one, a port that another process took between the
search for it and the start would be awaited forever, and the end waits for a connection that is open."""


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    registered = fsspec.get_filesystem_class("gs")
    # The class that is registered may ask by gRPC, which the emulator does not speak, and waits for an answer.
    fsspec.register_implementation("gs", gcsfs.core.GCSFileSystem, clobber=True)
    command = [sys.executable, "-W", "ignore", "-c", EMULATOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
            fsspec.register_implementation("gs", registered, clobber=True)


@pytest.mark.parametrize("call", [ObjectStore.read, ObjectStore.find])
def test_an_answer_that_never_comes_ends(call: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ANSWER_LIMIT_S", 0.3)
    monkeypatch.setattr(store_module, "NUM_ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = ObjectStore(f"http://127.0.0.1:{silent.getsockname()[1]}/bank")
        with pytest.raises(BankError, match=r"cannot be (read|found): .*tried 1 times"):
            call(store, "meta.json")


@pytest.mark.parametrize("call", ["put", "remove"])
def test_an_upload_and_a_removal_have_a_limit(call: str, tmp_path: Path) -> None:
    """A file system whose calls run in a thread of their own ends them after the time that they are given."""
    limits = []

    class Slow:
        async_impl = True

        def invalidate_cache(self) -> None: ...

        def info(self, path: str, timeout: float) -> dict[str, Any]:
            limits.append(timeout)
            return {"size": 1 << 20, "name": path, "etag": "1"}

        def put_file(self, local: str, path: str, timeout: float) -> None:
            limits.append(timeout)

        def rm_file(self, path: str, timeout: float) -> None:
            limits.append(timeout)

    file = tmp_path / "shard"
    file.write_bytes(bytes(1 << 20))
    store = ObjectStore("memory://bank")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_system", lambda: (Slow(), "bank"))
        store.put("shard", file) if call == "put" else store.remove("shard")
    longer = store_module.ANSWER_LIMIT_S + (1 << 20) / store_module.SLOWEST_BYTES_PER_S
    assert limits == ([longer, store_module.ANSWER_LIMIT_S] if call == "put" else [store_module.ANSWER_LIMIT_S])


class TestGoogle:
    URL = "gs://bucket/bank"

    @pytest.fixture
    def options(self, emulator: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
        monkeypatch.setattr(store_module, "ANSWER_LIMIT_S", 10.0)  # an answer that gcsfs loses is asked for again
        options = {"token": "anon", "endpoint_url": emulator, "requests_timeout": 10}
        yield options
        fs = fsspec.filesystem("gs", **options)
        fs.invalidate_cache()
        if fs.exists("bucket/bank"):
            fs.rm("bucket/bank", recursive=True)

    def test_built_to_and_read(self, options: dict[str, Any], tmp_path: Path) -> None:
        local = tmp_path / "bank"
        write_large_shards(local)
        write_large_shards(self.URL, storage_options=options)
        fs = fsspec.filesystem("gs", **options)
        fs.invalidate_cache()
        names = sorted(name.rpartition("/")[2] for name in fs.ls("bucket/bank", detail=False))
        assert names == sorted(path.name for path in local.iterdir())
        with open_bank(self.URL, storage_options=options) as bank:
            assert_sound(bank)
            assert bank.version == open_bank(local).version
            columns = bank.read(range(NUM))
            assert (columns["image"][7] == make_crop(bank.layout, 7).image).all()

    def test_a_lost_response_ends(self, options: dict[str, Any]) -> None:
        """Without a limit, a request of gcsfs waits forever."""
        own = {name: value for name, value in options.items() if name != "requests_timeout"}
        for given, seconds in ((own, GOOGLE_TIMEOUT_S), (options, 10)):
            assert ObjectStore(self.URL, given)._system()[0].requests_timeout == seconds

    def test_what_is_there_stays(self, options: dict[str, Any]) -> None:
        write_large_shards(self.URL, storage_options=options)
        with pytest.raises(BankError, match="expected a new or an empty folder"):
            write_large_shards(self.URL, storage_options=options)

    def test_no_bank(self, options: dict[str, str]) -> None:
        with pytest.raises(BankError, match=r"expected a bank, a folder with meta\.json"):
            open_bank(self.URL, storage_options=options)

    @pytest.mark.parametrize("change", ["middle", "cut"])
    def test_replaced(self, options: dict[str, str], change: str, tmp_path: Path) -> None:
        """The bank is replaced between opening and the first read, with the compared blocks unchanged."""
        write_large_shards(self.URL, storage_options=options)
        bank = small_blocks(self.URL, tmp_path / "blocks", options=options)
        fs = fsspec.filesystem("gs", **options)
        whole = fs.cat_file(f"bucket/bank/{SHARD}")
        changed = whole[:8192] + whole[8192:12288][::-1] + whole[12288:] if change == "middle" else whole[:5000]
        fs.pipe_file(f"bucket/bank/{SHARD}", changed)
        with pytest.raises(BankError, match=rf"{SHARD}: .*it was replaced since the bank was opened; open"):
            bank[4]
