"""Settings that the summary of `segpaste augment` names."""

from __future__ import annotations

import pytest

from segpaste.augmentation import DROP_REASONS, BatchCopyPasteConfig, PlacementConfig, SourceConfig
from segpaste.cli._advice import advice_of, nothing_drawn
from segpaste.cli._tally import Tally
from segpaste.presets import get_preset


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("mmdet", " (placement.k_range)"),
        ("simple_copy_paste", " (placement.k_range)"),
        ("ultralytics_flip", " (placement.candidate_frac)"),
        ("ultralytics_mixup", " (placement.paste_prob, placement.candidate_frac)"),
        ("documents", ""),
    ],
)
def test_why_nothing_was_drawn(preset: str, settings: str) -> None:
    assert nothing_drawn(get_preset(preset).config) == f"no paste was drawn{settings}"


def test_no_source() -> None:
    """A jitter is named only where there is one, and whole_only where it counts."""
    usual, all_of_them = BatchCopyPasteConfig(), BatchCopyPasteConfig(source=SourceConfig(whole_only=False))
    assert "--size own" in advice_of(all_of_them, has_jitter=True)["no_source"]
    assert "--size own" not in advice_of(usual)["no_source"]
    assert "source.whole_only=false" in advice_of(usual)["no_source"]
    assert "whole_only" not in advice_of(all_of_them, has_jitter=True)["no_source"]


def test_a_kept_place() -> None:
    """No scale and no attempts help there."""
    config = BatchCopyPasteConfig(placement=PlacementConfig(position="keep"))
    advice = advice_of(config)
    assert set(advice) == set(DROP_REASONS)
    assert advice["does_not_fit"].startswith("set placement.partial=clip")
    assert not any(word in text for text in advice.values() for word in ("scale_range", "max_attempts"))


def test_the_summary_takes_it() -> None:
    shown = {"num_instances": 1, "num_tried": 2, "before": {}, "after": {}, "pasted": [], "dropped": {}}
    tally = Tally(get_preset("mmdet").config)
    tally.add(shown)
    tally.add({**shown, "dropped": {"does_not_fit": 2}})
    text = "\n".join(tally.lines())
    assert "no paste was drawn (placement.k_range)" in text
    assert "their place is outside of the image" in text
