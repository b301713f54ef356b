"""The configs: what they refuse and when, what they keep, and that a file gives back what was saved."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
import torch
from pydantic import BaseModel, ValidationError

from samples import SCHEMA
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    HarmonizeConfig,
    OriginalsConfig,
    PanopticConfig,
    PanopticTaxonomy,
    PlacementConfig,
    SizeRange,
    SourceConfig,
)
from segpaste.augmentation.config.base import known_fields
from segpaste.presets import get_preset

Made = Callable[..., BaseModel]

TAXONOMY = PanopticTaxonomy(classes={9: "thing", 7: "stuff", 1: "thing"}, max_instances_per_image=9)
OTHER_THAN_DEFAULT = BatchCopyPasteConfig(
    emit_instance=True,
    emit_panoptic=False,
    emit_depth=True,
    depth_order="value",
    max_instances=12,
    tile_size=64,
    antialias=False,
    perspective_depth=True,
    min_area_px=3,
    min_residual_area_frac=0.3,
    min_residual_area_px=7,
    max_box_shift_px=2,
    max_hidden_frac=0.4,
    placement=PlacementConfig(
        scale_range=(0.1, 3.3),
        scale_to_fit=False,
        size_range=SizeRange(low=3, high=9.5),
        class_sizes={7: SizeRange(low=2, high=2)},
        region={7: (3, 9), 8: (3,)},
        region_frac=0.25,
        hflip_probability=0.25,
        paste_prob=0.75,
        fixed_share=True,
        into_empty=False,
        fade_last=0.1,
        fade_curve="linear",
        k_range=(2, 3),
        k_to_available=True,
        max_cover_frac=0.6,
        cover_void=True,
        candidate_frac=0.5,
        class_temperature=0.5,
        layers=2,
        grouping="instance",
        max_attempts=5,
        partial="clip",
        min_visible_frac=0.4,
        pad_to_multiple=14,
    ),
    source=SourceConfig(mask_from="boxes", whole_only=False),
    harmonize=HarmonizeConfig(
        mode="poisson", prob=0.5, pyramid_levels=3, surround_px=9, max_gain=2.5, poisson_cycles=4, feather_px=2
    ),
    panoptic=PanopticConfig(
        taxonomy=TAXONOMY, stuff_policy="ignore", tau_stuff_frac=0.7, tau_stuff_px=5, contact_priority={9: -2, 7: 1000}
    ),
)
GROUPS = ("placement", "source", "harmonize", "panoptic")
NESTED = {f"{group}.{key}": (group, key) for group in GROUPS for key in ("colour", "k")}

REFUSED: dict[str, tuple[Made, dict[str, Any]]] = {
    "scale_range reversed": (PlacementConfig, {"scale_range": (2, 1)}),
    "scale_range zero": (PlacementConfig, {"scale_range": (0, 0)}),
    "scale_range from zero": (PlacementConfig, {"scale_range": (0, 1)}),
    "scale_range negative": (PlacementConfig, {"scale_range": (-1, 1)}),
    "scale_range NaN": (PlacementConfig, {"scale_range": (float("nan"), 1)}),
    "scale_range infinite": (PlacementConfig, {"scale_range": (1, float("inf"))}),
    "scale_range of three": (PlacementConfig, {"scale_range": (1, 2, 3)}),
    "k_range reversed": (PlacementConfig, {"k_range": (5, 1)}),
    "k_range of nothing": (PlacementConfig, {"k_range": (0, 0)}),
    "max_cover_frac none": (PlacementConfig, {"max_cover_frac": 0}),
    "candidate_frac none": (PlacementConfig, {"candidate_frac": 0}),
    "k_range negative": (PlacementConfig, {"k_range": (-2, -1)}),
    "k_range beyond the draws": (PlacementConfig, {"k_range": (1, 2**31)}),
    "hflip_probability above 1": (PlacementConfig, {"hflip_probability": 1.1}),
    "hflip_probability NaN": (PlacementConfig, {"hflip_probability": float("nan")}),
    "vflip_probability above 1": (PlacementConfig, {"vflip_probability": 1.1}),
    "quarter_turn_probability above 1": (PlacementConfig, {"quarter_turn_probability": 1.1}),
    "quarter_turn_probability negative": (PlacementConfig, {"quarter_turn_probability": -0.1}),
    "paste_prob negative": (PlacementConfig, {"paste_prob": -0.1}),
    "class_temperature above 1": (PlacementConfig, {"class_temperature": 1.1}),
    "class_temperature negative": (PlacementConfig, {"class_temperature": -0.1}),
    "class_temperature NaN": (PlacementConfig, {"class_temperature": float("nan")}),
    "layers none": (PlacementConfig, {"layers": 0}),
    "position unknown": (PlacementConfig, {"position": "left"}),
    "position kept, and tried": (PlacementConfig, {"position": "keep", "max_attempts": 2}),
    "position kept, on patches": (
        PlacementConfig,
        {"position": "keep", "pad_to_multiple": 4, "patch_aligned_paste": True},
    ),
    "region of no class": (PlacementConfig, {"region": {1: []}}),
    "region ignored": (PlacementConfig, {"region": {1: [255]}}),
    "region of a negative class": (PlacementConfig, {"region": {-1: [3]}}),
    "region_frac none": (PlacementConfig, {"region_frac": 0}),
    "whole_only a word": (SourceConfig, {"whole_only": "perhaps"}),
    "max_attempts none": (PlacementConfig, {"max_attempts": 0}),
    "kind unknown": (SourceConfig, {"kind": "elsewhere"}),
    "mask_from unknown": (SourceConfig, {"mask_from": "thin_air"}),
    "mode unknown": (HarmonizeConfig, {"mode": "magic"}),
    "prob above 1": (HarmonizeConfig, {"prob": 1.1}),
    "pyramid_levels none": (HarmonizeConfig, {"pyramid_levels": 0}),
    "pyramid_levels beyond any image": (HarmonizeConfig, {"pyramid_levels": 13}),
    "surround_px none": (HarmonizeConfig, {"surround_px": 0}),
    "max_gain below 1": (HarmonizeConfig, {"max_gain": 0.9}),
    "max_gain NaN": (HarmonizeConfig, {"max_gain": float("nan")}),
    "poisson_cycles none": (HarmonizeConfig, {"poisson_cycles": 0}),
    "blur_px too small": (HarmonizeConfig, {"blur_px": 0.01}),
    "blur_px beside feather_px": (HarmonizeConfig, {"blur_px": 1, "feather_px": 1}),
    "min_residual_area_px negative": (BatchCopyPasteConfig, {"min_residual_area_px": -1}),
    "max_box_shift_px of no rule": (BatchCopyPasteConfig, {"min_residual_area_frac": 0, "max_box_shift_px": 3}),
    "feather_px negative": (HarmonizeConfig, {"feather_px": -1}),
    "feather_px a fraction": (HarmonizeConfig, {"feather_px": 1.5}),
    "blend_mode unknown": (BatchCopyPasteConfig, {"blend_mode": "soft"}),
    "max_instances none": (BatchCopyPasteConfig, {"max_instances": 0}),
    "tile_size none": (BatchCopyPasteConfig, {"tile_size": 0}),
    "min_area_px none": (BatchCopyPasteConfig, {"min_area_px": 0}),
    "min_residual_area_frac above 1": (BatchCopyPasteConfig, {"min_residual_area_frac": 1.5}),
    "min_residual_area_frac NaN": (BatchCopyPasteConfig, {"min_residual_area_frac": float("nan")}),
    "emit_depth a word": (BatchCopyPasteConfig, {"emit_depth": "sometimes"}),
    "classes empty": (PanopticTaxonomy, {"classes": {}}),
    "classes negative": (PanopticTaxonomy, {"classes": {-1: "thing"}}),
    "classes ignored": (PanopticTaxonomy, {"classes": {1: "thing", 255: "stuff"}}),
    "ignore_index another": (PanopticTaxonomy, {"classes": {1: "thing"}, "ignore_index": 0}),
    "classes neither": (PanopticTaxonomy, {"classes": {1: "gas"}}),
    "max_instances_per_image none": (PanopticTaxonomy, {"classes": {1: "thing"}, "max_instances_per_image": 0}),
    "stuff_policy unknown": (PanopticConfig, {"taxonomy": TAXONOMY, "stuff_policy": "keep"}),
    "tau_stuff_px negative": (PanopticConfig, {"taxonomy": TAXONOMY, "tau_stuff_px": -1}),
    "contact_priority of no class": (PanopticConfig, {"taxonomy": TAXONOMY, "contact_priority": {2: 1}}),
    "contact_priority too high": (PanopticConfig, {"taxonomy": TAXONOMY, "contact_priority": {1: 1001}}),
    "contact_priority too low": (PanopticConfig, {"taxonomy": TAXONOMY, "contact_priority": {1: -1001}}),
    "contact_priority a fraction": (PanopticConfig, {"taxonomy": TAXONOMY, "contact_priority": {1: 0.5}}),
    "taxonomy missing": (PanopticConfig, {}),
    "taxonomy a number": (PanopticConfig, {"taxonomy": 5}),
}


class TestRefusals:
    @pytest.mark.parametrize("case", REFUSED)
    def test_at_construction_naming_the_key(self, case: str) -> None:
        make, values = REFUSED[case]
        with pytest.raises(ValidationError) as caught:
            make(**values)
        assert case.split()[0] in str(caught.value)

    @pytest.mark.parametrize("make", [BatchCopyPasteConfig, PlacementConfig, SourceConfig, HarmonizeConfig])
    def test_an_unknown_key(self, make: Made) -> None:
        with pytest.raises(ValidationError, match="colour"):
            make(colour=1)

    def test_an_unknown_key_of_a_copy(self) -> None:
        """It would have no effect."""
        with pytest.raises(ValidationError, match=r"the nearest is 'originals\.candidate_frac'"):
            PlacementConfig().model_copy(update={"candidate_frac": 0.5})

    @pytest.mark.parametrize("path", NESTED)
    def test_an_unknown_nested_key(self, path: str) -> None:
        group, key = NESTED[path]
        with pytest.raises(ValidationError, match=path.replace(".", r"\.")):
            BatchCopyPasteConfig.model_validate({group: {key: 1}})

    def test_a_nested_value(self) -> None:
        with pytest.raises(ValidationError, match=r"placement\.scale_range"):
            BatchCopyPasteConfig.model_validate({"placement": {"scale_range": [2, 1]}})

    def test_the_refusal_says_what_was_expected_and_what_came(self) -> None:
        with pytest.raises(ValidationError, match=r"expected 1/64 <= low <= high <= 64, got \(2\.0, 1\.0\)"):
            PlacementConfig(scale_range=(2, 1))
        with pytest.raises(
            ValidationError, match=r"expected 0 <= low <= high, high from 1 to 2\*\*31 - 1, got \(5, 1\)"
        ):
            PlacementConfig(k_range=(5, 1))
        with pytest.raises(ValidationError, match=r"expected class ids that the taxonomy names, got \[2, 8\]"):
            PanopticConfig(taxonomy=TAXONOMY, contact_priority={8: 1, 2: 1, 7: 1})
        with pytest.raises(ValidationError, match=r"taxonomy(?s:.)*gas") as caught:  # and nothing about priorities
            PanopticConfig.model_validate({"taxonomy": {"classes": {1: "gas"}}, "contact_priority": {1: 1}})
        assert "contact_priority" not in str(caught.value)

    def test_panoptic_output_without_a_taxonomy(self) -> None:
        with pytest.raises(ValueError, match="taxonomy"):
            BatchCopyPaste(BatchCopyPasteConfig(emit_panoptic=True))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"emit_classmix": True, "panoptic": OTHER_THAN_DEFAULT.panoptic}, "expected no panoptic.contact_priority"),
            ({"emit_classmix": True, "source": SourceConfig(kind="same_image")}, "expected source.kind='intra_batch'"),
            (
                {"source": SourceConfig(kind="bank"), "placement": PlacementConfig(position="keep")},
                "no place in an image",
            ),
            ({"emit_classmix": True, "perspective_depth": True}, "expected perspective_depth=False"),
            ({"emit_classmix": True, "placement": PlacementConfig(k_range=(1, 2))}, "got k_range"),
        ],
        ids=["priorities", "same image", "place of a crop", "perspective", "counts"],
    )
    def test_what_would_do_nothing(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValidationError, match=message):
            BatchCopyPasteConfig(**options)

    def test_kept_objects_keep_their_size(self, tmp_path: Path) -> None:
        """An explicit range overrides this; a file keeps either."""
        for placement, expected in (({}, (1.0, 1.0)), ({"scale_range": (0.5, 2.0)}, (0.5, 2.0))):
            config = BatchCopyPasteConfig.model_validate({"placement": {"position": "keep", **placement}})
            config.save(tmp_path / "config.yaml")
            assert config.placement.scale_range == expected
            assert BatchCopyPasteConfig.load(tmp_path / "config.yaml") == config

    def test_equal_ends_are_a_range(self) -> None:
        assert PlacementConfig(scale_range=(1, 1), k_range=(1, 1)).scale_range == (1.0, 1.0)


class TestOriginals:
    """Options of presets stand in a group of their own, and are accepted where they stood before it."""

    GROUPED = BatchCopyPasteConfig(
        placement=PlacementConfig(
            layers=3,
            originals=OriginalsConfig(
                k_to_available=True, candidate_frac=0.5, min_residual_area_px=7, max_box_shift_px=2
            ),
        )
    )
    CHOICE: ClassVar[dict[str, Any]] = {"k_to_available": True, "candidate_frac": 0.5}
    LIMITS: ClassVar[dict[str, Any]] = {"min_residual_area_px": 7, "max_box_shift_px": 2}

    @pytest.mark.parametrize("made", [dict, lambda **given: PlacementConfig(**given)], ids=["mapping", "config"])
    def test_keys_without_their_group(self, made: Callable[..., Any]) -> None:
        found = BatchCopyPasteConfig(placement=made(layers=3, **self.CHOICE), **self.LIMITS)
        assert found == self.GROUPED
        assert found.model_dump(exclude_unset=True) == self.GROUPED.model_dump(exclude_unset=True)
        assert found.placement.originals.model_dump() == self.CHOICE | self.LIMITS

    def test_all_keys_of_a_placement(self) -> None:
        assert PlacementConfig(layers=3, **self.CHOICE, **self.LIMITS) == self.GROUPED.placement

    def test_without_a_placement(self) -> None:
        found = BatchCopyPasteConfig(**self.LIMITS)
        assert found.placement == PlacementConfig(originals=OriginalsConfig(**self.LIMITS))

    @pytest.mark.parametrize("suffix", [".json", ".yaml"])
    def test_a_file(self, tmp_path: Path, suffix: str) -> None:
        values = {"placement": {"layers": 3, **self.CHOICE}, **self.LIMITS}
        (tmp_path / f"config{suffix}").write_text(json.dumps(values))
        assert BatchCopyPasteConfig.load(tmp_path / f"config{suffix}") == self.GROUPED

    @pytest.mark.parametrize("mode", ["python", "json"])
    def test_files_hold_the_keys_without_their_group(self, mode: Literal["python", "json"]) -> None:
        held = self.GROUPED.model_dump(mode=mode)
        assert {**self.CHOICE, **self.LIMITS}.items() <= {**held, **held["placement"]}.items()
        assert not {"originals", *self.LIMITS} & held["placement"].keys()
        assert BatchCopyPasteConfig.model_validate(held) == self.GROUPED

    @pytest.mark.parametrize("key", ["candidate_frac", "originals.candidate_frac"])
    def test_a_key_changes_a_preset(self, key: str) -> None:
        preset = get_preset("ultralytics_flip")
        group, _, name = key.rpartition(".")
        changed = preset.config_for(placement={group: {name: 0.25}} if group else {name: 0.25})
        assert changed.placement.originals == OriginalsConfig(candidate_frac=0.25)
        assert changed.placement.max_cover_frac == preset.config.placement.max_cover_frac

    def test_the_group_is_kept_beside_a_key(self) -> None:
        group = {"candidate_frac": 0.5, "k_to_available": True}
        found = PlacementConfig(originals=group, candidate_frac=0.25).originals
        assert found == OriginalsConfig(candidate_frac=0.5, k_to_available=True)

    @pytest.mark.parametrize("values", [{"originals": 5, "candidate_frac": 0.5}, {"originals": {"colour": 1}}])
    def test_a_group_that_is_none(self, values: dict[str, Any]) -> None:
        with pytest.raises(ValidationError, match="originals"):
            PlacementConfig(**values)

    def test_classes_are_mixed_with_the_limits_alone(self) -> None:
        assert BatchCopyPasteConfig(emit_classmix=True, **self.LIMITS).placement.originals.max_box_shift_px == 2
        with pytest.raises(ValidationError, match="got k_to_available, candidate_frac"):
            BatchCopyPasteConfig(emit_classmix=True, placement=self.CHOICE)


class TestImmutable:
    @pytest.mark.parametrize(
        "config", [OTHER_THAN_DEFAULT, PlacementConfig(), SourceConfig(), HarmonizeConfig(), TAXONOMY]
    )
    def test_frozen(self, config: BaseModel) -> None:
        for name in type(config).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(config, name, getattr(config, name))

    def test_the_class_mapping(self) -> None:
        with pytest.raises(TypeError):
            TAXONOMY.classes[1] = "stuff"  # type: ignore[index]

    def test_the_class_mapping_is_a_copy(self) -> None:
        classes = {1: "thing", 2: "stuff"}
        taxonomy = PanopticTaxonomy.model_validate({"classes": classes})
        classes[1] = "stuff"
        assert taxonomy.classes[1] == "thing"


class TestTaxonomy:
    def test_from_a_schema_object(self) -> None:
        config = PanopticConfig.model_validate({"taxonomy": SCHEMA})
        assert isinstance(config.taxonomy, PanopticTaxonomy)
        assert dict(config.taxonomy.classes) == dict(SCHEMA.classes)
        assert config.taxonomy.ignore_index == SCHEMA.ignore_index
        assert config.taxonomy.max_instances_per_image == SCHEMA.max_instances_per_image

    def test_a_taxonomy_is_kept(self) -> None:
        assert PanopticConfig(taxonomy=TAXONOMY).taxonomy is TAXONOMY

    def test_class_ids_ascend(self) -> None:
        assert list(TAXONOMY.classes) == [1, 7, 9]

    @pytest.mark.parametrize("config", [BatchCopyPasteConfig(), OTHER_THAN_DEFAULT])
    def test_ignore_index_of_the_config(self, config: BatchCopyPasteConfig) -> None:
        assert config.ignore_index == 255

    def test_the_class_mapping_can_be_hashed_copied_and_pickled(self) -> None:
        for copied in (copy.deepcopy(TAXONOMY), pickle.loads(pickle.dumps(TAXONOMY))):
            assert copied == TAXONOMY
            assert hash(copied) == hash(TAXONOMY)
        assert PanopticTaxonomy(classes={1: "thing"}, max_instances_per_image=9) != TAXONOMY
        assert dict(TAXONOMY.classes) == {1: "thing", 7: "stuff", 9: "thing"}

    def test_the_priorities_are_frozen_and_ascend(self) -> None:
        assert OTHER_THAN_DEFAULT.panoptic is not None
        priorities = OTHER_THAN_DEFAULT.panoptic.contact_priority
        assert list(priorities.items()) == [(7, 1000), (9, -2)]
        assert hash(priorities) == hash(copy.deepcopy(priorities))
        with pytest.raises(TypeError):
            priorities[9] = 1  # type: ignore[index]

    def test_the_tables_of_the_module(self) -> None:
        classes = BatchCopyPaste(OTHER_THAN_DEFAULT).classes
        assert classes is not None
        labels = torch.tensor([-1, 0, 1, 2, 7, 9, 10, 255])
        assert labels[classes.things(labels)].tolist() == [1, 9]
        assert classes.is_stuff.nonzero().flatten().tolist() == [7]
        assert classes.class_rank.tolist() == [0] * 7 + [1000, 0, -2]
        assert classes.tables.rank is classes.class_rank

    @pytest.mark.parametrize("priorities", [{}, {1: 0}])
    def test_no_table_without_priorities(self, priorities: dict[int, int]) -> None:
        """Kernels take the shorter path."""
        panoptic = PanopticConfig(taxonomy=TAXONOMY, contact_priority=priorities)
        classes = BatchCopyPaste(BatchCopyPasteConfig(panoptic=panoptic)).classes
        assert classes is not None
        assert classes.tables.rank is None


BANK = BatchCopyPasteConfig(
    source=SourceConfig(kind="bank", crops_per_target=3, value_range=255.0, relative_to="photo", without_depth="skip")
)


class TestFiles:
    def test_round_trip_of_what_is_not_cut(self, tmp_path: Path) -> None:
        placement = PlacementConfig(grouping="instance", pad_to_multiple=8, patch_aligned_paste=True, align="instance")
        BatchCopyPasteConfig(placement=placement).save(tmp_path / "config.yaml")
        assert BatchCopyPasteConfig.load(tmp_path / "config.yaml").placement == placement

    @pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml"])
    @pytest.mark.parametrize(
        "config",
        [BatchCopyPasteConfig(), OTHER_THAN_DEFAULT, BatchCopyPasteConfig(emit_classmix=True), BANK],
        ids=["default", "other", "classmix", "bank"],
    )
    def test_round_trip(self, tmp_path: Path, config: BatchCopyPasteConfig, suffix: str) -> None:
        path = tmp_path / f"config{suffix}"
        config.save(path)
        assert BatchCopyPasteConfig.load(path) == config
        assert BatchCopyPasteConfig.load(str(path)) == config
        assert [p.name for p in tmp_path.iterdir()] == [path.name]

    def test_json_is_json(self, tmp_path: Path) -> None:
        OTHER_THAN_DEFAULT.save(tmp_path / "config.json")
        values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        assert BatchCopyPasteConfig.model_validate(values) == OTHER_THAN_DEFAULT

    def test_yaml_holds_plain_values(self, tmp_path: Path) -> None:
        OTHER_THAN_DEFAULT.save(tmp_path / "config.yaml")
        assert "!!" not in (tmp_path / "config.yaml").read_text(encoding="utf-8")

    @pytest.mark.parametrize("suffix", [".json", ".yaml"])
    def test_an_unknown_key_is_named(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"config{suffix}"
        path.write_text('{"placement": {"colour": 1}}', encoding="utf-8")
        with pytest.raises(ValidationError, match=r"placement\.colour"):
            BatchCopyPasteConfig.load(path)

    def test_an_empty_file_is_the_default(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").touch()
        assert BatchCopyPasteConfig.load(tmp_path / "config.yaml") == BatchCopyPasteConfig()

    def test_another_suffix(self, tmp_path: Path) -> None:
        path = tmp_path / "config.toml"
        with pytest.raises(ValueError, match=r"config\.toml.*\.json"):
            BatchCopyPasteConfig().save(path)
        path.touch()
        with pytest.raises(ValueError, match=r"config\.toml.*\.json"):
            BatchCopyPasteConfig.load(path)
        assert path.stat().st_size == 0

    def test_an_interrupted_save_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "config.yaml"
        OTHER_THAN_DEFAULT.save(path)

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            BatchCopyPasteConfig().save(path)
        assert BatchCopyPasteConfig.load(path) == OTHER_THAN_DEFAULT
        assert os.listdir(tmp_path) == ["config.yaml"]


def test_the_ends_of_the_widest_ranges() -> None:
    assert PlacementConfig(scale_range=(1 / 64, 64)).scale_range == (1 / 64, 64.0)
    assert PlacementConfig(k_range=(1, 2**31 - 1), layers=64, max_attempts=64).layers == 64


@pytest.mark.parametrize(
    "values", [{"layers": 65}, {"max_attempts": 65}, {"scale_range": (0.015, 1)}, {"scale_range": (1, 64.1)}]
)
def test_beyond_the_widest_ranges(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        PlacementConfig(**values)


def test_from_a_schema_object_with_a_limit_of_its_own() -> None:
    schema = SimpleNamespace(classes=SCHEMA.classes, ignore_index=255, max_instances_per_image=17)
    config = PanopticConfig.model_validate({"taxonomy": schema})
    assert config.taxonomy.max_instances_per_image == 17


@pytest.mark.parametrize(("name", "text"), [("broken.json", "{"), ("broken.yaml", "a: [1")])
def test_a_file_that_does_not_parse_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name}: expected YAML or JSON, got text that does not parse"):
        BatchCopyPasteConfig.load(tmp_path / name)


def test_the_page_has_a_row_for_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "configuration.md").read_text(encoding="utf-8")
    table = page.partition("## Every key")[2].partition("\n## ")[0]
    named = {
        name for cell in re.findall(r"^\|([^|]+)\|", table, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", cell)
    }
    keys = {*dict(known_fields(BatchCopyPasteConfig))}
    groups = {".".join(key.split(".")[:n]) for key in keys for n in range(1, key.count(".") + 1)}
    assert named <= keys | groups
    assert {key for key in keys if not any(f"{key}.".startswith(f"{name}.") for name in named)} == set()
