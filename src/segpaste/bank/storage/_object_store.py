"""Objects under a URL, through fsspec, with one file system for each process; failed operations are retried.

Broken connections, time-outs and busy stores are retried, after pauses that double. Permissions, credentials, a missing
bucket, a replaced object or an unknown option are errors at once, because a retry cannot help.

fsspec's asynchronous file systems work only in the process that made them: their event loop is a thread, which a forked
child does not have. So they are kept by process id, apart from fsspec's own cache of instances.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from segpaste.bank.schema.record import BankError
from segpaste.extras import require

T = TypeVar("T")

NUM_ATTEMPTS = 6
"""Maximum number of attempts of an operation."""
FIRST_PAUSE_S = 0.4
"""Mean pause before the second attempt, seconds; all pauses together take 12 seconds."""

ANSWER_LIMIT_S = 120.0
"""Longest time until a small object, a listing or a size is there; a client may wait for a lost answer forever."""
SLOWEST_BYTES_PER_S = 1 << 18
"""An upload has this much longer for each byte."""

GOOGLE_TIMEOUT_S = 600
"""Longest time of a request to Google's store, a large upload included, unless ``requests_timeout`` says otherwise."""

_NEEDS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
"""Package that fsspec's file system needs for the scheme of a URL."""
_SYSTEMS: dict[tuple[int, str, str], tuple[Any, str]] = {}
_TAGS = ("ETag", "etag", "generation")
_TIMES = ("Last-Modified", "mtime", "created")  # they differ between file systems, and in listings
_REFUSALS = {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EREMCHG, errno.ENAMETOOLONG, errno.EMSGSIZE}
_BUSY = {408, 425, 429}


class Found(NamedTuple):
    """Size of an object in bytes, and a tag that changes with its content (mostly its ETag), if the store has one."""

    size: int
    tag: str


class ObjectStore:
    """Objects directly under a URL; it holds no open handle, so it can be pickled.

    Methods raise the errors of `attempt`: BankError if the store rejects an operation.

    Args:
        url: URL of the folder.
        storage_options: options of fsspec's file system, such as ``endpoint_url``, ``key`` and ``secret`` for
            ``s3://``.
        inner_retries: let s3fs retry each part of an upload before the whole upload is retried.
    """

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, *, inner_retries: bool = False
    ) -> None:
        self.url = url.rstrip("/")
        self._scheme = url.partition("://")[0]
        self.is_s3 = self._scheme in ("s3", "s3a")  # other stores cannot be asked for an object with a certain tag
        self.storage_options = dict(storage_options or {})
        self.inner_retries = inner_retries

    def list(self) -> dict[str, Found]:
        """Return the objects by name; none over HTTP, which has no listings. Times are not used as tags."""
        if self._scheme in ("http", "https"):
            return {}

        def call(fs: Any, path: str) -> dict[str, Found]:
            try:
                infos = fs.ls(path, detail=True, **_limit(fs))
            except FileNotFoundError as error:
                if _no_bucket(error):
                    raise
                return {}
            return {info["name"].rpartition("/")[2]: _found(info, _TAGS) for info in infos if info["type"] == "file"}

        return self.attempt("", "listed", call, anew=True)

    def find(self, name: str) -> Found | None:
        """Return size and tag of an object, None if it does not exist."""
        return self.attempt(name, "found", find, anew=True)

    def read(self, name: str) -> bytes:
        """Read a small object as a whole."""
        return bytes(self.attempt(name, "read", lambda fs, path: fs.cat_file(path, **_limit(fs)), anew=True))

    def put(self, name: str, file: Path) -> None:
        """Upload a file, and compare its length with that of the object."""

        def call(fs: Any, path: str) -> Found:
            fs.put_file(str(file), path, **_limit(fs, expected))
            fs.invalidate_cache()
            return _found(fs.info(path, **_limit(fs)), _TAGS)

        expected = file.stat().st_size
        size = self.attempt(name, "written", call).size
        if size != expected:
            raise BankError(f"{self.url}/{name}: expected {expected} bytes after the upload, got {size}")

    def remove(self, name: str) -> None:
        """Remove an object."""
        self.attempt(name, "removed", lambda fs, path: fs.rm_file(path, **_limit(fs)))

    def attempt(self, name: str, action: str, call: Callable[[Any, str], T], *, anew: bool = False) -> T:
        """Call a function of (file system, path of the object), and retry it after errors that may pass.

        Args:
            name: name of the object, empty for the folder.
            action: name of the operation, in errors.
            call: function, which may raise any error.
            anew: drop the listings that the file system has cached.

        Raises:
            FileNotFoundError: the object does not exist.
            ImportError: a package is missing.
            BankError: any other error.
        """
        where = f"{self.url}/{name}".rstrip("/")
        begin = time.monotonic()
        for attempt in range(1, NUM_ATTEMPTS + 1):
            try:
                fs, root = self._system()
                if anew:
                    fs.invalidate_cache()
                return call(fs, f"{root}/{name}".rstrip("/"))
            except (BankError, ImportError):
                raise
            except Exception as error:
                if (advice := _advice(error)) is not None:
                    raise BankError(f"{where}: cannot be {action}: {_reason(error)}; {advice}") from error
                if isinstance(error, FileNotFoundError):
                    raise
                if attempt == NUM_ATTEMPTS:
                    raise BankError(
                        f"{where}: cannot be {action}: {_reason(error)}; tried {attempt} times in "
                        f"{time.monotonic() - begin:.0f} s; check network and store, then start again"
                    ) from error
            # The state of the generator of `random` belongs to the training.
            time.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1) * random.SystemRandom().uniform(0.5, 1.5))
        raise AssertionError

    def _system(self) -> tuple[Any, str]:
        """Return the file system of this process, and the path of the folder in it."""
        key = (os.getpid(), self.url, repr((self.inner_retries, sorted(self.storage_options.items()))))
        if key not in _SYSTEMS:
            options = self.storage_options
            if self._scheme in _NEEDS:
                require(_NEEDS[self._scheme])
            if self.is_s3:
                config = options.get("config_kwargs", {})
                options = {**options, "config_kwargs": {"retries": {"max_attempts": 0}, **config}}
            if self._scheme in ("gs", "gcs"):  # gcsfs would wait for a lost response forever
                options = {"requests_timeout": GOOGLE_TIMEOUT_S, **options}
            fs, path = require("fsspec").url_to_fs(self.url, skip_instance_cache=True, **options)
            if self.is_s3 and not self.inner_retries:
                fs.retries = 1  # its own and botocore's would make 25 of one attempt here
            return _SYSTEMS.setdefault(key, (fs, path.rstrip("/")))  # another thread may have been faster
        return _SYSTEMS[key]


