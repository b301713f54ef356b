"""Keypoints of COCO files: https://cocodataset.org/#format-data, "Keypoint Detection".

A category names its ``keypoints`` and joins them in a ``skeleton`` of pairs that count from 1. An annotation has
``keypoints`` [x1, y1, v1, x2, ...], where x and y are whole pixels. In samples the centre of pixel i is at i + 0.5.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.types import KeypointSchema
from segpaste.types.keypoints import MovingKeypoints, Pair, moved_points
from segpaste.types.sampling import Size, Window

CocoPoints = Sequence[float]
_FARTHEST = 1e6  # pixels


def read_schema(path: Path, categories: Iterable[JsonRow]) -> KeypointSchema | None:
    """Return the keypoint schema of a file's categories, with the first skeleton; flips swap left and right.

    Return None if no category has keypoints, or, with a warning, if categories have different keypoints. An invalid
    skeleton is left out with a warning.

    Raises:
        DatasetError: the keypoints of a category are not a list of unique names.
    """
    rows = [row for row in categories if row.get("keypoints")]
    found: list[KeypointSchema] = []
    for row in rows:
        if not isinstance(row["keypoints"], list):
            raise DatasetError(
                f"{path}: category {row['name']!r}: expected a list of names as keypoints, got "
                f"{row['keypoints']!r:.60}; correct it"
            )
        try:
            found.append(KeypointSchema.of_sides(row["keypoints"]))
        except (AttributeError, TypeError, ValueError) as error:
            raise DatasetError(f"{path}: category {row['name']!r}: {error}; correct its keypoints") from error
    if any(schema != found[0] for schema in found):
        warnings.warn(
            f"{path}: expected one list of keypoints for all categories that have some, got different ones of "
            f"{', '.join(repr(row['name']) for row in rows)}; keypoints are not read",
            stacklevel=2,
        )
        return None
    return replace(found[0], skeleton=_skeleton(path, rows, found[0].num_points)) if found else None


def _skeleton(path: Path, categories: Iterable[JsonRow], num_points: int) -> tuple[Pair, ...]:
    """Return the first skeleton, counted from 0; empty, with a warning, if it is invalid."""
    pairs = next((row["skeleton"] for row in categories if row.get("skeleton")), ())
    is_one = isinstance(pairs, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(type(point) is int and 1 <= point <= num_points for point in pair)
        and pair[0] != pair[1]
        for pair in pairs
    )
    if is_one:
        return tuple((one - 1, other - 1) for one, other in pairs)
    warnings.warn(
        f"{path}: expected a skeleton of pairs of points, counted from 1 to {num_points}, got {pairs!r:.60}; it is not "
        "drawn",
        stacklevel=2,
    )
    return ()


def checked_points(path: Path, annotation: JsonRow, schema: KeypointSchema | None) -> CocoPoints | None:
    """Return the keypoints of an annotation, [3 P] numbers; None if it has none.

    Raises:
        DatasetError: the number of values is wrong, or a v is not 0, 1 or 2.
    """
    points: CocoPoints | None = annotation.get("keypoints")
    if schema is None or not points:
        return None
    is_list = isinstance(points, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FARTHEST for value in points
    )
    if not is_list or len(points) != 3 * schema.num_points or not {*points[2::3]} <= {0, 1, 2}:
        raise DatasetError(
            f"{path}: expected {schema.num_points} keypoints (x, y, v) of annotation {annotation['id']}, each v 0, 1 "
            f"or 2, got {points!r:.80}; correct or remove it"
        )
    return points


def keypoints_of(rows: Sequence[CocoPoints | None], schema: KeypointSchema, canvas_size: Size) -> Tensor:
    """Return the keypoints of instances, [N, P, 3] float32; zero if missing or outside of the image."""
    nothing = [0.0] * (3 * schema.num_points)
    found = torch.tensor([row or nothing for row in rows], dtype=torch.float64, device="cpu")
    found = found.reshape(-1, schema.num_points, 3)
    found[..., :2] += 0.5
    height, width = canvas_size
    inside = ((found[..., :2] >= 0) & (found[..., :2] <= found.new_tensor([width, height]))).all(-1, keepdim=True)
    return torch.where((found[..., 2:] > 0) & inside, found, 0.0).float()


def through_window(keypoints: Tensor, schema: KeypointSchema, window: Window) -> Tensor:
    """Return the keypoints [N, P, 3] of an image in the frame of a window."""
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
    rows = []
    for points in keypoints.tolist():
        values = [
            value for x, y, v in points for value in ((_coordinate(x), _coordinate(y), int(v)) if v else (0, 0, 0))
        ]
        rows.append({"keypoints": values, "num_keypoints": sum(v > 0 for *_, v in points)})
    return rows


def _coordinate(edge: float) -> int | float:
    """Return a pixel coordinate with the fewest decimals that give the same float32."""
    for decimals in range(8):
        place = round(edge - 0.5, decimals)
        if np.float32(place + 0.5) == edge:
            break
    return int(place) if place.is_integer() else place
