"""A paste in place gives the result of one out of place, in the batch's own tensors."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from backend_cases import roomy_batch
from torch import Tensor

from samples import (
    CPU_BACKENDS,
    EVERY_IMAGE,
    SCHEMA,
    all_modality_subsets,
    assert_backends_agree,
    assert_same,
    make_batch,
    subset_id,
    tensors_of,
)
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    IntraBatchSource,
    PanopticConfig,
    PlacementConfig,
)
from segpaste.augmentation.config.paste import SourceConfig
from segpaste.engine import use_backend
from segpaste.engine.native import library
from segpaste.types import Modality, PaddedBatchedDenseSample

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]
BACKENDS = CPU_BACKENDS


@pytest.fixture(params=BACKENDS, autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The native one on as many threads as torch has, also for small batches."""
    monkeypatch.setattr(library, "_BYTES_PER_THREAD", 1)
    with use_backend(request.param):
        yield


def modules(source: Any = None, **options: Any) -> tuple[BatchCopyPaste, BatchCopyPaste]:
    """The same paste out of place and in place."""
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_px": 8})
    placement = PlacementConfig(paste_prob=1.0, layers=options.pop("layers", 2), scale_range=(0.4, 2.0), max_attempts=4)
    if options.pop("boxes", False):
        options["source"] = SourceConfig(mask_from="boxes")
    config = BatchCopyPasteConfig(placement=placement, panoptic=panoptic, **options)
    return BatchCopyPaste(config, source), BatchCopyPaste(config, source, inplace=True)


