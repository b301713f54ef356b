"""Presets that do the same as the copy-paste of a paper or of another library, compared with it on fixed draws."""

from __future__ import annotations

from typing import Any

from segpaste.augmentation import BatchCopyPasteConfig, HarmonizeConfig, OriginalsConfig, PlacementConfig, SourceConfig
from segpaste.presets.preset import LoaderOptions, Preset

ALL = 10_000
"""Number of objects larger than that of any image."""

IN_PLACE: dict[str, Any] = {
    "position": "keep",
    "hflip_probability": 0.0,
    "partial": "clip",
    "min_visible_frac": 0.0,
}
"""Placement of objects at their place in their image, cut at the border of the target."""

EVERY_OBJECT = SourceConfig(whole_only=False)
"""Source with the objects at the border of their image, too: the originals do not look at borders."""

LEAST_COVERING: dict[str, Any] = {
    "k_range": (ALL, ALL),
    "max_cover_frac": 0.3,
    "originals": OriginalsConfig(candidate_frac=0.5),
}
"""Choice of half of the objects that cover less than 0.3 of every box: those that cover the least."""

SIMPLE_COPY_PASTE = Preset(
    name="simple_copy_paste",
    summary="Instance segmentation: a random subset of another image's objects, same position, smoothed edges.",
    reproduces=(
        "Ghiasi et al., Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation, CVPR 2021: "
        "large-scale jitter of 0.1 to 2.0 and flips of both images, then a random subset of the objects of the other "
        "image, at the same position, with a mask smoothed by a Gaussian; objects that are fully covered are removed. "
        "Differs: pixels of the target outside the mask do not change; padding is not pasted over. The paper states "
        "neither how the subset is drawn nor the width of the Gaussian: here each number of objects is equally likely, "
        "and the standard deviation is one pixel."
    ),
    loader=LoaderOptions(size=1024, scale_range=(0.1, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        min_residual_area_frac=0.0,
        placement=PlacementConfig(
            **IN_PLACE, paste_prob=1.0, k_range=(0, ALL), originals=OriginalsConfig(k_to_available=True)
        ),
        source=EVERY_OBJECT,
        harmonize=HarmonizeConfig(blur_px=1.0),
    ),
)

MMDET = Preset(
    name="mmdet",
    summary="Instance segmentation as in MMDetection: 0 to 99 objects of one other image, at the same position.",
    reproduces=(
        "CopyPaste of MMDetection 3 with its default arguments: a number from 0 to min(N, 99) of the N objects of one "
        "other image, at the same position, with hard edges; a partly hidden object is kept if no edge of its box "
        "moved by more than 10 pixels, or if more than 300 pixels are left. Differs: fully hidden objects are always "
        "removed, crowds are never pasted, padding is not pasted over, and the other image always has objects."
    ),
    loader=LoaderOptions(size=1024, scale_range=(0.1, 2.0), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        min_residual_area_frac=0.0,
        placement=PlacementConfig(
            **IN_PLACE,
            paste_prob=1.0,
            k_range=(0, 99),
            originals=OriginalsConfig(k_to_available=True, min_residual_area_px=301, max_box_shift_px=10),
        ),
        source=EVERY_OBJECT,
    ),
)

ULTRALYTICS_FLIP = Preset(
    name="ultralytics_flip",
    summary="Instance segmentation as in Ultralytics' mode flip: an image's own objects, mirrored.",
    reproduces=(
        "CopyPaste of Ultralytics 8, mode flip, p 0.5: the image's own objects, mirrored together with their position. "
        "Of the objects whose box covers less than 0.3 of every box, the half that covers the least is pasted, rounded "
        "half to even. Differs: hidden pixels are removed from masks and boxes, which Ultralytics keeps unchanged."
    ),
    loader=LoaderOptions(size=640, scale_range=(0.5, 1.5), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        min_residual_area_frac=0.0,
        placement=PlacementConfig(**(IN_PLACE | LEAST_COVERING | {"hflip_probability": 1.0}), paste_prob=1.0),
        source=SourceConfig(kind="same_image", whole_only=False),
    ),
)

ULTRALYTICS_MIXUP = Preset(
    name="ultralytics_mixup",
    summary="Instance segmentation as in Ultralytics' mode mixup: objects of another image that cover the least.",
    reproduces=(
        "CopyPaste of Ultralytics 8, mode mixup, p 0.5: half of the images that have objects get objects of one other "
        "image, at the same position. Of the objects whose box covers less than 0.3 of every box, the half that covers "
        "the least is pasted, rounded half to even. Differs: hidden pixels are removed from masks and boxes, which "
        "Ultralytics keeps unchanged; the other image is never the image itself, and always has objects."
    ),
    loader=LoaderOptions(size=640, scale_range=(0.5, 1.5), hflip_prob=0.5),
    config=BatchCopyPasteConfig(
        min_residual_area_frac=0.0,
        placement=PlacementConfig(**IN_PLACE, **LEAST_COVERING, paste_prob=0.5, into_empty=False),
        source=EVERY_OBJECT,
    ),
)

XPASTE = Preset(
    name="xpaste",
    summary="Rare classes: up to twenty objects of a bank, each with a size according to its class, at a random place.",
    reproduces=(
        "Zhao et al., X-Paste: Revisiting Scalable Copy-Paste for Instance Segmentation using CLIP and "
        "StableDiffusion, ICML 2023: one to twenty cut-outs of a bank for each image, of classes drawn uniformly "
        "(balance='class_uniform'), with a size that depends on the mean and standard deviation of the class, at a "
        "random place, with a smoothed edge. Differs: sizes of the longer side are drawn from "
        "segpaste.presets.class_size_ranges, uniformly with that mean and deviation; objects are inside the image; "
        "edges are smoothed only inside the mask. To build a bank from cut-outs, use segpaste bank build --cutouts."
    ),
    config=BatchCopyPasteConfig(
        placement=PlacementConfig(grouping="instance", scale_range=(1 / 16, 8.0), paste_prob=1.0, k_range=(1, 20)),
        source=SourceConfig(kind="bank", crops_per_target=20),
        harmonize=HarmonizeConfig(blur_px=1.0),
    ),
)
