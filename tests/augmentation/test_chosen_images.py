"""Images that are left out after the draws, targets without masks, odd strides, and a schedule that nobody follows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiled_and_eager import assert_equal
from staged_cases import make_staged

from samples import EVERY_OBJECT, OPTIONAL, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample, get_preset
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import BatchedDenseSample, Modality

OF_BANK = SourceConfig(kind="bank", crops_per_target=3)
BACKENDS = pytest.mark.usefixtures("writing")


def augment_of(source: SourceConfig = EVERY_OBJECT, **options: Any) -> BatchCopyPaste:
    placement = {"paste_prob": 1.0, **options}
    return BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(**placement), source=source))


def masked(num: int, **options: Any) -> PaddedBatchedDenseSample:
    defaults = {"num_instances": 2, "max_instances": 6, "modalities": [Modality.INSTANCE], "size": (9, 12)}
    return make_batch(num, **{**defaults, **options})


@BACKENDS
class TestShare:
    @pytest.mark.parametrize(("seeds", "num"), [([7] * 4, 2), ([7, 7, 7, 9], 2), ([1, 7, 7, 7, 7, 9, 9, 4], 4)])
    @pytest.mark.parametrize("mixes", [False, True])
    def test_of_rows_with_equal_seeds(self, seeds: list[int], num: int, mixes: bool) -> None:
        batch = masked(len(seeds), modalities=[Modality.INSTANCE, Modality.SEMANTIC])
        batch = batch.derived(sample_seeds=torch.tensor(seeds))
        placement = PlacementConfig(paste_prob=0.5, fixed_share=True)
        config = BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT, emit_classmix=mixes)
        out, report = BatchCopyPaste(config)(batch, return_report=True)
        tried = report.num_tried > 0
        assert int(tried.sum()) == num
        assert torch.equal(out.images[~tried], batch.images[~tried])
        assert torch.equal(report.num_tried, report.num_placed + report.num_dropped.sum(1))
        assert not report.drawn[~tried].any()


@BACKENDS
class TestImagesWithoutObjects:
    def test_get_no_paste(self) -> None:
        batch = masked(4, num_instances=[2, 0, 3, 0])
        out, report = augment_of(into_empty=False)(batch, return_report=True)
        assert (report.num_tried > 0).tolist() == [True, False, True, False]
        assert torch.equal(out.images[1::2], batch.images[1::2])
        assert (augment_of()(batch, return_report=True)[1].num_tried > 0).all()

    def test_as_in_ultralytics_mixup(self) -> None:
        config = get_preset("ultralytics_mixup").config_for(placement={"paste_prob": 1.0})
        report = BatchCopyPaste(config)(masked(4, num_instances=[2, 0, 3, 0]), return_report=True)[1]
        assert (report.num_tried > 0).tolist() == [True, False, True, False]


@BACKENDS
class TestWithoutMasks:
    """Crops are pasted into images without objects; an image of boxes keeps them, and takes no paste."""

    @pytest.mark.parametrize("modalities", [[], [Modality.DEPTH], [Modality.DEPTH, Modality.NORMALS]])
    def test_of_depth_alone(self, modalities: list[Modality]) -> None:
        batch = make_batch(3, size=(30, 40), num_instances=0, max_instances=6, modalities=modalities)
        staged = make_staged(3, 3, with_surfaces=True)
        module = augment_of(OF_BANK)
        out, report = module(batch, staged=staged, return_report=True)
        assert int(report.num_placed.sum()) > 0
        assert torch.equal(out.instance_valid.sum(1), report.num_placed)
        assert out.instance_masks is None
        empty = torch.zeros(3, 6, 30, 40, dtype=torch.bool)
        ids = torch.zeros(3, 6, dtype=torch.int32)
        expected = module(replace(batch, instance_masks=empty, instance_ids=ids), staged=staged)
        assert_equal(out, replace(expected, instance_masks=None, instance_ids=None))

    @pytest.mark.parametrize("inplace", [False, True])
    def test_of_boxes(self, inplace: bool) -> None:
        batch = masked(3, num_instances=[0, 2, 1], size=(30, 40))
        batch = replace(batch, instance_masks=None, instance_ids=None, boxes=batch.boxes * 0.97)
        before = batch.map_tensors(torch.clone)
        module = augment_of(OF_BANK)
        module.inplace = inplace
        out, report = module(batch, staged=make_staged(3, 3), return_report=True)
        assert report.num_placed[0] > 0
        assert report.num_placed[1:].tolist() == [0, 0]
        for name in ("images", "boxes", "labels", "instance_valid"):
            assert torch.equal(getattr(out, name)[1:], getattr(before, name)[1:]), name
        assert out.instance_valid[0].any()
        assert (out.boxes is batch.boxes) == inplace


def test_compiled() -> None:
    batch = make_batch(3, size=(30, 40), num_instances=0, max_instances=6, modalities=[Modality.DEPTH])
    batch = batch.derived(sample_seeds=torch.tensor([5, 5, 6]))
    staged, module = make_staged(3, 3, with_surfaces=True), augment_of(OF_BANK, paste_prob=0.5, fixed_share=True)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert_equal(compiled(batch, staged=staged), module(batch, staged=staged))


@BACKENDS
def test_crops_in_any_order_of_memory() -> None:
    batch = masked(3, size=(20, 30))
    staged = make_staged(3, 3)
    expected = augment_of(OF_BANK)(batch, staged=staged)
    across = staged.map_tensors(lambda t: t.transpose(0, 1).contiguous().transpose(0, 1))
    last = replace(staged, images=staged.images.movedim(2, -1).contiguous().movedim(-1, 2))
    region = torch.ones(3, 30, 20, 1, dtype=torch.bool).permute(0, 3, 2, 1)
    for given in (across, last):
        assert_equal(augment_of(OF_BANK)(batch, staged=given, region=region), expected)


def test_layers_of_a_config_become_crops_of_a_pool() -> None:
    pool = SceneDataset(4, SceneConfig(height=32, width=32), modalities=["image", "instance", "depth"])
    module = BatchCopyPaste(get_preset("depth_aware").config, source_pool=pool)
    assert (module.config.source.kind, module.config.num_layers, module.config.placement.layers) == ("bank", 6, 1)
    scenes = SceneDataset(2, SceneConfig(height=32, width=32), modalities=["image", "depth"])
    batch = BatchedDenseSample.from_samples([scenes[0], scenes[1]]).to_padded(24)
    assert batch.instance_masks is None
    assert int(module(batch, return_report=True)[1].num_placed.sum()) > 0
    both = BatchCopyPasteConfig(placement={"layers": 2}, source={"crops_per_target": 3})
    with pytest.raises(ValueError, match=r"expected placement\.layers=1"):
        BatchCopyPaste(both, source_pool=pool)


class TestFading:
    def test_that_nobody_follows_is_told_once(self) -> None:
        module, batch = augment_of(fade_last=0.2), masked(3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(batch)
        with pytest.warns(UserWarning, match=r"fade_last=0\.2 has no effect.*schedule\.at\(progress\)") as caught:
            module(batch)
        assert [w.filename for w in caught] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(batch)

    @pytest.mark.parametrize("fade_last", [0.0, 0.2])
    def test_that_is_followed(self, fade_last: float) -> None:
        module = augment_of(fade_last=fade_last)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(3):
                if fade_last:
                    module.schedule.at(step / 3)
                module(masked(3))


def test_every_modality_is_left_alone() -> None:
    batch = make_batch(2, num_instances=[0, 2], max_instances=5, modalities=OPTIONAL, size=(20, 24))
    out = augment_of(into_empty=False)(batch)
    assert torch.equal(out.images[0], batch.images[0])
