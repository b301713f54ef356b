"""Alternatives for a user: other libraries by their public interface, and implementations of common methods.

A peer is a function that takes a padded batch, brings it into the peer's own format, and returns what to time. What is
not installed, or does not run, is skipped, and the reason is kept for the report.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from segpaste.types import PaddedBatchedDenseSample

from ..timing import Contender

_QUIET = {
    "ALBUMENTATIONS_NO_TELEMETRY": "1",
    "YOLO_AUTOINSTALL": "false",
    "YOLO_OFFLINE": "true",
    "YOLO_VERBOSE": "false",
}


class UnsupportedError(ValueError):
    """A peer cannot take a batch; the message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to copy and paste.

    Attributes:
        name: in the tables.
        entry: ``module:function``, the module relative to this package.
        does_not: what it leaves out, one sentence.
        packages: that it needs, by the names that pip knows.
        install: how to install them; empty where nothing is needed.
        on_device: works on tensors of any device.
    """

    name: str
    entry: str
    does_not: str
    packages: tuple[str, ...] = ()
    install: str = ""
    on_device: bool = False

    def prepare(self, batch: PaddedBatchedDenseSample) -> Contender:
        """Return the contender to time, after one call that is not timed.

        Raises:
            UnsupportedError: it is not installed, does not import, or cannot do this; the message says why.
        """
        for package in self.packages:
            try:
                importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                raise UnsupportedError(f"{package} is not installed; {self.install}") from None
        module, _, function = self.entry.partition(":")
        try:
            prepare = getattr(importlib.import_module(module, __package__), function)
        except Exception as error:  # whatever another library raises at import
            raise UnsupportedError(f"does not import here: {_line(error)}; {self.install}") from error
        try:
            contender: Contender = prepare(batch)
            contender.call(contender.fresh())
        except UnsupportedError:
            raise
        except Exception as error:  # another version than the one that this was written for
            raise UnsupportedError(f"does not run here: {_line(error)}") from error
        return contender


PEERS = (
    Peer(
        "Ultralytics CopyPaste",
        ".ultralytics:prepare",
        "takes polygons (here: four corners), draws no masks, does not cut occluded objects, scale or move",
        ("ultralytics",),
        "pip install 'ultralytics>=8.4'",
    ),
    Peer(
        "Ultralytics CopyPaste, masks drawn",
        ".ultralytics:prepare_with_masks",
        "the same and a mask from each polygon; does not cut occluded objects, scale or move",
        ("ultralytics",),
        "pip install 'ultralytics>=8.4'",
    ),
    Peer(
        "AlbumentationsX CopyAndPaste",
        ".albumentationsx:prepare",
        "does not choose objects or donors, enlarge or flip; survivors keep their boxes",
        ("albumentationsx",),
        "pip install 'albumentationsx>=2.5'",
    ),
    Peer(
        "MMDetection CopyPaste",
        ".mmdetection:prepare",
        "does not scale, flip or move; the image becomes int64",
        ("mmdet", "mmengine"),
        "it needs mmdet, mmengine, and mmcv built with its operators",
    ),
    Peer(
        "Kornia RandomTransplantation",
        ".kornia:prepare",
        "semantic maps only: one class per image, no instances, no boxes; does not scale, flip or move",
        ("kornia",),
        "pip install 'kornia>=0.8'",
        on_device=True,
    ),
    Peer(
        "torchvision affine + where",
        "..stand_ins:prepare_affine",
        "our own implementation; image by image",
        on_device=True,
    ),
    Peer(
        "list-based stand-in",
        "..stand_ins:prepare_list_based",
        "our own implementation; does not scale, flip or move",
        on_device=True,
    ),
    Peer(
        "grid_sample stand-in",
        "..stand_ins:prepare_grid_sampled",
        "our own implementation; does not refit boxes or drop what is hidden",
        on_device=True,
    ),
)


def packages() -> set[str]:
    """All that the peers need."""
    return {package for peer in PEERS for package in peer.packages}


def prepared(
    batch: PaddedBatchedDenseSample, peers: Iterable[Peer] = PEERS
) -> tuple[dict[str, Contender], dict[str, str]]:
    """The peers that can take this batch, by name, and why the others cannot."""
    keep_quiet()
    contenders: dict[str, Contender] = {}
    skipped: dict[str, str] = {}
    for peer in peers:
        try:
            contenders[peer.name] = peer.prepare(batch)
        except UnsupportedError as error:
            skipped[peer.name] = str(error)
    return contenders, skipped


@functools.cache
def keep_quiet() -> tempfile.TemporaryDirectory[str]:
    """Let nobody call home, install anything, or leave settings in the user's folders; a folder, gone at exit."""
    folder = tempfile.TemporaryDirectory(prefix="segpaste_bench_")
    for key, value in {**_QUIET, "YOLO_CONFIG_DIR": folder.name}.items():
        os.environ.setdefault(key, value)
    return folder


def _line(error: BaseException) -> str:
    """Kind and first sentence of an error."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text:.160}"
