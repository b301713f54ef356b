"""Writer of `DenseSample` to a dataset on disk, in the forms of https://cocodataset.org/#format-data.

A sample is written as pixel files and rows. Rows are streamed into tables, so a dataset need not fit into memory:

    images/NAME.png        the image, or on request NAME.jpg, which is lossy
    annotations.json       instances, as compressed run lengths or given polygons
    panoptic.json          segments

The folders of `LAYOUT` hold panoptic ids, depth (in metres if the sample is metric), normals and cameras.

A file gets its name only when it is complete and on the disk. The same sample gives the same bytes. A semantic map is
written only as part of the panoptic form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import Crowd, JsonRow
from segpaste.datasets.formats.coco_keypoints import keypoint_rows
from segpaste.datasets.formats.pixel_bytes import ImageFormat as ImageFormat
from segpaste.datasets.formats.pixel_bytes import geometry_files, picture_bytes
from segpaste.types import IGNORE_INDEX, DenseSample
from segpaste.workspace import Content, write_whole

Crowds = Sequence[tuple[Crowd, JsonRow]]
Write = Callable[[Path, Content], Path]

LAYOUT: Mapping[str, str] = {
    "panoptic": "panoptic/NAME.png: segment id = R + 256 G + 65536 B, 0 is unlabelled; see panoptic.json",
    "depth": "depth/NAME.npy: float32 [H, W], z in metres",
    "depth_valid": "depth_valid/NAME.png: 255 where depth is valid",
    "normals": "normals/NAME.npy: float32 [H, W, 3], x right, y down, z forward, zero where invalid",
    "intrinsics": "intrinsics/NAME.txt: camera matrix in pixels, three lines; the first pixel has its centre at 0.5",
}
"""Descriptions of the folders beside ``images``, for the ``info`` of the tables."""

_SEGMENT_ID_STEP = 0x9E3779  # odd, so that multiples of it modulo 2**24 are distinct, and spread over the colours


@dataclass(frozen=True, slots=True)
class SampleRows:
    """Rows of one sample in the tables, as values of JSON.

    Attributes:
        image: its entry in ``images``.
        annotations: its instances, without ``id``.
        segments: its ``segments_info``; None if the sample is not panoptic.
        map: its entry in the panoptic ``annotations`` without the segments; None for the usual one.
    """

    image: JsonRow
    annotations: list[JsonRow]
    segments: list[JsonRow] | None = None
    map: JsonRow | None = None

    def as_note(self) -> JsonRow:
        """Return the fields by name, for the note of a step; rows are not copied."""
        return {name: getattr(self, name) for name in self.__slots__}


def write_sample(
    folder: Path,
    image_id: int,
    sample: DenseSample,
    categories: Sequence[JsonRow],
    *,
    image_format: ImageFormat = "png",
    provenance: Sequence[JsonRow] | None = None,
    carried: Sequence[JsonRow] | None = None,
    kept: Sequence[JsonRow] | None = None,
    crowds: Crowds = (),
    image_extra: Mapping[str, Any] | None = None,
    images: str = "images",
    boxes_only: bool = False,
    write: Write = write_whole,
) -> SampleRows:
    """Write the pixel files of one sample and return its rows.

    Args:
        folder: the dataset's folder; missing subfolders are created.
        image_id: its id, which is also the name of its files.
        sample: a sample with instance masks and a uint8 RGB image, without padding.
        categories: the category of each class, in the order of the classes; with ``isthing`` if it is panoptic.
        image_format: ``png`` is lossless.
        provenance: for each instance, the value of the key ``segpaste`` in its rows.
        carried: for each instance, further keys of its rows, see `segpaste.datasets.formats.carried`.
        kept: for each instance, keys of its shape that are written as given, such as its polygons.
        crowds: the original regions of ``sample.crowd_mask``, and objects without a mask, each with its ``provenance``;
            the visible part of each becomes a row. The key ``carried`` of ``provenance`` has further keys of the row.
        image_extra: further keys of the image's entry.
        images: the folder of the image, relative to the dataset's.
        boxes_only: accept a sample without masks, too; its rows have boxes and no segmentation.
        write: function that writes the content of one file; `segpaste.workspace.WholeFiles.write` for many samples at
            once.

    Returns:
        The rows. Boxes, [x, y, w, h], and areas are exactly those of the masks, where they are not ``kept``.

    Raises:
        ValueError: the sample has no masks, or its image is not uint8 RGB.
        OSError: a file cannot be written; no incomplete file remains under its name.
    """
    has_masks = sample.instance_masks is not None or boxes_only
    if not has_masks or sample.image.shape[0] != 3 or sample.image.is_floating_point():
        raise ValueError("write_sample: expected a uint8 RGB image and instance masks; convert the sample")
    nothing: list[JsonRow] = [{} for _ in range(sample.num_instances)]
    origin = nothing if provenance is None else provenance
    further = [
        {**more, "segpaste": own} for more, own in zip(nothing if carried is None else carried, origin, strict=True)
    ]
    crowds = crowds_left(sample, crowds)
    name = f"{image_id:06d}"
    pixels = _array(sample.image).transpose(1, 2, 0)
    write(folder / images / f"{name}.{image_format}", picture_bytes(pixels, image_format))
    for path, content in geometry_files(name, sample):
        write(folder / path, content)
    segments = None
    if sample.panoptic_map is not None:
        ids, segments = panoptic_segments(sample, categories, further, crowds)
        rgb = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
        write(folder / "panoptic" / f"{name}.png", picture_bytes(rgb, "png"))
    image = _image_row(image_id, f"{name}.{image_format}", sample)
    instances = [
        {**row, **given}
        for row, given in zip(instance_rows(image_id, sample, categories, further), kept or nothing, strict=True)
    ]
    instances += crowd_rows(image_id, categories, crowds)
    return SampleRows({**image, **(image_extra or {})}, instances, segments)


def instance_rows(
    image_id: int, sample: DenseSample, categories: Sequence[JsonRow], more: Sequence[JsonRow]
) -> list[JsonRow]:
    """Return the annotations of a sample, without ``id``, with ``more`` keys of each; see `write_sample`."""
    points: Sequence[JsonRow] = [{}] * sample.num_instances
    if sample.keypoints is not None:
        points = keypoint_rows(sample.keypoints)
    rows = []
    for label, region, own, other in zip(sample.labels.tolist(), _regions(sample), points, more, strict=True):
        of_image = {"image_id": image_id, "category_id": categories[label]["id"]}
        row = {**of_image, **region, "iscrowd": 0, **other}
        rows.append({**row, **own} if categories[label].get("keypoints") else row)
    return rows


def crowd_rows(image_id: int, categories: Sequence[JsonRow], crowds: Crowds) -> list[JsonRow]:
    """Return the annotations of crowds, ignored regions and objects without a mask, without ``id``; see `write_sample`.

    pycocotools and trainers read ``iscrowd``, not ``ignore``, so an ignored region has both.
    """
    rows = []
    for crowd, origin in crowds:
        row: JsonRow = {"image_id": image_id, "category_id": categories[crowd.label]["id"]}
        if crowd.box is None:
            row |= {**_region(crowd.mask), "iscrowd": 1, **({"ignore": 1} if crowd.is_ignored else {})}
        else:
            row |= {"segmentation": [], **_boxed(crowd.box), "iscrowd": 0}
        if names := categories[crowd.label].get("keypoints"):
            row |= {"keypoints": [0] * (3 * len(names)), "num_keypoints": 0}
        rows.append({**row, **_keys_of(origin)})
    return rows


def crowds_left(sample: DenseSample, crowds: Crowds) -> Crowds:
    """Return the visible region of each crowd; crowds without a visible pixel are left out.

    The box of an object without a mask is cut to the box of its visible pixels, if some are hidden.
    """
    if sample.crowd_mask is None:
        return []
    pixels = _array(sample.crowd_mask)[0]
    cut = ((_visible(crowd, pixels), origin) for crowd, origin in crowds)
    return [(crowd, origin) for crowd, origin in cut if crowd.mask.any()]


def _visible(crowd: Crowd, pixels: NDArray[np.bool_]) -> Crowd:
    mask = crowd.mask & pixels
    if crowd.box is None or (mask == crowd.mask).all():
        return crowd._replace(mask=mask)
    (x1, y1, x2, y2), (x, y, width, height) = crowd.box, tight_xywh(mask)
    return crowd._replace(mask=mask, box=(max(x1, x), max(y1, y), min(x2, x + width), min(y2, y + height)))


def _keys_of(origin: JsonRow) -> JsonRow:
    """Return the further keys of a crowd's row: those of ``carried``, and the others under ``segpaste``."""
    rest = {key: value for key, value in origin.items() if key != "carried"}
    return {**origin.get("carried", {}), **({"segpaste": rest} if rest or "carried" not in origin else {})}


