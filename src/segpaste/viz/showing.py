"""Picture of a batch, in any supported structure: segpaste's own, or that of a trainer.

    segpaste.viz.show(batch)

It shows the data that a model is trained on. The batch is drawn as it is, right or wrong: boxes and masks are not
fitted to each other. `segpaste.viz.before_after_sheet` shows one sample before and after side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors

from segpaste.targets import TARGETS, Images, Reading
from segpaste.targets.annotated import is_list
from segpaste.types import FIELDS, BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample
from segpaste.types.check import check_count
from segpaste.types.tensors import tensor_of
from segpaste.viz._marks import as_numpy, blend, hatch
from segpaste.viz._text import ClassNames
from segpaste.viz.comparison import enlarged
from segpaste.viz.gallery import PASTED_NOTE, Tile, grid, png_bytes, shrunk
from segpaste.viz.overlay import VIEWS, Range, draw, draw_image, draw_instances
from segpaste.viz.palette import PAPER, UInt8Image
from segpaste.workspace import write_whole

OWN = "PaddedBatchedDenseSample, BatchedDenseSample, DenseSample or a list of DenseSample"
"""Name of the containers of segpaste, for messages."""

_PADDING_FADE = 0.5
_JPEG_QUALITY = 92


def show(
    batch: object,
    *,
    path: str | os.PathLike[str] | None = None,
    max_images: int = 16,
    class_names: ClassNames | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    value_range: Range = (0.0, 1.0),
    pasted: Tensor | Sequence[Tensor] | None = None,
    bbox_format: str | None = None,
    tile_px: int = 400,
) -> Image.Image:
    """Draw a batch: each image with its masks, boxes, class names and keypoints, and its maps beside it.

    The structures are segpaste's containers and lists of samples, and the batches of torchvision's detection models,
    RF-DETR, transformers, Ultralytics and AlbumentationsX; each is known by its keys and types. Padding is hatched, and
    so are crowds and ignored pixels.

    Args:
        batch: batch on any device.
        path: file to save the picture to, ``.png`` or ``.jpg``; missing folders are made.
        max_images: maximum number of images; the others are left out.
        class_names: names for the class ids of the batch, in a list or a dictionary.
        mean: mean of each channel, in 0..1, of a normalisation of float images that is undone; needed for the inputs of
            models of transformers.
        std: standard deviation of each channel, likewise.
        value_range: black and white of float images that are not normalised; see `segpaste.viz.draw_image`.
        pasted: outline what was pasted: bool [B, K] for a padded batch, as ``report.slot_layer >= 0`` of a
            `segpaste.augmentation.PasteReport`; for any other structure one bool [N] per image.
        bbox_format: that of ``bboxes`` of AlbumentationsX, as ``coord_format`` of ``A.BboxParams``: ``pascal_voc``,
            ``coco``, ``cxcywh``, ``albumentations`` or ``yolo``.
        tile_px: the longer side of an image in the picture; larger images are shrunk, much smaller ones enlarged by
            whole factors.

    Returns:
        The picture, RGB. A notebook shows it as the last expression of a cell.

    Raises:
        TypeError: the batch has none of the structures; the message lists them.
        ValueError: a value of the batch does not fit its structure, or ``path`` has another suffix.
        OSError: the file cannot be written; no partial file remains.
    """
    check_count("max_images", max_images, least=1)
    check_count("tile_px", tile_px, least=1)
    if path is not None and Path(path).suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"show: expected path to end in .png or .jpg, got {os.fspath(path)!r}")
    if (mean is None) != (std is None):
        raise ValueError("show: expected both mean and std, or neither, got one of them")
    pictures = pictures_of(batch, Reading(mean, std, bbox_format, owner="show"), pasted)
    if not pictures.images.num_images:
        raise ValueError("show: expected at least one image, got an empty batch")
    options = {"class_names": class_names, "value_range": value_range}
    shown = [_drawn(pictures, b, options, tile_px) for b in range(min(max_images, pictures.images.num_images))]
    page = _page(shown, pictures, tile_px)
    if path is not None:
        write_whole(path, png_bytes(page) if Path(path).suffix.lower() == ".png" else _jpeg_bytes(page))
    return Image.fromarray(page)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Drawn image.

    Attributes:
        num: number of its objects, N.
        any_pasted: True if an object is known to be pasted.
        objects: picture of the image with its objects.
        maps: pictures of its other modalities.
    """

    num: int
    any_pasted: bool
    objects: UInt8Image
    maps: Mapping[Modality, UInt8Image]


def _drawn(pictures: Pictures, b: int, options: Mapping[str, Any], tile_px: int) -> _Drawn:
    sample = _prepared(pictures.images.sample(b), options["value_range"], tile_px)
    pasted = None if pictures.pasted is None else tensor_of(pictures.pasted[b]).detach().cpu()
    own = {**options, "pasted": pasted}
    objects = draw_instances(sample, show_boxes=pictures.images.has_boxes, **own)
    maps = [m for m in VIEWS if m in sample.modalities and m not in (Modality.IMAGE, Modality.INSTANCE)]
    return _Drawn(
        num=sample.num_instances,
        any_pasted=pasted is not None and bool(pasted.any()),
        objects=shrunk(objects, tile_px),
        maps={m: shrunk(draw(sample, m, own), tile_px) for m in maps},
    )