def paste_both(batch: PaddedBatchedDenseSample, pair: tuple[BatchCopyPaste, BatchCopyPaste]) -> Any:
    """The report and output of both; in place on a copy, whose tensors the output must be."""
    own = batch.map_tensors(lambda t: t.detach().clone())
    addresses = {name: value.data_ptr() for name, value in tensors_of(own).items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
        expected = pair[0](batch, return_report=True)
        found = pair[1](own, return_report=True)
    assert {name: value.data_ptr() for name, value in tensors_of(found[0]).items()}.items() <= addresses.items()
    assert_same(replace(own, padding_mask=None), replace(found[0], padding_mask=None))
    return found, expected


def of_inference(tensor: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return tensor.clone()


def overlapping(images: torch.Tensor) -> torch.Tensor:
    """Return a tensor with as many values in fewer memory locations."""
    b, c, height, width = images.shape
    room = images.new_zeros(b * c * height * width)
    return room.as_strided(images.shape, (c * height * (width - 1), height * (width - 1), width - 1, 1))


class TestEqualsOutOfPlace:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16], ids=str)
    def test_every_subset_and_dtype(self, modalities: frozenset[Modality], dtype: torch.dtype) -> None:
        num_pasted = 0
        for seed in range(3):
            batch = roomy_batch(
                batch_size=5,
                image_dtype=dtype,
                modalities=modalities,
                seed=seed,
                metric_depth=Modality.DEPTH in modalities,
            )
            found, expected = paste_both(batch, modules())
            assert_backends_agree(found, expected)
            num_pasted += int(expected[1].num_placed.sum())
        assert (num_pasted > 3) == (Modality.INSTANCE in modalities)

    def test_rows_that_paste_into_each_other(self) -> None:
        """Two rows, each the other's source: neither may be read after it was written."""
        num_mutual = 0
        for seed in range(8):
            found, expected = paste_both(roomy_batch(batch_size=2, num_instances=3, seed=seed), modules(layers=1))
            assert_backends_agree(found, expected)
            num_mutual += bool(expected[1].num_placed.all())
        assert num_mutual > 1

    def test_instances_that_lose_their_row(self) -> None:
        """Here for the first pixel: their masks and ids are cleared, also beside what takes their slot."""
        num_lost = 0
        for seed in range(4):
            batch = roomy_batch(batch_size=5, seed=seed)
            found, expected = paste_both(batch, modules(min_residual_area_frac=1.0))
            assert_backends_agree(found, expected)
            out, report = expected
            num_lost += int(batch.instance_valid.sum() + report.num_placed.sum() - out.instance_valid.sum())
        assert num_lost > 3

    def test_many_pastes(self) -> None:
        """The pastes are more than the initial allocation has room for."""
        found, expected = paste_both(roomy_batch(batch_size=24, num_instances=3), modules())
        assert_backends_agree(found, expected)
        assert expected[1].num_placed.sum() > 48

    def test_threads(self) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        try:
            found, expected = paste_both(roomy_batch(batch_size=7), modules())
        finally:
            torch.set_num_threads(before)
        assert_backends_agree(found, expected)

    def test_channels_last(self) -> None:
        batch = roomy_batch(batch_size=5, image_dtype=torch.float32)
        last = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        found, expected = paste_both(last, modules())
        assert found[0].images.is_contiguous(memory_format=torch.channels_last)
        assert_backends_agree(found, expected)

    @pytest.mark.parametrize(
        "strange",
        [
            lambda t: torch.nn.functional.pad(t, [2, 3])[..., 2:-3] if t.ndim > 2 else t,
            lambda t: t.transpose(0, 1).contiguous().transpose(0, 1) if t.ndim > 1 else t,
            lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t,
        ],
        ids=["cut out of larger", "swapped", "channels last"],
    )
    def test_other_layouts(self, strange: Callable[[Tensor], Tensor]) -> None:
        batch = roomy_batch(batch_size=5, metric_depth=True)
        own = batch.map_tensors(lambda t: strange(t.clone()))
        out, in_place = modules()
        found = in_place(own, return_report=True)
        assert_backends_agree(found, out(batch, return_report=True))
        assert_same(own, found[0])

    def test_a_source_that_is_a_view_of_the_batch(self) -> None:
        class Reversed(IntraBatchSource):
            def sample(self, target: PaddedBatchedDenseSample, *args: Any) -> Any:
                _, placement, counts = super().sample(target, *args)
                return (
                    target.map_tensors(lambda t: t[:2]),
                    replace(placement, source_idx=placement.source_idx.clamp(max=1)),
                    counts,
                )

        batch = roomy_batch(batch_size=5, num_instances=4)
        found, expected = paste_both(batch, modules(Reversed()))
        assert_backends_agree(found, expected)
        assert expected[1].num_placed.any()

    def test_a_source_in_overlapping_memory_of_another_storage(self) -> None:
        """A ring buffer: two tensors over one NumPy array have storages of different addresses."""

        class Shifted(IntraBatchSource):
            ring: Any = None

            def sample(self, target: PaddedBatchedDenseSample, *args: Any) -> Any:
                source, placement, counts = super().sample(target, *args)
                return source.derived(images=self.ring), placement, counts

        batch = roomy_batch(batch_size=5, num_instances=4)
        row = batch.images[0].numel()
        memory = np.concatenate([batch.images.numpy().ravel(), batch.images.numpy().ravel()[:row]])
        ring = torch.from_numpy(memory[row:]).view_as(batch.images)
        own = batch.derived(images=torch.from_numpy(memory[:-row]).view_as(batch.images))
        assert own.images.untyped_storage().data_ptr() != ring.untyped_storage().data_ptr()
        source = Shifted()
        out, in_place = modules(source)
        source.ring = ring.clone()
        expected = out(own, return_report=True)
        source.ring = ring
        assert_backends_agree(in_place(own, return_report=True), expected)
        assert expected[1].num_placed.any()

    def test_depth_that_is_no_number(self) -> None:
        batch = roomy_batch(batch_size=5, metric_depth=True)
        assert batch.depth is not None
        depth = batch.depth.clone()
        depth[:, :, ::7, ::5] = float("nan")
        found, expected = paste_both(replace(batch, depth=depth), modules())
        assert_backends_agree(found, expected)
        assert found[0].depth.isfinite().all()

    @pytest.mark.parametrize(
        "options", [{"batch_size": 0}, {"batch_size": 1}, {"max_instances": 0, "num_instances": 0}]
    )
    def test_degenerate_batches(self, options: dict[str, Any]) -> None:
        found, expected = paste_both(make_batch(**{"size": (9, 5), "max_instances": 4, **options}), modules())
        assert_backends_agree(found, expected)