def _regions(sample: DenseSample) -> Iterator[JsonRow]:
    """Yield the annotation fields of each mask of a sample, or of each box if it has no masks."""
    if sample.instance_masks is not None:
        yield from map(_region, _array(sample.instance_masks))
        return
    yield from map(_boxed, sample.boxes.as_subclass(Tensor).double().tolist())


def _boxed(box: Sequence[float]) -> JsonRow:
    """Return the annotation fields of a box (x1, y1, x2, y2): area and box."""
    x1, y1, x2, y2 = box
    width, height = x2 - x1, y2 - y1
    return {"area": width * height, "bbox": [x1, y1, width, height]}


def _region(mask: NDArray[np.bool_]) -> JsonRow:
    """Return the annotation fields of a mask [H, W]: segmentation, area and box."""
    return {"segmentation": encode_mask(mask), "area": int(np.count_nonzero(mask)), "bbox": tight_xywh(mask)}


def panoptic_segments(
    sample: DenseSample, categories: Sequence[JsonRow], more: Sequence[JsonRow], crowds: Crowds
) -> tuple[NDArray[np.int64], list[JsonRow]]:
    """Return the segment ids, [H, W] int64, 0 if unlabelled, and ``segments_info``: things, stuff, crowds."""
    assert sample.panoptic_map is not None
    assert sample.semantic_map is not None
    assert sample.instance_ids is not None
    panoptic, semantic = _array(sample.panoptic_map), _array(sample.semantic_map)
    ids = np.zeros(panoptic.shape, np.int64)
    found: list[tuple[NDArray[np.bool_], int, JsonRow]] = []
    for instance_id, label, own in zip(sample.instance_ids.tolist(), sample.labels.tolist(), more, strict=True):
        found.append((panoptic == instance_id, label, {"iscrowd": 0, **own}))
    for label in np.unique(semantic[(panoptic == 0) & (semantic != IGNORE_INDEX)]).tolist():
        if not categories[label]["isthing"]:
            found.append(((panoptic == 0) & (semantic == label), label, {"iscrowd": 0}))
    for crowd, origin in crowds:
        if crowd.box is None:
            flags = {"iscrowd": 1, **({"ignore": 1} if crowd.is_ignored else {})}
            found.append((crowd.mask, crowd.label, {**flags, **_keys_of(origin)}))
    segments = []
    for number, (mask, label, own) in enumerate(found, start=1):
        segment_id = number * _SEGMENT_ID_STEP % 256**3
        ids[mask] = segment_id
        row = {"id": segment_id, "category_id": categories[label]["id"], "area": int(np.count_nonzero(mask))}
        segments.append({**row, "bbox": tight_xywh(mask), **own})
    return ids, segments


