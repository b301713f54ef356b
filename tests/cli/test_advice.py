"""Settings that the summary of `segpaste augment` names."""

from __future__ import annotations

import pytest

from samples import SCHEMA
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPasteConfig,
    PanopticConfig,
    PlacementConfig,
    SourceConfig,
)
from segpaste.augmentation.report import _nothing_pasted
from segpaste.augmenting.options import command_line
from segpaste.augmenting.summary import AugmentSummary, advice_of, lost_advice, nothing_drawn
from segpaste.presets import get_preset


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("mmdet", " (placement.k_range)"),
        ("simple_copy_paste", " (placement.k_range)"),
        ("ultralytics_flip", " (placement.originals.candidate_frac)"),
        ("ultralytics_mixup", " (placement.paste_prob, placement.originals.candidate_frac)"),
        ("documents", ""),
    ],
)
def test_why_nothing_was_drawn(preset: str, settings: str) -> None:
    assert nothing_drawn(get_preset(preset).config) == f"no paste was drawn{settings}"


def test_no_source() -> None:
    """A jitter is named only where there is one, and whole_only where it counts."""
    usual, all_of_them = BatchCopyPasteConfig(), BatchCopyPasteConfig(source=SourceConfig(whole_only=False))
    assert "size='own'" in advice_of(all_of_them, has_jitter=True)["no_source"]
    with command_line():
        assert "--size own" in advice_of(all_of_them, has_jitter=True)["no_source"]
    assert "--size own" not in advice_of(usual)["no_source"]
    assert "source.whole_only=false" in advice_of(usual)["no_source"]
    assert "whole_only" not in advice_of(all_of_them, has_jitter=True)["no_source"]


@pytest.mark.parametrize("depth", [False, True])
@pytest.mark.parametrize("panoptic", [False, True])
def test_reasons_speak_of_what_the_data_has(depth: bool, panoptic: bool) -> None:
    taxonomy = PanopticConfig(taxonomy=SCHEMA, contact_priority={1: 2}) if panoptic else None
    config = BatchCopyPasteConfig(panoptic=taxonomy)
    told = " ".join([*advice_of(config, has_depth=depth).values(), *lost_advice(config).values()])
    assert ("nearer" in told) == depth
    assert any(word in told for word in ("panoptic", "taxonomy", "stuff")) == panoptic
    warned = " ".join(
        str(_nothing_pasted(9, [9 * (i == n) for i in range(len(DROP_REASONS))], config))
        for n in range(len(DROP_REASONS))
        if DROP_REASONS[n] in ("no_source", "reverted")
    )
    assert any(word in warned for word in ("panoptic", "taxonomy", "things")) == panoptic


def test_lost_objects_name_settings_that_can_change() -> None:
    """None that is at its end already."""
    config = BatchCopyPasteConfig(min_area_px=1, min_residual_area_frac=0.0, max_hidden_frac=0.5)
    assert lost_advice(config)["too_small"] == "lower max_hidden_frac, or set placement.max_cover_frac"
    mixed = BatchCopyPasteConfig(emit_classmix=True, min_area_px=9)
    assert "placement" not in " ".join(lost_advice(mixed).values())


def test_a_kept_place() -> None:
    """No scale and no attempts help there."""
    config = BatchCopyPasteConfig(placement=PlacementConfig(position="keep"))
    advice = advice_of(config)
    assert set(advice) == {*DROP_REASONS} - {"eval_mode"}  # the commands paste in training mode
    assert advice["does_not_fit"].startswith("set placement.partial=clip")
    assert not any(word in text for text in advice.values() for word in ("scale_range", "max_attempts"))


def test_the_summary_takes_it() -> None:
    shown = {"num_instances": 1, "num_tried": 2, "before": {}, "after": {}, "pasted": [], "dropped": {}}
    tally = AugmentSummary(config=get_preset("mmdet").config)
    tally.add(shown)
    tally.add({**shown, "dropped": {"does_not_fit": 2}})
    text = "\n".join(tally.lines())
    assert "no paste was drawn (placement.k_range)" in text
    assert "their place is outside of the image" in text
