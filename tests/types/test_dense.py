"""`DenseSample`: what it accepts, what it refuses and how it says so, and its trip through a dictionary."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from record_cases import FULL
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torchvision import tv_tensors
from torchvision.transforms import v2

from samples import (
    OPTIONAL,
    SCHEMA,
    all_modality_subsets,
    assert_same,
    make_sample,
    subset_id,
)
from segpaste.types import (
    CameraIntrinsics,
    DenseSample,
    InstanceMask,
    Modality,
    PaddingMask,
    PanopticMap,
    PanopticSchema,
    SemanticMap,
)
from segpaste.types.fields import SAMPLE_FIELDS
from segpaste.types.tensors import pixel_counts

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]

NAN, INF = float("nan"), float("inf")


def boxes(rows: list[list[float]], box_format: str = "XYXY", canvas: tuple[int, int] = (17, 11)) -> Any:
    return tv_tensors.BoundingBoxes(torch.tensor(rows, dtype=torch.float32), format=box_format, canvas_size=canvas)


class TestAccepts:
    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_every_modality_subset(self, modalities: frozenset[Modality]) -> None:
        sample = make_sample(modalities=modalities)
        assert sample.modalities == modalities | {Modality.IMAGE}

    @pytest.mark.parametrize("size", [(1, 1), (17, 11), (11, 17), (2, 31)])
    def test_any_canvas(self, size: tuple[int, int]) -> None:
        sample = make_sample(size, num_instances=1)
        assert sample.canvas_size == size
        assert sample.num_instances == 1

    def test_no_instance(self) -> None:
        assert make_sample(num_instances=0).num_instances == 0

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_image_kinds(self, dtype: torch.dtype, channels: int) -> None:
        image = tv_tensors.Image(torch.zeros(channels, 17, 11, dtype=dtype))
        assert dataclasses.replace(make_sample(**FULL), image=image).image.dtype == dtype

    def test_empty_mask_with_a_box_without_area(self) -> None:
        empty = InstanceMask(torch.zeros(1, 17, 11, dtype=torch.bool))
        one = torch.ones(1, dtype=torch.int32)
        sample = dataclasses.replace(
            make_sample(num_instances=0), boxes=boxes([[0, 0, 0, 0]]), labels=one.long(), instance_ids=one,
            instance_masks=empty,
        )  # fmt: skip
        assert sample.num_instances == 1

    def test_panoptic_schema_is_a_protocol_that_plain_classes_meet(self) -> None:
        assert isinstance(SCHEMA, PanopticSchema)
        assert not isinstance(object(), PanopticSchema)


DTYPES: list[tuple[str, Any, str, str]] = [
    ("image", tv_tensors.Image(torch.zeros(3, 17, 11, dtype=torch.float16)), "uint8 or float32", "float16"),
    ("image", tv_tensors.Image(torch.zeros(3, 17, 11, dtype=torch.int64)), "uint8 or float32", "int64"),
    ("boxes", tv_tensors.BoundingBoxes(torch.zeros(3, 4).double(), format="XYXY", canvas_size=(17, 11)), "float32",
     "float64"),
    ("labels", torch.zeros(3, dtype=torch.int32), "int64", "int32"),
    ("instance_ids", torch.arange(1, 4), "int32", "int64"),
    ("instance_masks", InstanceMask(torch.zeros(3, 17, 11)), "bool", "float32"),
    ("instance_masks", InstanceMask(torch.zeros(3, 17, 11, dtype=torch.uint8)), "bool", "uint8"),
    ("semantic_map", SemanticMap(torch.zeros(17, 11, dtype=torch.uint8)), "int64", "uint8"),
    ("panoptic_map", PanopticMap(torch.zeros(17, 11, dtype=torch.int32)), "int64", "int32"),
    ("depth", torch.zeros(1, 17, 11, dtype=torch.uint8), "float32", "uint8"),
    ("depth_valid", torch.zeros(1, 17, 11, dtype=torch.uint8), "bool", "uint8"),
    ("normals", torch.zeros(3, 17, 11).double(), "float32", "float64"),
    ("padding_mask", PaddingMask(torch.zeros(1, 17, 11, dtype=torch.uint8)), "bool", "uint8"),
]  # fmt: skip

SHAPES: list[tuple[str, Any, str]] = [
    ("image", tv_tensors.Image(torch.zeros(1, 3, 17, 11)), r"\[1, 3, 17, 11\]"),
    ("boxes", boxes([[0, 0, 1, 1]] * 4), r"N=4.*\[3\]"),
    ("labels", torch.zeros(2, dtype=torch.int64), r"N=3.*\[2\]"),
    ("instance_ids", torch.arange(1, 5, dtype=torch.int32), r"N=3.*\[4\]"),
    ("instance_masks", InstanceMask(torch.zeros(3, 11, 17, dtype=torch.bool)), r"H=17.*\[3, 11, 17\]"),
    ("semantic_map", SemanticMap(torch.zeros(1, 17, 11, dtype=torch.int64)), r"\[H, W\].*\[1, 17, 11\]"),
    ("panoptic_map", PanopticMap(torch.zeros(17, 12, dtype=torch.int64)), r"W=11.*\[17, 12\]"),
    ("depth", torch.zeros(17, 11), r"\[1, H, W\].*\[17, 11\]"),
    ("depth_valid", torch.zeros(2, 17, 11, dtype=torch.bool), r"\[1, H, W\].*\[2, 17, 11\]"),
    ("normals", torch.zeros(2, 17, 11), r"\[3, H, W\].*\[2, 17, 11\]"),
    ("padding_mask", PaddingMask(torch.zeros(1, 16, 11, dtype=torch.bool)), r"H=17.*\[1, 16, 11\]"),
]

TAGS = ["image", "boxes", "instance_masks", "semantic_map", "panoptic_map", "padding_mask"]

BOXES: list[tuple[Any, str]] = [
    (boxes([[2, 3, 4, 5]] * 3, "XYWH"), "expected format XYXY, got XYWH.*ConvertBoundingBoxFormat"),
    (boxes([[2, 3, 4, 5]] * 3, "CXCYWH"), "expected format XYXY, got CXCYWH"),
    (boxes([[2, 2, float("nan"), 3]] * 3), "expected finite coordinates"),
    (boxes([[2, 2, float("inf"), 3]] * 3), "expected finite coordinates"),
    (boxes([[8, 9, 3, 2]] * 3), "expected x1 <= x2.*inside out.*width, height"),
    (boxes([[2, 9, 3, 2]] * 3), "expected x1 <= x2.*inside out"),
    (boxes([[2, 3, 4, 5]] * 3, canvas=(11, 17)), r"expected canvas_size \(17, 11\).*got \(11, 17\)"),
]


class TestRefuses:
    """Every error names the field, what was expected and what came."""

    @pytest.mark.parametrize(("name", "value", "expected", "got"), DTYPES)
    def test_dtype(self, name: str, value: Any, expected: str, got: str) -> None:
        with pytest.raises(TypeError, match=rf"DenseSample\.{name}: expected dtype {expected}, got {got};"):
            dataclasses.replace(make_sample(**FULL), **{name: value})

    @pytest.mark.parametrize(("name", "value", "message"), SHAPES)
    def test_shape(self, name: str, value: Any, message: str) -> None:
        # The first field of a size decides what the others should have had, so a wrong box blames the labels.
        with pytest.raises(ValueError, match=rf"DenseSample\.\w+: expected .*{message}"):
            dataclasses.replace(make_sample(**FULL), **{name: value})

    @pytest.mark.parametrize("name", TAGS)
    def test_untagged_tensor(self, name: str) -> None:
        plain = getattr(make_sample(**FULL), name).as_subclass(Tensor)
        with pytest.raises(TypeError, match=rf"DenseSample\.{name}: expected \w+, got Tensor"):
            dataclasses.replace(make_sample(**FULL), **{name: plain})

    def test_maps_swapped(self) -> None:
        sample = make_sample(**FULL)
        with pytest.raises(TypeError, match="semantic_map: expected SemanticMap, got PanopticMap"):
            dataclasses.replace(sample, semantic_map=sample.panoptic_map, panoptic_map=sample.semantic_map)

    @pytest.mark.parametrize("name", ["image", "labels", "depth", "instance_masks"])
    def test_list_for_a_tensor(self, name: str) -> None:
        with pytest.raises(TypeError, match=rf"DenseSample\.{name}: expected .*Tensor, got list"):
            dataclasses.replace(make_sample(**FULL), **{name: [1, 2, 3]})

    @pytest.mark.parametrize("name", ["image", "boxes", "labels"])
    def test_missing_field(self, name: str) -> None:
        with pytest.raises(ValueError, match=rf"DenseSample\.{name}: expected a value, got None"):
            dataclasses.replace(make_sample(**FULL), **{name: None})

    @pytest.mark.parametrize(
        ("absent", "left_alone"),
        [
            ("instance_masks", "instance_ids"),
            ("instance_ids", "instance_masks"),
            ("semantic_map", "panoptic_map"),
            ("depth_valid", "depth"),
            ("depth", "depth_valid"),
        ],
    )
    def test_missing_companion(self, absent: str, left_alone: str) -> None:
        with pytest.raises(ValueError, match=rf"DenseSample\.{left_alone}: expected '{absent}' beside it, got None"):
            dataclasses.replace(make_sample(**FULL), **{absent: None})

    @pytest.mark.parametrize(("value", "message"), BOXES)
    def test_boxes(self, value: Any, message: str) -> None:
        with pytest.raises(ValueError, match=rf"DenseSample\.boxes: {message}"):
            dataclasses.replace(make_sample(**FULL), boxes=value)

    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            ([1, 2, 1], r"unique in the sample, got \[1, 2, 1\]"),
            ([0, 1, 2], "> 0, got 0"),
            ([-4, 1, 2], "> 0, got -4"),
        ],
    )
    def test_instance_ids(self, ids: list[int], message: str) -> None:
        with pytest.raises(ValueError, match=rf"DenseSample\.instance_ids: expected ids.*{message}"):
            dataclasses.replace(make_sample(**FULL), instance_ids=torch.tensor(ids, dtype=torch.int32))

    def test_metric_depth_without_a_camera(self) -> None:
        with pytest.raises(
            ValueError, match="camera_intrinsics: expected intrinsics because metric_depth=True, got No"
        ):
            dataclasses.replace(make_sample(**FULL), camera_intrinsics=None)

    def test_intrinsics_of_another_type(self) -> None:
        with pytest.raises(TypeError, match="camera_intrinsics: expected CameraIntrinsics, got Tensor"):
            dataclasses.replace(make_sample(**FULL), camera_intrinsics=torch.tensor([10.0, 10.0, 5.0, 8.0]))

    @pytest.mark.parametrize(
        "values",
        [
            (0.0, 1.0, 1, 1),
            (1.0, -2.0, 1, 1),
            (NAN, 1.0, 1, 1),
            (1, INF, 1, 1),
            (1, 1, NAN, 1),
            (1, 1, 1, -INF),
        ],
    )
    def test_focal_length(self, values: tuple[float, float, float, float]) -> None:
        with pytest.raises(ValueError, match=r"finite numbers and focal lengths > 0 px, got fx=.*cy="):
            CameraIntrinsics(*values)

    @pytest.mark.parametrize("wrong", ["5", None, True, torch.tensor(5.0), [5.0]])
    def test_intrinsics_that_are_no_numbers(self, wrong: Any) -> None:
        for name in ("fx", "fy", "cx", "cy"):
            values = {"fx": 1, "fy": np.float32(2), "cx": np.int64(3), "cy": 4.0, name: wrong}
            with pytest.raises(TypeError, match=rf"CameraIntrinsics\.{name}: expected a number, got "):
                CameraIntrinsics(**values)

    @pytest.mark.parametrize("wrong", ["yes", 1, None])
    def test_a_flag_that_is_none(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"DenseSample\.metric_depth: expected bool, got "):
            dataclasses.replace(make_sample(**FULL), metric_depth=wrong)

    def test_assignment(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            make_sample(**FULL).labels = torch.zeros(3, dtype=torch.int64)  # type: ignore[misc]
        assert not hasattr(make_sample(**FULL), "__dict__")

    def test_nothing_while_tracing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sample = make_sample(**FULL)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        assert dataclasses.replace(sample, labels=None).labels is None


class TestDictionary:
    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_round_trip(self, modalities: frozenset[Modality]) -> None:
        sample = make_sample(modalities=modalities, metric_depth=True, padding=(1, 2))
        assert_same(sample, DenseSample.from_dict(sample.to_dict()))

    def test_round_trip_of_any_camera(self) -> None:
        sample = dataclasses.replace(
            make_sample(**FULL), camera_intrinsics=CameraIntrinsics(500.1, 499.9, 320.3, 1 / 3)
        )
        assert DenseSample.from_dict(sample.to_dict()).camera_intrinsics == sample.camera_intrinsics

    def test_holds_only_what_is_present(self) -> None:
        assert set(make_sample(modalities=[]).to_dict()) == {"image", "boxes", "labels", "metric_depth"}

    def test_invalid_depth_travels_as_nan_and_arrives_as_zero(self) -> None:
        sample = make_sample()
        valid = torch.ones_like(sample.depth_valid)
        valid[0, 3, 4] = False
        depth = torch.full_like(sample.depth, 2.0)
        depth[0, 3, 4] = 7.0  # garbage under an invalid pixel
        depth[0, 5, 6], depth[0, 7, 8] = torch.nan, torch.inf  # called valid, and is not
        fields = dataclasses.replace(sample, depth=depth, depth_valid=valid).to_dict()
        assert fields["depth"].isnan().nonzero().tolist() == [[0, 3, 4], [0, 5, 6], [0, 7, 8]]
        back = DenseSample.from_dict(fields)
        assert (~back.depth_valid).nonzero().tolist() == [[0, 3, 4], [0, 5, 6], [0, 7, 8]]
        assert torch.equal(back.depth, back.depth_valid * 2.0)

    def test_unknown_key(self) -> None:
        with pytest.raises(TypeError, match="expected the name of a field, got 'masks'; the fields are image, boxes"):
            DenseSample.from_dict(make_sample().to_dict() | {"masks": 1})

    def test_leaves_the_sample_alone(self) -> None:
        sample, before = make_sample(**FULL), make_sample(**FULL)
        v2.RandomHorizontalFlip(1.0)(sample.to_dict())
        assert_same(sample, before)

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda fields: pickle.loads(pickle.dumps(fields))])
    def test_copied_dictionary_moves_like_the_first(self, duplicate: Any) -> None:
        fields = make_sample(**FULL).to_dict()
        copied = DenseSample.from_dict(v2.RandomHorizontalFlip(1.0)(duplicate(fields)))
        assert_same(copied, DenseSample.from_dict(v2.RandomHorizontalFlip(1.0)(fields)))

    @pytest.mark.parametrize("modalities", [OPTIONAL, []], ids=subset_id)
    def test_pickle(self, modalities: Any) -> None:
        sample = make_sample(modalities=modalities, metric_depth=True, padding=(0, 2))
        assert_same(sample, pickle.loads(pickle.dumps(sample)))


class TestBytesOfBools:
    @pytest.mark.parametrize("name", [field.name for field in SAMPLE_FIELDS if field.dtypes == (torch.bool,)])
    def test_other_bytes_are_refused(self, name: str) -> None:
        sample = make_sample((9, 11), 2, crowd=True, padding=(0, 2))
        value = getattr(sample, name)
        spoiled = (value.as_subclass(Tensor).view(torch.uint8) * 255).view(torch.bool)
        spoiled = spoiled.as_subclass(type(value)) if type(value) is not Tensor else spoiled
        with pytest.raises(
            ValueError, match=rf"DenseSample.{name}: expected bool values stored as 0 or 1, got another"
        ):
            dataclasses.replace(sample, **{name: spoiled})


class TestFromMasks:
    def test_boxes_and_ids_come_from_the_masks(self) -> None:
        masks = torch.zeros(3, 9, 11, dtype=torch.bool)
        masks[0, 2:5, 3:6] = masks[2, 8, 10] = True
        sample = DenseSample.from_masks(torch.zeros(3, 9, 11), masks, torch.tensor([4, 0, 4]))
        assert sample.boxes.tolist() == [[3, 2, 6, 5], [0, 0, 0, 0], [10, 8, 11, 9]]
        assert sample.instance_ids is not None
        assert sample.instance_ids.tolist() == [1, 2, 3]
        assert isinstance(sample.instance_masks, InstanceMask)

    def test_other_fields_may_be_plain(self) -> None:
        full = make_sample((9, 11), 2, metric_depth=True)
        names = ("semantic_map", "panoptic_map", "depth", "depth_valid", "normals", "camera_intrinsics")
        others = {name: v.as_subclass(Tensor) if isinstance(v := getattr(full, name), Tensor) else v for name in names}
        sample = DenseSample.from_masks(full.image, full.instance_masks, full.labels, metric_depth=True, **others)
        assert_same(sample, dataclasses.replace(full, instance_ids=sample.instance_ids, boxes=sample.boxes))
        assert isinstance(sample.semantic_map, SemanticMap)

    def test_given_ids_are_kept(self) -> None:
        ids = torch.tensor([9, 4], dtype=torch.int32)
        masks = torch.ones(2, 3, 3, dtype=torch.bool)
        sample = DenseSample.from_masks(torch.zeros(3, 3, 3), masks, torch.tensor([0, 1]), instance_ids=ids)
        assert sample.instance_ids is ids

    def test_true_may_be_any_byte(self) -> None:
        """Pillow's mode "1" stores true as 255, and `numpy.array` keeps the bytes."""
        canvas = Image.new("1", (11, 9))
        ImageDraw.Draw(canvas).rectangle((3, 2, 5, 4), fill=1)
        array = np.array([canvas, canvas], bool)
        assert array.view(np.uint8).max() == 255
        masks = torch.from_numpy(array)
        sample = DenseSample.from_masks(torch.zeros(3, 9, 11), masks, torch.tensor([4, 0]))
        assert sample.boxes.tolist() == [[3, 2, 6, 5]] * 2
        assert sample.instance_masks is not None
        assert sample.instance_masks.view(torch.uint8).sum() == 2 * 9
        assert masks.view(torch.uint8).max() == 255, "the given masks stay as they are"
        crowded = DenseSample.from_masks(torch.zeros(3, 9, 11), masks, torch.tensor([4, 0]), crowd_mask=masks[:1])
        assert crowded.crowd_mask is not None
        assert crowded.crowd_mask.view(torch.uint8).sum() == 9

    def test_what_is_no_mask_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"masks: expected dtype bool"):
            DenseSample.from_masks(torch.zeros(3, 9, 11), torch.zeros(1, 9, 11), torch.tensor([0]))
        with pytest.raises(ValueError, match="expected 3 dimensions"):
            DenseSample.from_masks(torch.zeros(3, 9, 11), torch.zeros(9, 11, dtype=torch.bool), torch.tensor([0]))
        masks = torch.zeros(1, 9, 11, dtype=torch.bool)
        with pytest.raises(TypeError, match="expected no boxes, got some; they are computed from the masks"):
            DenseSample.from_masks(torch.zeros(3, 9, 11), masks, torch.tensor([0]), boxes=torch.zeros(1, 4))
        with pytest.raises(
            ValueError, match=r"image: expected \[C, H, W\], got \[9, 11, 3\] .* image.permute\(2, 0, 1\)"
        ):
            DenseSample.from_masks(torch.zeros(9, 11, 3), masks, torch.tensor([0]))

    @pytest.mark.parametrize(("given", "nearest"), [("crowd", "crowd_mask"), ("dpeth", "depth"), ("normal", "normals")])
    def test_a_wrong_name_is_answered_with_the_nearest(self, given: str, nearest: str) -> None:
        with pytest.raises(TypeError, match=f"from_masks: .* got '{given}'; the nearest is '{nearest}'"):
            DenseSample.from_masks(
                torch.zeros(3, 3, 3), torch.ones(1, 3, 3, dtype=torch.bool), torch.tensor([0]), **{given: None}
            )


