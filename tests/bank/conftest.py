"""Fixtures of several files: photos and the bank that is built of them, start methods, a cache for remote banks."""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest
from build_cases import build
from photo_folder import open_photos, write_photos

from fork_server import fork_server
from on_disk import tree
from segpaste.bank.storage import _object_store as store_module
from segpaste.datasets import CocoDetectionV2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture(scope="module")
def photos(folder: Path) -> CocoDetectionV2:
    return open_photos(folder)


@pytest.fixture(scope="module")
def expected(photos: CocoDetectionV2, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a bank that was built at one go."""
    out = tmp_path_factory.mktemp("whole") / "bank"
    build(photos, out)
    return tree(out)


@pytest.fixture(scope="module", params=["fork", "forkserver"])
def start_method(request: pytest.FixtureRequest) -> BaseContext:
    """Forked processes inherit open files and locks, the others inherit nothing."""
    return fork_server() if request.param == "forkserver" else get_context("fork")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep blocks and temporary files below the test's folder, and retry a lost connection soon."""
    monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store_module, "FIRST_PAUSE_S", 0.005)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
