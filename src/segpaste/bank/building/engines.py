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

from segpaste.bank.schema.record import BankError
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


def make_parts(maker: PartMaker, parts: Sequence[int], workers: int, engine: PartEngine) -> Iterator[int]:
    """Make parts; yield the number of each part when it is finished, in no particular order.

    Raises:
        BankError: a worker was killed, or the Ray cluster is too small.
        ValueError, OSError: the first error of a part.
        ImportError: Ray is not installed.
    """
    if engine == "ray":
        outcomes = _by_ray(maker, parts, workers)
    elif workers == 1:
        outcomes = (_attempt(maker, part) for part in parts)
    else:
        outcomes = _by_workers(maker, parts, workers)
    with contextlib.closing(outcomes):  # so that no worker outlives an error
        for part, error in outcomes:
            if error is not None:
                raise error
            yield part


def _attempt(maker: PartMaker, part: int) -> PartResult:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # crops are too small to be divided: more threads take several times as long
    try:
        maker.make(part)
    except (ValueError, OSError) as error:
        return part, error
    finally:
        torch.set_num_threads(threads)
    return part, None


class _Worker:
    """Maker of parts in another process, to which the dataset is sent once."""

    def __init__(self, maker: PartMaker) -> None:
        self.maker = maker

    def __call__(self, row: Any) -> dict[str, Any]:
        part, error = _attempt(self.maker, int(row["part"]))
        return {"part": part, "error": _packed(error)}


def _packed(error: Exception | None) -> bytes:
    """Pickle an error, as a plain ValueError if its class cannot be pickled."""
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:
        return pickle.dumps(ValueError(str(error)))
    return packed


def _by_workers(maker: PartMaker, parts: Sequence[int], workers: int) -> Generator[PartResult, None, None]:
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
    except RuntimeError as error:
        if str(error).startswith("DataLoader worker (pid"):
            raise BankError(
                "a worker process was killed, probably because memory ran out; repeat the call to resume the build, "
                "with fewer workers to use less memory"
            ) from error
        raise


def _by_ray(maker: PartMaker, parts: Sequence[int], workers: int) -> Generator[PartResult, None, None]:
    ray, data = require("ray"), require("ray.data")
    is_ours = not ray.is_initialized()
    if is_ours:
        local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers + 1, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        if (cpus := int(ray.cluster_resources().get("CPU", 0))) < workers:
            raise BankError(f"expected a Ray cluster of at least {workers} CPUs, one for each worker, got {cpus}")
        data.DataContext.get_current().enable_progress_bars = False
        numbers = data.from_items([{"part": part} for part in parts], override_num_blocks=min(len(parts), 1000))
        actors = data.ActorPoolStrategy(size=workers)
        done = numbers.map(_Worker, fn_constructor_args=(maker,), compute=actors)
        for row in done.iter_rows():
            yield int(row["part"]), pickle.loads(row["error"])
    finally:
        if is_ours:
            ray.shutdown()
