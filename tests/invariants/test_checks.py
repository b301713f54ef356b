"""The checks on outputs spoiled by hand name the image, state the fault, and reject inconsistent input."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from invariant_cases import run

from samples import EVERY_OBJECT, SCHEMA, STUFF, THINGS, make_batch, paste
from segpaste import invariants
from segpaste.augmentation import (
    BatchCopyPasteConfig,
    IntraBatchSource,
    PanopticConfig,
    Placement,
    PlacementConfig,
    PlacementCounts,
    PlacementRequest,
    SourceConfig,
)
from segpaste.augmentation.sources.bank_source import source_batch
from segpaste.invariants import Case, InvariantError, Violation, applicable, check, check_all, violations
from segpaste.types import Modality, PaddedBatchedDenseSample, StagedCrops

FLAT = (Modality.INSTANCE, Modality.PANOPTIC, Modality.SEMANTIC)
SPOILED = 1
CONFIG = BatchCopyPasteConfig(
    min_area_px=2,
    panoptic=PanopticConfig(taxonomy=SCHEMA, tau_stuff_px=4),
    placement=PlacementConfig(paste_prob=1.0, layers=2),
    source=EVERY_OBJECT,
)


@pytest.fixture(scope="module")
def sound() -> Case:
    """A forward of which image 1 has a survivor in slot 0, a paste, and everything else."""
    before = make_batch(
        3, size=(19, 23), max_instances=9, num_instances=4, metric_depth=True, seed=1, keypoints=True, crowd=True
    )
    case = run(before, CONFIG)
    assert bool(case.survives[SPOILED, 0])
    assert int(case.report.num_placed[SPOILED]) > 1
    assert violations(case) == []
    return case


def first_pasted(case: Case) -> tuple[int, int]:
    """A pixel of image 1 inside of a paste, with valid depth and a normal."""
    assert case.after.normals is not None
    assert case.after.depth_valid is not None
    usable = case.pasted & case.after.depth_valid[:, 0] & (case.after.normals != 0).any(1)
    y, x = usable[SPOILED].nonzero()[0].tolist()
    return y, x


def first_paste_slot(case: Case) -> int:
    return int(case.is_paste[SPOILED].nonzero()[0])


def _put(name: str, value: Callable[[torch.Tensor, Case], Any], where: Callable[[Case], tuple[Any, ...]]) -> Any:
    """Set ``after.name[1, *where]`` to a function of what is there."""

    def spoil(after: PaddedBatchedDenseSample, case: Case) -> None:
        tensor = getattr(after, name)
        at = (SPOILED, *where(case))
        tensor[at] = value(tensor[at], case)

    return spoil


def _in_slot_0(_: Case) -> tuple[int]:
    return (0,)


def _in_paste(case: Case) -> tuple[int, int]:
    return first_pasted(case)


def _in_paste_depth(case: Case) -> tuple[int, int, int]:
    return 0, *first_pasted(case)


def _in_paste_normal(case: Case) -> tuple[slice, int, int]:
    return slice(None), *first_pasted(case)


def _ignored(case: Case) -> tuple[int, int]:
    assert case.before.semantic_maps is not None
    y, x = (case.before.semantic_maps[SPOILED] == SCHEMA.ignore_index).nonzero()[0].tolist()
    return y, x


def _a_stuff_pixel(case: Case) -> tuple[int, int]:
    assert case.after.semantic_maps is not None
    y, x = (case.after.semantic_maps[SPOILED] == 11).nonzero()[0].tolist()
    return y, x


def _hidden_point(case: Case) -> tuple[int, int]:
    """Slot and number of a point of a paste that is labelled and not visible."""
    assert case.after.keypoints is not None
    hidden = (case.after.keypoints[SPOILED, :, :, 2] == 1) & case.is_paste[SPOILED, :, None]
    slot, point = hidden.nonzero()[0].tolist()
    return slot, point


SPOILS = [
    (
        "image_kept_outside_pastes",
        "colours",
        _put("images", lambda t, _: t + 1, lambda case: (0, *_a_stuff_pixel(case))),
    ),
    (
        "instance_identity_preserved",
        "label of its source",
        _put("labels", lambda t, _: t % 3 + 1, lambda case: (first_paste_slot(case),)),
    ),
    (
        "instance_target_masks_subtract_paste_union",
        "source's mask",
        _put("instance_masks", lambda t, _: t.flip(-1), lambda case: (first_paste_slot(case),)),
    ),
    ("instance_identity_preserved", "label", _put("labels", lambda t, _: t % 3 + 1, _in_slot_0)),
    ("instance_identity_preserved", "id", _put("instance_ids", lambda t, _: t + 100, _in_slot_0)),
    ("instance_identity_preserved", "slot", _put("instance_valid", lambda t, _: False, _in_slot_0)),
    ("instance_target_masks_subtract_paste_union", "minus", _put("instance_masks", lambda t, _: ~t, _in_slot_0)),
    (
        "instance_target_masks_subtract_paste_union",
        "pasted mask",
        _put("instance_masks", lambda t, _: torch.zeros_like(t), lambda case: (first_paste_slot(case),)),
    ),
    ("instance_bbox_recomputed_from_mask", "box", _put("boxes", lambda t, _: t + 0.5, _in_slot_0)),
    ("instance_small_area_dropped", "2 px", _put("instance_masks", lambda t, _: torch.zeros_like(t), _in_slot_0)),
    (
        "instance_no_same_class_overlap",
        "share",
        _put("instance_masks", lambda t, case: torch.ones_like(t), lambda case: (slice(0, 9),)),
    ),
    ("panoptic_thing_stuff_consistent", "thing", _put("panoptic_maps", lambda t, _: 0, _in_paste)),
    ("panoptic_thing_stuff_consistent", "stuff", _put("panoptic_maps", lambda t, _: 7, _a_stuff_pixel)),
    ("panoptic_thing_stuff_consistent", "taxonomy", _put("semantic_maps", lambda t, _: 99, _in_paste)),
    ("panoptic_pixel_bijection", "mask of id", _put("panoptic_maps", lambda t, _: t + 1, _in_paste)),
    ("panoptic_pixel_bijection", "1 mask", _put("panoptic_maps", lambda t, _: 7, _a_stuff_pixel)),
    (
        "panoptic_fresh_instance_ids",
        "fresh id",
        _put("instance_ids", lambda t, _: t + 1, lambda case: (first_paste_slot(case),)),
    ),
    ("panoptic_fresh_instance_ids", "paste's row", _put("panoptic_maps", lambda t, _: t + 1, _in_paste)),
    ("panoptic_fresh_instance_ids", "as before", _put("panoptic_maps", lambda t, _: 7, _a_stuff_pixel)),
    ("semantic_single_class_per_pixel", "source's", _put("semantic_maps", lambda t, _: t % 3 + 1, _in_paste)),
    ("semantic_single_class_per_pixel", "target's", _put("semantic_maps", lambda t, _: 12, _a_stuff_pixel)),
    ("semantic_ignore_preserved", "as before", _put("semantic_maps", lambda t, _: 11, _ignored)),
    ("semantic_ignore_preserved", "in a paste", _put("semantic_maps", lambda t, _: 255, _in_paste)),
    ("semantic_ignore_preserved", "a class", _put("semantic_maps", lambda t, _: 255, _a_stuff_pixel)),
    ("depth_monotonicity", "nearer", _put("depth", lambda t, _: t + 100, _in_paste_depth)),
    ("depth_monotonicity", "finite", _put("depth", lambda t, _: torch.nan, _in_paste_depth)),
    ("depth_monotonicity", "target's", _put("depth", lambda t, _: t + 1, lambda case: (0, *_a_stuff_pixel(case)))),
    ("depth_validity_join", "valid depth", _put("depth_valid", lambda t, _: ~t, _in_paste_depth)),
    ("depth_validity_join", "target's", _put("depth_valid", lambda t, _: ~t, lambda case: (0, *_ignored(case)))),
    ("depth_metric_intrinsics_rescale", "camera's scale", _put("depth", lambda t, _: t * 0.8, _in_paste_depth)),
    ("depth_metric_intrinsics_rescale", "camera", _put("camera_intrinsics", lambda t, _: t + 1, lambda case: ())),
    ("normals_unit_norm_on_valid", "length 1", _put("normals", lambda t, _: t * 1.01, _in_paste_normal)),
    ("normals_unit_norm_on_valid", "has one", _put("normals", lambda t, _: t * 0, _in_paste_normal)),
    ("normals_camera_frame_convention", "of the source", _put("normals", lambda t, _: -t, _in_paste_normal)),
    (
        "normals_camera_frame_convention",
        "target's",
        _put("normals", lambda t, _: t + 0.1, lambda case: (slice(None), *_ignored(case))),
    ),
    (
        "keypoints_visible_only_on_own_pixels",
        "visible points on pixels of their own",
        _put("keypoints", lambda t, _: t.new_tensor(2), lambda case: (*_hidden_point(case), 2)),
    ),
    (
        "keypoints_visible_only_on_own_pixels",
        "points of a paste",
        _put("keypoints", lambda t, _: t + 0.5, lambda case: (*_hidden_point(case), 0)),
    ),
    ("keypoints_visible_only_on_own_pixels", "points of a survivor", _put("keypoints", lambda t, _: t + 1, _in_slot_0)),
    ("crowd_never_under_paste", "under a paste", _put("crowd_mask", lambda t, _: ~t, lambda c: (0, *_in_paste(c)))),
    ("crowd_never_under_paste", "as before", _put("crowd_mask", lambda t, _: ~t, lambda c: (0, *_a_stuff_pixel(c)))),
]


@pytest.mark.parametrize(("name", "words", "spoil"), SPOILS, ids=[f"{name}-{words}" for name, words, _ in SPOILS])
def test_spoiled_output_is_reported(sound: Case, name: str, words: str, spoil: Any) -> None:
    after = sound.after.clone()
    spoil(after, sound)
    broken = getattr(invariants, name)(replace(sound, after=after))
    assert {v.image_idx for v in broken} == {SPOILED}
    assert {v.invariant for v in broken} == {name}
    assert any(words in str(v) for v in broken), broken


def test_every_invariant_is_spoiled() -> None:
    others = {"panoptic_stuff_area_threshold", "panoptic_contact_priority", "instance_hidden_area_limited"}
    others |= {"instance_given_bbox_kept"}
    assert {name for name, *_ in SPOILS} == {check.__name__ for check in invariants.INVARIANTS} - others


@pytest.fixture(scope="module")
def boxed() -> Case:
    """A forward of boxes alone."""
    before = make_batch(3, size=(41, 47), max_instances=9, num_instances=4, modalities=(), seed=3)
    boxes = before.boxes + torch.tensor([0.25, 0.5, -0.125, -0.0625]) * before.instance_valid[..., None]
    source = SourceConfig(mask_from="boxes", whole_only=False)
    case = run(replace(before, boxes=boxes), CONFIG.model_copy(update={"source": source, "panoptic": None}))
    assert violations(case) == []
    return case


@pytest.mark.parametrize(
    ("which", "words"),
    [("stays", "before the paste"), ("cut", "before the paste"), ("paste", "its source"), ("empty", "zeros")],
)
def test_one_bit_of_a_given_box_is_reported(boxed: Case, which: str, words: str) -> None:
    same = (boxed.after.boxes == boxed.before.boxes).all(-1)
    slots = {"stays": boxed.kept & same, "cut": boxed.kept & ~same, "paste": boxed.is_paste}
    image, slot = slots.get(which, ~boxed.after.instance_valid).nonzero()[0].tolist()
    after = boxed.after.clone()
    edge = after.boxes[image, slot, 2:3]
    edge.copy_(torch.nextafter(edge, torch.tensor([1e9])))
    (broken,) = invariants.instance_given_bbox_kept(replace(boxed, after=after))
    assert broken.image_idx == image
    assert words in str(broken)


def test_boxes_of_masks_are_another_check(boxed: Case, sound: Case) -> None:
    with pytest.raises(ValueError, match="expected a batch with boxes only"):
        invariants.instance_given_bbox_kept(sound)
    assert invariants.instance_bbox_recomputed_from_mask not in applicable(boxed)


@pytest.mark.parametrize("limit", [{"tau_stuff_px": 10_000}, {"tau_stuff_frac": 1.0}])
def test_lost_stuff_is_reported(sound: Case, limit: dict[str, Any]) -> None:
    assert CONFIG.panoptic is not None
    stricter = CONFIG.model_copy(update={"panoptic": CONFIG.panoptic.model_copy(update=limit)})
    broken = invariants.panoptic_stuff_area_threshold(replace(sound, config=stricter))
    assert broken
    assert "stuff class 1" in str(broken[0])
    giving_up = CONFIG.panoptic.model_copy(update={**limit, "stuff_policy": "ignore"})
    broken = invariants.panoptic_stuff_area_threshold(replace(sound, config=replace_panoptic(giving_up)))
    assert "ignore, for too little is left" in str(broken[0])


def test_too_much_hidden_is_reported(sound: Case) -> None:
    frac = float((1 - sound.area_left / sound.area_before)[sound.before.instance_valid].max())
    assert frac > 0
    stricter, exact = (CONFIG.model_copy(update={"max_hidden_frac": limit}) for limit in (frac / 2, frac))
    assert "px to be hidden, got" in str(invariants.instance_hidden_area_limited(replace(sound, config=stricter))[0])
    assert invariants.instance_hidden_area_limited(replace(sound, config=exact)) == []


def test_priorities_that_are_not_kept_are_reported(sound: Case) -> None:
    """Over the target, and without depth of one paste over another."""
    assert CONFIG.panoptic is not None
    above = CONFIG.panoptic.model_copy(update={"contact_priority": dict.fromkeys((*STUFF, *THINGS), 1) | {1: 0}})
    case = replace(sound, config=replace_panoptic(above))
    broken = invariants.panoptic_contact_priority(case)
    assert broken
    assert "target's class of priority 1" in str(broken[0])


def test_pastes_in_the_wrong_order_are_reported() -> None:
    """Two layers that lie on each other, and the taxonomy says afterwards that the lower one is above."""
    before = make_batch(3, size=(19, 23), max_instances=12, num_instances=4, modalities=FLAT, seed=1)
    case = run(
        before,
        CONFIG.model_copy(update={"placement": PlacementConfig(paste_prob=1.0, layers=3, scale_range=(1.5, 2.0))}),
    )
    assert CONFIG.panoptic is not None
    messages = []
    for label in THINGS:
        above = CONFIG.panoptic.model_copy(update={"contact_priority": {label: 1}})
        messages += map(str, invariants.panoptic_contact_priority(replace(case, config=replace_panoptic(above))))
    assert any("the paste of priority 1 that lies here in front, got one of priority 0" in m for m in messages)


def replace_panoptic(panoptic: PanopticConfig) -> BatchCopyPasteConfig:
    return CONFIG.model_copy(update={"panoptic": panoptic})


def test_lost_camera_or_flag_is_reported(sound: Case) -> None:
    for after in (
        replace(sound.after, metric_depth=False),
        replace(sound.after, metric_depth=False, camera_intrinsics=None),
    ):
        broken = invariants.depth_metric_intrinsics_rescale(replace(sound, after=after))
        assert {v.image_idx for v in broken} == {0, 1, 2}


def test_one_violation_tells_of_the_first_place_and_counts_the_others(sound: Case) -> None:
    after = sound.after.clone()
    after.boxes[SPOILED, :2] += 1
    (violation,) = invariants.instance_bbox_recomputed_from_mask(replace(sound, after=after))
    box = ", ".join(f"{edge:g}" for edge in sound.after.boxes[SPOILED, 0].tolist())
    assert violation.expected == f"the box of the mask, ({box})"
    assert violation.came.endswith("in slot 0 (the first of 2 slots)")


class TestWhatIsMissing:
    def test_a_check_refuses_a_case_without_its_modality(self) -> None:
        case = run(
            make_batch(2, modalities={"semantic"}),
            BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=EVERY_OBJECT),
        )
        with pytest.raises(ValueError, match=r"depth_monotonicity: expected \['depth'\] in the batch before and after"):
            invariants.depth_monotonicity(case)
        assert {c.__name__ for c in applicable(case)} == {
            "image_kept_outside_pastes",
            "semantic_single_class_per_pixel",
            "semantic_ignore_preserved",
        }

    def test_a_modality_that_the_output_lacks_is_not_checked(self, sound: Case) -> None:
        case = run(sound.before, CONFIG.model_copy(update={"emit_depth": False, "emit_instance": False}))
        assert Modality.DEPTH not in case.modalities
        assert not {"depth", "instance"} & {c.__name__.split("_")[0] for c in applicable(case)}
        assert violations(case) == []

    def test_a_taxonomy_is_asked_for(self, sound: Case) -> None:
        case = run(sound.before, BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=EVERY_OBJECT))
        with pytest.raises(ValueError, match=r"panoptic_thing_stuff_consistent: expected config\.panoptic"):
            invariants.panoptic_thing_stuff_consistent(case)
        assert len(applicable(case)) == len(invariants.INVARIANTS) - 4  # three of a taxonomy, one of boxes alone

    def test_parts_of_different_forwards_are_refused(self, sound: Case) -> None:
        with pytest.raises(ValueError, match=r"expected one \[B, H, W\]"):
            replace(sound, before=make_batch(2, size=(19, 23)))
        with pytest.raises(ValueError, match="not below the K before it"):
            replace(sound, before=make_batch(3, size=(19, 23), max_instances=10))


class TestErrors:
    def test_check_all_raises_with_all_violations(self, sound: Case) -> None:
        check_all(sound)
        after = sound.after.clone()
        after.boxes[SPOILED] += 1
        after.labels[SPOILED, 0] += 1
        with pytest.raises(InvariantError, match="instance_bbox_recomputed_from_mask: image 1: expected") as caught:
            check_all(replace(sound, after=after))
        assert {v.invariant for v in caught.value.violations} >= {"instance_identity_preserved"}

    def test_check_takes_what_any_check_returns(self, sound: Case) -> None:
        check(invariants.depth_monotonicity(sound))
        with pytest.raises(InvariantError):
            check([Violation("name", 0, "this", "that")])

    def test_long_lists_are_cut_and_counted(self) -> None:
        error = InvariantError(Violation("name", b, "this", "that") for b in range(25))
        assert str(error).splitlines()[-1] == "and 5 more"
        assert len(error.violations) == 25

    def test_errors_travel_between_processes(self) -> None:
        error = InvariantError([Violation("name", 3, "this", "that")])
        assert str(pickle.loads(pickle.dumps(error))) == "name: image 3: expected this, got that"


class Reversed(IntraBatchSource):
    """The same rows, as a source batch of its own in which they stand in reverse order."""

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: torch.Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        _, placement, counts = super().sample(target, eligible, request)
        self.source = target.map_tensors(lambda tensor: tensor.flip(0))
        return self.source, replace(placement, source_idx=len(eligible) - 1 - placement.source_idx), counts


def test_a_source_batch_of_its_own(sound: Case) -> None:
    strategy = Reversed()
    after, report = paste(sound.before, CONFIG, strategy)
    case = Case(sound.before, after, report, CONFIG, source=strategy.source)
    assert violations(case) == []
    names = {v.invariant for v in violations(replace(case, source=None))}
    assert names >= {"semantic_single_class_per_pixel", "normals_camera_frame_convention"}


@pytest.mark.parametrize(("batch_size", "num_slots"), [(0, 4), (2, 0), (1, 3)])
def test_degenerate_batches(batch_size: int, num_slots: int) -> None:
    before = make_batch(batch_size, max_instances=num_slots, num_instances=0, keypoints=True, crowd=True)
    for config in (CONFIG, CONFIG.model_copy(update={"max_instances": 6})):
        case = run(before, config)
        assert violations(case) == []
        assert len(applicable(case)) == len(invariants.INVARIANTS) - 1  # without boxes alone


def test_batches_without_slots_have_no_violations() -> None:
    """This includes staged crops of a bank, which have a slot, and classes with contact priorities."""
    batch = make_batch(2, size=(11, 17), max_instances=0, num_instances=0)
    crop = torch.ones(2, 1, 1, 5, 7, dtype=torch.bool)
    staged = StagedCrops(
        images=torch.zeros(2, 1, 3, 5, 7, dtype=torch.uint8),
        alphas=crop,
        class_ids=torch.ones(2, 1, dtype=torch.int64),
        boxes=torch.tensor([0, 0, 7, 5]).expand(2, 1, 4),
        crop_idx=torch.zeros(2, 1, dtype=torch.int64),
    )
    panoptic = PanopticConfig.model_validate({"taxonomy": SCHEMA, "contact_priority": {THINGS[0]: 2}})
    config = BatchCopyPasteConfig(
        placement={"paste_prob": 1.0}, panoptic=panoptic, source=SourceConfig(kind="bank", value_range=1)
    )
    out, report = paste(batch, config, staged=staged)
    source = source_batch(staged, batch, config.source)
    assert source.max_instances == 1
    assert violations(Case(batch, out, report, config, source)) == []
