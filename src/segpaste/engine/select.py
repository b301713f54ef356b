"""Choice of the backend, by the device or by name.

``SEGPASTE_BACKEND`` in the environment, or `use_backend`, names a backend; ``reference`` runs on any device.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from segpaste.engine.schema import (
    Classes,
    CropRows,
    Crops,
    Drawn,
    DrawRules,
    DrawTables,
    LayerRows,
    Mixture,
    Outcome,
    Pick,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
    Targets,
)
from segpaste.engine.steps import Pasted
from segpaste.types import PaddedBatchedDenseSample

NAMES = ("reference", "native", "triton")
"""Names of the backends."""

_asked_for: str | None = os.environ.get("SEGPASTE_BACKEND") or None


class Engine(Protocol):
    """Interface of a backend: a survey, the draws and the composition; the reference documents each function."""

    def extend(
        self, batch: PaddedBatchedDenseSample, canvas_size: tuple[int, int], num_slots: int
    ) -> PaddedBatchedDenseSample:
        """See `segpaste.engine.reference.inputs.extend`."""

    def survey(
        self,
        batch: PaddedBatchedDenseSample,
        classes: Classes,
        ignore_index: int | None = None,
        *,
        whole_only: bool = False,
    ) -> Survey:
        """See `segpaste.engine.reference.inputs.survey`."""

    def choose_rows(self, candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
        """See `segpaste.engine.reference.draws.draw.choose_rows`."""

    def draw(
        self, targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules, pick: Pick | LayerRows
    ) -> Drawn:
        """See `segpaste.engine.reference.draws.draw.draw`."""

    def draw_classes(
        self, batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
    ) -> tuple[Placement, PlacementCounts, Mixture]:
        """See `segpaste.engine.reference.classmix.draw_classes`."""

    def stage_crops(self, crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
        """See `segpaste.engine.reference.inputs.stage_crops`."""

    def compose(self, scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
        """See `segpaste.engine.reference.stages.compose`."""


class SteppingEngine(Protocol):
    """Interface of a backend that runs a step in one call."""

    def step(
        self,
        scene: Scene,
        sources: Sources | None,
        tables: DrawTables,
        rules: DrawRules,
        pick: Pick,
        regions: Tensor | None,
        *,
        whole_only: bool,
        with_layer: bool,
        in_place: bool,
    ) -> Pasted:
        """See `segpaste.engine.native.steps.step`."""


def eager_engine(device: torch.device) -> Engine:
    """Return the backend that was chosen by name, else that of the device."""
    if _asked_for is not None:
        return _named(_asked_for)
    if device.type == "cpu":
        return _available("native", "its native library cannot be used")
    if device.type == "cuda":
        return _available("triton", "Triton cannot be imported: install triton to be many times faster")
    return _named("reference")


@contextmanager
def use_backend(name: str | None) -> Iterator[None]:
    """Use the named backend inside the ``with`` block on every device; with None, that of the device.

    This holds for all threads of the process.

    Raises:
        ValueError: no backend has this name.
    """
    global _asked_for
    if name is not None:
        _named(name)
    before, _asked_for = _asked_for, name
    try:
        yield
    finally:
        _asked_for = before


def _named(name: str) -> Engine:
    if name not in NAMES:
        raise ValueError(f"SEGPASTE_BACKEND: expected one of {', '.join(NAMES)}, got {name!r}")
    return _loaded(name)


@cache
def _loaded(name: str) -> Engine:
    if name == "native":
        from segpaste.engine.native.library import load

        load()
    return cast(Engine, import_module(f"segpaste.engine.{name}"))


@cache
def _available(name: str, otherwise: str) -> Engine:
    """Return the named backend if it can be imported, else the reference, with one warning."""
    try:
        return _loaded(name)
    except ImportError as error:
        warnings.warn(f"segpaste runs its slow reference backend, since {otherwise}: {error}", stacklevel=2)
        return _loaded("reference")
