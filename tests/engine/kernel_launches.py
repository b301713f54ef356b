"""Forwards and draws whose launches show every value of `kernel_values` that the Triton kernels can be given.

The fullest come first, so that few launches show them all. Nothing here looks at results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from draw_cases import RULES, draw_case

from samples import EVERY_OBJECT, OPTIONAL, SCHEMA, FromBatch, make_batch
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PlacementConfig,
    SourceConfig,
)
from segpaste.engine.triton import draw, extend
from segpaste.types import Modality, PaddedBatchedDenseSample, StagedCrops

Forward = Callable[[], object]
DTYPES = (torch.uint8, torch.float32, torch.float16, torch.bfloat16)
MANY_SLOTS = 300
ROOMY = 64
"""Slots in whose masks all that waits finds room."""
SOME_ROOM = 24
"""Slots in whose masks the images find room, but not all surfaces."""
INSTANCE = {Modality.INSTANCE}
NO_PANOPTIC = set(OPTIONAL) - {Modality.PANOPTIC}
MAPS = {*INSTANCE, Modality.SEMANTIC}


def forwards() -> Iterator[Forward]:
    """Each constant, condition, dtype, layout, modality and one-sided field, and sizes of 1, of 16 and odd ones."""
    yield from _of_draws()
    yield from _of_batches()
    yield from _of_rooms()
    yield from _of_extensions()
    yield from _of_classmix()
    yield from _of_banks()


def every_pair() -> Iterator[Forward]:
    """Yield all `forwards`, and every dtype in every layout, of every side, out of place and in place."""
    yield from forwards()
    sides: tuple[Any, ...] = (set(OPTIONAL), INSTANCE, MAPS, NO_PANOPTIC)
    for dtype, layout, modalities in product(DTYPES, LAYOUTS.values(), sides):
        batch = layout(make_batch(2, size=(16, 32), max_instances=8, modalities=modalities, image_dtype=dtype))
        source = make_batch(
            2, size=(16, 32), max_instances=8, modalities=NO_PANOPTIC, image_dtype=dtype, padding=(1, 2)
        )
        for augment in (
            module(2),
            in_place(module(2)),
            module(2, FromBatch(source)),
            in_place(module(2, FromBatch(source))),
        ):
            yield of(augment, batch)
        yield of(module(2, FromBatch(layout(source))), replace(batch, images=batch.images.contiguous()))


def _of_batches() -> Iterator[Forward]:
    full = make_batch(2, size=(16, 32), max_instances=8, metric_depth=True, padding=(1, 2))
    odd = make_batch(2, modalities=NO_PANOPTIC, image_dtype=torch.float32)
    wide = make_batch(2, size=(17, 22), modalities=NO_PANOPTIC, image_dtype=torch.float16, padding=(1, 2))
    bare = make_batch(2, size=(17, 22), modalities=INSTANCE, image_dtype=torch.float16)
    maps = make_batch(2, modalities=MAPS, image_dtype=torch.bfloat16)
    tiny = make_batch(1, size=(1, 1), max_instances=1, num_instances=1, modalities=INSTANCE, image_dtype=torch.bfloat16)
    large = make_batch(2, size=(16, 32), max_instances=MANY_SLOTS, num_instances=3, keypoints=True, crowd=True)
    prior = {"contact_priority": {1: 1}}
    yield of(module(64, panoptic=prior, max_hidden_frac=0.5, perspective_depth=True), large)
    yield of(module(3, panoptic={**prior, "stuff_policy": "ignore"}), channels_last(full))
    yield of(in_place(module(3, panoptic=prior)), full)
    yield of(in_place(module(2, panoptic={"stuff_policy": "ignore"}, max_hidden_frac=0.5)), channels_last(full))
    no_maps = full.derived(semantic_maps=None, panoptic_maps=None)
    yield of(module(3, FromBatch(no_maps), panoptic=prior), full)
    yield of(module(1, FromBatch(no_maps.derived(depth=None, depth_valid=None, normals=None))), full)
    yield of(module(2, antialias=False), odd)
    yield of(in_place(module(1)), channels_last(odd))
    yield of(module(1, FromBatch(wide)), every_second(bare))
    yield of(module(2, FromBatch(bare)), every_second(wide))
    yield of(in_place(module(1, FromBatch(bare))), wide)
    yield of(in_place(module(64, FromBatch(wide))), bare)
    yield of(module(1), tiny)
    yield of(in_place(module(1)), tiny)
    yield of(module(2), channels_last(maps))
    yield of(in_place(module(2)), maps)
    yield of(module(2, without_taxonomy=True, max_hidden_frac=0.5), maps)
    yield of(module(1), make_batch(2, modalities=(), num_instances=0))


def _of_rooms() -> Iterator[Forward]:
    """Yield forwards in place whose spare mask bits hold all that is pasted, or some of it, or not even the layers."""
    for slots, modalities in product((ROOMY, SOME_ROOM), (set(OPTIONAL), NO_PANOPTIC)):
        for dtype in DTYPES:
            yield of(in_place(module(2)), _roomy(dtype, modalities, slots))
    yield of(in_place(module(1)), channels_last(_roomy(torch.bfloat16, NO_PANOPTIC)))
    for modalities in (set(OPTIONAL), INSTANCE):
        one_slot = make_batch(2, max_instances=1, num_instances=1, modalities=modalities)
        yield of(in_place(module(64)), one_slot)
        yield of(in_place(module(2)), make_batch(2, max_instances=8, modalities=modalities), return_report=True)


def _roomy(dtype: torch.dtype, modalities: Any, slots: int = ROOMY) -> PaddedBatchedDenseSample:
    return make_batch(2, size=(16, 32), max_instances=slots, modalities=modalities, image_dtype=dtype)


def _of_extensions() -> Iterator[Forward]:
    full = make_batch(2, size=(16, 32), max_instances=8, metric_depth=True, padding=(1, 2))
    maps = make_batch(2, modalities=MAPS, image_dtype=torch.bfloat16)
    yield of(extended(module(1), 10), full)
    yield of(extended(module(1), 8), channels_last(maps))
    for dtype, layout in zip(DTYPES, (*LAYOUTS.values(), channels_last), strict=True):
        rich = layout(make_batch(2, size=(9, 13), image_dtype=dtype, keypoints=True, crowd=True))
        yield partial(extend, rich, (12, 16), 8)
        yield partial(extend, rich, (12, 16), rich.max_instances)
        yield partial(extend, rich, rich.canvas_size, 8)
    one = make_batch(1, size=(1, 1), max_instances=1, num_instances=1, modalities=INSTANCE)
    yield partial(extend, one, (1, 2), 2)
    yield partial(extend, make_batch(2, modalities=(), num_instances=0), (48, 64), 8)


def _of_classmix() -> Iterator[Forward]:
    for padding, dtype in ((None, torch.float16), ((1, 2), torch.uint8)):
        for modalities in (set(OPTIONAL), MAPS):
            batch = make_batch(2, max_instances=8, modalities=modalities, image_dtype=dtype, padding=padding)
            yield of(module(2, emit_classmix=True, max_hidden_frac=0.5), batch)
            yield of(
                in_place(module(1, emit_classmix=True, without_taxonomy=Modality.PANOPTIC not in modalities)), batch
            )


def _of_banks() -> Iterator[Forward]:
    rules = PanopticConfig.model_validate({"taxonomy": SCHEMA})
    sides = ((set(OPTIONAL), rules), (INSTANCE, rules), ({*INSTANCE, Modality.DEPTH}, None))
    for dtype, (modalities, panoptic) in product(DTYPES, sides):
        without_depth = "skip" if Modality.NORMALS in modalities else "invalid"
        source = SourceConfig(kind="bank", crops_per_target=3, value_range=1.0, without_depth=without_depth)
        paste = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=source, panoptic=panoptic))
        batch = make_batch(2, max_instances=8, modalities=modalities, image_dtype=dtype)
        yield of(paste, batch, staged=_crops(batch))
    one = make_batch(1, modalities=INSTANCE, image_dtype=torch.float32)
    source = SourceConfig(kind="bank", crops_per_target=1, value_range=1.0)
    yield of(
        BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=source)),
        one,
        staged=_crops(one, num=1, side=1),
    )


def _of_draws() -> Iterator[Forward]:
    """Draws by every rule, of many slots and of few."""
    sizes = {"num_slots": MANY_SLOTS, "num_targets": MANY_SLOTS, "num_layers": 64, "max_attempts": 64}
    yield drawn("everything on patches", **sizes)
    yield drawn("everything", **sizes)
    for name in RULES:
        yield drawn(name)
    yield drawn("candidates", num_slots=0, num_targets=0)
    yield drawn("one each", num_slots=0, num_layers=1, batch_size=1)
    yield drawn("nothing more", num_slots=1, num_targets=1, num_layers=1, batch_size=1)


def of(augment: BatchCopyPaste, batch: PaddedBatchedDenseSample, **options: Any) -> Forward:
    return lambda: augment(batch, **options)


def drawn(name: str, **sizes: int) -> Forward:
    case, _ = draw_case(name, 0, **sizes)
    return lambda: draw(*case)


def module(
    layers: int, source: Any = None, *, panoptic: Any = None, without_taxonomy: bool = False, **options: Any
) -> BatchCopyPaste:
    given = {"taxonomy": replace(SCHEMA, max_instances_per_image=MANY_SLOTS), **(panoptic or {})}
    rules = None if without_taxonomy else PanopticConfig.model_validate(given)
    placement = PlacementConfig(paste_prob=1.0, layers=layers)
    return BatchCopyPaste(
        BatchCopyPasteConfig(placement=placement, panoptic=rules, source=EVERY_OBJECT, **options), source
    )


def in_place(augment: BatchCopyPaste) -> BatchCopyPaste:
    return BatchCopyPaste(augment.config, augment.source, inplace=True)


def extended(augment: BatchCopyPaste, num_slots: int) -> BatchCopyPaste:
    """The canvas is padded, and slots are added."""
    placement = augment.config.placement.model_copy(update={"pad_to_multiple": 5})
    return BatchCopyPaste(augment.config.model_copy(update={"placement": placement, "max_instances": num_slots}))


def channels_last(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    return replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))


def every_second(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The same batch, with image strides that are all above 1, and a first pixel that is not aligned."""
    images = batch.images.repeat_interleave(2, dim=3)[..., 1::2]
    assert min(images.stride()) > 1
    return replace(batch, images=images)


LAYOUTS: dict[str, Callable[[PaddedBatchedDenseSample], PaddedBatchedDenseSample]] = {
    "row-major": lambda batch: batch,
    "channels last": channels_last,
    "strided": every_second,
}


def _crops(batch: PaddedBatchedDenseSample, num: int = 3, side: int = 8) -> StagedCrops:
    """Crops for each row, with depth where the batch has some."""
    shape, plane = (batch.batch_size, num), (batch.batch_size, num, 1, side, side)
    return StagedCrops(
        images=torch.zeros(*shape, 3, side, side, dtype=torch.uint8),
        alphas=torch.ones(plane, dtype=torch.bool),
        class_ids=torch.ones(shape, dtype=torch.int64),
        boxes=torch.tensor([0, 0, side, side]).expand(*shape, 4).contiguous(),
        crop_idx=torch.zeros(shape, dtype=torch.int64),
        depth=None if batch.depth is None else torch.ones(plane),
        depth_valid=None if batch.depth is None else torch.ones(plane, dtype=torch.bool),
    )
