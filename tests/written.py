"""Datasets of samples, written by the writer of `segpaste augment`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from segpaste.datasets.contract import Crowd
from segpaste.datasets.writers.dataset_writer import finish
from segpaste.datasets.writers.format import LabelledImage, Losses, SampleRows
from segpaste.datasets.writers.layouts import WrittenLayout, made_entry
from segpaste.types import DenseSample

Row = dict[str, Any]


def write_image(
    folder: Path,
    number: int,
    sample: DenseSample,
    categories: Sequence[Row],
    *,
    rows: Sequence[Row] | None = None,
    crowds: Iterable[tuple[Crowd, Row]] = (),
    suffix: str = "png",
    layout: WrittenLayout = WrittenLayout(),  # noqa: B008 (frozen)
    more: Row | None = None,
    **facts: Any,
) -> SampleRows:
    """Write the files of a sample; return its entries."""
    entry = made_entry(number, sample, suffix, more or {})
    keys = [{} for _ in range(sample.num_instances)] if rows is None else rows
    image = LabelledImage(entry["file_name"], entry, sample, keys, [*crowds])
    return SampleRows(**layout.writer(folder, categories, **facts).add(image)["rows"])


def write_rest(
    folder: Path,
    rows: Sequence[SampleRows],
    categories: Sequence[Row],
    layout: WrittenLayout = WrittenLayout(),  # noqa: B008 (frozen)
    info: Row | None = None,
    **facts: Any,
) -> None:
    """Write what follows all images."""
    writer = layout.writer(folder, categories, **facts)
    finish([writer], [({} if info is None else {"info": info}, categories, lambda: rows)], Losses(), ())