class TestContract:
    def test_the_same_seeds_again_paste_into_what_is_there(self) -> None:
        """A second step continues from the first: the batch is the state."""
        out, in_place = modules()
        batch = roomy_batch(batch_size=5)
        twice = out(out(batch))
        own = batch.clone()
        assert in_place(own) is not None
        assert_same(in_place(own), twice)

    def test_seeds_that_the_batch_does_not_have(self) -> None:
        batch = replace(roomy_batch(batch_size=5), sample_seeds=None)
        out, in_place = modules()
        expected = out(batch, torch.Generator().manual_seed(3))
        assert_same(in_place(batch.clone(), torch.Generator().manual_seed(3)), expected)

    def test_more_slots_than_the_batch_has_are_refused(self) -> None:
        _, in_place = modules(max_instances=9)
        batch = roomy_batch(batch_size=5)
        before = copy.deepcopy(tensors_of(batch))
        with pytest.raises(ValueError, match=r"expected at most the batch's 8 slots .* got 9"):
            in_place(batch)
        assert all(torch.equal(value, before[name]) for name, value in tensors_of(batch).items())

    def test_masks_from_boxes(self) -> None:
        batch = replace(
            roomy_batch(batch_size=5, modalities={Modality.INSTANCE}), instance_masks=None, instance_ids=None
        )
        found, expected = paste_both(batch, modules(boxes=True))
        assert_backends_agree(found, expected)
        assert expected[1].num_placed.any()

    def test_a_closed_gate_leaves_its_field_alone(self) -> None:
        batch = roomy_batch(batch_size=5)
        out, in_place = modules(emit_depth=False)
        own = batch.clone()
        found = in_place(own)
        assert_same(found, out(batch))
        assert found.depth is None
        assert torch.equal(own.depth, batch.depth)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda b: {"images": b.images.requires_grad_()}, "requires grad.* got images"),
            (lambda b: {"normals": b.normals.requires_grad_()[:]}, "requires grad.* got normals"),
            (lambda b: {"depth": (b.depth.requires_grad_() * 1).split(4)[0]}, "requires grad.* got depth"),
            (lambda b: {"normals": of_inference(b.normals)}, "inference tensor .* got normals"),
            (lambda b: {"labels": b.labels[:, :1].expand(-1, 8)}, "expanded tensors.* got labels;"),
            (lambda b: {"images": overlapping(b.images)}, "expanded tensors.* got images;"),
            (
                lambda b: {"panoptic_maps": b.semantic_maps},
                "semantic_maps in the memory of panoptic_maps|panoptic_maps in",
            ),
            (
                lambda b: {"normals": (n := torch.cat([b.normals] * 2, 1))[:, :3], "depth": n[:, 2:3]},
                "depth in the memory",
            ),
            (lambda b: {"padding_mask": b.depth_valid}, "share no memory"),
        ],
        ids=["first", "view", "part", "inference", "expanded", "into itself", "shared", "channels", "read"],
    )
    def test_what_cannot_be_written_is_refused_before_anything_is(self, change: Any, words: str) -> None:
        batch = roomy_batch(batch_size=5, image_dtype=torch.float32, num_instances=8, max_instances=8)
        batch = batch.derived(**change(batch))
        before = copy.deepcopy({name: value.detach() for name, value in tensors_of(batch).items()})
        with pytest.raises((RuntimeError, ValueError), match=words):
            modules()[1](batch)
        assert all(torch.equal(value, before[name]) for name, value in tensors_of(batch).items())

    def test_an_expanded_field_is_named_in_compiled_code_too(self) -> None:
        batch = roomy_batch(batch_size=5, num_instances=8, max_instances=8)
        batch = batch.derived(labels=batch.labels[:, :1].expand(-1, 8))
        with pytest.raises((RuntimeError, ValueError), match=r"expanded tensors.* got labels;"):
            torch.compile(modules()[1], backend="aot_eager")(batch)

    def test_autograd_knows_what_was_written_and_what_was_not(self) -> None:
        """Backward does not silently use other values, nor does it fail for a field that stayed."""
        batch = roomy_batch(batch_size=5, image_dtype=torch.float32, metric_depth=True)
        before = {name: value._version for name, value in tensors_of(batch).items()}
        modules()[1](batch)
        unchanged = {name for name, value in tensors_of(batch).items() if value._version == before[name]}
        assert unchanged == {"camera_intrinsics", "sample_seeds"}

    def test_an_empty_batch_may_be_expanded(self) -> None:
        batch = make_batch(0, size=(9, 9), max_instances=4, num_instances=1)
        batch = replace(batch, images=torch.empty(0, 1, 9, 9, dtype=torch.uint8).expand(0, 3, 9, 9))
        assert modules()[1](batch).batch_size == 0

    @pytest.mark.filterwarnings("error:BatchCopyPaste could paste nothing")
    def test_a_warning_that_is_an_error_comes_when_all_is_written(self) -> None:
        batch = make_batch(1, size=(9, 9), max_instances=4)
        depth = batch.depth.clone()  # type: ignore[union-attr]
        depth[..., ::3] = float("nan")
        own = batch.derived(depth=depth).clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = BatchCopyPaste(EVERY_IMAGE)(batch.derived(depth=depth))
        with pytest.raises(UserWarning, match="could paste nothing"):
            BatchCopyPaste(EVERY_IMAGE, inplace=True)(own)
        assert_same(own, expected)

    def test_boxes_one_pixel_short(self) -> None:
        """Such a batch breaks the contract; slots that lose their instance are empty all the same."""
        for seed in range(4):
            batch = roomy_batch(batch_size=5, num_instances=4, seed=seed, modalities={Modality.INSTANCE})
            short = batch.boxes - torch.tensor([0.0, 0, 1, 1]) * batch.instance_valid[..., None]
            out = modules(min_residual_area_frac=1.0)[1](replace(batch, boxes=short))
            assert not out.instance_masks[~out.instance_valid].any()
