"""Options that are resolved: presets, configurations, overrides, facts of the dataset, and what an older run recorded.

An unfinished run of another version resumes with the options that it recorded. An option that the user names has the
value that he gives; if it is another one, the run is not resumed. Any other option has its recorded value, whatever its
default is now. Images have the same pixels in every version, files may differ in bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from segpaste._invalid_values import expectation
from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig, PanopticTaxonomy
from segpaste.augmentation.config.base import merged
from segpaste.augmentation.config.placement import stored_key
from segpaste.augmentation.config.values import flat, override, read_file, reasons, validated
from segpaste.augmenting.options import AnyPath, AugmentError, AugmentOptions, PasteOptions, Size, option
from segpaste.presets import Preset, get_preset
from segpaste.presets.preset import LoaderOptions
from segpaste.replay.record import RecordedJitter
from segpaste.types import PanopticSchema
from segpaste.workspace import VERSION, Workspace, read_fingerprint
from segpaste.workspace.shards import shard_runs

PRESET_FILES = (".yaml", ".yml", ".json")
"""Endings of the files of saved presets."""

STEP_SIZE = "images per step"
_BEFORE: Mapping[str, Any] = {"source.whole_only": False}
"""Value of options in versions without them, where it is not their default."""


def load_config(
    config: AnyPath | BatchCopyPasteConfig | None,
    overrides: Mapping[str, Any],
    schema: PanopticSchema | None = None,
    preset: str | None = None,
    *,
    of_bank: bool = False,
    every_image: bool = False,
    class_names: Sequence[str] = (),
    cover_void: bool = False,
    fills_depth: bool = False,
) -> BatchCopyPasteConfig:
    """Make the configuration.

    Args:
        config: a YAML or JSON file, a configuration, of which the values that were set count, or None.
        overrides: dotted keys such as ``placement.scale_range`` to values, or to texts in YAML, such as ``[0.5, 1.5]``.
        preset: name of a preset, or a file of a saved one; the config and the overrides override it.
        schema: the dataset's things and stuff, used if the configuration has no taxonomy.
        of_bank: True if objects are taken from a bank.
        every_image: True for commands that show or write single images: ``placement.paste_prob`` is then 1 unless a
            preset, the config or an override sets it.
        class_names: names of the dataset's classes, which ``placement.region`` may use.
        cover_void: value of ``placement.cover_void`` unless a preset, the config or an override sets it.
        fills_depth: True if holes in depth are filled: ``depth_order`` is then ``value``, likewise.

    Raises:
        AugmentError: a file does not parse, a key is unknown (the error names the nearest known key), a value is
            invalid, the kind of the source does not match ``of_bank``, or ``emit_instance`` is False, though every
            command shows or writes masks.
    """
    values: dict[str, Any] = {"source": {"kind": "bank"}} if of_bank else {}
    if schema is not None:
        taxonomy = {name: getattr(schema, name) for name in PanopticTaxonomy.model_fields}
        values["panoptic"] = {"taxonomy": taxonomy}
    if every_image:
        values["placement"] = {"paste_prob": 1.0}
    if cover_void:
        values["placement"] = {**values.get("placement", {}), "cover_void": True}
    given = {} if preset is None else _of_preset(preset, of_bank=of_bank)
    given = merged(given, config_values(config))
    override(given, overrides)
    if fills_depth and given.get("emit_depth") is not False:
        values["depth_order"] = "value"
    values = merged(values, given)
    if isinstance(place := values.get("placement"), dict) and isinstance(region := place.get("region"), dict):
        place["region"] = _by_label(region, class_names)
    made = validated(BatchCopyPasteConfig, values)
    if ((kind := made.source.kind) == "bank") == of_bank:
        if made.emit_instance is False:
            raise AugmentError("emit_instance: expected masks in the output, got false; leave it out")
        return made
    of_preset = preset is not None and config is None and "source.kind" not in overrides
    asked, bank = option("preset", preset), option("bank")
    if not of_bank:
        asked = asked if of_preset else f"source.kind={kind}"
        raise AugmentError(f"{asked}: expected {bank}, the bank to paste from, got none; give it")
    asked = f"{asked}: source.kind" if of_preset else "source.kind"
    raise AugmentError(f"{asked}: expected bank, since {bank} is given, got {kind}; leave one of them out")


def config_values(config: AnyPath | BatchCopyPasteConfig | None) -> dict[str, Any]:
    """Return the values that a file of a configuration sets, or that were set in a configuration."""
    if config is None:
        return {}
    if isinstance(config, BatchCopyPasteConfig):
        return config.model_dump(exclude_unset=True)
    return read_file(Path(config))


def named_keys(options: PasteOptions) -> set[str]:
    """Return the dotted keys of the configuration that the user sets, other than by the name of a preset."""
    named = set(options.overrides) | flat(config_values(options.config)).keys()
    if options.preset is not None and Path(options.preset).suffix in PRESET_FILES:
        named |= flat(read_file(Path(options.preset)).get("config") or {}).keys()
    return {stored_key(key) for key in named}


def resolved_lines(config: BatchCopyPasteConfig, void_is_contour: bool, fills_depth: bool = False) -> list[str]:
    """Return lines about options whose default depends on the dataset: what pastes do with void and holes in depth."""
    lines = []
    if void_is_contour:
        is_covered = config.placement.cover_void
        treatment = "cover it" if is_covered else "do not cover it"
        value = str(is_covered).lower()
        lines += [f"void     usually a contour in this format: pastes {treatment} (placement.cover_void={value})"]
    if fills_depth:
        lines += [f"depth    holes in objects are filled and stay invalid (depth_order={config.depth_order})"]
    return lines


def _by_label(region: Mapping[Any, Any], class_names: Sequence[str]) -> dict[Any, Any]:
    """Return a region with names replaced by labels; other values are left to the configuration's checks."""

    def label(name: Any) -> Any:
        if not isinstance(name, str) or name.isdecimal():
            return name
        if name not in class_names:
            known = ", ".join(class_names[:12]) + (", ..." if len(class_names) > 12 else "")
            raise AugmentError(f"placement.region: expected names or labels of classes ({known}), got {name!r:.60}")
        return class_names.index(name)

    return {
        label(name): [label(item) for item in items] if isinstance(items, list) else items
        for name, items in region.items()
    }


