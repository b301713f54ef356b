"""Presets with a bank: each layer becomes a crop, and options that a crop cannot have are refused by name."""

from __future__ import annotations

import re

import pytest

from segpaste.augmenting.settings import load_config
from segpaste.presets import list_presets

CROPS = {"depth_aware": 6, "panoptic_lsj": 2, "vit_patch": 6, "random_place": 1, "documents": 1, "xpaste": 20}
REFUSED = {
    "classmix": "emit_classmix=False, since crops are objects",
    "ultralytics_flip": "since bank is given, got same_image",
    **dict.fromkeys(("simple_copy_paste", "mmdet", "ultralytics_mixup"), "placement.position='random', since a crop"),
}


@pytest.mark.parametrize("preset", list_presets())
def test_every_preset_takes_a_bank_or_says_why_not(preset: str) -> None:
    if preset in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[preset]):
            load_config(None, {}, preset=preset, of_bank=True)
        return
    config = load_config(None, {}, preset=preset, of_bank=True)
    assert (config.source.kind, config.num_layers, config.placement.layers) == ("bank", CROPS[preset], 1)


@pytest.mark.parametrize(
    ("preset", "advice"),
    [(preset, "placement.position=random") for preset in ("simple_copy_paste", "mmdet", "ultralytics_mixup")]
    + [("classmix", "emit_classmix=false")],
)
def test_the_advice_of_a_refusal_works(preset: str, advice: str) -> None:
    with pytest.raises(ValueError, match=re.escape(advice)):
        load_config(None, {}, preset=preset, of_bank=True)
    key, _, value = advice.partition("=")
    assert load_config(None, {key: value}, preset=preset, of_bank=True).source.kind == "bank"


def test_arguments_go_before_the_preset() -> None:
    config = load_config(None, {"source.crops_per_target": "3"}, preset="depth_aware", of_bank=True)
    assert config.num_layers == 3
    with pytest.raises(ValueError, match=r"expected placement\.layers=1"):
        load_config(None, {"placement.layers": "2"}, preset="depth_aware", of_bank=True)