def _limit(fs: Any, num_bytes: int = 0) -> dict[str, float]:
    """Return the argument that ends a call of a file system after a time, if its calls run in a thread of their own.

    It includes the time for bytes that are sent.
    """
    seconds = ANSWER_LIMIT_S + num_bytes / SLOWEST_BYTES_PER_S
    return {"timeout": seconds} if getattr(fs, "async_impl", False) else {}


def find(fs: Any, path: str) -> Found | None:
    """Return size and tag of an object in a file system, None if it does not exist; any error may be raised."""
    try:
        return _found(fs.info(path, **_limit(fs)), _TAGS + _TIMES)
    except FileNotFoundError as error:
        if _no_bucket(error):
            raise
        return None


def _found(info: Mapping[str, Any], tags: Sequence[str]) -> Found:
    size = info.get("size")
    tag = next((str(info[key]) for key in tags if info.get(key)), "")
    return Found(-1 if size is None else int(size), tag)


def _no_bucket(error: BaseException | None) -> bool:
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket":
            return True
        error = error.__cause__
    return False


def _advice(error: Exception) -> str | None:
    """Return what to do about a permanent error, None for one that may pass."""
    names = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(error, "status", None)
    if _no_bucket(error):
        return "create the bucket, or correct the URL or its endpoint"
    if isinstance(error, FileNotFoundError):
        return None
    if names & {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "DefaultCredentialsError"}:
        return "give credentials in the environment, in the store's own configuration, or as storage_options"
    if isinstance(error, PermissionError) or status in (401, 403):
        return "check the credentials and their permissions"
    if "FileExpired" in names:
        return "it was replaced since the bank was opened; open the bank again"
    refused = isinstance(error, OSError) and error.errno in _REFUSALS
    wrong = isinstance(error, ValueError | TypeError | NotImplementedError | AttributeError | LookupError)
    unknown = isinstance(status, int) and 400 <= status < 500 and status not in _BUSY
    if refused or wrong or unknown or "ParamValidationError" in names:
        return "check the URL and the storage_options"
    return None


def _reason(error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
