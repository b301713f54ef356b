"""Mutations: each breaks one rule of the module under test in memory, so that the invariants it names must fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from segpaste.engine import Placement, Scene, derived, reference
from segpaste.engine.reference import pixels, stages
from segpaste.engine.reference.plan import LayerView
from segpaste.types import KeypointSchema, sampling
from segpaste.types import check as types_check

Mutation = Callable[[pytest.MonkeyPatch], None]
MUTATIONS: list[Any] = []


def guards(*names: str) -> Callable[[Mutation], Mutation]:
    """Enter a mutation as one that the invariants of these names must notice."""

    def enter(mutation: Mutation) -> Mutation:
        MUTATIONS.extend(pytest.param(name, mutation, id=f"{name}-{mutation.__name__}") for name in names)
        return mutation

    return enter


def wrap(patch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by ``change(original, *arguments)``."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: change(original, *args, **kwargs))


@guards("instance_identity_preserved")
def pastes_fill_slots_from_the_first(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, survives: Tensor, *args: Any) -> Any:
        plan = original(target, torch.zeros_like(survives), *args)
        return plan._replace(survives=survives & (plan.paste_layer < 0))

    wrap(patch, stages, "assign_slots", change)


@guards("instance_identity_preserved")
def survivors_lose_their_rows(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, stages, "survivors", lambda original, *args: torch.zeros_like(original(*args)))


@guards("instance_identity_preserved")
def survivors_take_new_labels(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, stages, "merge_rows", lambda original, *args: _changed(original(*args), "labels", lambda t: t % 3 + 1))


@guards("instance_identity_preserved")
def survivors_are_renumbered(patch: pytest.MonkeyPatch) -> None:
    wrap(
        patch, stages, "merge_rows", lambda original, *args: _changed(original(*args), "instance_ids", lambda t: t + 1)
    )


def _changed(rows: dict[str, Tensor], name: str, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    value = rows[name]
    return {**rows, name: torch.where(rows["instance_valid"], change(value), value)}


@guards("instance_hidden_area_limited")
def nothing_is_guarded(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, stages, "over_hidden", lambda original, *args: torch.zeros_like(original(*args)))


@guards("instance_given_bbox_kept")
def boxes_are_those_of_masks(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, derived, "output_boxes", lambda original, *args: args[-1].batch.boxes)


@guards("instance_given_bbox_kept")
def cut_boxes_stay(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, derived, "common_boxes", lambda original, boxes, visible: boxes)


@guards("instance_given_bbox_kept")
def boxes_are_not_flipped(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any) -> Any:
        maps = original(*args)
        return None if maps is None else _without(maps, "hflip")

    wrap(patch, derived, "slot_maps", change)


@guards("instance_given_bbox_kept")
def boxes_are_not_flipped_vertically(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any) -> Any:
        maps = original(*args)
        return None if maps is None else _without(maps, "vflip")

    wrap(patch, derived, "slot_maps", change)


@guards("instance_given_bbox_kept", "keypoints_visible_only_on_own_pixels")
def boxes_are_not_turned(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any) -> Any:
        maps = original(*args)
        return None if maps is None else _without(maps, "swap_axes")

    wrap(patch, derived, "slot_maps", change)


def _without(maps: derived.SlotMaps, name: str) -> derived.SlotMaps:
    """Maps in which nothing is flipped one way, or turned."""
    flags = getattr(maps, name)
    return maps if flags is None else maps._replace(**{name: torch.zeros_like(flags)})


@guards("panoptic_contact_priority")
def classes_are_alike(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any) -> Tensor | None:
        front = original(*args)
        return None if front is None else torch.full_like(front, -9)

    wrap(patch, pixels, "_target_ranks", change)


@guards("instance_target_masks_subtract_paste_union")
def survivors_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, out: Any, scene: Scene, plan: Any, visible: Any, slot_plan: Any, tile: Any) -> None:
        original(out, scene, plan, visible, slot_plan, tile)
        assert scene.target.instance_masks is not None
        whole = scene.target.instance_masks[:, :, tile.rows, tile.cols] & slot_plan.survives[:, :, None, None]
        out["instance_masks"][:, : whole.shape[1], tile.rows, tile.cols] = whole

    wrap(patch, pixels, "_render_target", change)


@guards("instance_target_masks_subtract_paste_union")
def free_slots_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        return found._replace(num_free=torch.full_like(found.num_free, 1000))

    wrap(patch, reference, "survey", change)


@guards("instance_target_masks_subtract_paste_union", "instance_no_same_class_overlap", "panoptic_pixel_bijection")
def pasted_masks_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pixels, "pasted_masks", lambda view, visible, layer, tile, exclusive: view.masks())


@guards("instance_identity_preserved")
def pastes_take_the_labels_of_their_slots(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, source_labels: Tensor, *args: Any) -> Any:
        return original(target, source_labels.flip(-1), *args)

    wrap(patch, stages, "merge_rows", change)


@guards("instance_target_masks_subtract_paste_union")
def pastes_swap_their_masks(patch: pytest.MonkeyPatch) -> None:
    """The union stays; only the owners of the masks change."""

    def change(original: Any, *args: Any) -> Any:
        planes, plan = original(*args), args[3]
        for masks, layers in zip(planes["instance_masks"], plan.paste_layer, strict=True):
            rows = (layers >= 0).nonzero()[:, 0]
            masks[rows] = masks[rows.flip(0)]
        return planes

    wrap(patch, pixels, "render", change)


@guards("image_kept_outside_pastes")
def the_image_is_touched_everywhere(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, *args: Any) -> Any:
        planes = original(*args)
        return {**planes, "images": planes["images"] + 1}

    wrap(patch, pixels, "render", change)


@guards("depth_monotonicity", "depth_validity_join")
def depth_that_is_no_number_is_kept(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, *args: Any) -> Any:
        planes, depth = original(scene, *args), scene.target.depth
        assert depth is not None
        broken = ~depth.isfinite()
        kept = torch.where(broken, depth, planes["depth"])
        return {**planes, "depth": kept, "depth_valid": planes["depth_valid"] | broken}

    wrap(patch, pixels, "render", change)


@guards("instance_bbox_recomputed_from_mask")
def boxes_are_copied(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, source_labels: Tensor, plan: Any, measures: Any) -> Any:
        return original(target, source_labels, plan, measures._replace(box=target.boxes.ceil().long()))

    wrap(patch, stages, "merge_rows", change)


@guards("instance_small_area_dropped")
def small_rests_survive(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, valid: Tensor, measures: Any, rules: Any, *others: Any) -> Tensor:
        return original(valid, measures, rules._replace(min_area_px=1, residual_num=0), *others)

    wrap(patch, stages, "survivors", change)


@guards("instance_small_area_dropped")
def small_pastes_are_placed(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, *args: Any) -> Any:
        return original(replace(scene, rules=scene.rules._replace(min_area_px=1)), *args)

    wrap(patch, stages, "settle", change)


@guards("panoptic_thing_stuff_consistent", "panoptic_fresh_instance_ids")
def pastes_keep_the_targets_ids(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, *args: Any) -> Any:
        assert scene.target.panoptic_maps is not None
        return {**original(scene, *args), "panoptic_maps": scene.target.panoptic_maps.clone()}

    wrap(patch, pixels, "render", change)


@guards("panoptic_thing_stuff_consistent")
def orphans_keep_their_class(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, out: Any, *args: Any) -> None:
        original({**out, "semantic_maps": out["semantic_maps"].clone()}, *args)

    wrap(patch, pixels, "_render_target", change)


@guards("panoptic_pixel_bijection")
def orphans_keep_their_ids(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, out: Any, *args: Any) -> None:
        original({**out, "panoptic_maps": out["panoptic_maps"].clone()}, *args)

    wrap(patch, pixels, "_render_target", change)


@guards("panoptic_fresh_instance_ids")
def ids_are_copied_from_the_source(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(types_check, "check_padded_ids", lambda *args: None)  # the container would refuse the twins

    def change(original: Any, scene: Scene, settled: stages.Settled, labels: Tensor) -> Any:
        assert scene.source.instance_ids is not None
        ids = scene.source.instance_ids[settled.plan.source_idx].long()
        return original(scene, settled, labels)._replace(fresh_id=ids * settled.plan.carried)

    wrap(patch, stages, "assign", change)


@guards("panoptic_fresh_instance_ids")
def ids_continue_from_the_number_of_instances(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(types_check, "check_padded_ids", lambda *args: None)

    def change(original: Any, target: Any, *args: Any) -> Any:
        counted = target.instance_valid.cumsum(1).int() * target.instance_valid
        return original(replace(target, instance_ids=counted, panoptic_maps=None), *args)

    wrap(patch, stages, "assign_slots", change)


@guards("panoptic_stuff_area_threshold")
def stuff_is_not_watched(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, stages, "wiped_out", lambda original, *args: torch.zeros_like(original(*args)))


@guards("semantic_single_class_per_pixel")
def classes_are_averaged(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView, plane: Tensor) -> Tensor:
        value = original(view, plane)
        if plane.dtype != torch.int64:
            return value
        neighbours = view.at(plane, view.y.linear_idx[:, 1], view.x.linear_idx[:, 1])
        return torch.div(value + neighbours, 2, rounding_mode="floor")

    wrap(patch, LayerView, "nearest", change)


@guards("semantic_ignore_preserved")
def ignored_target_pixels_are_open(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, protected: Tensor, ignore_index: int, tile: Any) -> Tensor:
        return original(target, protected, -1, tile)

    wrap(patch, pixels, "_open_pixels", change)


@guards("semantic_ignore_preserved")
def ignored_source_pixels_are_pasted(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, *args: Any) -> Any:
        return original(replace(scene, source=scene.source.derived(semantic_maps=None)), *args)

    wrap(patch, pixels, "resolve", change)


@guards("semantic_ignore_preserved")
def wiped_out_stuff_is_ignored_at_any_policy(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, settled: stages.Settled, labels: Tensor) -> Any:
        plan = original(scene, settled, labels)
        return plan._replace(ignored_class=settled.measures.class_after < settled.measures.class_before)

    wrap(patch, stages, "assign", change)


@guards("depth_monotonicity")
def depth_is_not_tested(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pixels, "_target_depth", lambda target, tile, **order: (None, None))


@guards("depth_monotonicity")
def the_farther_surface_wins(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, tile: Any, **order: Any) -> tuple[Tensor | None, Tensor | None]:
        depth, valid = original(target, tile, **order)
        return depth * 0.5, valid

    wrap(patch, pixels, "_target_depth", change)


@guards("depth_monotonicity")
def invalid_target_depth_hides_pastes(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, target: Any, tile: Any, **order: Any) -> tuple[Tensor | None, Tensor | None]:
        depth, valid = original(target, tile, **order)
        return torch.where(valid, depth, 0.0), torch.ones_like(valid)

    wrap(patch, pixels, "_target_depth", change)


@guards("depth_validity_join")
def target_validity_is_not_joined(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, out: Any, scene: Scene, *args: Any) -> None:
        assert scene.target.depth_valid is not None
        trusted = scene.target.derived(depth_valid=torch.ones_like(scene.target.depth_valid))
        original(out, replace(scene, target=trusted), *args)

    wrap(patch, pixels, "_render_layer", change)


@guards("depth_validity_join")
def source_validity_is_not_joined(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView, **order: Any) -> tuple[Tensor, Tensor]:
        depth, valid = original(view, **order)
        return depth, torch.ones_like(valid)

    wrap(patch, LayerView, "depth", change)


@guards("depth_validity_join")
def source_validity_is_the_nearest_pixels(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView, **order: Any) -> tuple[Tensor, Tensor]:
        assert view.source.depth_valid is not None
        return original(view, **order)[0], view.nearest(view.source.depth_valid)[:, 0]

    wrap(patch, LayerView, "depth", change)


@guards("depth_metric_intrinsics_rescale")
def metric_depth_is_not_rescaled(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, stages, "depth_scale", lambda original, *args: torch.ones_like(original(*args)))


@guards("depth_metric_intrinsics_rescale")
def depth_is_mixed_across_edges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sampling, "DEPTH_EDGE_FRAC", 1e9)


@guards("normals_unit_norm_on_valid")
def normals_are_not_renormalised(patch: pytest.MonkeyPatch) -> None:
    def mixed(taps: Tensor, weights: Tensor, nearest: Tensor) -> Tensor:
        return torch.where((nearest == 0).all(0), 0.0, (taps * weights).sum(-1))

    patch.setattr(sampling, "mix_normals", mixed)


@guards("normals_unit_norm_on_valid")
def normals_are_lost(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, LayerView, "normals", lambda original, view: torch.zeros_like(original(view)))


@guards("normals_camera_frame_convention")
def n_x_is_not_negated(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView) -> Tensor:
        view.hflip = torch.zeros_like(view.hflip)
        return original(view)

    wrap(patch, LayerView, "normals", change)


@guards("normals_camera_frame_convention")
def normals_are_not_turned(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView) -> Tensor:
        turned = original(view)
        return torch.where(view.swap_axes[:, None, None, None], turned[:, [1, 0, 2]], turned)

    wrap(patch, LayerView, "normals", change)


@guards("normals_camera_frame_convention")
def n_y_is_not_negated(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, view: LayerView) -> Tensor:
        view.vflip = torch.zeros_like(view.vflip)
        return original(view)

    wrap(patch, LayerView, "normals", change)


@guards("normals_camera_frame_convention")
def normals_point_up(patch: pytest.MonkeyPatch) -> None:
    flip = torch.tensor([1.0, -1.0, 1.0])[:, None, None]
    wrap(patch, LayerView, "normals", lambda original, view: original(view) * flip)


@guards("keypoints_visible_only_on_own_pixels")
def points_of_survivors_stay_visible(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, derived, "_is_inside", lambda original, *args: torch.zeros_like(original(*args)))


@guards("keypoints_visible_only_on_own_pixels")
def points_of_pastes_stay_where_they_were(patch: pytest.MonkeyPatch) -> None:
    def change(original: Any, scene: Scene, placement: Placement, *found: Any) -> Tensor:
        return original(scene, replace(placement, translate=torch.zeros_like(placement.translate)), *found)

    wrap(patch, derived, "_pasted_keypoints", change)


@guards("keypoints_visible_only_on_own_pixels")
def points_do_not_swap(patch: pytest.MonkeyPatch) -> None:
    order = property(lambda schema: tuple(range(schema.num_points)))
    patch.setattr(KeypointSchema, "flip_order", order)


@guards("crowd_never_under_paste")
def crowds_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(derived.RULES, "crowd_mask", lambda scene, *_: scene.target.crowd_mask)  # type: ignore[arg-type]
