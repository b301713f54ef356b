"""Presets: those of the package, those that users register, and files of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from samples import CPU_BACKENDS, SCHEMA, make_batch, paste
from segpaste import get_preset, list_presets, register_preset
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PlacementConfig
from segpaste.engine import use_backend
from segpaste.invariants import Case, check_all
from segpaste.presets import LoaderOptions, Preset

NAMES = (
    *("classmix", "depth_aware", "documents", "mmdet", "panoptic_lsj", "random_place", "simple_copy_paste"),
    *("ultralytics_flip", "ultralytics_mixup", "vit_patch"),
)


large_batch = partial(make_batch, 4, size=(40, 56), num_instances=3, max_instances=12, metric_depth=True)


def test_which_there_are() -> None:
    assert set(NAMES) <= set(list_presets())
    assert list_presets() == sorted(list_presets())
    for name in NAMES:
        preset = get_preset(name)
        assert preset.name == name
        assert preset.summary.endswith(".")
        assert preset.reproduces


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"got 'vitpatch'; the nearest is 'vit_patch'$"):
        get_preset("vitpatch")


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize("name", NAMES)
def test_yaml_in_yaml_out(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"preset{suffix}"
    get_preset(name).save(path)
    assert Preset.load(path) == get_preset(name)


def test_one_of_your_own() -> None:
    mine = Preset(name="only_mine", summary="Mine.", config=BatchCopyPasteConfig(min_area_px=3))
    assert register_preset(mine) is mine
    assert register_preset(mine) is mine  # once more is no harm
    assert get_preset("only_mine") == mine
    with pytest.raises(ValueError, match="a name that is free, got 'only_mine'"):
        register_preset(Preset(name="only_mine", summary="Another."))


@pytest.mark.parametrize(
    "values", [{"name": "With Space"}, {"name": "a", "other": 1}, {"name": "a", "loader": {"x": 1}}]
)
def test_refuses(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"name|other|x"):
        Preset.model_validate({"summary": "", **values})


def test_the_config_takes_a_schema_and_changes() -> None:
    config = get_preset("panoptic_lsj").config_for(SCHEMA, placement={"layers": 3}, panoptic={"stuff_policy": "ignore"})
    assert config.panoptic is not None
    assert dict(config.panoptic.taxonomy.classes) == dict(SCHEMA.classes)
    assert config.panoptic.stuff_policy == "ignore"
    assert config.placement.layers == 3
    assert config.placement.k_range == (1, 8)
    with pytest.raises(ValueError, match="nothing_known"):
        get_preset("panoptic_lsj").config_for(SCHEMA, nothing_known=1)


def test_the_schema_that_is_given_goes_over_that_of_the_preset() -> None:
    other = {"taxonomy": {"classes": {0: "stuff", 77: "thing"}}, "stuff_policy": "ignore"}
    preset = Preset(name="has_one", summary="", config=BatchCopyPasteConfig.model_validate({"panoptic": other}))
    panoptic = preset.config_for(SCHEMA).panoptic
    assert panoptic is not None
    assert dict(panoptic.taxonomy.classes) == dict(SCHEMA.classes)
    assert panoptic.stuff_policy == "ignore"
    given = PanopticConfig.model_validate(other)
    panoptic = get_preset("vit_patch").config_for(SCHEMA, panoptic=given).panoptic
    assert panoptic is not None
    assert (dict(panoptic.taxonomy.classes), panoptic.stuff_policy) == (dict(SCHEMA.classes), "ignore")


def test_of_a_model_what_was_set_goes_over_the_preset() -> None:
    placement = get_preset("vit_patch").config_for(placement=PlacementConfig(layers=3)).placement
    assert (placement.layers, placement.pad_to_multiple) == (3, 14)


@pytest.mark.parametrize(
    "options", [{"size": -5}, {"size": (0, 3)}, {"scale_range": (2.0, 1.0)}, {"scale_range": (0, 1)}]
)
def test_a_loader_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        LoaderOptions(**options)


def test_options_of_the_loader() -> None:
    found = {name: get_preset(name).loader for name in (*NAMES, "xpaste")}
    of_sizes = {
        "documents": (512, (0.1, 2.0)),
        "classmix": (512, (1.0, 2.0)),
        "depth_aware": (512, (0.5, 2.0)),
        "vit_patch": (518, (0.1, 2.0)),
        "xpaste": (512, (0.1, 2.0)),
        **dict.fromkeys(("mmdet", "panoptic_lsj", "random_place", "simple_copy_paste"), (1024, (0.1, 2.0))),
        **dict.fromkeys(("ultralytics_flip", "ultralytics_mixup"), (640, (0.5, 1.5))),
    }
    assert {name: (loader.size, loader.scale_range) for name, loader in found.items()} == of_sizes
    assert {loader.hflip_prob for loader in found.values()} == {0.5}
    assert LoaderOptions(**found["simple_copy_paste"].model_dump()) == found["simple_copy_paste"]


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_each_pastes(name: str, kernels: str) -> None:
    config = get_preset(name).config_for(SCHEMA)
    reports = [paste(large_batch(seed=seed), config, backend=kernels)[1] for seed in range(3)]
    assert sum(int(report.num_placed.sum()) for report in reports) > 0


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_comes_out_keeps_every_invariant(name: str, kernels: str) -> None:
    """On canvases that are padded, with objects that come nearer as they grow, with classes for objects."""
    config, before = get_preset(name).config_for(SCHEMA), large_batch(seed=4)
    with use_backend(kernels):
        out, report = paste(before, config)
    assert report.num_placed.any()
    check_all(Case(before, out, report, config))