class TestPytree:
    @pytest.mark.parametrize("transform", [v2.RandomHorizontalFlip(1.0), v2.Resize((13, 7)), v2.CenterCrop((5, 6))])
    def test_a_transform_moves_the_sample_itself(self, transform: Any) -> None:
        sample = make_sample((9, 11), 2)
        assert_same(transform(sample), DenseSample.from_dict(transform(sample.to_dict())))
        assert not torch.equal(transform(sample).image, sample.image) or transform(sample).canvas_size != (9, 11)

    def test_goes_through_whole(self) -> None:
        sample = make_sample((9, 11), 2, metric_depth=True)
        leaves, spec = tree_flatten(sample)
        assert all(isinstance(leaf, Tensor) for leaf in leaves)
        assert_same(tree_unflatten(leaves, spec), sample)
        names = tree_map(lambda leaf: leaf.dtype, sample)
        assert isinstance(names, DenseSample)
        assert names.labels == torch.int64


def test_boxes_converted_to_another_format_are_refused() -> None:
    fields = make_sample().to_dict()
    fields["boxes"] = v2.functional.convert_bounding_box_format(fields["boxes"], new_format="XYWH")
    with pytest.raises(ValueError, match="expected format XYXY, got XYWH"):
        DenseSample.from_dict(fields)


def test_pixels_are_counted() -> None:
    masks = torch.zeros(3, 4, 5, dtype=torch.bool)
    masks[0, 1:3, 2:], masks[2] = True, True
    assert pixel_counts(InstanceMask(masks)).tolist() == [6, 0, 20]
    assert pixel_counts(masks[:, :, ::2]).tolist() == [4, 0, 12]
    assert pixel_counts(masks[:0]).tolist() == []
