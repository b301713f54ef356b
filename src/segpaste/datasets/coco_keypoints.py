"""Keypoints of COCO files: https://cocodataset.org/#format-data, "Keypoint Detection".

A category names its ``keypoints`` and joins them in a ``skeleton`` of pairs that count from 1; an annotation has
``keypoints`` [x1, y1, v1, x2, ...], where x and y are whole pixels. The centre of pixel i is at i + 0.5 in samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from segpaste.datasets.records import DatasetError, Row
from segpaste.types import KeypointSchema
from segpaste.types.keypoints import MovingKeypoints, moved_points
from segpaste.types.window import Size, Window

Points = Sequence[float]
_DECIMALS = 3


def read_schema(path: Path, categories: Iterable[Row]) -> KeypointSchema | None:
    """Return the keypoints of the categories; points called left and right swap in a mirror.

    Args:
        path: the file, for messages.
        categories: its table of that name.

    Returns:
        The schema; None where no category has keypoints, or, with a warning, where categories have different ones.

    Raises:
        DatasetError: the names or the skeleton of a category are no such lists.
    """
    found = {}
    for row in categories:
        if not row.get("keypoints"):
            continue
        try:
            skeleton = tuple((int(a) - 1, int(b) - 1) for a, b in row.get("skeleton") or ())
            found[row["name"]] = KeypointSchema.of_sides(row["keypoints"], skeleton)
        except (TypeError, ValueError) as error:
            raise DatasetError(f"{path}: category {row['name']!r}: {error}; correct its keypoints") from error
    if len(set(found.values())) > 1:
        warnings.warn(
            f"{path}: expected one list of keypoints for all categories that have some, got different ones of "
            f"{', '.join(map(repr, found))}; keypoints are not read",
            stacklevel=2,
        )
        return None
    return next(iter(found.values()), None)


def checked_points(path: Path, annotation: Row, schema: KeypointSchema | None) -> Points | None:
    """Return what an annotation says of its keypoints, [3 P] numbers; None where it says nothing.

    Raises:
        DatasetError: it has another number of values, or a v that is not 0, 1 or 2.
    """
    points: Points | None = annotation.get("keypoints")
    if schema is None or not points:
        return None
    is_list = isinstance(points, list) and all(isinstance(value, int | float) for value in points)
    if not is_list or len(points) != 3 * schema.num_points or not {*points[2::3]} <= {0, 1, 2}:
        raise DatasetError(
            f"{path}: expected {schema.num_points} keypoints (x, y, v) of annotation {annotation['id']}, each v 0, 1 "
            f"or 2, got {points!r:.80}; correct or remove it"
        )
    return points


def keypoints_of(rows: Sequence[Points | None], schema: KeypointSchema) -> Tensor:
    """Return the keypoints of instances, [N, P, 3] float32; all zero for one that has none."""
    nothing = [0.0] * (3 * schema.num_points)
    found = torch.tensor([row or nothing for row in rows], dtype=torch.float64).reshape(-1, schema.num_points, 3)
    found[..., :2] += 0.5
    return torch.where(found[..., 2:] > 0, found, 0.0).float()


def through_window(keypoints: Tensor, schema: KeypointSchema, window: Window) -> Tensor:
    """Return the keypoints [N, P, 3] of a picture as a window shows them."""
    if not keypoints.numel():
        return keypoints

    def moved(box: tuple[int, int, int, int], size: Size, canvas_size: Size, mirror: str | None = None) -> Tensor:
        points: Tensor = MovingKeypoints.tag(keypoints, schema, canvas_size).as_subclass(Tensor)
        return moved_points(points, box, size, mirror)[..., :3].float()

    keypoints = moved((0, 0, *window.canvas_size), window.resized, window.canvas_size)
    if window.flip:
        keypoints = moved((0, 0, *window.resized), window.resized, window.resized, "horizontal")
    return moved((*window.corner, *window.inside), window.inside, window.resized)


def keypoint_rows(keypoints: Tensor) -> list[dict[str, Any]]:
    """Return the keys of annotations for keypoints [N, P, 3]: ``keypoints`` and ``num_keypoints``."""
    moved = keypoints.double()
    moved[..., :2] = torch.where(moved[..., 2:] > 0, moved[..., :2] - 0.5, 0.0)
    return [
        {"keypoints": [*map(_plain, row.flatten().tolist())], "num_keypoints": int((row[:, 2] > 0).sum())}
        for row in moved
    ]


def _plain(value: float) -> int | float:
    """The number as a file has it: an integer where it is one."""
    rounded = round(value, _DECIMALS)
    return int(rounded) if rounded.is_integer() else rounded