def loader_of(name: str | None) -> LoaderOptions | None:
    """Return the loader options of a preset, such as the jitter of images; None without a preset or options."""
    if name is None:
        return None
    preset = _preset(name)
    return preset.loader if "loader" in preset.model_fields_set else None


def jitter_of(dataset: object, size: Size | None, preset: str | None) -> RecordedJitter | None:
    """Return the jitter of every image; None if images keep their size.

    Args:
        dataset: as given; scenes are made in the size.
        size: (H, W), or ``own``.
        preset: whose jitter is used, with the size if there is one.
    """
    if (isinstance(dataset, str) and dataset == "scenes") or isinstance(size, str):
        return None
    options = loader_of(preset)
    if options is None and size is None:
        return None
    options = options or LoaderOptions()
    size = size or ((options.size, options.size) if isinstance(options.size, int) else options.size)
    return RecordedJitter(size=size, scale_range=options.scale_range, hflip_prob=options.hflip_prob)


def _of_preset(name: str, *, of_bank: bool) -> dict[str, Any]:
    """Return the values of a preset for the paste configuration; they always have its ``paste_prob``.

    With a bank each layer of the preset becomes a crop.
    """
    config = _preset(name).config
    if of_bank and config.source.kind == "intra_batch" and config.placement.layers > 1:
        place = config.placement.model_copy(update={"layers": 1})
        source = config.source.model_copy(update={"crops_per_target": config.placement.layers})
        config = config.model_copy(update={"placement": place, "source": source})
    return merged({"placement": {"paste_prob": config.placement.paste_prob}}, config.model_dump(exclude_defaults=True))


def _preset(name: str) -> Preset:
    """Return the preset of a name or a file."""
    if Path(name).suffix in PRESET_FILES:
        return _saved_preset(Path(name))
    try:
        return get_preset(name)
    except ValueError as error:
        raise AugmentError(f"{option('preset')}: {str(error).removeprefix('get_preset: ')}") from error


def _saved_preset(path: Path) -> Preset:
    """Read a preset that `Preset.save` wrote."""
    values, names = read_file(path), Preset.model_fields
    if not {"name", "config"} <= values.keys() <= names.keys():
        raise AugmentError(
            f"{option('preset')}: {path}: expected a preset, with the keys {', '.join(names)}, got "
            f"{', '.join(values) or 'none'}; a paste configuration is given with {option('config')}"
        )
    try:
        return Preset.model_validate(values)
    except ValidationError as error:
        raise AugmentError(f"{option('preset')}: {path}: {reasons(error, BatchCopyPasteConfig)}") from error


