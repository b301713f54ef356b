"""Error of all readers of datasets, which is raised at once, or collected by a check that finds them all.

Readers give the error of one entry or file to `refuse`. Inside `collected` they leave the entry out and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class DatasetError(ValueError):
    """Error of a missing, unreadable or invalid file of a dataset; one line with the file and the remedy.

    Attributes:
        kind: kind of its finding in `segpaste.datasets.checking.report`; None if that follows from the file.
        image: file name of the image with the problem, if a check collects errors and the image is known.
        annotation: id of the annotation with the problem, likewise.
    """

    image: str | None = None
    annotation: int | None = None

    def __init__(self, *args: object, kind: str | None = None) -> None:
        super().__init__(*args)
        self.kind = kind


_collected: ContextVar[list[DatasetError] | None] = ContextVar("_collected", default=None)


@contextmanager
def collected() -> Iterator[list[DatasetError]]:
    """Collect the errors that are refused, instead of raising the first one."""
    errors: list[DatasetError] = []
    token = _collected.set(errors)
    try:
        yield errors
    finally:
        _collected.reset(token)


def refuse(error: DatasetError, *, image: str | None = None, annotation: int | None = None) -> None:
    """Raise an error about an image or an annotation, or collect it inside `collected`."""
    errors = _collected.get()
    error.image = error.image if image is None else image
    error.annotation = error.annotation if annotation is None else annotation
    if errors is None:
        raise error
    errors.append(error)


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Raise a ValueError of the block as a `DatasetError` that begins with the place."""
    try:
        yield
    except ValueError as error:
        raise DatasetError(f"{place}: {error}") from error


def first_few(values: Iterable[object], most: int = 3) -> str:
    """Return the first values in words, and ``...`` for others."""
    texts = [str(value) for value in values]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")


def each(items: Iterable[T], read: Callable[[T], R], *, image: str | None = None) -> Iterator[R]:
    """Yield what ``read`` returns for each item; inside `collected`, items with an error are left out."""
    for item in items:
        try:
            found = read(item)
        except DatasetError as error:
            refuse(error, image=image)
        else:
            yield found