def encode_mask(mask: NDArray[np.bool_]) -> JsonRow:
    """Encode a mask [H, W] as compressed run lengths, ``{"size": [H, W], "counts": text}``."""
    from pycocotools import mask as coco_mask

    runs = coco_mask.encode(np.asfortranarray(mask, np.uint8))
    return {"size": [int(side) for side in runs["size"]], "counts": runs["counts"].decode()}


def tight_xywh(mask: NDArray[np.bool_]) -> list[int]:
    """Return the box of a mask [H, W] as [x, y, width, height] in pixels, zeros if it is empty."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return [0, 0, 0, 0]
    return [int(cols[0]), int(rows[0]), int(cols[-1] - cols[0]) + 1, int(rows[-1] - rows[0]) + 1]


def write_tables(
    folder: Path,
    info: JsonRow,
    categories: Sequence[JsonRow],
    rows: Callable[[], Iterable[SampleRows]],
    instances_file: str = "annotations.json",
    others: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the instances, and ``panoptic.json`` if the samples are panoptic, and return the paths.

    ``rows`` is called for each written table and returns the rows of all samples in order. ``others`` are further keys
    of the files, such as ``licenses``.

    Raises:
        OSError: a file cannot be written; no incomplete file remains.
    """

    def write(name: str, annotations: Iterable[JsonRow]) -> Path:
        images = (row.image for row in rows())
        tables = {"info": info, **(others or {}), "categories": categories, "images": images}
        return write_whole(folder / name, json_lines({**tables, "annotations": annotations}))

    instances = (annotation for row in rows() for annotation in row.annotations)
    paths = [write(instances_file, ({"id": number, **row} for number, row in enumerate(instances, start=1)))]
    if any(row.segments is not None for row in rows()):
        paths.append(write("panoptic.json", map(panoptic_row, rows())))
    return paths


def _image_row(image_id: int, file_name: str, sample: DenseSample) -> JsonRow:
    height, width = sample.canvas_size
    row: JsonRow = {"id": image_id, "file_name": file_name, "width": width, "height": height}
    if (camera := sample.camera_intrinsics) is not None:
        row["camera_intrinsics"] = {"fx": camera.fx, "fy": camera.fy, "cx": camera.cx, "cy": camera.cy}
    return row


def panoptic_row(row: SampleRows) -> JsonRow:
    """Return the entry of a panoptic map."""
    if row.map is not None:
        return {**row.map, "segments_info": row.segments}
    name = Path(row.image["file_name"]).with_suffix(".png").as_posix()
    return {"image_id": row.image["id"], "file_name": name, "segments_info": row.segments}


def json_lines(tables: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the text of a JSON object, one row of a table per line; iterators are consumed lazily."""
    opening = "{"
    for name, value in tables.items():
        yield f"{opening}{json.dumps(name)}: ".encode()
        opening = ",\n"
        if value is None or isinstance(value, Mapping | str | int | float):
            yield json.dumps(value).encode()
            continue
        separator = "[\n"
        for row in value:
            yield (separator + json.dumps(row, separators=(",", ":"))).encode()
            separator = ",\n"
        yield b"[]" if separator == "[\n" else b"\n]"
    yield b"{}\n" if opening == "{" else b"}\n"


def _array(tensor: Tensor) -> NDArray[Any]:
    values: NDArray[Any] = tensor.as_subclass(Tensor).numpy()
    return values
