"""Records that name the samples of one batch, as earlier versions wrote them, are replayed as they were made."""

from __future__ import annotations

import json

import pytest
import torch
from cli_world import write_instances

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig
from segpaste.augmenting.inputs import open_dataset
from segpaste.augmenting.options import InputOptions
from segpaste.augmenting.photos import PhotoSequence, cornered, cut_to
from segpaste.augmenting.remaking import Remaker
from segpaste.replay import ReplayError, ReplayRecord, records
from segpaste.seeding import key_tensors
from segpaste.types import BatchedDenseSample, DenseSample


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Remaker, list[ReplayRecord], list[DenseSample]]:
    """Photos of one batch that paste into each other, on the canvas of the largest."""
    labels, images = write_instances(tmp_path_factory.mktemp("world"))
    inputs = open_dataset(InputOptions(dataset=labels, images_dir=images), 0, 64)
    sequence = PhotoSequence(inputs.photos, 3)
    picks = [sequence.pick(position) for position in range(4, 8)]
    photos = [inputs.photos[pick.index] for pick in picks]
    size = max(p.canvas_size[0] for p in photos), max(p.canvas_size[1] for p in photos)
    batch = BatchedDenseSample.from_samples([cornered(photo, size) for photo in photos])
    padded = batch.to_padded(9, **key_tensors([pick.key for pick in picks]))
    module = BatchCopyPaste(BatchCopyPasteConfig(min_area_px=4, placement=PlacementConfig(paste_prob=1.0, layers=2)))
    out, report = module(padded, return_report=True)
    found = records(module, padded, out, report, dataset=inputs.digest)
    expected = out.to_batched().to_samples()
    whole = [cut_to(sample, photo.canvas_size) for sample, photo in zip(expected, photos, strict=True)]
    return Remaker(inputs, sequence, None), found, whole


def test_the_same_images(made: tuple[Remaker, list[ReplayRecord], list[DenseSample]]) -> None:
    remaker, found, expected = made
    assert any(record.layers for record in found)
    for record, sample in zip(found, expected, strict=True):
        values = {k: v for k, v in record.model_dump(mode="json").items() if v is not None}
        for key in ("sources_apart", "photos", "jitter", "crop_size"):  # which they did not have
            values.pop(key, None)
        older = ReplayRecord.model_validate_json(ReplayRecord.model_validate_json(json.dumps(values)).to_json())
        remade = remaker.remade(older)
        for name in ("image", "instance_masks", "labels", "boxes"):
            assert torch.equal(getattr(remade, name), getattr(sample, name)), name


def test_a_photo_that_is_not_there(made: tuple[Remaker, list[ReplayRecord], list[DenseSample]]) -> None:
    remaker, found, _ = made
    num = len(found[0].sample_keys)
    values = {**found[0].model_dump(mode="json"), "photos": [{"index": 99}] * num}
    with pytest.raises(ReplayError, match="expected indices of images below 5, as in labels"):
        remaker.remade(ReplayRecord.model_validate_json(json.dumps(values)))
    values["photos"] = []
    with pytest.raises(ReplayError, match="photos: expected one for each of"):
        ReplayRecord.from_json(json.dumps(values))
