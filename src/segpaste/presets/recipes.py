"""Registry of presets by name, with the presets of this package."""

from __future__ import annotations

import difflib

from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig, SourceConfig
from segpaste.presets import originals
from segpaste.presets.preset import LoaderOptions, Preset

RANDOM_PLACE = Preset(
    name="random_place",
    summary="Instance segmentation: up to ten objects of another image, at a random place, both images jittered.",
    reproduces=(
        "No single paper: the jitter of Simple Copy-Paste (Ghiasi et al., CVPR 2021), then one to ten objects of "
        "another image, at their original size, with hard edges. The group is moved to a random place, so that pastes "
        "do not always cover the same part of an image. Objects with less than a tenth of their area left are dropped."
    ),
    loader=LoaderOptions(size=1024, scale_range=(0.1, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        placement=PlacementConfig(
            scale_range=(1.0, 1.0), scale_to_fit=False, hflip_probability=0.0, paste_prob=1.0, k_range=(1, 10)
        )
    ),
)

PANOPTIC_LSJ = Preset(
    name="panoptic_lsj",
    summary="Panoptic segmentation: only things are pasted, each pixel has one owner, and no stuff class disappears.",
    reproduces=(
        "The jitter with which Mask2Former (Cheng et al., CVPR 2022) trains panoptic COCO, 0.1 to 2.0 on canvases of "
        "1024 pixels, with things pasted between the images of a batch. Give the dataset's schema: "
        "get_preset('panoptic_lsj').config_for(schema)."
    ),
    loader=LoaderOptions(size=1024, scale_range=(0.1, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        emit_panoptic=True,
        min_area_px=16,
        placement=PlacementConfig(
            paste_prob=1.0, layers=2, k_range=(1, 8), scale_range=(0.5, 1.5), scale_to_fit=False, max_attempts=4
        ),
    ),
)

CLASSMIX = Preset(
    name="classmix",
    summary="Semantic segmentation: half of the classes of another image, at the same position.",
    reproduces=(
        "Olsson et al., ClassMix: Segmentation-Based Data Augmentation for Semi-Supervised Learning, WACV 2021: half "
        "of the classes of one image are pasted over another, with hard edges, and labels are mixed with the same "
        "mask. Differs: half is rounded up, the jitter is that of this library's loader, 1.0 to 2.0, "
        "so that little of an image is padding, and instances, panoptic ids, "
        "depth and normals are pasted as well if the batch has them. The labels of unlabelled images must be predicted "
        "by your training code."
    ),
    loader=LoaderOptions(size=512, scale_range=(1.0, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(emit_classmix=True, placement=PlacementConfig(paste_prob=1.0)),
)

DEPTH_AWARE = Preset(
    name="depth_aware",
    summary="Depth and segmentation together: the nearer surface is visible, enlarged objects are nearer.",
    reproduces=(
        "No single paper: pasted objects keep their metric depth, corrected for the focal length and for their scale, "
        "and the nearer surface is visible at each pixel."
    ),
    loader=LoaderOptions(size=512, scale_range=(0.5, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        emit_depth=True,
        perspective_depth=True,
        min_area_px=16,
        placement=PlacementConfig(
            paste_prob=1.0,
            grouping="instance",
            layers=6,
            k_range=(1, 6),
            scale_range=(0.7, 1.5),
            scale_to_fit=False,
            max_attempts=4,
        ),
    ),
)

VIT_PATCH = Preset(
    name="vit_patch",
    summary="Vision transformers: the box of each pasted object covers whole patches of 14 pixels.",
    reproduces=(
        "No single paper: patches and canvas have the sizes of DINOv2 (Oquab et al., 2023). Boxes of objects are "
        "aligned to the patch grid, so that no token crosses their edges. For other patch sizes set "
        "placement.pad_to_multiple."
    ),
    loader=LoaderOptions(size=518, scale_range=(0.1, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        placement=PlacementConfig(
            pad_to_multiple=14,
            patch_aligned_paste=True,
            align="instance",
            paste_prob=1.0,
            grouping="instance",
            layers=6,
            k_range=(1, 6),
            scale_range=(0.5, 2.0),
            scale_to_fit=False,
            max_attempts=4,
        ),
    ),
)

DOCUMENTS = Preset(
    name="documents",
    summary="All objects of another image together, at scales that do not depend on whether they fit; for comparisons.",
    reproduces=(
        "The library's own design documents: all objects of one other image, in their original arrangement, at a scale "
        "of 0.5 to 2.0 that does not depend on whether they fit, at a uniform place; also objects at the border of "
        "their image."
    ),
    config=BatchCopyPasteConfig(
        placement=PlacementConfig(
            scale_range=(0.5, 2.0),
            scale_to_fit=False,
            hflip_probability=0.5,
            paste_prob=1.0,
            k_range=(1, 256),
            layers=1,
            grouping="image",
            position="random",
            max_attempts=1,
            partial="drop",
        ),
        source=SourceConfig(whole_only=False),
    ),
)

_RECIPES = (
    *(RANDOM_PLACE, PANOPTIC_LSJ, CLASSMIX, DEPTH_AWARE, VIT_PATCH, DOCUMENTS),
    *(originals.SIMPLE_COPY_PASTE, originals.MMDET, originals.ULTRALYTICS_FLIP, originals.ULTRALYTICS_MIXUP),
    originals.XPASTE,
)
_known = {recipe.name: recipe for recipe in _RECIPES}


def register_preset(preset: Preset) -> Preset:
    """Register a preset by its name; return it.

    Raises:
        ValueError: another preset has the name.
    """
    if _known.get(preset.name, preset) != preset:
        raise ValueError(f"register_preset: expected a name that is free, got {preset.name!r}; give it another one")
    _known[preset.name] = preset
    return preset


def get_preset(name: str) -> Preset:
    """Return the preset of this name.

    Raises:
        ValueError: there is none; the message has the nearest name, if one is near.
    """
    if name not in _known:
        near = [known for known in sorted(_known) if known.startswith(str(name))]
        near = near or difflib.get_close_matches(str(name), _known, n=1)
        meant = f"; the nearest is {near[0]!r}" if near else ""
        raise ValueError(f"get_preset: expected one of {', '.join(list_presets())}, got {name!r}{meant}")
    return _known[name]


def list_presets() -> list[str]:
    """Return all names, sorted."""
    return sorted(_known)
