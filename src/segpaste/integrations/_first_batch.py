"""Picture of the first batch of a run, which every adapter saves in the folder of its trainer's pictures."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from torch.utils.data import get_worker_info

from segpaste.epochs.replicas import this_process
from segpaste.viz import show

PICTURE = "copy_paste_batch.jpg"
"""Name of the file in the trainer's own folder."""


class FirstBatch:
    """Function object that draws a picture of the first batch that it is given, and ignores later ones.

    Only the first process saves: rank 0, and in its loader worker 0. Make it in the process that starts the workers.
    Their copies share its memory, so workers of the next epoch do not save a picture again.
    """

    def __init__(self) -> None:
        self._saved = torch.zeros((), dtype=torch.bool, device="cpu").share_memory_()  # type: ignore[no-untyped-call]

    def draw(self, batch: object, path: str | os.PathLike[str] | None, **options: Any) -> None:
        """Save a picture of the batch if it is the first.

        Failure to draw or write the picture is a warning only, since training does not depend on it.

        Args:
            batch: batch in any structure that `segpaste.viz.show` draws.
            path: the file, ``.png`` or ``.jpg``; None saves nothing.
            options: options of `segpaste.viz.show`, such as ``class_names``, ``mean`` and ``std``.
        """
        if path is None or self._saved or not is_first_process():
            return
        self._saved.fill_(True)
        try:
            show(batch, path=path, **options)
        except Exception as error:
            warnings.warn(
                f"{os.fspath(path)}: the picture of the first batch could not be saved; training continues. "
                f"{type(error).__name__}: {error}",
                stacklevel=2,
            )


def is_first_process() -> bool:
    """Return whether this is rank 0, and in its loader worker 0 or no worker."""
    worker = get_worker_info()
    return (worker is None or worker.id == 0) and this_process().rank == 0
