"""Record of one crop, and the table of its columns, the same in every format.

A bank is a table with a row for each crop. A format defines the files of the columns; their names, dtypes and shapes
are defined here. Numbers are little-endian, booleans are one byte, 0 or 1, and a packed record has the columns of one
row, one after another without gaps, in the order of `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segpaste._pixels import sides_of
from segpaste._point_names import KeypointSchema
from segpaste._reprs import described

Array = NDArray[Any]

EMBEDDING_SIZE = 256
"""Length of an embedding."""


class Column(NamedTuple):
    """Column of a bank.

    Attributes:
        name: name of the field of `Crop`.
        dtype: NumPy dtype, little-endian.
        shape: shape of one row; ``h`` and ``w`` are those of the crop, ``P`` is the number of its keypoints.
        group: group of columns that exist together; a bank without optional columns has only ``core``.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    group: str


COLUMNS = (
    Column("image", "u1", (3, "h", "w"), "core"),
    Column("alpha", "?", (1, "h", "w"), "core"),
    Column("class_id", "<i8", (), "core"),
    Column("content_box", "<i4", (4,), "core"),
    Column("source_size", "<i4", (2,), "provenance"),
    Column("source_box", "<f4", (4,), "provenance"),
    Column("scale", "<f4", (), "provenance"),
    Column("image_id", "<i8", (), "provenance"),
    Column("annotation_id", "<i8", (), "provenance"),
    Column("embedding", "<f2", (EMBEDDING_SIZE,), "embedding"),
    Column("depth", "<f4", (1, "h", "w"), "depth"),
    Column("depth_valid", "?", (1, "h", "w"), "depth"),
    Column("normals", "<f4", (3, "h", "w"), "normals"),
    Column("intrinsics", "<f4", (4,), "intrinsics"),
    Column("keypoints", "<f4", ("P", 3), "keypoints"),
    Column("dataset_idx", "<i8", (), "dataset"),
)
"""All known columns; later versions only add columns, at the end."""

SMALLEST_SCALE = 2.0**-20
"""Scale that shrinks an image of a million pixels on a side to one pixel."""

GROUPS = tuple(dict.fromkeys(column.group for column in COLUMNS))


