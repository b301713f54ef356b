"""The controls of the preview page, which come from the fields of the config; and the texts to copy."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.base import known_fields
from segpaste.presets import get_preset, list_presets
from segpaste.viz.preview.controls import (
    CHOSEN_EXTENTS,
    FIRST,
    LEFT_OUT,
    NOT_SEEN,
    Control,
    Extent,
    as_command,
    as_python,
    as_words,
    as_yaml,
    controls_of,
    differences,
    flow,
    key_named,
)

TAXONOMY = {"taxonomy": {"classes": {0: "thing", 1: "stuff", 5: "thing"}}}


def by_key(*, has_bank: bool = False, is_panoptic: bool = True) -> dict[str, Control]:
    return {control.key: control for control in controls_of(has_bank=has_bank, is_panoptic=is_panoptic)}


class TestControls:
    def test_every_field_has_one_or_a_reason(self) -> None:
        fields = {key for key, _ in known_fields(BatchCopyPasteConfig)}
        of_values = {"placement.size_range.low": "placement.size_range", "placement.size_range.high": ""}
        fields = {of_values.get(key, key) for key in fields if not key.startswith("panoptic.taxonomy.")} - {""}
        assert fields | {"panoptic.taxonomy"} == {*by_key(), *by_key(has_bank=True), *LEFT_OUT}

    def test_chosen_keys_exist(self) -> None:
        known = {**by_key(), **by_key(has_bank=True)}
        assert {*FIRST, *NOT_SEEN, *CHOSEN_EXTENTS} <= known.keys()

    @pytest.mark.parametrize(
        ("key", "kind", "expected"),
        [
            ("antialias", "switch", {}),
            ("emit_depth", "choice", {"choices": (None, True, False)}),
            ("placement.position", "choice", {"choices": ("random", "keep")}),
            ("source.mask_from", "choice", {"choices": (None, "boxes", "ellipse")}),
            ("placement.paste_prob", "number", {"extent": Extent(0, 1, 0.01), "whole": False}),
            ("harmonize.pyramid_levels", "number", {"extent": Extent(1, 12, 1), "whole": True}),
            ("placement.max_cover_frac", "number", {"optional": True}),
            ("placement.k_range", "range", {"whole": True, "parts": ()}),
            ("placement.size_range", "range", {"optional": True, "parts": ("low", "high")}),
            ("placement.region", "text", {}),
        ],
    )
    def test_kinds(self, key: str, kind: str, expected: dict[str, Any]) -> None:
        control = by_key()[key]
        assert control.kind == kind
        assert {name: getattr(control, name) for name in expected} == expected

    def test_each_says_what_it_does(self) -> None:
        assert {key for key, control in by_key().items() if len(control.help) < 12} == set()
        assert by_key()["placement.paste_prob"].help == "probability of pasting anything into an image"

    def test_what_the_picture_does_not_show_says_why(self) -> None:
        noted = {key: control.note for key, control in by_key().items() if control.note}
        assert noted == NOT_SEEN
        assert "without the padding" in noted["placement.pad_to_multiple"]

    def test_sliders_lie_within_the_limits(self) -> None:
        for key, control in by_key().items():
            if control.kind != "number":
                continue
            group, _, name = key.rpartition(".")
            for value in (control.extent.low, control.extent.high):
                number = int(value) if control.whole else value
                values: dict[str, Any] = {name: number}
                if key in ("placement.min_visible_frac", "placement.fade_last"):
                    values["partial"] = "clip"
                BatchCopyPasteConfig.model_validate({group: _with(group, values)} if group else values)

    def test_the_first_group_is_the_chosen_one(self) -> None:
        controls = controls_of(has_bank=False, is_panoptic=False)
        assert [c.key for c in controls if c.group == controls[0].group] == [key for key in FIRST if key in by_key()]
        assert not any(c.key.startswith("panoptic.") for c in controls)

    def test_of_a_bank(self) -> None:
        assert "source.crops_per_target" in by_key(has_bank=True)
        assert {"source.kind", "placement.layers"} & by_key(has_bank=True).keys() == set()
        assert "source.crops_per_target" not in by_key()


def _with(group: str, values: dict[str, Any]) -> dict[str, Any]:
    return {**TAXONOMY, **values} if group == "panoptic" else values


class TestErrors:
    @pytest.mark.parametrize(
        ("values", "key"),
        [
            ({"placement": {"align": "instance"}}, "placement.align"),
            ({"placement": {"k_range": (3, 1)}}, "placement.k_range"),
            ({"placement": {"k_range": (3, "x")}}, "placement.k_range"),
            ({"placement": {"size_range": {"low": 3, "high": 1}}}, "placement.size_range"),
            ({"placement": {"patch_aligned_paste": True}}, "placement.patch_aligned_paste"),
            ({"emit_classmix": True, "perspective_depth": True}, "emit_classmix"),
            ({"source": {"kind": "bank"}, "placement": {"layers": 2}}, "source.kind"),
            ({"harmonize": {"feather_px": 1, "blur_px": 1.0}}, "harmonize.feather_px"),
            ({"panoptic": {**TAXONOMY, "contact_priority": {9: 1}}}, "panoptic.contact_priority"),
        ],
    )
    def test_an_error_is_beside_its_control(self, values: dict[str, Any], key: str) -> None:
        from pydantic import ValidationError

        from segpaste.augmentation.config.values import explained

        with pytest.raises(ValidationError) as caught:
            BatchCopyPasteConfig.model_validate(values)
        for item in caught.value.errors():
            assert key_named(explained(item, BatchCopyPasteConfig), [str(part) for part in item["loc"]]) == key

    def test_an_error_of_no_control(self) -> None:
        assert key_named("cannot read photo.jpg: expected a photo") == ""


def words_of(command: str) -> list[str]:
    """Return the words of a command as a shell sees them."""
    return shlex.split(command.replace("\\\n", ""))


def config_of(words: list[str]) -> BatchCopyPasteConfig:
    from segpaste.augmenting import settings

    return settings.load_config(None, dict(word.split("=", 1) for word in words))


CONFIGS = {
    "defaults": {},
    "keep": {"placement": {"position": "keep"}},
    "keep at another scale": {"placement": {"position": "keep", "scale_range": (0.5, 2.0)}},
    "sizes": {"placement": {"grouping": "instance", "size_range": {"low": 1e-06, "high": 3}, "class_sizes": {}}},
    "tables": {
        "placement": {
            "grouping": "instance",
            "class_sizes": {3: {"low": 1, "high": 2}, 1: {"low": 2.5, "high": 2.5}},
            "region": {1: (4, 2)},
        },
        "panoptic": {**TAXONOMY, "contact_priority": {0: -3, 5: 7}, "tau_stuff_frac": 1e-5},
        "emit_depth": False,
        "max_instances": 7,
        "harmonize": {"prob": 0.25, "mode": "poisson"},
    },
    "ellipse": {"source": {"mask_from": "ellipse"}},
    **{name: get_preset(name).config.model_dump() for name in list_presets() if name != "panoptic_lsj"},
}


class TestCopies:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_each_gives_the_same_config(self, name: str) -> None:
        config, default = BatchCopyPasteConfig.model_validate(CONFIGS[name]), BatchCopyPasteConfig()
        found: dict[str, Any] = {}
        exec(as_python(config), found)
        assert found["config"] == config
        assert found["augment"].config == config
        assert BatchCopyPasteConfig.model_validate(yaml.safe_load(as_yaml(config, default)) or {}) == config
        words = words_of(as_command(["segpaste"], as_words(config, default)))
        assert words[0] == "segpaste"
        if config.source.kind != "bank":
            assert config_of(words[1:]) == config

    @settings(max_examples=60, deadline=None)
    @given(
        st.fixed_dictionaries(
            {
                "placement.scale_range": st.sampled_from([[0.5, 2.0], [1.0, 1.0], [0.7, 1.3]]),
                "placement.position": st.sampled_from(["random", "keep"]),
                "placement.k_range": st.sampled_from([[1, 256], [0, 3]]),
                "max_hidden_frac": st.floats(0, 1),
                "antialias": st.booleans(),
            }
        ),
        st.sampled_from(["", *(n for n in list_presets() if get_preset(n).config.source.kind != "bank")]),
    )
    def test_words_over_a_preset(self, values: dict[str, Any], preset: str) -> None:
        from segpaste.augmentation.config.values import ConfigError
        from segpaste.augmenting import settings

        given_words = {key: flow(value) for key, value in values.items()}
        base = settings.load_config(None, {}, None, preset or None)
        try:
            config = settings.load_config(None, given_words, None, preset or None)
        except ConfigError:
            return  # ClassMix and patches take no place or scale
        words = dict(word.split("=", 1) for word in as_words(config, base))
        assert settings.load_config(None, words, None, preset or None) == config
        assert (
            BatchCopyPasteConfig.model_validate(yaml.safe_load(as_yaml(config, BatchCopyPasteConfig())) or {}) == config
        )

    def test_only_what_differs(self) -> None:
        config = BatchCopyPasteConfig.model_validate({"placement": {"layers": 3}})
        assert differences(config, BatchCopyPasteConfig()) == {"placement.layers": 3}
        assert as_yaml(config, BatchCopyPasteConfig()) == "placement: {layers: 3}\n"
        assert as_words(config, config) == []
        assert as_yaml(config, config).startswith("#")
        assert "layers=3" in as_python(config)
        assert "SourceConfig" not in as_python(config)

    def test_lines_of_a_command_are_short_and_quoted(self) -> None:
        text = as_command(["segpaste", "augment", "my data.json"], [f"placement.layers={n}" for n in range(20)])
        assert max(map(len, text.splitlines())) < 100
        assert words_of(text) == ["segpaste", "augment", "my data.json", *(f"placement.layers={n}" for n in range(20))]
        run = subprocess.run(["sh", "-c", f"set -- {text}\necho $# $3"], capture_output=True, text=True, check=True)
        assert run.stdout == "23 my data.json\n"