@dataclass(frozen=True, slots=True)
class OlderRun:
    """An unfinished run of another version, or nothing.

    Attributes:
        folder: folder of the run.
        values: its fingerprint; None if there is no such run.
    """

    folder: Path
    values: Mapping[str, Any] | None

    @property
    def version(self) -> str:
        """The version that began the run."""
        return str((self.values or {}).get(VERSION))

    def lines(self) -> list[str]:
        """Return the line of the log about the run, if there is one."""
        return [] if self.values is None else [f"resuming the run of segpaste {self.version} with its options"]

    def config(self, config: BatchCopyPasteConfig, options: AugmentOptions) -> BatchCopyPasteConfig:
        """Return the configuration of the run, with the values of ``config`` for the keys that the user names.

        Raises:
            AugmentError: the run has an option that this version does not have, or not with this value.
        """
        if self.values is None or (options.bank is None) != (self.values.get("bank") is None):
            return config
        named = named_keys(options)
        now = flat(config.model_dump(mode="json"))
        groups = {key.partition(".")[0] for key in now} | set(BatchCopyPasteConfig.model_fields)
        then = {key: value for key, value in self.values.items() if key.partition(".")[0] in groups}
        then = {**_BEFORE, **then}
        merged = {key: value for key, value in then.items() if not _is_named(key, named)}
        merged |= {key: value for key, value in now.items() if _is_named(key, named)}
        try:
            return BatchCopyPasteConfig.model_validate(_nested(merged))
        except ValidationError as error:
            raise self._refusal(reasons(error, BatchCopyPasteConfig)) from error

    def jitter(self, jitter: RecordedJitter | None, options: AugmentOptions) -> RecordedJitter | None:
        """Return the jitter of the run if it has the same size and preset, else ``jitter``."""
        there = None if self.values is None else self.values.get("jitter")
        if there is None or jitter is None or options.preset != self.values.get("--preset"):  # type: ignore[union-attr]
            return jitter
        if Path(options.preset or "").suffix in PRESET_FILES:
            return jitter
        try:
            recorded = RecordedJitter.model_validate(there)
        except ValidationError as error:
            raise self._refusal(f"jitter: {expectation(error.errors()[0])}") from error
        return recorded if options.size is None or recorded.size == jitter.size else jitter

    def balance(self, balance: dict[str, Any], options: AugmentOptions) -> dict[str, Any]:
        """Return the balance of the run for the options that are not given."""
        there = {} if self.values is None else self.values.get("balance") or {}
        given = {"mode": options.balance, "threshold": options.threshold, "temperature": options.temperature}
        return {**balance, **{key: value for key, value in there.items() if given.get(key) is None}}

    def annotations(self, digest: str, known_as: str) -> str:
        """Return the digest by which the run knows the dataset: ``known_as``, if it is that, else ``digest``."""
        there = None if self.values is None else self.values.get("annotations")
        return known_as if known_as and there == known_as else digest

    def image_format(self, options: AugmentOptions) -> AugmentOptions:
        """Return the options with the format of the images of the run, if none but the default is given."""
        there = None if self.values is None else self.values.get("--format")
        is_default = options.image_format == AugmentOptions.image_format
        return replace(options, image_format=there) if there is not None and is_default else options

    def step_size(self, size: int) -> int:
        """Return the number of images of a step of the run, else ``size``."""
        return size if self.values is None else int(self.values.get(STEP_SIZE, size))

    def _refusal(self, reason: str) -> AugmentError:
        return AugmentError(
            f"{self.folder} holds an unfinished run of segpaste {self.version} with options that segpaste "
            f"{__version__} does not have: {reason}; finish it with that version, or delete {self.folder}, or choose "
            f"another {option('out')}"
        )


def older_run(space: Workspace) -> OlderRun:
    """Return the unfinished run of an output, or of one of its shards, if another version began it."""
    for run in (space, *shard_runs(space.out, AugmentError)):
        there = read_fingerprint(run.folder)
        if there is not None and there.get(VERSION, __version__) != __version__ and run.has_results():
            return OlderRun(run.folder, there)
    return OlderRun(space.folder, None)


def values_before() -> dict[str, Any]:
    """Return the values of options of the configuration that an older fingerprint may lack."""
    return flat(BatchCopyPasteConfig().model_dump(mode="json")) | dict(_BEFORE)


def _is_named(key: str, named: Collection[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in named)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with dotted keys as nested tables."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        *groups, last = key.split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return found