class BankError(ValueError):
    """Error raised if a bank, or an input of one, is missing or invalid; its one line says what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """One object cut out of an image; columns that a bank does not keep are None.

    Attributes:
        image: uint8 [3, h, w], RGB. Outside of ``content_box`` its edge pixels are repeated, here and in depth and
            normals, so that no filter mixes another colour into the edge of an object.
        alpha: mask of the object, bool [1, h, w].
        class_id: class, from 0.
        content_box: box of the pixels that were read from the image, int32 [4], xyxy.
        source_size: height and width of the image, int32 [2]; of the shrunk image if the bank has ``fit_into``.
        source_box: box of the object in that image, float32 [4], xyxy in pixel edges.
        scale: number of crop pixels per pixel of that image, from `SMALLEST_SCALE` to 1.
        image_id: id of the image in the dataset.
        annotation_id: id of the object in the dataset.
        embedding: float16 [256], finite.
        depth: float32 [1, h, w], in the unit of the dataset.
        depth_valid: bool [1, h, w].
        normals: float32 [3, h, w], unit, camera frame right-down-forward; 0 for none.
        intrinsics: float32 [4], fx, fy, cx, cy in pixels of the crop.
        keypoints: float32 [P, 3], x, y, v in pixel edges of the crop; they may lie outside of it.
        dataset_idx: index of the dataset of the image and annotation ids, among those that the bank was built from.
    """

    image: Array
    alpha: Array
    class_id: int
    content_box: Array
    source_size: Array | None = None
    source_box: Array | None = None
    scale: float | None = None
    image_id: int | None = None
    annotation_id: int | None = None
    embedding: Array | None = None
    depth: Array | None = None
    depth_valid: Array | None = None
    normals: Array | None = None
    intrinsics: Array | None = None
    keypoints: Array | None = None
    dataset_idx: int | None = None

    def __repr__(self) -> str:
        """Return dtype and shape of each array, and the numbers."""
        return described(self, lambda: (_field_text(self, field.name) for field in fields(self)))


def _field_text(crop: Crop, name: str) -> str | None:
    value = getattr(crop, name)
    if isinstance(value, np.ndarray):
        return f"{name} {value.dtype} [{', '.join(map(str, value.shape))}]"
    return None if value is None else f"{name}={value}"


def checked_size(name: str, value: Any) -> tuple[int, int]:
    """Return a size (h, w) in pixels; one number is both sides of a square.

    Raises:
        BankError: it is no size of at least one pixel.
    """
    try:
        return sides_of(name, value)
    except ValueError as error:
        raise BankError(str(error)) from error


class Layout:
    """Kept columns of a bank, and the size of its crops.

    Args:
        crop_size: size (h, w) of the crops, pixels; one number is both sides of a square.
        groups: optional groups of columns; ``core`` is always kept.
        keypoint_schema: schema of the keypoints, if they are kept.

    Attributes:
        columns: kept columns, in order.
        shapes, dtypes: shape and dtype of one row of each column, by name.
        dtype: structured dtype of a packed record.
    """

    def __init__(
        self,
        crop_size: int | tuple[int, int],
        groups: Iterable[str] = (),
        keypoint_schema: KeypointSchema | None = None,
    ) -> None:
        wanted = {"core", *groups}
        if unknown := wanted - set(GROUPS):
            raise BankError(f"expected groups of columns among {', '.join(GROUPS)}, got {sorted(unknown)}")
        if "keypoints" in wanted and keypoint_schema is None:
            raise BankError("expected a keypoint_schema with the group keypoints, got None; give that of the samples")
        self.crop_size = checked_size("crop_size", crop_size)
        self.keypoint_schema = keypoint_schema if "keypoints" in wanted else None
        self.groups = tuple(group for group in GROUPS if group in wanted)
        self.columns = tuple(column for column in COLUMNS if column.group in wanted)
        num_points = self.keypoint_schema.num_points if self.keypoint_schema is not None else 0
        sizes = {"h": self.crop_size[0], "w": self.crop_size[1], "P": num_points}
        self.shapes = {c.name: tuple(sizes[n] if isinstance(n, str) else n for n in c.shape) for c in self.columns}
        self.dtypes = {c.name: np.dtype(c.dtype) for c in self.columns}
        self.dtype = np.dtype([(c.name, c.dtype, self.shapes[c.name]) for c in self.columns])

    def also(self, group: str) -> Layout:
        """Return this layout with one more group of columns."""
        return Layout(self.crop_size, {*self.groups, group}, self.keypoint_schema)

    def shape(self, column: Column) -> tuple[int, ...]:
        """Return the shape of a column in one row."""
        return self.shapes[column.name]

    def empty(self, num: int, names: Iterable[str]) -> dict[str, Array]:
        """Return uninitialised arrays [num, ...] for these columns."""
        return {name: np.empty((num, *self.shapes[name]), self.dtypes[name]) for name in names}

    def pack(self, crop: Crop) -> Array:
        """Pack a crop into one row of `dtype`.

        Raises:
            BankError: a column is missing, or has another dtype or shape.
        """
        row = np.empty((), self.dtype)
        for column in self.columns:
            value, shape = getattr(crop, column.name), self.shape(column)
            if value is None:
                raise BankError(f"crop: expected {column.name}, since the bank keeps {column.group}, got None")
            array = np.asarray(value)
            if array.shape != shape or (shape and array.dtype != np.dtype(column.dtype)):
                raise BankError(
                    f"crop: expected {column.name} {np.dtype(column.dtype).name} {list(shape)}, got "
                    f"{array.dtype.name} {list(array.shape)}"
                )
            row[column.name] = array
        return row

    def unpack(self, row: Array | Mapping[str, Array]) -> Crop:
        """Return the crop of one row: a record of `dtype`, or values by name; its arrays are views of them."""
        values: dict[str, Any] = {c.name: row[c.name] if c.shape else row[c.name].item() for c in self.columns}
        return Crop(**values)


def _is_finite(values: Array) -> Array:
    return np.asarray(np.isfinite(values).all(tuple(range(1, values.ndim))))


def _has_focal_lengths(cameras: Array) -> Array:
    return np.asarray((cameras[:, :2] > 0).all(1))


def _has_visibilities(points: Array) -> Array:
    x, y, v = np.moveaxis(points, -1, 0)
    return np.asarray((np.isin(v, (0, 1, 2)) & ((v > 0) | ((x == 0) & (y == 0)))).all(1))


def _is_in_range(scales: Array) -> Array:
    return np.asarray((scales >= SMALLEST_SCALE) & (scales <= 1))


_RULES: tuple[tuple[str, Callable[[Array], Array], str], ...] = (
    ("embedding", _is_finite, "a finite embedding, got one with NaN or infinity"),
    ("source_box", _is_finite, "finite source_box, got {}"),
    ("intrinsics", _is_finite, "finite intrinsics, got {}"),
    ("keypoints", _is_finite, "finite keypoints, got {}"),
    ("intrinsics", _has_focal_lengths, "focal lengths above 0, got [{0[0]}, {0[1]}]"),
    ("keypoints", _has_visibilities, "keypoints with v 0, 1 or 2, and zero where v is 0, got {!s:.80}"),
    ("scale", _is_in_range, f"a scale from {SMALLEST_SCALE:g} to 1, got {{:g}}"),
)
"""Rules for values that would corrupt later computations: column, rule of its rows, expectation for errors."""


def first_fault(columns: Mapping[str, Array]) -> tuple[int, str] | None:
    """Return the first row that breaks a rule, and what was expected of it, or None; columns are [n, ...] each."""
    for name, rule, expected in _RULES:
        if name in columns and not (sound := rule(columns[name])).all():
            row = int(sound.argmin())
            return row, expected.format(columns[name][row].tolist())
    return None


def byte_view(array: Array) -> memoryview:
    """Return the bytes of a contiguous array, to read or to write."""
    if array.dtype.kind == "V":
        array = array.reshape(-1).view(np.uint8)
    return array.data.cast("B") if array.size else memoryview(b"")


assert [c.name for c in COLUMNS] == [f.name for f in fields(Crop)]