def _page(shown: Sequence[_Drawn], pictures: Pictures, tile_px: int) -> UInt8Image:
    """Return the page: one image after another or, if there are maps, a row for each image."""
    of = f" of {pictures.images.num_images}" if len(shown) < pictures.images.num_images else ""
    kind = "object" if pictures.images.has_boxes else "segment"
    captions = [f"image {b}{of}: {d.num or 'no'} {kind}{'' if d.num == 1 else 's'}" for b, d in enumerate(shown)]
    tiles = [Tile(drawn.objects, caption) for drawn, caption in zip(shown, captions, strict=True)]
    note = PASTED_NOTE if any(drawn.any_pasted for drawn in shown) else ""
    maps = [m for m in VIEWS if any(m in drawn.maps for drawn in shown)]
    if not maps:
        return grid(_wrapped(tiles), note=note, tile_px=tile_px)
    first = Modality.INSTANCE if any(drawn.num for drawn in shown) else Modality.IMAGE
    rows: list[list[Tile | UInt8Image]] = [
        [tile, *(drawn.maps.get(m, hatch(*drawn.objects.shape[:2])) for m in maps)]
        for tile, drawn in zip(tiles, shown, strict=True)
    ]
    return grid(rows, columns=[VIEWS[m].title for m in (first, *maps)], note=note, tile_px=tile_px)


def _prepared(sample: DenseSample, value_range: Range, tile_px: int) -> DenseSample:
    """Return the sample to draw: enlarged if it is small, with colours of 8 bits and hatched padding."""
    sample = enlarged(sample, max(1, tile_px // max(1, *sample.canvas_size)))
    picture = draw_image(sample, value_range=value_range)
    if sample.padding_mask is not None:
        padding = as_numpy(sample.padding_mask)[0]
        blend(picture, padding, hatch(*sample.canvas_size), 1.0)
        blend(picture, padding, PAPER, _PADDING_FADE)
    return replace(sample, image=tv_tensors.Image(torch.from_numpy(picture).permute(2, 0, 1), device="cpu"))


def _wrapped(tiles: Sequence[Tile]) -> Iterator[Sequence[Tile]]:
    columns = min((4, 3), key=lambda num: -len(tiles) % num)  # with the fewest gaps in the last row
    for start in range(0, len(tiles), columns):
        yield tiles[start : start + columns]


def _jpeg_bytes(picture: UInt8Image) -> bytes:
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


class Pictures(NamedTuple):
    """Batch that can be drawn.

    Attributes:
        images: images of the batch.
        pasted: B flags, bool [N] for the N objects of each sample, or None if they are not known.
    """

    images: Images
    pasted: Sequence[Tensor] | None


def pictures_of(batch: object, reading: Reading, pasted: Any = None) -> Pictures:
    """Return the pictures of a container or of a target of any framework.

    Args:
        batch: the batch.
        reading: what it does not say of itself.
        pasted: bool [B, K] for a padded batch, else B flags bool [N], or None.

    Raises:
        TypeError: the batch has none of the structures, or fits two; the message lists them.
        ValueError: a value does not fit the structure.
    """
    images = _own_images(batch)
    if images is None:
        found = [target for target in TARGETS if target.recognise(batch)]
        if len(found) != 1:
            names = [target.name for target in found] or [OWN, *(target.name for target in TARGETS)]
            listed = "".join(f"\n- {name}" for name in names)
            raise TypeError(f"show: expected a batch with one of these structures, got {_described(batch)}:{listed}")
        images = found[0].read(batch, reading)
    if pasted is None:
        return Pictures(images, None)
    if isinstance(batch, PaddedBatchedDenseSample):
        pairs = zip(_flags_of(batch, pasted), batch.instance_valid.cpu(), strict=True)
        return Pictures(images, [row[valid] for row, valid in pairs])
    if len(pasted) != images.num_images:
        raise ValueError(
            f"show: pasted: expected a list of {images.num_images} flags bool [N], one per image, got {len(pasted)}"
        )
    return Pictures(images, list(pasted))


def _own_images(batch: object) -> Images | None:
    """Return the images of a container of segpaste; samples of a list may differ in size."""
    if isinstance(batch, PaddedBatchedDenseSample):
        return Images(batch.batch_size, partial(_of_row, batch))
    samples: Any = batch.to_samples() if isinstance(batch, BatchedDenseSample) else batch
    samples = [samples] if isinstance(samples, DenseSample) else samples
    if not is_list(samples, DenseSample) and not isinstance(batch, BatchedDenseSample):
        return None
    return Images(len(samples), lambda b: samples[b].to("cpu"))


def _of_row(batch: PaddedBatchedDenseSample, b: int) -> DenseSample:
    columns = {field.batched_name: getattr(batch, field.batched_name) for field in FIELDS}
    own: dict[str, Any] = {n: value[b : b + 1].detach().cpu() for n, value in columns.items() if value is not None}
    if own["images"].dtype != torch.uint8:
        own["images"] = own["images"].float()
    return replace(batch, **own).to_batched().to_samples()[0]


def _flags_of(batch: PaddedBatchedDenseSample, pasted: object) -> Tensor:
    shape = (batch.batch_size, batch.max_instances)
    if not isinstance(pasted, Tensor) or pasted.dtype != torch.bool or tuple(pasted.shape) != shape:
        came = f"{pasted.dtype} {list(pasted.shape)}" if isinstance(pasted, Tensor) else type(pasted).__name__
        raise ValueError(
            f"show: pasted: expected bool {list(shape)}, a flag for each slot of the batch such as "
            f"report.slot_layer >= 0, got {came.removeprefix('torch.')}"
        )
    return pasted.detach().cpu()


def _described(batch: object) -> str:
    """Describe a batch in a few words."""
    if isinstance(batch, list | tuple):
        return f"a {type(batch).__name__} of {len(batch)}" + (f", first {_described(batch[0])}" if batch else "")
    if hasattr(batch, "keys"):
        return f"a {type(batch).__name__} with {', '.join(map(str, list(batch.keys())[:12])) or 'no keys'}"
    return f"a {type(batch).__name__}"
