"""Engines that make the parts of a long run: this process, worker processes, or Ray Data on one machine or many.

Parts are pure functions, and files on a disk that all processes see, so the result does not depend on the engine. An
error of a part is returned as a value, so that the run ends with its one line and not with the traceback of a worker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Literal, Protocol

import torch
from torch.utils.data import DataLoader

from segpaste.extras import require

PartEngine = Literal["local", "ray"]
PartResult = tuple[int, Exception | None]


class PartMaker(Protocol):
    """Maker of parts; it can be pickled."""

    def make(self, part: int) -> None:
        """Make a part.

        Raises:
            ValueError, OSError: the part cannot be made.
        """
        ...


def make_parts(
    maker: PartMaker, parts: Sequence[int], workers: int, engine: PartEngine, error: type[ValueError]
) -> Iterator[int]:
    """Make parts; yield the number of each part when it is finished, in no particular order.

    Args:
        maker: makes them.
        parts: their numbers.
        workers: number of processes.
        engine: engine that runs the processes.
        error: class of the errors that are raised.

    Raises:
        ValueError: raised as ``error``; a worker was killed, or the Ray cluster is too small.
        ValueError, OSError: the first error of a part.
        ImportError: Ray is not installed.
    """
    if engine == "local" and workers == 1:
        for part in parts:
            with _one_thread():
                maker.make(part)
            yield part
        return
    by = _by_ray if engine == "ray" else _by_workers
    outcomes = by(maker, parts, workers, error)
    with contextlib.closing(outcomes):  # so that no worker outlives an error
        for part, raised in outcomes:
            if raised is not None:
                raise raised
            yield part


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: crops are too small to be divided, and more threads take several times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Worker:
    """Maker of parts in another process, to which the dataset is sent once."""

    def __init__(self, maker: PartMaker) -> None:
        self.maker = maker

    def __call__(self, row: Any) -> dict[str, Any]:
        part, error = int(row["part"]), None
        try:
            with _one_thread():
                self.maker.make(part)
        except (ValueError, OSError) as raised:
            error = raised
        return {"part": part, "error": _packed(error)}


def _packed(error: Exception | None) -> bytes:
    """Pickle an error, as a plain ValueError if its class cannot be pickled."""
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:
        return pickle.dumps(ValueError(str(error)))
    return packed


def _by_workers(
    maker: PartMaker, parts: Sequence[int], workers: int, error: type[ValueError]
) -> Generator[PartResult, None, None]:
    loader: DataLoader[Any] = DataLoader(
        [{"part": part} for part in parts],  # type: ignore[arg-type]
        batch_size=None,
        num_workers=min(workers, len(parts)),
        collate_fn=_Worker(maker),  # called with each item by a worker
        generator=torch.Generator(),  # not the caller's
    )
    try:
        for row in loader:
            yield row["part"], pickle.loads(row["error"])
    except RuntimeError as raised:
        if str(raised).startswith("DataLoader worker (pid"):
            raise error(
                "a worker process was killed, probably because memory ran out; repeat the call to resume the run, "
                "with fewer workers to use less memory"
            ) from raised
        raise


def _by_ray(
    maker: PartMaker, parts: Sequence[int], workers: int, error: type[ValueError]
) -> Generator[PartResult, None, None]:
    ray, data = require("ray"), require("ray.data")
    is_ours = not ray.is_initialized()
    if is_ours:
        local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers + 1, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        if (cpus := int(ray.cluster_resources().get("CPU", 0))) < workers:
            raise error(f"expected a Ray cluster of at least {workers} CPUs, one for each worker, got {cpus}")
        data.DataContext.get_current().enable_progress_bars = False
        numbers = data.from_items([{"part": part} for part in parts], override_num_blocks=min(len(parts), 1000))
        actors = data.ActorPoolStrategy(size=workers)
        done = numbers.map(_Worker, fn_constructor_args=(maker,), compute=actors)
        for row in done.iter_rows():
            yield int(row["part"]), pickle.loads(row["error"])
    finally:
        if is_ours:
            ray.shutdown()
