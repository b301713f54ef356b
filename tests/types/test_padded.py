"""`PaddedBatchedDenseSample`: fixed shapes, whole moves, and the way there and back."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
import torch
from record_cases import full_batch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors

from samples import OPTIONAL, all_modality_subsets, assert_same, make_batch, make_samples, subset_id, tensors_of
from segpaste.types import FIELDS, BatchedDenseSample, Modality, PaddedBatchedDenseSample, SemanticMap

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]
INSTANCE_NAMES = tuple(field.batched_name for field in FIELDS if field.layout == "instance")


class TestPadding:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize("batch_size", [1, 3])
    @pytest.mark.parametrize("max_instances", [3, 5])  # 3: the first image is full
    def test_round_trip(self, batch_size: int, max_instances: int, modalities: frozenset[Modality]) -> None:
        samples = make_samples(
            batch_size, modalities=modalities, metric_depth=True, padding=(1, 2), num_instances=[3, 0, 2]
        )
        batch = BatchedDenseSample.from_samples(samples)
        padded = batch.to_padded(max_instances)
        assert padded.modalities == batch.modalities == modalities | {Modality.IMAGE}
        assert (padded.batch_size, padded.max_instances, padded.canvas_size) == (batch_size, max_instances, (17, 11))
        assert padded.instance_valid.sum(1).tolist() == [3, 0, 2][:batch_size]
        assert_same(batch, padded.to_batched())
        assert_same(batch, BatchedDenseSample.from_padded(padded))

    def test_only_padded_batches_are_unpadded(self) -> None:
        batch = full_batch().to_batched()
        with pytest.raises(TypeError, match=r"from_padded: padded: expected PaddedBatchedDenseSample, got Batched"):
            BatchedDenseSample.from_padded(batch)  # type: ignore[arg-type]

    def test_empty_slots_are_zero(self) -> None:
        batch = full_batch()
        assert batch.instance_valid.tolist() == [[n < count for n in range(5)] for count in (3, 1, 2)]
        for name in INSTANCE_NAMES:
            assert not getattr(batch, name)[~batch.instance_valid].any(), name

    def test_every_tensor_is_plain(self) -> None:
        assert {name: type(t) for name, t in tensors_of(full_batch()).items() if type(t) is not Tensor} == {}
        assert set(tensors_of(full_batch())) == {f.batched_name for f in FIELDS}

    def test_a_slot_between_others_may_be_empty(self) -> None:
        batch = full_batch()
        moved = [1, 3, 0, 4, 2]
        scattered = dataclasses.replace(
            batch, **{n: getattr(batch, n)[:, moved] for n in (*INSTANCE_NAMES, "instance_valid")}
        )
        assert [ids.tolist() for ids in scattered.to_batched().instance_ids or []] == [
            [i for i in row if i] for row in scattered.instance_ids.tolist()
        ]

    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize(("batch_size", "max_instances"), [(0, 5), (0, 0), (2, 0)])
    def test_nothing_in_it(self, batch_size: int, max_instances: int, modalities: frozenset[Modality]) -> None:
        padded = make_batch(
            batch_size, num_instances=0, max_instances=max_instances, modalities=modalities, metric_depth=True
        )
        assert padded.boxes.shape == (batch_size, max_instances, 4)
        assert padded.camera_intrinsics.shape == (batch_size, 4)
        assert padded.to_batched().batch_size == batch_size
        assert_same(padded.to_batched().to_padded(max_instances, sample_seeds=padded.sample_seeds), padded)

    def test_on_another_device(self) -> None:
        batch = make_batch(camera=True).to_batched()
        elsewhere = {
            f.batched_name: [v.to("meta") for v in value] if isinstance(value, list) else value.to("meta")
            for f in FIELDS
            if isinstance(value := getattr(batch, f.batched_name, None), (list, Tensor))
            and f.name != "camera_intrinsics"
        }
        padded = dataclasses.replace(batch, **elsewhere).to_padded(4)
        assert {t.device.type for t in tensors_of(padded).values()} == {"meta"}


class TestOverflow:
    def test_raise_names_the_sample_and_both_counts(self) -> None:
        batch = BatchedDenseSample.from_samples(make_samples(3, num_instances=(2, 4, 5)))
        with pytest.raises(ValueError, match=r"sample 1 has 4 instances, max_instances is 3; .*overflow='largest'"):
            batch.to_padded(3)

    @pytest.mark.parametrize("max_instances", [0, 1, 3])
    def test_largest(self, max_instances: int) -> None:
        batch = BatchedDenseSample.from_samples(make_samples(3, num_instances=(2, 4, 5), metric_depth=True))
        padded = batch.to_padded(max_instances, overflow="largest")
        assert padded.instance_valid.sum(1).tolist() == [min(n, max_instances) for n in (2, 4, 5)]
        for before, after in zip(batch.to_samples(), padded.to_batched().to_samples(), strict=True):
            areas = sorted((int(m.sum()) for m in before.instance_masks), reverse=True)
            kept = [int(m.sum()) for m in after.instance_masks]
            assert sorted(kept, reverse=True) == areas[:max_instances]
            ids = after.instance_ids.tolist()
            assert ids == [i for i in before.instance_ids.tolist() if i in ids]
            orphans = (before.panoptic_map != 0) & ~torch.isin(before.panoptic_map, torch.tensor(ids))
            assert bool((after.panoptic_map[orphans] == 0).all() & (after.semantic_map[orphans] == 255).all())
            assert torch.equal(after.semantic_map[~orphans], before.semantic_map[~orphans])

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_largest_with_half_precision_images(self, dtype: torch.dtype) -> None:
        batch = make_batch(num_instances=3, image_dtype=dtype).to_batched()
        assert batch.to_padded(2, overflow="largest").images.dtype == dtype

    def test_unknown_rule(self) -> None:
        with pytest.raises(ValueError, match="expected overflow='raise' or 'largest', got 'smallest'"):
            make_batch().to_batched().to_padded(9, overflow="smallest")  # type: ignore[arg-type]


class TestAccepts:
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
    def test_image_dtype(self, dtype: torch.dtype) -> None:
        batch = make_batch(image_dtype=dtype)
        assert batch.images.dtype == dtype
        assert batch.images.max() > (100 if dtype == torch.uint8 else 0.5)

    def test_empty_mask_marked_valid(self) -> None:
        batch = make_batch()
        dataclasses.replace(batch, instance_masks=torch.zeros_like(batch.instance_masks), boxes=batch.boxes * 0)


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("images", torch.zeros(3, 3, 17, 11).double(), TypeError, "expected dtype uint8 or float16.*, got float64"),
    ("labels", torch.zeros(3, 5, dtype=torch.int32), TypeError, "expected dtype int64, got int32"),
    ("instance_masks", torch.zeros(3, 5, 17, 11), TypeError, "expected dtype bool, got float32"),
    ("instance_ids", torch.zeros(3, 5, dtype=torch.int64), TypeError, "expected dtype int32, got int64"),
    ("instance_valid", torch.zeros(3, 5, dtype=torch.uint8), TypeError, "expected dtype bool, got uint8"),
    ("depth", torch.zeros(3, 1, 17, 11, dtype=torch.uint8), TypeError, "expected dtype float32, got uint8"),
    ("sample_seeds", torch.zeros(3, dtype=torch.int32), TypeError, "expected dtype int64, got int32"),
    ("camera_intrinsics", torch.ones(3, 4).double(), TypeError, "expected dtype float32, got float64"),
    ("camera_intrinsics", torch.ones(3, 3), ValueError, r"\[B, 4\].*got \[3, 3\]"),
    ("sample_seeds", torch.zeros(2, dtype=torch.int64), ValueError, r"\[B\] with B=3, got \[2\]"),
    ("sample_keys", torch.zeros(3, 5, dtype=torch.int32), TypeError, "expected dtype int64, got int32"),
    ("sample_keys", torch.zeros(2, 5, dtype=torch.int64), ValueError, r"\[B, 5\] with B=3, got \[2, 5\]"),
    ("sample_keys", torch.zeros(3, 4, dtype=torch.int64), ValueError, "5 along dimension 1"),
    ("instance_masks", torch.zeros(3, 4, 17, 11) > 0, ValueError, r"K=5, got \[3, 4, 17, 11\]"),
    ("semantic_maps", torch.zeros(3, 1, 17, 11).long(), ValueError, r"\[B, H, W\], got shape \[3, 1, 17, 11\]"),
    ("normals", torch.zeros(3, 3, 11, 17), ValueError, r"H=17, got \[3, 3, 11, 17\]"),
    ("labels", None, ValueError, "expected a value, got None"),
    ("boxes", torch.tensor([8.0, 9, 3, 2]).expand(3, 5, 4), ValueError, "x1 <= x2.*inside out"),
    ("depth", torch.zeros(3, 1, 17, 11, device="meta"), ValueError, "expected device cpu, the images', got meta"),
]


class TestRefuses:
    @pytest.mark.parametrize(("name", "value", "error", "message"), REFUSED)
    def test_field(self, name: str, value: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=rf"PaddedBatchedDenseSample\.{name}: .*{message}"):
            dataclasses.replace(full_batch(), **{name: value})

    @pytest.mark.parametrize(("box_format", "canvas"), [("XYWH", (17, 11)), ("XYXY", (11, 17))])
    def test_boxes_tagged_otherwise(self, box_format: str, canvas: tuple[int, int]) -> None:
        tagged = tv_tensors.BoundingBoxes(torch.zeros(15, 4), format=box_format, canvas_size=canvas)
        with pytest.raises(ValueError, match=r"boxes: expected (format XYXY, got XYWH|canvas_size \(17, 11\))"):
            dataclasses.replace(full_batch(), boxes=tagged)

    @pytest.mark.parametrize("name", ["boxes", "labels", "instance_ids"])
    def test_values_in_an_invalid_row(self, name: str) -> None:
        batch = full_batch()
        stale = getattr(batch, name).clone()
        stale[1, 4] = torch.ones_like(stale[1, 4])
        with pytest.raises(ValueError, match=f"{name}: expected zeros in rows whose instance_valid is False"):
            dataclasses.replace(batch, **{name: stale})

    @pytest.mark.parametrize("absent", ["depth_valid", "instance_ids", "semantic_maps", "camera_intrinsics"])
    def test_missing_companion(self, absent: str) -> None:
        with pytest.raises(ValueError, match=absent.removesuffix("s")):
            dataclasses.replace(full_batch(), **{absent: None})

    def test_assignment(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            full_batch().labels = torch.zeros(3, 5).long()  # type: ignore[misc]


class TestMoves:
    """The container moves whole."""

    def test_clone_is_a_copy(self) -> None:
        batch = full_batch()
        copied = batch.clone()
        assert_same(copied, batch)
        for name, tensor in tensors_of(copied).items():
            assert tensor.data_ptr() != tensors_of(batch)[name].data_ptr(), name

    def test_channels_last_is_kept(self) -> None:
        batch = full_batch()
        batch = dataclasses.replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        through_pickle = pickle.loads(pickle.dumps(batch))
        for moved in (batch.clone(), batch.to("cpu"), batch.to("meta"), through_pickle):
            assert moved.images.is_contiguous(memory_format=torch.channels_last)
            assert not moved.images.is_contiguous()

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_pinned_by_the_loader_and_moved_to_the_gpu(self) -> None:
        batch = full_batch()
        (loaded,) = DataLoader(_Batches(), batch_size=None, pin_memory=True)
        assert all(t.is_pinned() for t in tensors_of(loaded).values())
        on_gpu = loaded.to("cuda", non_blocking=True)
        assert on_gpu.device.type == "cuda"
        assert_same(on_gpu.to("cpu"), batch)

    @pytest.mark.parametrize("modalities", [OPTIONAL, []], ids=subset_id)
    def test_pickle(self, modalities: Any) -> None:
        batch = full_batch(modalities=modalities)
        assert_same(batch, pickle.loads(pickle.dumps(batch)))

    def test_worker_process(self) -> None:
        loader = DataLoader(_Batches(), batch_size=None, num_workers=1, multiprocessing_context="fork")
        (loaded,) = loader
        assert_same(loaded, full_batch())

    def test_stores_tagged_tensors_as_plain_ones(self) -> None:
        batch = full_batch()
        tagged = dataclasses.replace(batch, semantic_maps=SemanticMap(batch.semantic_maps))
        assert type(tagged.semantic_maps) is Tensor
        assert_same(tagged, batch)


class _Batches(Dataset[PaddedBatchedDenseSample]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> PaddedBatchedDenseSample:
        if index:
            raise IndexError
        return full_batch()


class TestPytree:
    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_flatten_and_unflatten(self, modalities: frozenset[Modality]) -> None:
        batch = full_batch(modalities=modalities)
        leaves, spec = tree_flatten(batch)
        assert {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)} == {id(t) for t in tensors_of(batch).values()}
        assert_same(tree_unflatten(leaves, spec), batch)

    def test_map_over_tensors(self) -> None:
        batch = full_batch(modalities=["depth"])
        mapped = tree_map(lambda t: t.clone(), batch)
        assert type(mapped) is PaddedBatchedDenseSample
        assert mapped.normals is None
        assert_same(mapped, batch)


class _Negative(nn.Module):
    """Builds a new container inside the graph."""

    def forward(self, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        images = 255 - batch.images
        depth = None if batch.depth is None else torch.where(batch.depth_valid, batch.depth * 2, 0.0)
        return dataclasses.replace(batch, images=images, depth=depth)


class TestCompile:
    @pytest.mark.parametrize("modalities", [OPTIONAL, []], ids=subset_id)
    def test_whole_graph_takes_and_returns_the_container(self, modalities: Any) -> None:
        batch = full_batch(modalities=modalities)
        torch.compiler.reset()
        compiled = torch.compile(_Negative(), fullgraph=True, backend="aot_eager")(batch)
        assert_same(compiled, _Negative()(batch))
        assert not torch.equal(compiled.images, batch.images)


def test_to_passes_non_blocking_on(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, asked = make_batch(), set()

    def to(tensor: Tensor, _: object, *, non_blocking: bool = False) -> Tensor:
        asked.add(non_blocking)
        return tensor

    monkeypatch.setattr(Tensor, "to", to)
    batch.to("cpu", non_blocking=True)
    assert asked == {True}
