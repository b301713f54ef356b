"""A bucket behind a proxy that counts requests and can break off, and banks in it."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bank_cases import POINTS
from format_cases import NAMES, NUM, SIZE, make_crop

from segpaste.bank import BlockCache, Layout, RemoteFolder, WebDatasetBank, WebDatasetWriter
from segpaste.bank.schema.record import GROUPS

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
        """Wait as for a distant store, and note the most requests that wait together."""
        if self.delay_s:
            self.num_waiting += 1
            self.most_waiting = max(self.most_waiting, self.num_waiting)
            time.sleep(self.delay_s)
            self.num_waiting -= 1


URL = "s3://bucket/bank"


def names_at(fs: Any, path: str = "bucket/bank") -> list[str]:
    fs.invalidate_cache()
    return sorted(name.rpartition("/")[2] for name in fs.ls(path, detail=False)) if fs.exists(path) else []


def small_blocks(
    url: str, cache: Path, max_bytes: int | None = None, options: dict[str, Any] | None = None
) -> WebDatasetBank:
    return WebDatasetBank(RemoteFolder(url, options, cache=BlockCache(cache, max_bytes, block_bytes=4096)))


def update_environment(values: dict[str, str]) -> None:
    """Set variables in a process that may have been started with others."""
    os.environ.update(values)


def write_large_shards(where: Any, **options: Any) -> None:
    """Write shards so large that only reads of crops fetch their middle blocks, such as that of crop 4."""
    layout = Layout(SIZE, GROUPS, POINTS)
    with WebDatasetWriter(where, layout, NAMES, shard_bytes=20_000, **options) as writer:
        for index in range(NUM):
            writer.add(make_crop(layout, index))
        writer.finish()
