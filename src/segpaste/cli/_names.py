"""Names of presets and keys of the configuration, for help and completion, which import no torch. A test compares."""

from __future__ import annotations

import textwrap

PRESETS = (
    "classmix",
    "depth_aware",
    "documents",
    "mmdet",
    "panoptic_lsj",
    "random_place",
    "simple_copy_paste",
    "ultralytics_flip",
    "ultralytics_mixup",
    "vit_patch",
    "xpaste",
)
_KEYS = {
    "": "emit_instance emit_panoptic emit_depth emit_classmix blend_mode max_instances tile_size antialias "
    "perspective_depth depth_order min_area_px min_residual_area_frac max_hidden_frac",
    "placement.": "scale_range scale_to_fit size_range.low size_range.high class_sizes.low class_sizes.high "
    "hflip_probability vflip_probability quarter_turn_probability paste_prob fixed_share into_empty fade_last "
    "fade_curve k_range class_temperature layers grouping position region region_frac max_cover_frac cover_void "
    "max_attempts partial min_visible_frac pad_to_multiple patch_aligned_paste align originals.k_to_available "
    "originals.candidate_frac originals.min_residual_area_px originals.max_box_shift_px",
    "source.": "kind whole_only mask_from crops_per_target value_range relative_to without_depth",
    "harmonize.": "mode prob pyramid_levels surround_px max_gain poisson_cycles feather_px blur_px",
    "panoptic.": "taxonomy.classes taxonomy.ignore_index taxonomy.max_instances_per_image stuff_policy tau_stuff_frac "
    "tau_stuff_px contact_priority",
}
"""Keys of each group."""
CONFIG_KEYS = tuple(group + key for group, keys in _KEYS.items() for key in keys.split())


def preset_and_key_lines() -> str:
    """Return paragraphs for help: the presets, and the keys by group."""
    paragraphs = [f"presets: {', '.join(PRESETS)}", "keys, explained in docs/guide/placement.md:"]
    paragraphs += [f"  {group}: {', '.join(keys.split())}".replace("  : ", "  ") for group, keys in _KEYS.items()]
    return "\n".join(textwrap.fill(text, 120, subsequent_indent="    ", break_on_hyphens=False) for text in paragraphs)
